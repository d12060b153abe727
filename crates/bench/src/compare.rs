//! `guira bench compare`: measures servers in turn, round by round, and prints medians and ratios.
//!
//! On a shared machine the rate of a run tells more about the neighbours than about the server.
//! Interleaving exposes all servers to the same disturbances, medians discard the extremes, and CPU time
//! per operation is hardly affected by either.

use serde::Serialize;

use crate::address::Target;
use crate::args::{Compare, Preset, Rows};
use crate::crew::Around;
use crate::error::BenchError;
use crate::load::load;
use crate::outcome::{self, RunResult};
use crate::plan::Plan;
use crate::workload::Workload;

/// The figures of one row: the same workload on each server.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The preset's name, or `custom`.
    pub row: String,
    /// One entry per server, in the given order.
    pub servers: Vec<Standing>,
}

/// The summary of one server's rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// The server's name.
    pub server: String,
    /// CPU time per operation in the server's code, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_us: Option<Spread>,
    /// CPU time per operation in the kernel, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_us: Option<Spread>,
    /// The sum of both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<Spread>,
    /// The first server's median CPU time divided by this one's. Above 1: this one needs less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ratio: Option<f64>,
    /// Operations per second.
    pub rate: Spread,
    /// This one's median rate divided by the first server's. Above 1: this one does more.
    pub rate_ratio: f64,
    /// Keys that were read and not found, if replies were parsed.
    pub misses: u64,
    /// Values read that no write stored.
    pub violations: u64,
    /// The results of the rounds.
    pub rounds: Vec<RunResult>,
}

/// The median and the extremes of several figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of figures, the mean of the middle two.
    pub median: f64,
    /// The lowest figure.
    pub least: f64,
    /// The highest figure.
    pub most: f64,
}

impl Spread {
    /// Returns `None` if there are no figures.
    fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), least, most })
    }
}

/// Measures every row on every server. Returns the finished rows if the comparison is interrupted.
pub(crate) fn run(args: &Compare, around: &Around<'_>) -> Result<Vec<Row>, BenchError> {
    let (mut loaded, mut measured) = (None, Vec::new());
    for preset in rows(args) {
        let plan = Plan::new(&args.workload, &args.pace, preset, true)?;
        // Rows with the same items share the loading of them.
        let items = items_of(&plan.workload);
        if !args.no_load && loaded.replace(items) != Some(items) {
            match load_all(&plan, &args.servers, around) {
                Err(BenchError::Interrupted) if !measured.is_empty() => break,
                result => result?,
            }
        }
        let row = preset.map_or_else(|| "custom".to_owned(), Preset::name);
        measured.push(measure_row(&row, &plan, args, around)?);
        if around.is_interrupted() {
            break;
        }
    }
    Ok(measured)
}

fn load_all(plan: &Plan, servers: &[Target], around: &Around<'_>) -> Result<(), BenchError> {
    servers.iter().try_for_each(|server| {
        around.bar.set_prefix(format!("{}: loading", server.name));
        load(&plan.workload, &server.address, plan.threads, around)
    })
}

/// The rows to measure; `None` stands for a workload given by flags.
fn rows(args: &Compare) -> Vec<Option<Preset>> {
    use clap::ValueEnum;
    if args.preset.is_empty() {
        return vec![None];
    }
    let expand = |rows: &Rows| match rows {
        Rows::All => Preset::value_variants().to_vec(),
        Rows::One(preset) => vec![*preset],
    };
    args.preset.iter().flat_map(expand).map(Some).collect()
}

/// The properties by which the items of two workloads differ.
fn items_of(workload: &Workload) -> (u64, usize, crate::workload::Sizes) {
    (workload.keys, workload.key_bytes, workload.value)
}

fn measure_row(
    row: &str,
    plan: &Plan,
    args: &Compare,
    around: &Around<'_>,
) -> Result<Row, BenchError> {
    let mut rounds: Vec<Vec<RunResult>> = vec![Vec::new(); args.servers.len()];
    for round in 0..args.rounds.get() as usize {
        for turn in 0..args.servers.len() {
            // Each round begins with another server, so that a server doesn't always follow the same one.
            let place = (turn + round) % args.servers.len();
            let server: &Target = &args.servers[place];
            let prefix = format!("{row}: {} {}/{}", server.name, round + 1, args.rounds);
            around.bar.set_prefix(prefix);
            let plan = Plan { seed: plan.seed + round as u64, ..plan.clone() };
            rounds[place].push(outcome::run(&plan, server, around)?);
            if around.is_interrupted() {
                rounds[place].pop();
                return Ok(Row { row: row.to_owned(), servers: standings(rounds) });
            }
        }
    }
    Ok(Row { row: row.to_owned(), servers: standings(rounds) })
}

fn standings(rounds: Vec<Vec<RunResult>>) -> Vec<Standing> {
    let mut standings: Vec<Standing> = rounds.into_iter().filter_map(standing).collect();
    let Some(first) = standings.first().cloned() else { return standings };
    for standing in &mut standings {
        standing.rate_ratio = standing.rate.median / first.rate.median;
        let cpu = first.cpu_us.zip(standing.cpu_us);
        standing.cpu_ratio = cpu.map(|(first, this)| first.median / this.median);
    }
    standings
}

fn standing(rounds: Vec<RunResult>) -> Option<Standing> {
    let cpu = || rounds.iter().filter_map(|round| round.cpu);
    Some(Standing {
        server: rounds.first()?.server.clone(),
        user_us: Spread::of(cpu().map(|cpu| cpu.user_us)),
        system_us: Spread::of(cpu().map(|cpu| cpu.system_us)),
        cpu_us: Spread::of(cpu().map(|cpu| cpu.total_us)),
        cpu_ratio: None,
        rate: Spread::of(rounds.iter().map(|round| round.rate))?,
        rate_ratio: 1.0,
        misses: rounds.iter().map(|round| round.counts.misses).sum(),
        violations: rounds.iter().map(|round| round.violations()).sum(),
        rounds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_middle_and_ends() {
        let spread = |figures: &[f64]| Spread::of(figures.iter().copied());
        let odd = Spread { median: 2.0, least: 1.0, most: 9.0 };
        assert_eq!(spread(&[9.0, 1.0, 2.0]), Some(odd));
        let even = Spread { median: 2.5, least: 1.0, most: 9.0 };
        assert_eq!(spread(&[9.0, 3.0, 1.0, 2.0]), Some(even));
        assert_eq!(spread(&[]), None);
    }
}
