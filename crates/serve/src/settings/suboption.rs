//! One setting of `-o`: declared once, as a row of a table. What `-o` accepts, `--help`, the man page, docs/reference/options.md
//! and the lines of `stats settings` follow from the rows.
//!
//! A new setting is a field of [`Extended`] and a row of [`WORKING`] (`suboption/working.rs`), or of [`INERT`]
//! (`suboption/inert.rs`) if it is accepted for memcached's sake and does nothing. Then
//! `guira generate reference docs/reference` writes the pages anew; a test compares them.
//!
//! # Invariants
//! 1. A row's default is the field's: applying `NAME=DEFAULT` changes nothing. A test does so.
//! 2. Names differ, those with `no_` before them too.

mod inert;
#[cfg(test)]
mod tests;
mod working;
mod tls;

use super::extended::Extended;
use super::size::{self, GB, KB, MB};
use super::{EXIT_USAGE, EXIT_VALUE, Refusal};
use std::fmt::Write as _;
use std::ops::RangeInclusive;

pub(crate) use inert::INERT;
pub(crate) use working::WORKING;

/// A setting's declaration.
pub(crate) struct Suboption {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) unset: Unset,
    /// What it does; of an inert one, why it does nothing.
    pub(crate) help: &'static str,
    pub(crate) shown: Shown,
}

/// What may be behind the name, and where it goes.
pub(crate) enum Takes {
    /// Nothing; `no_NAME` switches it off.
    Switch(fn(&mut Extended, bool)),
    /// Nothing.
    Nothing(fn(&mut Extended)),
    /// A whole number: its name in the help, and its limits.
    Number(&'static str, RangeInclusive<u32>, fn(&mut Extended, u32)),
    /// A size: the unit of a number alone, and the limits in bytes.
    Size(usize, RangeInclusive<usize>, fn(&mut Extended, usize)),
    /// A number with a fraction, and which are good.
    Fraction(fn(f64) -> bool, &'static str, fn(&mut Extended, f64)),
    /// One of these words.
    Choice(&'static [&'static str], fn(&mut Extended, &'static str)),
    /// Something else: its name in the help, and who judges it.
    Text(&'static str, fn(&mut Extended, Option<&str>) -> Result<(), Refusal>),
}

/// What holds where it is not given.
pub(crate) enum Unset {
    /// As it would be typed; of a switch, `on` or `off`.
    Is(&'static str),
    /// Nothing, or what the text says.
    Follows(&'static str),
}

/// Its line in `stats settings`.
pub(crate) enum Shown {
    No,
    /// The line's name, and its value as the server was started.
    As(&'static str, fn(&Extended) -> String),
    /// Commands change it, so it has a row in `stats/settings.rs`, whose meaning begins with `-o NAME`.
    Live,
}

/// What a group of settings belongs to.
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) suboptions: &'static [Suboption],
}

/// All settings, with an effect or without one.
pub(crate) fn all() -> impl Iterator<Item = &'static Suboption> {
    WORKING.iter().flat_map(|group| group.suboptions).chain(INERT)
}

impl Suboption {
    /// Applies `NAME` or `NAME=given`, if `name` is this one's.
    ///
    /// # Errors
    /// A value that can't be, with memcached's exit code for it.
    pub(crate) fn apply(
        &self,
        name: &str,
        given: Option<&str>,
        to: &mut Extended,
    ) -> Result<bool, Refusal> {
        if name != self.name {
            return Ok(match self.takes {
                Takes::Switch(set) if name.strip_prefix("no_") == Some(self.name) => {
                    set(to, false);
                    true
                }
                _ => false,
            });
        }
        let value = || given.ok_or_else(|| refusal(&format!("Missing {name} argument")));
        let wrong = || refusal(&format!("-o {}: {}", self.typed(), self.limits()));
        match &self.takes {
            Takes::Switch(set) => set(to, true),
            Takes::Nothing(set) => set(to),
            Takes::Number(_, limits, set) => {
                let number = value()?.parse().ok().filter(|n| limits.contains(n));
                set(to, number.ok_or_else(wrong)?);
            }
            Takes::Size(unit, limits, set) => {
                let bytes = size::parse(value()?, *unit).ok().filter(|n| limits.contains(n));
                set(to, bytes.ok_or_else(wrong)?);
            }
            Takes::Fraction(is_good, _, set) => {
                let number = value()?.parse().ok().filter(|&f| is_good(f));
                set(to, number.ok_or_else(wrong)?);
            }
            Takes::Choice(words, set) => {
                let given = value()?;
                let word = words.iter().find(|word| given == **word);
                set(to, word.ok_or_else(wrong)?);
            }
            Takes::Text(_, set) => set(to, given)?,
        }
        Ok(true)
    }

    /// As the help spells it: `(no_)NAME`, `NAME=WHAT`.
    pub(crate) fn typed(&self) -> String {
        let name = self.name;
        match &self.takes {
            Takes::Switch(_) => format!("(no_){name}"),
            Takes::Nothing(_) | Takes::Text("", _) => name.to_owned(),
            Takes::Number(what, ..) | Takes::Text(what, _) => format!("{name}={what}"),
            Takes::Size(KB, ..) => format!("{name}=KB"),
            Takes::Size(MB, ..) => format!("{name}=MB"),
            Takes::Size(..) => format!("{name}=BYTES"),
            Takes::Fraction(..) => format!("{name}=F"),
            Takes::Choice(words, _) => format!("{name}={}", words.join("|")),
        }
    }

    /// What its value must be.
    fn limits(&self) -> String {
        match &self.takes {
            Takes::Switch(_) | Takes::Nothing(_) | Takes::Text(..) => String::new(),
            Takes::Number(_, limits, _) if *limits.end() == u32::MAX => {
                format!("must be a whole number, at least {}", limits.start())
            }
            Takes::Number(_, limits, _) => {
                format!("must be between {} and {}", limits.start(), limits.end())
            }
            Takes::Size(unit, limits, _) => format!(
                "must be a size between {} and {}, such as {}, which is {}, or 1m",
                shown_size(*limits.start()),
                shown_size(*limits.end()),
                64,
                shown_size(64 * unit),
            ),
            Takes::Fraction(_, good, _) => format!("must be {good}"),
            Takes::Choice(words, _) => format!("must be one of {}", words.join(", ")),
        }
    }

    /// The default as the help has it in brackets, if there is anything to say.
    pub(crate) fn default(&self) -> &'static str {
        match self.unset {
            Unset::Is(text) | Unset::Follows(text) => text,
        }
    }
}

/// A size in the largest unit that it is a whole number of.
fn shown_size(bytes: usize) -> String {
    let units = [(GB, "g"), (MB, "m"), (KB, "k")];
    let whole = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Takes one setting as typed.
///
/// # Errors
/// A name that there is not, and a value that can't be.
pub(super) fn take(option: &str, to: &mut Extended) -> Result<(), Refusal> {
    let (name, given) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    };
    for suboption in all() {
        if suboption.apply(name, given, to)? {
            if tls::TLS.iter().any(|of_tls| of_tls.name == suboption.name) {
                to.tls_given = Some(suboption.name);
            }
            return Ok(());
        }
    }
    Err(unknown(name))
}

fn unknown(name: &str) -> Refusal {
    let part = match name {
        n if n.starts_with("ext_") => "storage outside memory",
        n if n.starts_with("proxy_") => "the proxy",
        _ => return refusal(&format!("Illegal suboption \"{name}\"; --help lists what -o takes")),
    };
    let message = format!("-o {name}: {part} is not in this build. Remove it to start without.");
    Refusal::new(EXIT_USAGE, message)
}

pub(super) fn refusal(message: &str) -> Refusal {
    Refusal::new(EXIT_VALUE, message)
}

/// The end of `--help`.
///
/// memcached's test suite searches the help for the names of optional parts, so the settings of parts that this build
/// lacks stay out of it.
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
        "\nUnder the name \"memcached\", this program takes these flags without the word \"serve\".",
    );
    text
}

/// The settings as tables in Markdown: what they do, and why the inert ones do nothing.
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

/// `text` in lines of at most so many characters, broken between words.
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

/// Where the help of a setting begins, and how wide it is: 100 with the two spaces before a name.
const NAME_COLUMNS: usize = 27;
const HELP_COLUMNS: usize = 71;

/// A switch as `stats settings` shows it.
fn yes(is_on: bool) -> String {
    if is_on { "yes" } else { "no" }.to_owned()
}
