//! What every experiment over a cluster needs to judge: whether there was an etcd, and whether the machine was fast enough.

use crate::data::Data;
use crate::figures::{check, most};
use crate::live::{Router, has_etcd};
use crate::measure::now;
use crate::{Bound, Check, Findings};
use anyhow::{Context, Result};
use std::fs;
use std::time::Instant;

/// The data of a machine without etcd; `None` if there is one.
pub(super) fn without_etcd() -> Option<Data> {
    let mut data = Data::default();
    (!has_etcd()).then(|| {
        data.aside(NO_ETCD, 1.0);
        data
    })
}

/// Judges data by `judge`, unless there was no etcd. `claim` is the paper's.
pub(super) fn judged(
    data: &Data,
    claim: &'static str,
    judge: impl FnOnce(&Data) -> Findings,
) -> Findings {
    if data.find(NO_ETCD).is_none() {
        return judge(data);
    }
    let all = Bound::AtLeast(f64::NEG_INFINITY);
    let check = check(claim, f64::NAN, all, "a cluster keeps its view in etcd");
    Findings {
        checks: vec![check.paper_exactly("it is so", all).judged_if(false, || MISSING.to_owned())],
        reading: format!("Nothing was measured: {MISSING}."),
        ..Findings::default()
    }
}

/// How busy the machine was, at the most of all measurements: shares of a thread, and of all processors.
#[derive(Clone, Copy, Default)]
pub(super) struct Busy {
    pub(super) router: f64,
    pub(super) machine: f64,
}

impl Busy {
    /// The most of both.
    pub(super) fn most(self, other: Self) -> Self {
        let more = |a, b| most([a, b]);
        Self { router: more(self.router, other.router), machine: more(self.machine, other.machine) }
    }

    /// Records it.
    pub(super) fn record(self, data: &mut Data) {
        data.aside(ROUTER, self.router);
        data.aside(MACHINE, self.machine);
    }
}

/// Makes checks judged only if neither the router nor the machine was the limit.
pub(super) fn if_idle(checks: Vec<Check>, data: &Data) -> Vec<Check> {
    let judged_if = |check: Check, name: &str, most: f64| {
        let busy = data.figure(name);
        check.judged_if(busy <= most, || {
            format!("{name}: {busy:.2}, above {most}, so more than the nodes limits the rate")
        })
    };
    let judge = |check| judged_if(judged_if(check, ROUTER, ROUTER_MAX), MACHINE, MACHINE_MAX);
    checks.into_iter().map(judge).collect()
}

/// The processor time so far: of a router, and of all processors.
#[derive(Clone, Copy)]
pub(super) struct Meter {
    at: Instant,
    router_s: f64,
    /// The ticks for which the processors were busy, and all ticks. `None` if the kernel doesn't say.
    machine: Option<[f64; 2]>,
}

impl Meter {
    /// Reads it now.
    pub(super) fn read(router: &Router) -> Result<Self> {
        Ok(Self { at: now(), router_s: cpu_s(router.pid())?, machine: machine() })
    }

    /// How busy both were since then. What isn't known counts as too busy.
    pub(super) fn busy_since(self, before: Self) -> Busy {
        let machine = before.machine.zip(self.machine);
        let share = |[before, now]: [[f64; 2]; 2]| (now[0] - before[0]) / (now[1] - before[1]);
        Busy {
            router: (self.router_s - before.router_s) / (self.at - before.at).as_secs_f64(),
            machine: machine.map_or(f64::NAN, |(before, now)| share([before, now])),
        }
    }
}

/// The seconds of processor time that a process has had.
fn cpu_s(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = || {
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut next = || fields.next()?.parse::<f64>().ok();
        Some(next()? + next()?)
    };
    let ticks = ticks().context("an unknown form of /proc/PID/stat")?;
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

fn machine() -> Option<[f64; 2]> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks = stat.lines().next()?.split_whitespace().skip(1).take(8);
    let ticks: Vec<f64> = ticks.filter_map(|it| it.parse().ok()).collect();
    let all = ticks.iter().sum::<f64>();
    // The fourth is idle, the fifth waits for a disk.
    Some([all - ticks.get(3)? - ticks.get(4)?, all])
}

/// A sentence about the controls.
pub(super) fn controls(data: &Data) -> String {
    format!(
        "At the most, the router's thread was busy for {:.0} % of the time, and the processors for {:.0} %.",
        100.0 * data.figure(ROUTER),
        100.0 * data.figure(MACHINE)
    )
}

const NO_ETCD: &str = "etcd is missing";
const MISSING: &str = "etcd isn't installed (Debian: apt-get install etcd-server)";
const ROUTER: &str = "share of its time for which the router's thread was busy";
const MACHINE: &str = "share of their time for which the processors were busy";
/// The links are paced by the microsecond. Above this, queries wait for the router.
const ROUTER_MAX: f64 = 0.75;
const MACHINE_MAX: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fawn::EXPERIMENTS;
    use crate::plants::unnoticed;
    use crate::verdict::{Finding, Verdict};

    /// Experiments whose data says that there was no etcd.
    #[test]
    fn without_etcd_nothing_is_judged_and_the_page_says_what_to_install() {
        let over_clusters = || EXPERIMENTS.iter().filter(|it| it.id.starts_with("fawn-kv-"));
        assert_eq!(over_clusters().count(), 6);
        let mut data = Data::default();
        data.aside(NO_ETCD, 1.0);
        for experiment in over_clusters() {
            let findings = (experiment.judge)(&data);
            let verdict = Verdict::of(&findings.checks);
            assert_eq!(verdict.finding, Finding::NotTestable, "{}", experiment.id);
            assert!(findings.reading.contains("apt-get install etcd-server"), "{}", experiment.id);
            assert_eq!(unnoticed(experiment, &data), Vec::<String>::new(), "{}", experiment.id);
        }
    }

    #[test]
    fn a_busy_router_or_machine_lets_nothing_be_judged() {
        let checks = |busy: Busy| {
            let mut data = Data::default();
            busy.record(&mut data);
            let all = vec![check("", 1.0, Bound::AtLeast(1.0), "")];
            if_idle(all, &data).remove(0).not_judged
        };
        assert_eq!(checks(Busy { router: 0.7, machine: 0.8 }), None);
        for busy in [Busy { router: 0.8, machine: 0.5 }, Busy { router: 0.3, machine: 0.9 }] {
            let said = checks(busy).expect("it is too busy");
            assert!(said.contains("limits the rate"), "{said}");
        }
        assert!(checks(Busy { router: f64::NAN, machine: 0.1 }).is_some(), "unknown is too busy");
    }
}
