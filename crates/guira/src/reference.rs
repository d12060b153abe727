//! The pages of docs/reference: the program's declarations, as Markdown.
//!
//! A name is written only where the program declares it: `guira generate reference docs/reference` writes
//! the pages, and a test compares them with the existing ones.

use anyhow::{Context, Result};
use clap::Command;
use clap::builder::PossibleValue;
use guira_serve::Meaning;
use std::fmt::Write as _;
use std::path::Path;

/// Writes each page into `directory`.
pub(crate) fn write(directory: &Path, tree: Command) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for (name, text) in pages(tree) {
        let path = directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns each page's file name and text.
fn pages(tree: Command) -> [(&'static str, String); 11] {
    [
        ("flags.md", page("Flags", FLAGS, &commands(tree))),
        ("options.md", page("Settings of -o", OPTIONS, &guira_serve::suboptions_markdown())),
        ("process.md", page("Signals and exit codes", PROCESS, &process())),
        ("statistics.md", page("Statistics", STATISTICS, &statistics())),
        ("metrics.md", page("Metrics", METRICS, &metrics())),
        (
            "router-statistics.md",
            page(
                "Statistics of the router",
                ROUTER_STATISTICS,
                &stat_groups(guira_route::stat_tables()),
            ),
        ),
        (
            "router-metrics.md",
            page(
                "Metrics of the router",
                ROUTER_METRICS,
                &metric_table(guira_route::metric_meanings()),
            ),
        ),
        (
            "store-statistics.md",
            page(
                "Statistics of the store",
                STORE_STATISTICS,
                &stat_groups(guira_node::store_stat_tables()),
            ),
        ),
        (
            "store-metrics.md",
            page(
                "Metrics of the store",
                STORE_METRICS,
                &metric_table(guira_node::store_metric_meanings()),
            ),
        ),
        (
            "invalidate-metrics.md",
            page(
                "Metrics of guira invalidate",
                INVALIDATE_METRICS,
                &metric_table(guira_invalidate::invalidate_metric_meanings()),
            ),
        ),
        ("route-fields.md", page("Fields of routes", FIELDS, &guira_route::field_tables())),
    ]
}

fn page(title: &str, about: &str, body: &str) -> String {
    format!("# {title}\n\n{about}\n\n{MADE}\n\n{}\n", body.trim())
}

/// The flags of each command and of its subcommands.
fn commands(mut root: Command) -> String {
    let mut text = String::new();
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

/// A command's flags as a table.
fn flags(mut command: Command) -> String {
    command.build();
    let mut text = "| flag | default | meaning |\n|---|---|---|\n".to_owned();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let is_switch = !arg.get_action().takes_values();
        let short = arg.get_short().map(|short| format!("-{short}"));
        let long = arg.get_long().map(|long| format!("--{long}"));
        // With the value's name, which says what the value is, and in which unit.
        let with_value = (!is_switch).then(|| arg.to_string());
        let names = match (short, long) {
            (Some(short), Some(long)) => vec![short, with_value.unwrap_or(long)],
            (short, long) => with_value.or(short).or(long).into_iter().collect(),
        };
        let names: Vec<String> = names.iter().map(|name| format!("`{}`", cell(name))).collect();
        let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
        let default = defaults.filter(|_| !is_switch).collect::<Vec<_>>().join(" ");
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        // A flag without a fixed default has its default in its help.
        let (help, default) = match help.strip_suffix(']').and_then(|h| h.split_once(" [default: "))
        {
            Some((help, default)) => (help.to_owned(), default.to_owned()),
            None => (help, default),
        };
        let choices = if is_switch { Vec::new() } else { arg.get_possible_values() };
        let choices: Vec<&str> = choices.iter().map(PossibleValue::get_name).collect();
        let help = match choices[..] {
            [] => help,
            _ if arg.get_value_delimiter().is_some() => {
                format!("{help}; some of {}", choices.join(", "))
            }
            _ => format!("{help}; one of {}", choices.join(", ")),
        };
        let _ =
            writeln!(text, "| {} | {default} | {} |", names.join(", "), help.replace('|', "\\|"));
    }
    text
}

fn process() -> String {
    let mut text = "## Signals\n\n| program | signal | effect |\n|---|---|---|\n".to_owned();
    let serve = guira_serve::SIGNALS.iter().map(|signal| ("serve", signal));
    let route = guira_route::SIGNALS.iter().map(|signal| ("route", signal));
    let store = guira_node::SIGNALS.iter().map(|signal| ("store", signal));
    let invalidate = guira_invalidate::SIGNALS.iter().map(|signal| ("invalidate", signal));
    for (program, (signal, effect)) in serve.chain(route).chain(store).chain(invalidate) {
        let _ = writeln!(text, "| `guira {program}` | {signal} | {effect} |");
    }
    text.push_str("\n## Exit codes\n\n| program | exit code | when |\n|---|---|---|\n");
    let clients: Vec<String> =
        guira_ctl::commands().iter().map(|it| format!("`guira {}`", it.get_name())).collect();
    let programs: [(&str, &[(u8, &str)]); 9] = [
        ("`guira serve`", &guira_serve::EXIT_CODES),
        ("`guira route`", &guira_route::EXIT_CODES),
        ("`guira route convert`", &guira_route::CONVERT_EXIT_CODES),
        ("`guira store`", &guira_node::EXIT_CODES),
        ("`guira cluster`", &guira_cluster::EXIT_CODES),
        ("`guira invalidate`", &guira_invalidate::EXIT_CODES),
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

/// The groups of a program's statistics, each with its lines.
fn stat_groups(groups: Vec<(&str, Vec<(String, String)>)>) -> String {
    let mut text = String::new();
    for (group, lines) in groups {
        let _ = writeln!(text, "## {group}\n\n| line | meaning |\n|---|---|");
        for (name, meaning) in lines {
            let _ = writeln!(text, "| `{name}` | {} |", cell(meaning.trim_end_matches('.')));
        }
        text.push('\n');
    }
    text
}

/// A program's metrics: name, kind and meaning.
fn metric_table(metrics: impl Iterator<Item = (String, &'static str, &'static str)>) -> String {
    let mut text = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
    for (name, kind, meaning) in metrics {
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
`--memory-limit=64`), and the last of several counts. In angle brackets is what the value is: `<MS>` is a time in milliseconds.";

const OPTIONS: &str = "\
What `guira serve -o` takes, joined by commas or given several times. Sizes may have a unit, `k`, `m`, `g` or `t`, of \
powers of 1,024; a number alone is in the setting's own unit.";

const PROCESS: &str = "What each program does on a signal, and what its exit code says.";

/// The exit codes of the commands that have none of their own; `main` returns these.
const OTHERS: [(u8, &str); 2] = [(0, "done"), (1, "not done, with a sentence why")];

const STATISTICS: &str = "\
Each line that `stats` and its kinds answer, and the metric of the same figure. In `stats items` and `stats slabs` each \
line stands once per slab class. Settings of `-o` are lines of `stats settings` too, under their own names.";

const METRICS: &str = "\
What `guira serve --http` tells Prometheus. Names, labels and types are `memcached_exporter`'s where it has them; what \
only Guira has begins with `guira_`.";

const ROUTER_STATISTICS: &str = "\
Each line that `stats` of `guira route` answers, under mcrouter's names. `stats detailed` is `stats all`, `stats cmd-error` is \
`stats count`. `stats servers` has a line for each server instead: the mean time until a reply or a timeout, requests that wait and requests \
under way, its mark if it is TKO, connections by state, replies by kind. `stats suspect_servers` has one for each server that \
failed when it was last asked, and `stats version` is the version alone.";

const ROUTER_METRICS: &str = "\
What `guira route --http` tells Prometheus, in the order of a scrape. `guira_route_commands_total` has a label for the \
command. Metrics of servers have a label for the server, durations and errors of requests one for the pool too.";

const STORE_STATISTICS: &str = "\
Each line that `stats` and `stats store` of `guira store` answer. `stats settings` tells the flags in force, `stats reset` sets what \
clients asked for to 0.";

const STORE_METRICS: &str = "What `guira store --http` tells Prometheus, in the order of a scrape.";

const INVALIDATE_METRICS: &str = "\
What `http` of `guira invalidate`'s configuration tells Prometheus, in the order of a scrape. Metrics have a label for the \
source, those of destinations one for the destination too.";

const FIELDS: &str =
    "The fields that each type of route takes in a configuration of `guira route`.";
