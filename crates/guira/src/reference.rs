//! The pages of docs/reference: what the program declares of itself, as Markdown.
//!
//! A name is written where the program declares it, and nowhere else: `guira generate reference docs/reference` makes the
//! pages, and a test compares them with those that are there.

use crate::generate::flags;
use anyhow::{Context, Result};
use clap::Command;
use guira_serve::Meaning;
use std::fmt::Write as _;
use std::path::Path;

/// Writes each page.
pub(crate) fn write(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for (name, text) in pages() {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Each page's file name and text.
fn pages() -> [(&'static str, String); 8] {
    [
        ("flags.md", page("Flags", FLAGS, &commands())),
        ("options.md", page("Settings of -o", OPTIONS, &guira_serve::suboptions_markdown())),
        ("process.md", page("Signals and exit codes", PROCESS, &process())),
        ("statistics.md", page("Statistics", STATISTICS, &statistics())),
        ("metrics.md", page("Metrics", METRICS, &metrics())),
        (
            "router-statistics.md",
            page("Statistics of the router", ROUTER_STATISTICS, &router_statistics()),
        ),
        ("router-metrics.md", page("Metrics of the router", ROUTER_METRICS, &router_metrics())),
        ("route-fields.md", page("Fields of routes", FIELDS, &guira_route::field_tables())),
    ]
}

fn page(title: &str, about: &str, body: &str) -> String {
    format!("# {title}\n\n{about}\n\n{MADE}\n\n{}\n", body.trim())
}

/// The flags of each command and of the commands below it.
fn commands() -> String {
    let mut text = String::new();
    let mut root = crate::tree();
    root.build();
    for command in root.get_subcommands() {
        add(&mut text, command, "guira");
    }
    text
}

fn add(text: &mut String, command: &Command, before: &str) {
    let (name, about) = (command.get_name(), command.get_about().cloned().unwrap_or_default());
    if name == "help" {
        return;
    }
    let name = format!("{before} {name}");
    let _ = writeln!(text, "## `{name}`\n\n{about}.\n\n{}", flags(command.clone()));
    for below in command.get_subcommands() {
        add(text, below, &name);
    }
}

fn process() -> String {
    let mut text = "## Signals\n\n| program | signal | effect |\n|---|---|---|\n".to_owned();
    let serve = guira_serve::SIGNALS.iter().map(|signal| ("serve", signal));
    for (program, (signal, effect)) in
        serve.chain(guira_route::SIGNALS.iter().map(|it| ("route", it)))
    {
        let _ = writeln!(text, "| `guira {program}` | {signal} | {effect} |");
    }
    text.push_str("\n## Exit codes\n\n| program | exit code | when |\n|---|---|---|\n");
    let clients: Vec<String> =
        guira_ctl::commands().iter().map(|it| format!("`guira {}`", it.get_name())).collect();
    let programs: [(&str, &[(u8, &str)]); 6] = [
        ("`guira serve`", &guira_serve::EXIT_CODES),
        ("`guira route`", &guira_route::EXIT_CODES),
        ("`guira route convert`", &guira_route::CONVERT_EXIT_CODES),
        (&clients.join(", "), &guira_ctl::EXIT_CODES),
        ("`guira replay`", &guira_route::REPLAY_EXIT_CODES),
        ("the others", &OTHERS),
    ];
    for (program, codes) in programs {
        for (code, when) in codes {
            let _ = writeln!(text, "| {program} | {code} | {when} |");
        }
    }
    text.push_str("\nA program whose output pipe is closed early (`guira lab list | head -1`) ends quietly, with 0.\n");
    text
}

fn statistics() -> String {
    let mut text = String::new();
    for (command, lines) in guira_serve::stat_tables() {
        let _ = writeln!(text, "## `{command}`\n\n| line | meaning | metric |\n|---|---|---|");
        for Meaning { name, meaning, metric } in lines {
            let metric = metric.map(|(name, kind)| format!("`{name}` {kind}")).unwrap_or_default();
            let _ = writeln!(text, "| `{name}` | {} | {} |", cell(meaning), cell(&metric));
        }
        text.push('\n');
    }
    text
}

fn metrics() -> String {
    let mut text = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
    for (name, (kind, help)) in guira_serve::metric_meanings() {
        let _ = writeln!(text, "| `{name}` | {kind} | {} |", cell(help));
    }
    text
}

fn router_statistics() -> String {
    let mut text = String::new();
    for (group, lines) in guira_route::stat_tables() {
        let _ = writeln!(text, "## {group}\n\n| line | meaning |\n|---|---|");
        for (name, meaning) in lines {
            let _ = writeln!(text, "| `{name}` | {} |", cell(meaning.trim_end_matches('.')));
        }
        text.push('\n');
    }
    text
}

fn router_metrics() -> String {
    let mut text = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
    for (name, kind, meaning) in guira_route::metric_meanings() {
        let _ = writeln!(text, "| `{name}` | {kind} | {} |", cell(meaning.trim_end_matches('.')));
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

const MADE: &str =
    "The program writes this page: `guira generate reference docs/reference`. Don't edit it.";

const FLAGS: &str = "\
Each command's arguments and flags. `guira serve` takes memcached's forms: short, long and attached (`-m 64`, `-m64`, \
`--memory-limit=64`), and the last of several counts.";

const OPTIONS: &str = "\
What `guira serve -o` takes, joined by commas or given several times. Sizes may have a unit, `k`, `m`, `g` or `t`, of \
powers of 1,024; a number alone is in the setting's own unit.";

const PROCESS: &str = "What each program does on a signal, and what its exit code says.";

/// What `main` makes of the commands that have no codes of their own.
const OTHERS: [(u8, &str); 2] = [(0, "done"), (1, "not done, with a sentence why")];

const STATISTICS: &str = "\
Each line that `stats` and its kinds answer, and the metric of the same figure. In `stats items` and `stats slabs` each \
line stands once per slab class. Settings of `-o` are lines of `stats settings` too, under their own names.";

const METRICS: &str = "\
What `guira serve --http` tells Prometheus. Names, labels and types are `memcached_exporter`'s where it has them; what \
only Guira has begins with `guira_`.";

const ROUTER_STATISTICS: &str = "\
Each line that `stats` of `guira route` answers, under mcrouter's names. `stats detailed` is `stats all`, `stats cmd-error` is \
`stats count`. `stats servers` has a line for each server instead: the mean time of a reply, requests that wait and requests \
under way, its mark if it is TKO, connections by state, replies by kind. `stats suspect_servers` has one for each server that \
failed when it was last asked, and `stats version` is the version alone.";

const ROUTER_METRICS: &str = "\
What `guira route --http` tells Prometheus, in the order of a scrape. `guira_route_commands_total` has a label for the \
command. Metrics of servers have a label for the server, durations and errors of requests one for the pool too.";

const FIELDS: &str =
    "The fields that each type of route takes in a configuration of `guira route`.";
