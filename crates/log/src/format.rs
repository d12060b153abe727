//! The formats of a line.

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

// Implemented by hand, since derived values would show the lines above in the help of --log-format.
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
    /// Formats the line of an event, its end included. `more` is the number of similar events that were
    /// suppressed before it.
    pub(crate) fn line(self, event: &Event<'_>, more: u64) -> String {
        let mut message = Message::default();
        event.record(&mut message);
        let Message(mut message) = message;
        if more > 0 {
            // Writing to a string can't fail.
            let _ = write!(message, " (and {more} more like it)");
        }
        self.line_of(*event.metadata().level(), &message)
    }

    /// Formats the line of a program that gives up; as text it has neither time nor level, which a terminal doesn't need.
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

/// The text of an event, followed by its other fields.
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

/// Replaces control characters, so that an event stays on one line, whatever bytes a client or a panic put in it.
fn in_one_line(message: &str) -> String {
    message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn now() -> String {
    let mut text = String::new();
    // Only a time before 1970 can't be formatted.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// The priorities of syslog.
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
