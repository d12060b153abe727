//! The settings of `-o`, each declared once, as a row of a table ([`Suboption`]).
//!
//! A new setting needs a field of [`Extended`] and a row of [`WORKING`], or of [`INERT`] if it is
//! accepted for memcached's sake and has no effect. `guira generate reference docs/reference` then
//! updates the pages; a test compares them.
//!
//! # Invariants
//! 1. A row's default is the field's: applying `NAME=DEFAULT` changes nothing. A test checks that.
//! 2. Names are unique, also when prefixed with `no_`.

#[cfg(test)]
mod tests;
mod working;
mod storage;
mod tls;

use crate::compat::SETTINGS as INERT;
use crate::options::{Extended, Refusal, Suboption};
use guira_front::meant::meant;
use std::fmt::Write as _;
use working::{Group, WORKING};

/// All settings, with or without an effect.
pub(crate) fn all() -> impl Iterator<Item = &'static Suboption> + Clone {
    WORKING.iter().flat_map(|group| group.suboptions).chain(INERT)
}

/// Parses the lists of `-o`, in the order in which they were given.
///
/// # Errors
/// Those of [`take`], and settings that don't go together.
pub(super) fn extended(lists: &[String]) -> Result<Extended, Refusal> {
    let mut extended = Extended::default();
    let options = lists.iter().flat_map(|list| list.split(',')).map(str::trim);
    for option in options.filter(|option| !option.is_empty()) {
        take(option, &mut extended)?;
    }
    extended.check_together()?;
    Ok(extended)
}

/// Applies one setting, as typed.
///
/// # Errors
/// The name is unknown, or the value is invalid.
fn take(option: &str, to: &mut Extended) -> Result<(), Refusal> {
    let (name, given) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    for suboption in all() {
        if suboption.apply(name, given, to)? {
            if tls::TLS.iter().any(|of_tls| of_tls.name == suboption.name) {
                to.tls_given = Some(suboption.name);
            }
            let mut of_storage = storage::STORAGE.iter().map(|it| it.name);
            if suboption.name != "ext_path" && of_storage.any(|name| name == suboption.name) {
                to.storage_given = Some(suboption.name);
            }
            return Ok(());
        }
    }
    Err(unknown(name))
}

fn unknown(name: &str) -> Refusal {
    let part = match name {
        n if n.starts_with("proxy_") => "the proxy",
        _ => {
            return Refusal::value(format!(
                "Illegal suboption \"{name}\"{}; --help lists what -o takes",
                perhaps(name)
            ));
        }
    };
    Refusal::usage(format!(
        "-o {name}: {part} is absent in Guira. Remove the setting to start without it; guira route is a proxy."
    ))
}

/// Returns `, did you mean "hashpower"?`, or nothing if no name is similar.
fn perhaps(name: &str) -> String {
    let best = meant(name, all().map(|it| it.name));
    best.map(|known| format!(", did you mean \"{known}\"?")).unwrap_or_default()
}

/// Returns the end of `--help`.
///
/// memcached's test suite searches the help for the names of optional parts, so it leaves out the
/// settings of parts that this build lacks.
pub(crate) fn help() -> String {
    let mut text =
        "Settings for -o, separated by commas. Where KB or MB stands, a size may have a unit: 512k, 4m, 1g.\n"
            .to_owned();
    for Group { heading, suboptions } in WORKING {
        let _ = writeln!(text, "{heading}:");
        for suboption in *suboptions {
            let default = match suboption.default() {
                "" => String::new(),
                default => format!(" [default: {default}]"),
            };
            let help = format!("{}{default}", suboption.help);
            let lines = wrapped(&help, HELP_COLUMNS);
            let mut typed = suboption.typed();
            if typed.len() >= NAME_COLUMNS {
                let _ = writeln!(text, "  {typed}");
                typed.clear();
            }
            for line in lines {
                let _ = writeln!(text, "  {typed:NAME_COLUMNS$}{line}");
                typed.clear();
            }
        }
    }
    text.push_str(
        "Accepted for compatibility and shown in \"stats settings\", but without effect:\n",
    );
    let inert: Vec<String> = INERT.iter().map(Suboption::typed).collect();
    for line in wrapped(&inert.join(" "), NAME_COLUMNS + HELP_COLUMNS) {
        let _ = writeln!(text, "  {line}");
    }
    text.push_str(
        "\nExamples:\n  \
         guira serve -m 4096 -l 0.0.0.0 -t 8         4 GB for items, all addresses, 8 threads\n  \
         guira serve -e /dev/shm/guira -m 1024       keep the items across restarts\n  \
         guira serve --http 9150                     serve /metrics, /livez and /readyz too\n\n\
         Under the name \"memcached\", this program takes these flags without the word \"serve\".",
    );
    text
}

/// Returns the settings as Markdown tables: what each does, or why it has no effect.
pub fn markdown() -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut text = "| `-o` setting | default | meaning |\n|---|---|---|\n".to_owned();
    for Group { heading, suboptions } in WORKING {
        let _ = writeln!(text, "| **{heading}** | | |");
        for suboption in *suboptions {
            let (typed, default) = (cell(&suboption.typed()), suboption.default());
            let _ = writeln!(text, "| `{typed}` | {default} | {} |", cell(suboption.help));
        }
    }
    text.push_str("\n| `-o` setting without effect | why |\n|---|---|\n");
    for suboption in INERT {
        let _ = writeln!(text, "| `{}` | {} |", cell(&suboption.typed()), suboption.help);
    }
    text
}

/// Breaks `text` between words into lines of at most `columns` bytes.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The widths of a setting's name and of its help; with the two spaces before the name they add up to 100.
const NAME_COLUMNS: usize = 27;
const HELP_COLUMNS: usize = 71;
