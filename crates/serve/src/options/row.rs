//! The declaration of one setting of `-o`: its name, the values it takes, its default, and where it is shown.
//!
//! The parser of `-o`, `--help`, the man page, docs/reference/options.md and the lines of
//! `stats settings` follow from it.

use super::extended::Extended;
use super::refusal::Refusal;
use super::size::{self, GB, KB, MB};
use std::ops::RangeInclusive;

/// The declaration of a setting.
pub(crate) struct Suboption {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) unset: Unset,
    /// What the setting does. If it has no effect, the reason why.
    pub(crate) help: &'static str,
    pub(crate) shown: Shown,
}

/// The values that may follow the name, and the function that stores them.
pub(crate) enum Takes {
    /// No value; `no_NAME` switches it off.
    Switch(fn(&mut Extended, bool)),
    /// No value.
    Nothing(fn(&mut Extended)),
    /// A whole number: its name in the help, and its limits.
    Number(&'static str, RangeInclusive<u32>, fn(&mut Extended, u32)),
    /// A size: the unit of a number without a suffix, and the limits in bytes.
    Size(usize, RangeInclusive<usize>, fn(&mut Extended, usize)),
    /// A number with a fraction: which numbers are valid, and those in words.
    Fraction(fn(f64) -> bool, &'static str, fn(&mut Extended, f64)),
    /// One of these words.
    Choice(&'static [&'static str], fn(&mut Extended, &'static str)),
    /// Another value: its name in the help, and the function that checks it.
    Text(&'static str, fn(&mut Extended, Option<&str>) -> Result<(), Refusal>),
}

/// The default of a setting.
pub(crate) enum Unset {
    /// The default as it would be typed; for a switch, `on` or `off`.
    Is(&'static str),
    /// No fixed default; the text describes it, or is empty.
    Follows(&'static str),
}

/// The setting's line in `stats settings`.
pub(crate) enum Shown {
    No,
    /// The line's name, and its value as of the start of the server.
    As(&'static str, fn(&Extended) -> String),
    /// Commands can change the setting, so it has a row in `stats/settings.rs`, whose meaning begins with `-o NAME`.
    Live,
}

impl Suboption {
    /// Applies `NAME` or `NAME=given`, if `name` is this setting's. Returns whether it is.
    ///
    /// # Errors
    /// The value is invalid; the refusal has memcached's exit code for it.
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
        let value = || given.ok_or_else(|| Refusal::missing(name));
        let wrong = || Refusal::value(format!("-o {}: {}", self.typed(), self.limits()));
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

    /// The setting as the help shows it: `(no_)NAME`, `NAME=WHAT`.
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

    /// A description of the valid values.
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

    /// The default as the help shows it in brackets; may be empty.
    pub(crate) fn default(&self) -> &'static str {
        match self.unset {
            Unset::Is(text) | Unset::Follows(text) => text,
        }
    }
}

/// Formats a size in the largest unit of which it is a whole multiple.
pub(crate) fn shown_size(bytes: usize) -> String {
    let units = [(GB, "g"), (MB, "m"), (KB, "k")];
    let whole = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Formats a switch as `stats settings` shows it.
pub(crate) fn yes(is_on: bool) -> String {
    if is_on { "yes" } else { "no" }.to_owned()
}
