//! What a line looks like.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// How an event is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `2026-01-02T03:04:05.678901Z WARN what happened`
    #[default]
    Text,
    /// `{"time":"2026-01-02T03:04:05.678901Z","level":"warn","message":"what happened"}`
    Json,
    /// `<4>what happened`: syslog's priority, as journald reads it from a service's standard error; it has the time.
    Journald,
}

// Written out, since derived values would show the lines above in the help of --log-format.
impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        &[Format::Text, Format::Json, Format::Journald]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Format::Text => "text",
            Format::Json => "json",
            Format::Journald => "journald",
        }))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

impl Format {
    /// The line of an event, its end included. `more` like it were not written in the second before.
    pub(crate) fn line(self, event: &Event<'_>, more: u64) -> String {
        let mut message = Message::default();
        event.record(&mut message);
        let Message(mut message) = message;
        if more > 0 {
            // Writing to a string doesn't fail.
            let _ = write!(message, " (and {more} more like it)");
        }
        self.line_of(*event.metadata().level(), &message)
    }

    /// The line of a program that gives up; at a terminal neither time nor level is of use.
    pub(crate) fn refusal(self, words: &str) -> String {
        match self {
            Format::Text => format!("{words}\n"),
            Format::Json | Format::Journald => self.line_of(Level::ERROR, words),
        }
    }

    fn line_of(self, level: Level, message: &str) -> String {
        match self {
            Format::Text => format!("{} {level} {}\n", now(), in_one_line(message)),
            Format::Json => {
                let level = level.as_str().to_ascii_lowercase();
                let (time, message) = (now(), serde_json::Value::from(message));
                format!("{{\"time\":\"{time}\",\"level\":\"{level}\",\"message\":{message}}}\n")
            }
            Format::Journald => format!("<{}>{}\n", priority(level), in_one_line(message)),
        }
    }
}

/// The text of an event, and other fields behind it.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

/// A line is one line, whatever a client's bytes or a panic's message have in them.
fn in_one_line(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn now() -> String {
    let mut text = String::new();
    // A clock before 1970 is the one that can't be written.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// syslog's priorities.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_one_line_that_its_readers_can_read() {
        let said = "a \"quoted\"\nline\u{1}";
        let text = Format::Text.line_of(Level::WARN, said);
        assert!(text.ends_with(" WARN a \"quoted\" line \n"), "{text}");
        assert_eq!((text.lines().count(), &text[4..5]), (1, "-"));
        let json = Format::Json.line_of(Level::INFO, said);
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&read["level"], &read["message"]), (&"info".into(), &said.into()));
        assert_eq!(json.lines().count(), 1);
        assert_eq!(Format::Journald.line_of(Level::ERROR, said), "<3>a \"quoted\" line \n");
        assert_eq!(Format::Journald.line_of(Level::TRACE, "x"), "<7>x\n");
    }

    #[test]
    fn formats_are_named() {
        for format in Format::value_variants() {
            assert_eq!(Format::from_str(&format.to_string(), false), Ok(*format));
        }
        assert!(Format::from_str("xml", false).is_err());
    }
}
