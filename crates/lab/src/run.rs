//! `guira lab run`: experiments one after the other, and the files of each.
//!
//! An experiment that ends with an error or a panic is reported at the end, and the others run. With `--check` one
//! whose checks fail is run again, twice at most, because a neighbour on the machine can spoil a measurement; what
//! failed before is stored and printed. A check that fails twice with the same figure isn't noisy, and ends that.

use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use crate::args;
use crate::console::{Progress, note, print, table};
use crate::experiment::{self, Experiment};
use crate::machine::{Machine, load};
use crate::measure::{now, process_cpu};
use crate::number::figure;
use crate::outcome::{Check, Outcome};
use crate::page::page;
use crate::plot::svg;
use crate::record::{Record, plot_files};
use crate::select::select;

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
    let mut results = Vec::new();
    for (at, experiment) in chosen.iter().enumerate() {
        let progress = Progress::new(experiment.id, at + 1, chosen.len());
        let result = attempts(experiment, args, &progress)
            .and_then(|record| write(&record, experiment, out).map(|()| record));
        progress.end(&in_short(&result));
        results.push((*experiment, result));
    }
    print(&summary(&results))?;
    print(&format!("pages, plots and figures are in {}", out.display()))?;
    judge(&results, args.check)
}

/// An experiment and what came of it.
type Ran<'e> = (&'e Experiment, Result<Record>);

/// Runs an experiment until its checks hold, if they are to be checked.
fn attempts(experiment: &Experiment, args: &args::Run, progress: &Progress) -> Result<Record> {
    let most = if args.check { ATTEMPTS_MAX } else { 1 };
    let mut failed_before: Vec<String> = Vec::new();
    let mut failed_last = Vec::new();
    for attempt in 1.. {
        let (begun, cpu_begun, load_before) = (now(), process_cpu(), load());
        let outcome = once(experiment, args, progress)?;
        let failed: Vec<String> = failing(&outcome).map(fault).collect();
        let is_noise = !failed.iter().any(|fault| failed_last.contains(fault));
        if failed.is_empty() || attempt == most || !is_noise {
            return Ok(Record {
                id: experiment.id.into(),
                scale: args.scale,
                seed: args.seed,
                command: format!(
                    "guira lab run {} --scale {} --seed {}",
                    experiment.id, args.scale, args.seed
                ),
                version: env!("CARGO_PKG_VERSION").into(),
                commit: option_env!("GUIRA_COMMIT").map(Into::into),
                machine: Machine::this(),
                duration_s: begun.elapsed().as_secs_f64(),
                cpu_s: (process_cpu() - cpu_begun).as_secs_f64(),
                load_before,
                attempts: attempt,
                failed_before,
                outcome,
            });
        }
        progress.say(&format!("attempt {attempt} failed and is repeated: {}", failed.join("; ")));
        failed_before.extend(failed.iter().map(|fault| format!("attempt {attempt}: {fault}")));
        failed_last = failed;
    }
    unreachable!("the last attempt returns")
}

/// One run; a panic becomes an error.
fn once(experiment: &Experiment, args: &args::Run, progress: &Progress) -> Result<Outcome> {
    let report = |share: f64, doing: &str| progress.at(share, doing);
    let run = experiment::Run { scale: args.scale, seed: args.seed, progress: &report };
    catch_unwind(AssertUnwindSafe(|| (experiment.run)(&run)))
        .unwrap_or_else(|panic| Err(anyhow!("it panicked: {}", said(&*panic))))
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
    let plots = &record.outcome.plots;
    for (name, plot) in plot_files(&record.id, plots.len()).zip(plots) {
        write(name, svg(plot))?;
    }
    write(format!("{}.md", record.id), page(experiment, record))
}

fn in_short(result: &Result<Record>) -> String {
    match result {
        Ok(record) => {
            let (held, all) = record.checks_held();
            let again = match record.attempts {
                1 => String::new(),
                n => format!(", attempt {n}"),
            };
            format!("{held} of {all} checks hold, {:.1} s{again}", record.duration_s)
        }
        Err(error) => format!("could not be finished: {error:#}"),
    }
}

/// A row a check.
fn summary(results: &[Ran<'_>]) -> String {
    let mut table = table(&["experiment", "check", "measured", "must be", ""]);
    for (experiment, result) in results {
        let Ok(record) = result else {
            table.add_row([experiment.id, "", "", "", "NOT FINISHED"]);
            continue;
        };
        let mut id = match record.attempts {
            1 => experiment.id.to_owned(),
            n => format!("{} (attempt {n})", experiment.id),
        };
        if record.outcome.checks.is_empty() {
            table.add_row([&id, "has no checks"]);
        }
        for check in &record.outcome.checks {
            table.add_row([
                std::mem::take(&mut id),
                check.claim.clone(),
                figure(check.measured),
                check.bound.to_string(),
                if check.holds() { "holds" } else { "FAILS" }.to_owned(),
            ]);
        }
    }
    table.to_string()
}

/// An error that names all that went wrong.
fn judge(results: &[Ran<'_>], with_checks: bool) -> Result<()> {
    let mut faults = Vec::new();
    for (experiment, result) in results {
        match result {
            Err(error) => {
                faults.push(format!("{} could not be finished: {error:#}", experiment.id));
            }
            Ok(record) if with_checks => faults.extend(failing(&record.outcome).map(|check| {
                format!(
                    "{}: {} (the bound is there because {})",
                    experiment.id,
                    fault(check),
                    check.reason
                )
            })),
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

fn failing(outcome: &Outcome) -> impl Iterator<Item = &Check> {
    outcome.checks.iter().filter(|check| !check.holds())
}

/// What a check that fails wanted, and by how much it was missed.
fn fault(check: &Check) -> String {
    let missed = figure(check.missed_by());
    format!(
        "{}: {}, must be {}, missed by {missed}",
        check.claim,
        figure(check.measured),
        check.bound
    )
}

/// How often an experiment is run at most while its checks fail.
const ATTEMPTS_MAX: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{ENDS, FAILS, HOLDS, NOISY, PANICS};
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
        let record = read(&out, "planted-holds.json");
        assert_eq!((record.checks_held(), record.attempts), ((1, 1), 1));
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
        assert_eq!(read(&out, "planted-fails.json").attempts, 2, "the same figure twice is enough");
        let (verdict, _) = run_all("fails", false, &[&FAILS]);
        assert!(verdict.is_ok());
        assert_eq!(read(&out, "planted-fails.json").attempts, 1);
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn a_noisy_experiment_is_repeated_and_the_record_says_so() {
        let (verdict, out) = run_all("noisy", true, &[&NOISY]);
        verdict.unwrap();
        let record = read(&out, "planted-noisy.json");
        assert_eq!((record.attempts, record.failed_before.len()), (3, 2));
        assert!(record.failed_before[1].starts_with("attempt 2: "), "{:?}", record.failed_before);
        let page = fs::read_to_string(out.join("planted-noisy.md")).unwrap();
        assert!(page.contains("attempt 2: "), "{page}");
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
