//! `guira lab run`: runs experiments one after the other, and writes the files of each.
//!
//! An experiment that ends with an error or a panic is reported at the end, and the others run. With `--check`, an
//! experiment whose checks fail or can't be judged is measured again, at most twice, because a neighbour on the machine
//! can spoil a measurement. All attempts are stored, and judged as one: the median of all their rounds counts, and no
//! attempt can pass by judging less than the others. No further attempt is made if an attempt measures exactly the same
//! as the previous one, because then there is no noise. The same holds if nothing fails and the same checks can't be
//! judged for the same reasons. An experiment that holds must also detect [wrong results](crate::plants).

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};

use crate::args;
use crate::console::{Progress, note, print, table};
use crate::experiment::{self, Experiment};
use crate::machine::{Machine, load};
use crate::measure::{now, process_cpu};
use crate::number::figure;
use crate::outcome::{Check, CheckStanding, Findings};
use crate::page::page;
use crate::plants::unnoticed;
use crate::plot::svg;
use crate::record::{Attempt, Record, plot_files};
use crate::select::select;
use crate::verdict::Verdict;

/// Runs what `args` name among `declared`.
///
/// # Errors
/// For an unknown name before anything runs; after everything ran, if an experiment could not be finished, or with
/// `--check` if a check failed.
pub(crate) fn run(args: &args::Run, declared: &[&Experiment]) -> Result<()> {
    let chosen = select(&args.what, declared)?;
    let out = &args.out;
    fs::create_dir_all(out)
        .with_context(|| format!("cannot make the directory {}", out.display()))?;
    let cores = Machine::this().cores;
    if let Some(load) = load().filter(|load| *load > cores as f64 / 2.0) {
        note(&format!(
            "others use this machine (load {load:.1} on {cores} processors): expect noise"
        ));
    }
    let run = this_run();
    let mut results = Vec::new();
    for (at, experiment) in chosen.iter().enumerate() {
        let progress = Progress::new(experiment.id, at + 1, chosen.len());
        let result = attempts(experiment, args, &run, &progress)
            .and_then(|record| write(&record, experiment, out).map(|()| record));
        progress.end(&in_short(experiment, &result));
        results.push((*experiment, result));
    }
    print(&summary(&results))?;
    print(&verdicts(&results))?;
    print(&format!("pages, plots and figures are in {}", out.display()))?;
    let judged = judge(&results, args.check);
    if args.check && judged.is_ok() {
        print("every check that could be judged holds, and notices each wrong result planted")?;
    }
    judged
}

/// An experiment and its result.
type Ran<'e> = (&'e Experiment, Result<Record>);

/// Measures until the checks hold, if they are to be checked.
fn attempts(
    experiment: &Experiment,
    args: &args::Run,
    run: &str,
    progress: &Progress,
) -> Result<Record> {
    let most = if args.check { ATTEMPTS_MAX } else { 1 };
    let mut record = Record {
        id: experiment.id.into(),
        run: run.into(),
        scale: args.scale,
        seed: args.seed,
        command: format!(
            "guira lab run {} --scale {} --seed {}",
            experiment.id, args.scale, args.seed
        ),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("GUIRA_COMMIT").map(Into::into),
        machine: Machine::this(),
        attempts: Vec::new(),
    };
    let (mut has_failed, mut missing) = (false, Vec::new());
    while record.attempts.len() < most {
        let attempt = once(experiment, args, progress)?;
        let outcome = (experiment.judge)(&attempt.data);
        let is_noise = record.attempts.last().is_none_or(|before| before.data != attempt.data);
        record.attempts.push(attempt);
        has_failed |= failing(&outcome).next().is_some();
        let missing_before = std::mem::replace(&mut missing, not_judged(&outcome));
        // In the first attempt: all checks hold. Later: what can't be judged now won't be judged in another attempt
        // either.
        if !is_noise || !has_failed && missing == missing_before {
            break;
        }
        if record.attempts.len() < most {
            let mut faults: Vec<_> = failing(&outcome).map(fault).collect();
            faults.extend(missing.iter().map(|why| format!("not judged: {why}")));
            if faults.is_empty() {
                faults.push("all holds now, and did not before: the median decides".into());
            }
            progress.say(&format!("measured again, since {}", faults.join("; ")));
        }
    }
    Ok(record)
}

/// One measurement; a panic becomes an error.
fn once(experiment: &Experiment, args: &args::Run, progress: &Progress) -> Result<Attempt> {
    let (begun, cpu_begun, load_before) = (now(), process_cpu(), load());
    let report = |share: f64, doing: &str| progress.at(share, doing);
    let run = experiment::Run { scale: args.scale, seed: args.seed, progress: &report };
    // Judged here, too: a panic because of a missing line or point ends this experiment, and not the others.
    let measured = || {
        let data = (experiment.measure)(&run)?;
        if let Some(line) = data.line_of_nothing() {
            bail!("nothing was measured of \"{line}\"");
        }
        let _ = (experiment.judge)(&data);
        Ok(data)
    };
    let data = catch_unwind(AssertUnwindSafe(measured))
        .unwrap_or_else(|panic| Err(anyhow!("it panicked: {}", said(&*panic))))?;
    Ok(Attempt {
        duration_s: begun.elapsed().as_secs_f64(),
        cpu_s: (process_cpu() - cpu_begun).as_secs_f64(),
        load_before,
        data,
    })
}

/// Returns a name for everything that this process runs: the time when it began.
fn this_run() -> String {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!("{} s after 1970", since_1970.map_or(0, |it| it.as_secs()))
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

fn write(record: &Record, experiment: &Experiment, out: &Path) -> Result<()> {
    record.write(&out.join(format!("{}.json", record.id)))?;
    let write = |name: String, text: String| {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    let plots = record.outcome(experiment).plots;
    for (name, plot) in plot_files(&record.id, plots.len()).zip(&plots) {
        write(name, svg(plot))?;
    }
    write(format!("{}.md", record.id), page(experiment, record))
}

fn in_short(experiment: &Experiment, result: &Result<Record>) -> String {
    match result {
        Ok(record) => {
            let checks = record.outcome(experiment).checks;
            let held =
                checks.iter().filter(|check| check.standing() == CheckStanding::Holds).count();
            let took_s: f64 = record.attempts.iter().map(|attempt| attempt.duration_s).sum();
            let again = match record.attempts.len() {
                1 => String::new(),
                n => format!(" in {n} attempts"),
            };
            let verdict = Verdict::of(&checks);
            format!("{verdict}; {held} of {} checks hold, {took_s:.1} s{again}", checks.len())
        }
        Err(error) => format!("could not be finished: {error:#}"),
    }
}

/// A row for each check.
fn summary(results: &[Ran<'_>]) -> String {
    let mut table = table(&["experiment", "check", "paper", "measured", "must be", ""]);
    for (experiment, result) in results {
        let Ok(record) = result else {
            table.add_row([experiment.id, "", "", "", "", "NOT FINISHED"]);
            continue;
        };
        let checks = record.outcome(experiment).checks;
        let verdict = Verdict::of(&checks);
        let mut id = format!("{}\n{verdict}", experiment.id);
        if checks.is_empty() {
            table.add_row([&id, "has no checks"]);
        }
        for check in &checks {
            table.add_row([
                std::mem::take(&mut id),
                check.claim.clone(),
                check.paper.as_ref().map_or_else(String::new, |said| said.figure.clone()),
                figure(check.measured),
                check.bound.to_string(),
                check.standing().to_string(),
            ]);
        }
    }
    table.to_string()
}

/// Returns a row for each experiment, and the number of experiments with each verdict: the end of a run's output.
fn verdicts(results: &[Ran<'_>]) -> String {
    let mut table = table(&["experiment", "verdict", "hold", "fail", "not judged", "attempts"]);
    let mut counts = BTreeMap::<String, usize>::new();
    for (experiment, result) in results {
        let Ok(record) = result else {
            table.add_row([experiment.id, "NOT FINISHED"]);
            *counts.entry("not finished".into()).or_default() += 1;
            continue;
        };
        let checks = record.outcome(experiment).checks;
        let verdict = Verdict::of(&checks);
        let of =
            |standing| checks.iter().filter(|it| it.standing() == standing).count().to_string();
        table.add_row([
            experiment.id.to_owned(),
            verdict.to_string(),
            of(CheckStanding::Holds),
            of(CheckStanding::Fails),
            of(CheckStanding::NotJudged),
            record.attempts.len().to_string(),
        ]);
        *counts.entry(verdict.finding.to_string()).or_default() += 1;
    }
    let counts: Vec<_> =
        counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
    format!("{table}\n{} experiments: {}", results.len(), counts.join(", "))
}

/// An error that names all that went wrong.
fn judge(results: &[Ran<'_>], with_checks: bool) -> Result<()> {
    let mut faults = Vec::new();
    for (experiment, result) in results {
        match result {
            Err(error) => {
                faults.push(format!("{} could not be finished: {error:#}", experiment.id));
            }
            Ok(record) if with_checks => {
                let outcome = record.outcome(experiment);
                let named = |fault: String| format!("{}: {fault}", experiment.id);
                let failed = failing(&outcome);
                faults.extend(failed.map(|it| {
                    named(format!("{} (the bound is there because {})", fault(it), it.reason))
                }));
                if failing(&outcome).next().is_none() {
                    let planted = unnoticed(experiment, &record.data()).into_iter();
                    faults.extend(planted.map(|plant| {
                        named(format!("its checks also hold of a wrong result: {plant}"))
                    }));
                }
            }
            Ok(_) => {}
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "{} of the lab's results are not as they must be:\n  {}",
        faults.len(),
        faults.join("\n  ")
    )
}

fn failing(outcome: &Findings) -> impl Iterator<Item = &Check> {
    outcome.checks.iter().filter(|check| check.standing() == CheckStanding::Fails)
}

/// Why checks can't be judged.
fn not_judged(outcome: &Findings) -> Vec<String> {
    outcome.checks.iter().filter_map(|check| check.not_judged.clone()).collect()
}

/// Describes a failed check, and by how much it was missed.
fn fault(check: &Check) -> String {
    let missed = figure(check.missed_by());
    format!(
        "{}: {}, must be {}, missed by {missed}",
        check.claim,
        figure(check.measured),
        check.bound
    )
}

/// The most attempts per experiment.
const ATTEMPTS_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{BLIND, ENDS, FAILS, HOLDS, NOISY, NOTHING, PANICS, TOO_FEW};
    use crate::scale::Scale;
    use std::path::PathBuf;

    /// Runs `declared` into a directory of `name` and gives the verdict and the directory.
    fn run_all(name: &str, check: bool, declared: &[&Experiment]) -> (Result<()>, PathBuf) {
        let out = std::env::temp_dir().join(format!("guira-lab-{name}-{}", std::process::id()));
        let what = vec!["all".into()];
        let args = args::Run { what, scale: Scale::Small, seed: 1, check, out: out.clone() };
        (run(&args, declared), out)
    }

    fn read(out: &Path, name: &str) -> Record {
        Record::read(&out.join(name)).unwrap().expect("it was written")
    }

    #[test]
    fn a_run_writes_figures_plot_and_page() {
        let (verdict, out) = run_all("writes", true, &[&HOLDS]);
        verdict.unwrap();
        assert_eq!(read(&out, "planted-holds.json").attempts.len(), 1);
        let page = fs::read_to_string(out.join("planted-holds.md")).unwrap();
        assert!(page.contains("](planted-holds.svg)"), "{page}");
        assert!(out.join("planted-holds.svg").exists());
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn a_failing_check_is_an_error_only_if_checks_are_asked_for() {
        let (verdict, out) = run_all("fails", true, &[&FAILS]);
        let error = verdict.unwrap_err().to_string();
        for word in ["planted-fails", "1.25", "≥ 1.5", "0.25", FAILS_REASON] {
            assert!(error.contains(word), "{word} is missing: {error}");
        }
        let attempts = read(&out, "planted-fails.json").attempts.len();
        assert_eq!(attempts, 2, "the same figures twice are enough");
        let (verdict, _) = run_all("fails", false, &[&FAILS]);
        assert!(verdict.is_ok());
        assert_eq!(read(&out, "planted-fails.json").attempts.len(), 1);
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn a_noisy_experiment_is_measured_again_and_its_median_counts() {
        let (verdict, out) = run_all("noisy", true, &[&NOISY]);
        verdict.unwrap();
        assert_eq!(read(&out, "planted-noisy.json").attempts.len(), 3);
        let page = fs::read_to_string(out.join("planted-noisy.md")).unwrap();
        assert!(page.contains("| 2.125 (1, 2.125, 2.25) |"), "{page}");
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn checks_that_hold_of_anything_are_an_error() {
        let (verdict, out) = run_all("blind", true, &[&BLIND]);
        let error = verdict.unwrap_err().to_string();
        assert!(error.contains("also hold of a wrong result: \"cuckoo\" made flat"), "{error}");
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn a_line_of_nothing_and_a_point_too_few_end_their_experiment_only() {
        let (verdict, out) = run_all("nothing", true, &[&NOTHING, &TOO_FEW, &HOLDS]);
        let error = verdict.unwrap_err().to_string();
        for part in ["nothing was measured of \"chaining\"", "cuckoo has no point at 2"] {
            assert!(error.contains(part), "{part} is missing: {error}");
        }
        assert!(out.join("planted-holds.json").exists());
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn a_run_ends_with_a_table_of_verdicts() {
        let (_, out) = run_all("verdicts", false, &[&HOLDS]);
        let record = read(&out, "planted-holds.json");
        let unfinished = (&ENDS, Err(anyhow!("the table doesn't fit")));
        let text = verdicts(&[(&HOLDS, Ok(record)), unfinished]);
        assert!(text.contains("NOT FINISHED"), "{text}");
        assert!(text.ends_with("2 experiments: 1 not finished, 1 reproduced"), "{text}");
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn an_error_or_a_panic_does_not_lose_the_others() {
        let (verdict, out) = run_all("error", false, &[&ENDS, &PANICS, &HOLDS]);
        let error = verdict.unwrap_err().to_string();
        for word in ["planted-error", "doesn't fit", "planted-panic", "index out of bounds"] {
            assert!(error.contains(word), "{word} is missing: {error}");
        }
        assert!(out.join("planted-holds.json").exists());
        assert!(!out.join("planted-error.json").exists());
        fs::remove_dir_all(out).unwrap();
    }

    const FAILS_REASON: &str = "half of the second may go to the operating system";
}
