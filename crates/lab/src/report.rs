//! `guira lab report`: the results of a directory as pages: one with every table and figure of the papers at a glance,
//! and one for each paper.
//!
//! ```text
//! docs/lab.md            verdicts, each with a link
//! docs/lab/memc3.md …    one page for each paper
//! docs/lab/ID.svg        their plots
//! docs/lab/data/ID.json  what was measured: from these files the pages can be made again
//! ```
//!
//! The pages are made from the stored figures: a better plot needs no new measurement. Experiments that weren't run are
//! listed as such, and so is what the lab lacks ([`CONTENTS`]), so that the pages are complete. Results of several
//! runs, builds or machines are joined only on request, and the page says so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::args;
use crate::console::print;
use crate::contents::{CONTENTS, Entry};
use crate::experiment::{Experiment, Paper};
use crate::outcome::CheckStanding;
use crate::page::{build, section, sentence, table};
use crate::plot::svg;
use crate::record::{Record, plot_files};
use crate::verdict::Verdict;

/// Writes the pages that `args` ask for.
///
/// # Errors
/// If there are no results, if they are of several runs, or if files can't be read or written.
pub(crate) fn report(args: &args::Report, declared: &[&Experiment]) -> Result<()> {
    let mut results = Vec::new();
    for experiment in declared {
        let record = Record::read(&args.out.join(format!("{}.json", experiment.id)))?;
        results.push((*experiment, record));
    }
    let runs = runs(&results);
    if runs.is_empty() {
        bail!(
            "there are no results in {}: run some first, such as \"guira lab run all\"",
            args.out.display()
        );
    }
    if runs.len() > 1 && !args.mixed {
        bail!(
            "the results in {} are of {} runs, so their figures can't be compared: run all again, or add --mixed",
            args.out.display(),
            runs.len()
        );
    }
    let to = args.to.clone().unwrap_or_else(|| args.out.join("report.md"));
    let beside = to.with_extension("");
    let name = beside.file_name().context("--to must name a file")?.to_string_lossy().into_owned();
    write_beside(&results, &beside)?;
    write(&to, &front(&results, &name, &Commands::of(args, &to)))?;
    for paper in papers(&results) {
        write(&beside.join(format!("{}.md", paper.name())), &of_paper(paper, &results, &to))?;
    }
    print(&format!("{} joins the results of {}", to.display(), args.out.display()))?;
    Ok(())
}

/// An experiment, and its run if there was one.
type Found<'e> = (&'e Experiment, Option<Record>);

fn records<'r>(results: &'r [Found<'_>]) -> impl Iterator<Item = &'r Record> {
    results.iter().filter_map(|(_, record)| record.as_ref())
}

/// Returns the runs, builds and machines of the results: a single one if the results belong together.
fn runs(results: &[Found<'_>]) -> BTreeSet<String> {
    let name = |it: &Record| {
        let how = format!("--scale {} --seed {}", it.scale, it.seed);
        format!("{}, {how}, on {}, by guira {}", it.run, it.machine.line(), build(it))
    };
    records(results).map(name).collect()
}

fn papers(results: &[Found<'_>]) -> Vec<Paper> {
    let has = |paper: &Paper| results.iter().any(|(it, _)| it.paper == *paper);
    Paper::ALL.into_iter().filter(has).collect()
}

/// Plots and figures, which the pages link to.
fn write_beside(results: &[Found<'_>], directory: &Path) -> Result<()> {
    let data = directory.join("data");
    fs::create_dir_all(&data).with_context(|| format!("cannot make {}", data.display()))?;
    for (experiment, record) in results {
        let Some(record) = record else { continue };
        record.write(&data.join(format!("{}.json", record.id)))?;
        let plots = record.outcome(experiment).plots;
        for (name, plot) in plot_files(&record.id, plots.len()).zip(&plots) {
            write(&directory.join(name), &svg(plot))?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The page of all verdicts; the papers' pages are in the directory `beside`.
fn front(results: &[Found<'_>], beside: &str, commands: &Commands) -> String {
    let mut text = format!("# The lab\n\n{INTRODUCTION}\n");
    text.push_str(&provenance(results, commands));
    for paper in papers(results) {
        let rows = CONTENTS.iter().copied().flatten().filter(|entry| entry.paper == paper);
        let rows: Vec<_> = rows.map(|entry| row(entry, results, beside)).collect();
        let header = ["in the paper", "what", "experiment", "verdict", "checks that hold"];
        text.push_str(&format!("\n## {}\n\n", paper.title()));
        text.push_str(&table(&header.map(Into::into), &rows));
        text.push('\n');
    }
    text
}

/// Returns the commands, builds and machines that produced the figures.
fn provenance(results: &[Found<'_>], commands: &Commands) -> String {
    let how = |it: &Record| format!("--scale {} --seed {}", it.scale, it.seed);
    let groups: BTreeSet<String> = records(results).map(how).collect();
    let mut text =
        "Made by\n\n<!-- test: skip it takes a quarter of an hour -->\n```sh\n".to_owned();
    for group in &groups {
        let of_group = records(results).filter(|it| how(it) == *group);
        let ids: Vec<&str> = of_group.map(|it| it.id.as_str()).collect();
        let what = if ids.len() == results.len() { "all".to_owned() } else { ids.join(" ") };
        text.push_str(&format!("guira lab run {what} {group} --check{}\n", commands.out));
    }
    text.push_str(&format!("{}\n```\n\n", commands.report));
    let runs = runs(results);
    if runs.len() > 1 {
        text.push_str(
            "These are several runs: their figures can't be compared with each other.\n\n",
        );
    }
    let machines: BTreeSet<String> = records(results)
        .map(|it| format!("on {}, by guira {}.\n", it.machine.line(), build(it)))
        .collect();
    text.extend(machines);
    text
}

/// Returns the row of a table or figure of a paper, with its result.
fn row(entry: &Entry, results: &[Found<'_>], beside: &str) -> Vec<String> {
    let found = entry.experiment.and_then(|id| results.iter().find(|(it, _)| it.id == id));
    let Some((experiment, record)) = found else {
        return vec![
            entry.place.into(),
            entry.what.into(),
            "–".into(),
            entry.missing.into(),
            String::new(),
        ];
    };
    let page = format!("{beside}/{}.md", experiment.paper.name());
    let link = format!("[{}]({page}#{})", experiment.id, anchor(experiment));
    let (verdict, held) = record.as_ref().map_or_else(
        || ("not run".to_owned(), String::new()),
        |record| {
            let checks = record.outcome(experiment).checks;
            let held = checks.iter().filter(|it| it.standing() == CheckStanding::Holds).count();
            (Verdict::of(&checks).to_string(), format!("{held} of {}", checks.len()))
        },
    );
    vec![entry.place.into(), entry.what.into(), link, verdict, held]
}

/// The page of one paper; `front` is the page of all.
fn of_paper(paper: Paper, results: &[Found<'_>], front: &Path) -> String {
    let back = front.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut text = format!("# {}\n\n[All papers](../{back}).\n", paper.title());
    for (experiment, record) in results.iter().filter(|(it, _)| it.paper == paper) {
        let section = match record {
            Some(record) => section(experiment, record, ""),
            None => not_run(experiment),
        };
        text.push_str(&format!("\n## {}\n", section.trim_end()));
    }
    text
}

/// Returns the anchor of an experiment's section, as forges derive it from a heading.
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

/// The command lines that make the pages, as short as possible.
struct Commands {
    /// The option of a run to write where the report reads.
    out: String,
    report: String,
}

impl Commands {
    fn of(args: &args::Report, to: &Path) -> Self {
        let is_usual = args.out == Path::new("lab");
        let out = if is_usual { String::new() } else { format!(" --out {}", args.out.display()) };
        let to = args.to.as_ref().map_or(String::new(), |_| format!(" --to {}", to.display()));
        let mixed = if args.mixed { " --mixed" } else { "" };
        let report = format!("guira lab report{out}{to}{mixed}");
        Self { out, report }
    }
}

const INTRODUCTION: &str = "\
Every table and figure of the papers behind Guira, and what `guira lab` makes of it on the machine named below. Anybody can
run the experiments: `guira lab list` shows them, `guira lab run ID` runs one. Each has a section on its paper's page: what
the paper claims, the plot with the paper's axes (the paper's own figures dashed where it prints them), the checks, and what
they say. A check is of a ratio, a share or an order, never of an absolute time, and says why its bound is where it is.

The verdict is computed from the checks of the run that made these pages. *Reproduced*: every figure that the paper states
is where the paper has it. *Weaker*: the effect shows, and is smaller. *Contradicted*: a claim doesn't hold here at all.
*Not testable here*: the machine can't show it. A check that this run could not judge is counted next to the verdict. A check
may say that a claim of the paper fails here. If it holds, that speaks against the paper: a claim can be *contradicted* by checks that all hold.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::EXPERIMENTS;
    use crate::planted::{ENDS, HOLDS};
    use crate::record::tests::record;

    fn docs() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
    }

    #[test]
    fn a_report_is_made_from_stored_figures_and_says_what_was_not_run() {
        let directory =
            std::env::temp_dir().join(format!("guira-lab-report-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        record(HOLDS.id).write(&directory.join("planted-holds.json")).unwrap();
        let to = directory.join("page.md");
        let args = args::Report { out: directory.clone(), to: Some(to.clone()), mixed: false };
        report(&args, &[&HOLDS, &ENDS]).unwrap();
        let text = fs::read_to_string(&to).unwrap();
        for part in [
            &format!(
                "guira lab run planted-holds --scale small --seed 7 --check --out {}\n",
                directory.display()
            ),
            &format!("guira lab report --out {} --to ", directory.display()),
            "Some CPU, 2 cores, 8 GiB",
        ] {
            assert!(text.contains(part), "{part} is missing\n{text}");
        }
        let text = fs::read_to_string(directory.join("page/ours.md")).unwrap();
        for part in ["](planted-holds.svg)", "Not run: `guira lab run planted-error` does."] {
            assert!(text.contains(part), "{part} is missing\n{text}");
        }
        for file in ["planted-holds.svg", "data/planted-holds.json"] {
            assert!(directory.join("page").join(file).exists(), "{file}");
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn results_of_several_runs_are_not_joined() {
        let directory =
            std::env::temp_dir().join(format!("guira-lab-mixed-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        record(HOLDS.id).write(&directory.join("planted-holds.json")).unwrap();
        let mut other = record(ENDS.id);
        other.run = "another".into();
        other.write(&directory.join("planted-error.json")).unwrap();
        let mut args = args::Report { out: directory.clone(), to: None, mixed: false };
        let error = report(&args, &[&HOLDS, &ENDS]).unwrap_err().to_string();
        assert!(error.contains("are of 2 runs"), "{error}");
        args.mixed = true;
        report(&args, &[&HOLDS, &ENDS]).unwrap();
        let text = fs::read_to_string(directory.join("report.md")).unwrap();
        assert!(text.contains("These are several runs"), "{text}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn nothing_to_report_is_an_error_that_says_what_to_do() {
        let args = args::Report { out: "no/such/directory".into(), to: None, mixed: false };
        let error = report(&args, &[&HOLDS]).unwrap_err().to_string();
        assert!(error.contains("guira lab run all"), "{error}");
    }

    /// Returns the committed results, of all experiments.
    fn committed() -> Vec<Found<'static>> {
        let read = |it: &'static Experiment| {
            let path = docs().join(format!("lab/data/{}.json", it.id));
            let record = Record::read(&path).unwrap();
            assert!(record.is_some(), "{} was not run", path.display());
            (it, record)
        };
        EXPERIMENTS.iter().copied().flatten().map(read).collect()
    }

    /// The pages are those of the stored figures, and there are no other files next to them.
    #[test]
    fn the_committed_pages_are_of_one_run_and_say_what_its_figures_say() {
        let results = committed();
        assert_eq!(runs(&results).len(), 1, "docs/lab is of several runs: {:#?}", runs(&results));
        for record in records(&results) {
            let commit = record.commit.as_deref().unwrap_or("none");
            let is_clean = commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_clean, "{} is of a build of no commit: {commit}", record.id);
        }
        let to = docs().join("lab.md");
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        let is_made_again =
            "docs/lab must be made again: guira lab report --out docs/lab/data --to docs/lab.md";
        let at = Path::new("docs/lab.md");
        let args = args::Report { out: "docs/lab/data".into(), to: Some(at.into()), mixed: false };
        let page = front(&results, "lab", &Commands::of(&args, at));
        assert_eq!(text(&to), page, "{is_made_again}");
        let mut files = BTreeSet::from(["data".to_owned()]);
        for paper in papers(&results) {
            let name = format!("{}.md", paper.name());
            let path = docs().join("lab").join(&name);
            assert_eq!(text(&path), of_paper(paper, &results, &to), "{is_made_again}");
            files.insert(name);
        }
        for (experiment, record) in &results {
            let plots = record.as_ref().map_or(0, |it| it.outcome(experiment).plots.len());
            files.extend(plot_files(experiment.id, plots));
        }
        let found = fs::read_dir(docs().join("lab")).unwrap();
        let found = found.map(|it| it.unwrap().file_name().into_string().unwrap());
        assert_eq!(found.collect::<BTreeSet<_>>(), files, "{is_made_again}");
    }

    /// What failed in the committed run: the pages say so. The next run removes what has been mended.
    ///
    /// - `fawn-kv-f2.7`: 1.07, 1.07 and 1.09 in three attempts, and 1.03 in a run of it alone. Until the clients have gathered at the
    ///   fullest node, the others answer more than they will; and a link that was late when the measurement began makes up for it.
    const FAILS: [&str; 1] = [
        "fawn-kv-f2.7: this check fails: throughput, of what the fullest node allows, at the most",
    ];

    #[test]
    fn no_other_check_of_the_committed_run_fails_and_each_notices_wrong_results() {
        let mut faults = Vec::new();
        for (experiment, record) in committed() {
            let Some(record) = record else { continue };
            let data = record.data();
            let checks = (experiment.judge)(&data).checks.into_iter();
            let failing = checks.filter(|check| check.standing() == CheckStanding::Fails);
            let failing = failing.map(|check| format!("this check fails: {}", check.claim));
            let unnoticed = crate::plants::unnoticed(experiment, &data).into_iter();
            let unnoticed = unnoticed.map(|plant| format!("no check notices this: {plant}"));
            let all = failing.chain(unnoticed);
            faults.extend(all.map(|fault| format!("{}: {fault}", experiment.id)));
        }
        assert_eq!(faults, FAILS);
    }

    #[test]
    fn every_experiment_is_in_the_contents_once_and_what_is_missing_says_why() {
        let declared: Vec<_> = EXPERIMENTS.iter().copied().flatten().map(|it| it.id).collect();
        let contents = || CONTENTS.iter().copied().flatten();
        let listed: Vec<_> = contents().filter_map(|entry| entry.experiment).collect();
        for id in &declared {
            assert!(listed.contains(id), "{id} is not in the contents");
        }
        for entry in contents() {
            match entry.experiment {
                Some(id) => assert!(declared.contains(&id), "there is no {id}"),
                None => {
                    assert!(!entry.missing.is_empty(), "{} {}", entry.paper.name(), entry.place);
                }
            }
        }
    }
}
