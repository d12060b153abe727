//! Operations as requests, in the classic text and in meta commands, and what is told.

use std::io::{self, BufRead};

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Get,
    Set,
    Cas,
    Incr,
    Delete,
    Append,
}

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) op: Deed,
    pub(super) key: String,
    /// What is written, or added.
    pub(super) value: String,
    /// The unique that a cas names.
    pub(super) token: u64,
}

/// An answer that isn't an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) said: &'static str,
    /// The value of a hit, the number of an increment.
    pub(super) found: String,
    /// The item's unique; 0: it isn't told.
    pub(super) unique: u64,
}

impl Deed {
    /// As the checker calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Set => "set",
            Self::Cas => "cas",
            Self::Incr => "incr",
            Self::Delete => "delete",
            Self::Append => "append",
        }
    }
}

impl Act {
    pub(super) fn is_get(&self) -> bool {
        self.op == Deed::Get
    }

    /// The bytes to send. In meta commands the server is asked for the unique of what it writes.
    pub(super) fn request(&self, is_meta: bool) -> String {
        let Self { op, key, value, token } = self;
        let bytes = value.len();
        match (op, is_meta) {
            (Deed::Get, false) => format!("gets {key}\r\n"),
            (Deed::Set, false) => format!("set {key} 0 0 {bytes}\r\n{value}\r\n"),
            (Deed::Cas, false) => format!("cas {key} 0 0 {bytes} {token}\r\n{value}\r\n"),
            (Deed::Incr, false) => format!("incr {key} {value}\r\n"),
            (Deed::Delete, false) => format!("delete {key}\r\n"),
            (Deed::Append, false) => format!("append {key} 0 0 {bytes}\r\n{value}\r\n"),
            (Deed::Get, true) => format!("mg {key} v c\r\n"),
            (Deed::Set, true) => format!("ms {key} {bytes} c\r\n{value}\r\n"),
            (Deed::Cas, true) => format!("ms {key} {bytes} c C{token}\r\n{value}\r\n"),
            (Deed::Incr, true) => format!("ma {key} v c D{value}\r\n"),
            (Deed::Delete, true) => format!("md {key}\r\n"),
            (Deed::Append, true) => format!("ms {key} {bytes} c MA\r\n{value}\r\n"),
        }
    }
}

/// Reads what an operation is told; within, the words of an error.
pub(super) fn answer(op: Deed, from: &mut impl BufRead) -> io::Result<Result<Answer, String>> {
    let line = read_line(from)?;
    let mut words = line.split(' ');
    let first = words.next().unwrap_or_default();
    let plain = |said| Ok(Ok(Answer { said, ..Answer::default() }));
    let has_number = !first.is_empty() && first.bytes().all(|it| it.is_ascii_digit());
    match (op, first) {
        (Deed::Get, "END" | "EN") => plain("miss"),
        (Deed::Get, "VALUE") => {
            let [bytes, unique] = [words.nth(2), words.next()].map(number);
            let found = read_value(from, bytes)?;
            let end = read_line(from)?;
            match end.as_str() {
                "END" => Ok(Ok(Answer { said: "hit", found, unique })),
                _ => Ok(Err(format!("{line} … {end}"))),
            }
        }
        (Deed::Get | Deed::Incr, "VA") => {
            let bytes = number(words.next());
            let found = read_value(from, bytes)?;
            let said = if op == Deed::Get { "hit" } else { "number" };
            Ok(Ok(Answer { said, found, unique: unique(words) }))
        }
        (Deed::Incr, number) if has_number => {
            Ok(Ok(Answer { said: "number", found: number.to_owned(), unique: 0 }))
        }
        (Deed::Incr, "CLIENT_ERROR") if line.ends_with("non-numeric value") => plain("no number"),
        (Deed::Set | Deed::Cas | Deed::Append, "STORED") => plain("stored"),
        (Deed::Set | Deed::Cas | Deed::Append, "HD") => {
            Ok(Ok(Answer { said: "stored", unique: unique(words), ..Answer::default() }))
        }
        (Deed::Append, "NOT_STORED" | "NS") => plain("not stored"),
        (Deed::Cas, "EXISTS" | "EX") => plain("exists"),
        (Deed::Delete, "DELETED" | "HD") => plain("deleted"),
        (Deed::Cas | Deed::Incr | Deed::Delete, "NOT_FOUND" | "NF") => plain("not found"),
        _ => Ok(Err(line)),
    }
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn read_value(from: &mut impl BufRead, bytes: u64) -> io::Result<String> {
    let mut value = vec![0; usize::try_from(bytes).unwrap_or_default() + 2];
    from.read_exact(&mut value)?;
    value.truncate(value.len() - 2);
    Ok(String::from_utf8_lossy(&value).into_owned())
}

/// A number that the server writes. What isn't one becomes a value that no history explains.
fn number(word: Option<&str>) -> u64 {
    word.and_then(|it| it.parse().ok()).unwrap_or_default()
}

fn unique<'a>(flags: impl Iterator<Item = &'a str>) -> u64 {
    number(flags.filter_map(|it| it.strip_prefix('c')).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_both_dialects_are_read() {
        for (op, text, said, found, unique) in [
            (Deed::Get, "VALUE k 0 2 7\r\nab\r\nEND\r\n", "hit", "ab", 7),
            (Deed::Get, "VA 2 c7\r\nab\r\n", "hit", "ab", 7),
            (Deed::Get, "END\r\n", "miss", "", 0),
            (Deed::Get, "EN\r\n", "miss", "", 0),
            (Deed::Set, "STORED\r\n", "stored", "", 0),
            (Deed::Set, "HD c9\r\n", "stored", "", 9),
            (Deed::Cas, "EXISTS\r\n", "exists", "", 0),
            (Deed::Cas, "NF\r\n", "not found", "", 0),
            (Deed::Incr, "17\r\n", "number", "17", 0),
            (Deed::Incr, "VA 2 c8\r\n17\r\n", "number", "17", 8),
            (Deed::Delete, "HD\r\n", "deleted", "", 0),
            (Deed::Append, "NS\r\n", "not stored", "", 0),
        ] {
            let read = answer(op, &mut text.as_bytes()).expect("it is whole");
            assert_eq!(read, Ok(Answer { said, found: found.to_owned(), unique }), "{text}");
        }
        let error = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
        let read = answer(Deed::Incr, &mut error.as_bytes()).expect("it is whole");
        assert_eq!(read.map(|it| it.said), Ok("no number"));
        for (op, text) in [
            (Deed::Get, "SERVER_ERROR slot 3: no reader\r\n"),
            (Deed::Set, "EXISTS\r\n"),
            (Deed::Incr, "DELETED\r\n"),
        ] {
            assert!(answer(op, &mut text.as_bytes()).expect("it is whole").is_err(), "{text}");
        }
        for text in ["", "END", "VALUE k 0 2 7\r\na"] {
            assert!(answer(Deed::Get, &mut text.as_bytes()).is_err(), "{text}");
        }
    }
}
