//! `guira lab report`: the results of a directory as one page.
//!
//! Made from the stored figures, plots too: a better plot needs no new measurement. What is declared but wasn't run is
//! listed as such, so that the page is complete about what it lacks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::args;
use crate::console::print;
use crate::experiment::{Experiment, Paper};
use crate::page::{build, section, sentence, table};
use crate::plot::svg;
use crate::record::{Record, plot_files};

/// Writes the page that `args` ask for.
///
/// # Errors
/// If there are no results, or files can't be read or written.
pub(crate) fn report(args: &args::Report, declared: &[&Experiment]) -> Result<()> {
    let mut results = Vec::new();
    for experiment in declared {
        let record = Record::read(&args.out.join(format!("{}.json", experiment.id)))?;
        results.push((*experiment, record));
    }
    if results.iter().all(|(_, record)| record.is_none()) {
        bail!(
            "there are no results in {}: run some first, such as \"guira lab run all\"",
            args.out.display()
        );
    }
    let to = args.to.clone().unwrap_or_else(|| args.out.join("report.md"));
    let plots = to.with_extension("");
    let name = plots.file_name().context("--to must name a file")?.to_string_lossy().into_owned();
    write_plots(&results, &plots)?;
    let text = document(&results, &format!("{name}/"), &command(args, &to));
    fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    print(&format!("{} joins the results of {}", to.display(), args.out.display()))?;
    Ok(())
}

/// An experiment, and its run if there was one.
type Found<'e> = (&'e Experiment, Option<Record>);

fn write_plots(results: &[Found<'_>], directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for record in results.iter().filter_map(|(_, record)| record.as_ref()) {
        let plots = &record.outcome.plots;
        for (name, plot) in plot_files(&record.id, plots.len()).zip(plots) {
            let path = directory.join(name);
            fs::write(&path, svg(plot))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The page; links to plots begin with `plots`.
fn document(results: &[Found<'_>], plots: &str, command: &str) -> String {
    let mut text = format!("# The lab\n\n{INTRODUCTION}\n");
    text.push_str(&provenance(results, command));
    text.push_str("\n## All at a glance\n\n");
    text.push_str(&glance(results));
    for paper in Paper::ALL {
        let mut of_paper = results.iter().filter(|(it, _)| it.paper == paper).peekable();
        if of_paper.peek().is_some() {
            text.push_str(&format!("\n\n## {}\n", paper.title()));
        }
        for (experiment, record) in of_paper {
            let section = match record {
                Some(record) => section(experiment, record, plots),
                None => not_run(experiment),
            };
            text.push_str(&format!("\n### {}", section.trim_end()));
            text.push('\n');
        }
    }
    text
}

/// By which commands, builds and machines the figures came about.
fn provenance(results: &[Found<'_>], command: &str) -> String {
    let records = || results.iter().filter_map(|(_, record)| record.as_ref());
    let how = |it: &Record| format!("--scale {} --seed {}", it.scale, it.seed);
    let groups: BTreeSet<String> = records().map(how).collect();
    let mut text = "Made by\n\n```sh\n".to_owned();
    for group in &groups {
        let ids: Vec<&str> =
            records().filter(|it| how(it) == *group).map(|it| it.id.as_str()).collect();
        let what = if ids.len() == results.len() { "all".to_owned() } else { ids.join(" ") };
        text.push_str(&format!("guira lab run {what} {group}\n"));
    }
    text.push_str(&format!("{command}\n```\n\n"));
    let machines: BTreeSet<String> = records()
        .map(|it| format!("on {}, by guira {}.\n", it.machine.line(), build(it)))
        .collect();
    text.extend(machines);
    text
}

fn glance(results: &[Found<'_>]) -> String {
    let header = ["experiment", "what", "verdict", "checks that hold"].map(Into::into);
    let rows: Vec<_> = results
        .iter()
        .map(|(experiment, record)| {
            let checks = record.as_ref().map_or_else(
                || "not run".to_owned(),
                |record| {
                    let (held, all) = record.checks_held();
                    format!("{held} of {all}")
                },
            );
            let id = format!("[{}](#{})", experiment.id, anchor(experiment));
            vec![id, experiment.title.into(), experiment.verdict.short().into(), checks]
        })
        .collect();
    table(&header, &rows)
}

/// The link to an experiment's section, as forges make it of a heading.
fn anchor(experiment: &Experiment) -> String {
    let heading = format!("{}: {}", experiment.id, experiment.title).to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn not_run(experiment: &Experiment) -> String {
    format!(
        "{}: {}\n\n*The paper:* {}\n\nNot run: `guira lab run {}` does.",
        experiment.id,
        experiment.title,
        sentence(experiment.claim),
        experiment.id
    )
}

/// The command line that makes the page, as short as it can be.
fn command(args: &args::Report, to: &Path) -> String {
    let mut command = "guira lab report".to_owned();
    if args.out != Path::new("lab") {
        command.push_str(&format!(" --out {}", args.out.display()));
    }
    if args.to.is_some() {
        command.push_str(&format!(" --to {}", to.display()));
    }
    command
}

const INTRODUCTION: &str = "\
Every table and figure of the papers behind Guira is an experiment of `guira lab`, which anybody can run: `guira lab
list` shows them, `guira lab run ID` runs one. Each section has what the paper claims, the plot with the paper's axes
(the paper's own figures dashed where it prints them), the figures side by side, and checks. A check is of a shape, a
ratio or an order, never of an absolute time, and says why its bound is where it is. A claim is *reproduced*, *not
reproduced*, and then why, or *not testable* on the machine, and then what shows instead.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::EXPERIMENTS;
    use crate::planted::{ENDS, HOLDS};
    use crate::record::tests::record;

    #[test]
    fn a_report_is_made_from_stored_figures_and_says_what_was_not_run() {
        let directory =
            std::env::temp_dir().join(format!("guira-lab-report-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        record(HOLDS.id).write(&directory.join("planted-holds.json")).unwrap();
        let to = directory.join("page.md");
        let args = args::Report { out: directory.clone(), to: Some(to.clone()) };
        report(&args, &[&HOLDS, &ENDS]).unwrap();
        let text = fs::read_to_string(&to).unwrap();
        for part in [
            "guira lab run planted-holds --scale small --seed 7\nguira lab report --out",
            "| [planted-holds](#planted-holds-what-a-test-plants) | what a test plants | not testable here | 1 of 1 |",
            "| [planted-error](#planted-error-what-a-test-plants) | what a test plants | not testable here | not run |",
            "](page/planted-holds.svg)",
            "Not run: `guira lab run planted-error` does.",
            "Some CPU, 2 cores, 8 GiB",
        ] {
            assert!(text.contains(part), "{part} is missing\n{text}");
        }
        assert!(directory.join("page/planted-holds.svg").exists());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_complete_report_names_the_command_for_all() {
        let text = document(&[(&HOLDS, Some(record(HOLDS.id)))], "", "guira lab report");
        assert!(
            text.contains("guira lab run all --scale small --seed 7\nguira lab report\n"),
            "{text}"
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("# ")).count(), 1);
        assert!(!text.contains("\n\n\n"), "{text}");
    }

    #[test]
    fn nothing_to_report_is_an_error_that_says_what_to_do() {
        let args = args::Report { out: "no/such/directory".into(), to: None };
        let error = report(&args, &[&HOLDS]).unwrap_err().to_string();
        assert!(error.contains("guira lab run all"), "{error}");
    }

    #[test]
    fn the_committed_report_has_every_experiment_and_the_plots_that_it_shows() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let text = fs::read_to_string(docs.join("lab.md")).unwrap();
        let is_missing = |id: &&str| !text.contains(&format!("### {id}: "));
        let ids = EXPERIMENTS.iter().copied().flatten().map(|it| it.id);
        let missing: Vec<_> = ids.filter(is_missing).collect();
        assert!(missing.is_empty(), "docs/lab.md lacks {missing:?}: make it again");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let shown: BTreeSet<&str> =
            links.filter_map(|(link, _)| link.strip_prefix("lab/")).collect();
        let files = fs::read_dir(docs.join("lab")).unwrap();
        let there: Vec<_> = files.map(|it| it.unwrap().file_name()).collect();
        let there: BTreeSet<_> = there.iter().filter_map(|name| name.to_str()).collect();
        assert_eq!(shown, there, "plots that docs/lab.md shows, and those in docs/lab");
    }
}
