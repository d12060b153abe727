//! The page of a run: the paper's figures next to the measured ones, the plots, the checks, and the summary.

use std::fmt::Write;

use crate::experiment::Experiment;
use crate::number::figure;
use crate::outcome::{Check, CheckStanding, Findings};
use crate::record::{Record, plot_files};
use crate::verdict::{Finding, Verdict, finding};

/// Makes `ID.md`: a separate document, with its plots in files next to it.
pub(crate) fn page(experiment: &Experiment, record: &Record) -> String {
    let ran = format!("{}; guira {}.\n", record.machine.line(), build(record));
    format!("# {}{ran}", section(experiment, record, ""))
}

/// Makes the same as a part of a larger document, without the prefix of its heading; links to plots begin with `plots`.
pub(crate) fn section(experiment: &Experiment, record: &Record, plots: &str) -> String {
    let outcome = record.outcome(experiment);
    let mut parts = vec![
        format!("{}: {}", experiment.id, experiment.title),
        format!("*The paper:* {}", sentence(experiment.claim)),
        format!("*Must show here:* {}", sentence(experiment.shape)),
        verdict(experiment, &outcome),
    ];
    let files = plot_files(&record.id, outcome.plots.len());
    parts.extend(outcome.plots.iter().zip(files).map(|(plot, file)| {
        format!("![{}]({plots}{file})", plot.title.replace(['[', ']'], "").trim())
    }));
    parts.extend(
        outcome.tables.iter().map(|it| format!("{}:\n\n{}", it.title, table(&it.header, &it.rows))),
    );
    if !outcome.checks.is_empty() {
        parts.push(checks(&outcome.checks, &record.outcomes(experiment)));
    }
    parts.push(outcome.reading);
    parts.push(circumstances(record));
    parts.retain(|part| !part.trim().is_empty());
    parts.join("\n\n") + "\n\n"
}

/// Version and commit.
pub(crate) fn build(record: &Record) -> String {
    match &record.commit {
        Some(commit) => format!("{} ({commit})", record.version),
        None => format!("{} (a build of no known commit)", record.version),
    }
}

/// A table of Markdown.
pub(crate) fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<_> =
            cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule: Vec<_> = (0..header.len())
        .map(|at| {
            let mut cells = rows.iter().filter_map(|cells| cells.get(at));
            let is_of_figures = !rows.is_empty() && cells.all(|cell| is_figure(cell));
            if is_of_figures { "---:" } else { "---" }.to_owned()
        })
        .collect();
    let lines = [row(header), row(&rule)];
    lines.into_iter().chain(rows.iter().map(|cells| row(cells))).collect::<Vec<_>>().join("\n")
}

/// Whether a cell holds a number, with or without a unit, or a sign that there is none.
fn is_figure(cell: &str) -> bool {
    cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || "-–−+~≤≥<>".contains(c))
}

/// Makes the table of all checks, including those that couldn't be judged. With several attempts, each one's figure
/// follows in parentheses.
fn checks(checks: &[Check], attempts: &[Findings]) -> String {
    let header = ["check", "paper", "measured", "must be", "", "because"].map(Into::into);
    let row = |(at, check): (usize, &Check)| {
        let standing = match check.standing() {
            CheckStanding::Fails => "**fails**".to_owned(),
            standing => standing.to_string(),
        };
        let because = match &check.not_judged {
            Some(why) => format!("{why}; {}", check.reason),
            None => check.reason.to_owned(),
        };
        vec![
            check.claim.clone(),
            check.paper.as_ref().map_or_else(String::new, |said| said.figure.clone()),
            figure(check.measured) + &of_each(attempts, at),
            check.bound.to_string(),
            [Some(standing), compared(check)].into_iter().flatten().collect::<Vec<_>>().join(", "),
            because,
        ]
    };
    table(&header, &checks.iter().enumerate().map(row).collect::<Vec<_>>())
}

/// Returns how a check compares with the paper, if that is worth mentioning.
fn compared(check: &Check) -> Option<String> {
    match finding(check)? {
        Finding::Weaker => Some("weaker than the paper".into()),
        Finding::Contradicted => Some("**contradicts the paper**".into()),
        Finding::Reproduced | Finding::NotTestable => None,
    }
}

/// Returns the figures of a check in each attempt, if there were several.
fn of_each(attempts: &[Findings], check: usize) -> String {
    if attempts.len() < 2 {
        return String::new();
    }
    let figures = attempts.iter().map(|outcome| match outcome.checks.get(check) {
        Some(check) if check.not_judged.is_none() => figure(check.measured),
        _ => "not judged".into(),
    });
    format!(" ({})", figures.collect::<Vec<_>>().join(", "))
}

fn verdict(experiment: &Experiment, outcome: &Findings) -> String {
    let verdict = Verdict::of(&outcome.checks);
    let word = sentence(&verdict.to_string());
    let fails =
        outcome.checks.iter().filter(|check| check.standing() == CheckStanding::Fails).count();
    let mut text = format!("**{word}**");
    if fails > 0 {
        write!(text, " **Checks that fail: {fails}.**").expect("a string takes all");
    }
    if verdict.finding != Finding::Reproduced && !experiment.why.is_empty() {
        write!(text, " {}", sentence(experiment.why)).expect("a string takes all");
    }
    text
}

fn circumstances(record: &Record) -> String {
    let attempts = record.attempts.iter().map(|attempt| {
        let (wall_s, cpu_s) = (attempt.duration_s.ceil(), attempt.cpu_s.ceil());
        let busy = attempt.load_before.filter(|load| *load > 2.0 * record.machine.cores as f64);
        let busy =
            busy.map(|load| format!(" on a machine that was busy otherwise (load {load:.1})"));
        format!("{wall_s:.0} s, {cpu_s:.0} s of a processor{}", busy.unwrap_or_default())
    });
    let attempts: Vec<_> = attempts.collect();
    let text = format!("`{}` took {}", record.command, attempts.join("; then "));
    match attempts.len() {
        1 => text + ".",
        n => format!("{text}. The figures are the medians of all rounds of {n} attempts."),
    }
}

/// Adds a capital letter and a full stop. A text that begins with a lower-case name should be rephrased.
pub(crate) fn sentence(text: &str) -> String {
    let mut chars = text.trim().chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    let mut sentence: String = first.chain(chars).collect();
    if !sentence.ends_with(['.', '!', '?']) {
        sentence.push('.');
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{BLIND, HOLDS};
    use crate::record::tests::{attempt, record};
    use expect_test::expect;

    #[test]
    fn a_page_has_everything_once() {
        expect![[r#"
            # planted-holds: what a test plants

            *The paper:* Two is twice one.

            *Must show here:* The ratio is at least 1.5.

            **Reproduced.**

            ![rate against threads](planted-holds.svg)

            rates:

            | threads | paper | here |
            | ---: | ---: | ---: |
            | 1 \| one | 1.0 | 1.1 |

            | check | paper | measured | must be |  | because |
            | --- | ---: | ---: | ---: | --- | --- |
            | two threads do 1.5 of what one does | 2 | 2 | ≥ 1.5 | holds | half of the second may go to the operating system |
            | chaining gains nothing |  | 1 | ≤ 1.2 | holds | it has one lock |
            | cuckoo, to chaining |  | 2.2 | ≥ 2 | holds | as planted |

            Two threads did 2.0 of what one did.

            `guira lab run planted-holds --scale small --seed 7` took 2 s, 2 s of a processor.

            Some CPU, 2 cores, 8 GiB, Linux 6, transparent huge pages: madvise; guira 0.1.0 (0123456789ab).
        "#]].assert_eq(&page(&HOLDS, &record(HOLDS.id)));
    }

    #[test]
    fn several_attempts_are_all_shown_and_the_median_counts() {
        let mut record = record(HOLDS.id);
        record.attempts = [1.0, 2.5, 1.75].map(attempt).into();
        let page = page(&HOLDS, &record);
        assert!(
            page.contains("| 1.75 (1, 2.5, 1.75) | ≥ 1.5 | holds, weaker than the paper |"),
            "{page}"
        );
        assert!(page.contains("**Weaker.** One and two | are small."), "{page}");
        assert!(page.contains("medians of all rounds of 3 attempts"), "{page}");
    }

    #[test]
    fn a_page_without_plots_tables_or_checks_is_still_one() {
        let page = page(&BLIND, &record(BLIND.id));
        assert!(!page.contains("\n\n\n") && !page.contains("]("), "{page}");
    }
}
