//! The page of a run: the paper's figures beside the measured ones, the plots, the checks, the reading.

use std::fmt::Write;

use crate::experiment::Experiment;
use crate::number::figure;
use crate::outcome::Check;
use crate::record::{Record, plot_files};

/// `ID.md`: a document of its own, its plots beside it.
pub(crate) fn page(experiment: &Experiment, record: &Record) -> String {
    let ran = format!("{}; guira {}.\n", record.machine.line(), build(record));
    format!("# {}{ran}", section(experiment, record, ""))
}

/// The same as part of a larger document, without what marks its heading as one; links to plots begin with `plots`.
pub(crate) fn section(experiment: &Experiment, record: &Record, plots: &str) -> String {
    let outcome = &record.outcome;
    let mut parts = vec![
        format!("{}: {}", experiment.id, experiment.title),
        format!("*The paper:* {}", sentence(experiment.claim)),
        format!("*Must show here:* {}", sentence(experiment.shape)),
        verdict(experiment),
    ];
    let files = plot_files(&record.id, outcome.plots.len());
    parts.extend(outcome.plots.iter().zip(files).map(|(plot, file)| {
        format!("![{}]({plots}{file})", plot.title.replace(['[', ']'], "").trim())
    }));
    parts.extend(
        outcome.tables.iter().map(|it| format!("{}:\n\n{}", it.title, table(&it.header, &it.rows))),
    );
    parts.push(outcome.reading.clone());
    if !outcome.checks.is_empty() {
        parts.push(checks(&outcome.checks));
    }
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

/// Whether a cell holds a number, with or without a unit, or says that there is none.
fn is_figure(cell: &str) -> bool {
    cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || "-–−+~≤≥<>".contains(c))
}

fn checks(checks: &[Check]) -> String {
    let header = ["check", "measured", "must be", "", "because"].map(Into::into);
    let rows: Vec<_> = checks
        .iter()
        .map(|check| {
            vec![
                check.claim.clone(),
                figure(check.measured),
                check.bound.to_string(),
                if check.holds() { "holds" } else { "**fails**" }.into(),
                check.reason.into(),
            ]
        })
        .collect();
    table(&header, &rows)
}

fn verdict(experiment: &Experiment) -> String {
    let verdict = sentence(experiment.verdict.short());
    match experiment.verdict.why() {
        Some(why) => format!("**{verdict}** {}", sentence(why)),
        None => format!("**{verdict}**"),
    }
}

fn circumstances(record: &Record) -> String {
    let (wall_s, cpu_s) = (record.duration_s.ceil(), record.cpu_s.ceil());
    let mut text = format!("`{}` took {wall_s:.0} s, {cpu_s:.0} s of a processor", record.command);
    if let Some(load) = record.load_before.filter(|load| *load > 2.0 * record.machine.cores as f64)
    {
        write!(text, ", on a machine that was busy otherwise (load {load:.1})")
            .expect("a string takes all");
    }
    match record.attempts {
        1 => text.push('.'),
        n => {
            writeln!(text, "; this is attempt {n}, since before it:").expect("a string takes all");
            text.extend(record.failed_before.iter().map(|fault| format!("\n- {fault}")));
        }
    }
    text
}

/// With a capital letter and a stop. A text that begins with a name in small letters is better turned around.
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
    use crate::planted::HOLDS;
    use crate::record::tests::record;
    use expect_test::expect;

    #[test]
    fn a_page_has_everything_once() {
        expect![[r#"
            # planted-holds: what a test plants

            *The paper:* Two is twice one.

            *Must show here:* The ratio is at least 1.5.

            **Not testable here.** One and two | are not measured.

            ![rate against threads](planted-holds.svg)

            rates:

            | threads | paper | here |
            | ---: | ---: | ---: |
            | 1 \| one | 1.0 | 1.1 |

            Two threads did 2.0 of what one did.

            | check | measured | must be |  | because |
            | --- | ---: | ---: | --- | --- |
            | two threads do 1.5 of what one does | 2 | ≥ 1.5 | holds | half of the second may go to the operating system |

            `guira lab run planted-holds --scale small --seed 7` took 2 s, 2 s of a processor.

            Some CPU, 2 cores, 8 GiB, Linux 6, transparent huge pages: madvise; guira 0.1.0 (0123456789ab).
        "#]].assert_eq(&page(&HOLDS, &record(HOLDS.id)));
    }

    #[test]
    fn a_page_without_plots_tables_or_checks_is_still_one() {
        let mut bare = record(HOLDS.id);
        bare.outcome = Default::default();
        let page = page(&HOLDS, &bare);
        assert!(!page.contains("\n\n\n") && !page.contains("]("), "{page}");
    }
}
