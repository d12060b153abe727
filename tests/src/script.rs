//! The tables of tests/tables: what is sent, what must come back.
//!
//! ```text
//! @ -I 2m                 flags of the server (before the first case: of all; in a case: of its own server)
//! # a set is read back    a case, on a connection of its own, after a flush_all
//! > set a 5 0 3           sent, with \r\n behind; a line that ends in a backslash goes without
//! > abc
//! < STORED                what must come back, with \r\n
//! ~ ERROR                 what memcached 1.6.18 says instead (`~` alone: nothing)
//! ! OK                    what Guira says instead, on purpose (docs/differences.md gives the reason)
//! !store OK               what `guira store` says instead of Guira's answer (`!store` alone: nothing)
//! !storeeof               `guira store` closes, instead
//! !store skip WHY         in a case: it isn't played to `guira store`
//!                         an empty line, or a `>` after a `<`, begins the next step
//! > quit
//! <eof                    the server closes
//! ```
//! In both directions `\n \r \t \0 \\ \$ \xNN` are escapes and `${x*250}` repeats. In an expectation `$name`
//! takes a number the first time and stands for it afterwards, in later sends too; `$*` takes any word.
//!
//! # Invariants
//! 1. A file that isn't in this form is a panic with the line's number, never a case less.

use crate::client::{Client, Reply};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Two tests of each of these tables, with the `play` of where it stands: requests come whole, and byte by byte.
#[macro_export]
macro_rules! play_tables {
    ($($name:ident),*) => {$(
        mod $name {
            use super::play;
            use $crate::script::Pace;

            #[test]
            fn answers_whole_requests() {
                play(concat!(stringify!($name), ".txt"), Pace::Whole);
            }

            #[test]
            fn answers_requests_cut_at_each_byte() {
                play(concat!(stringify!($name), ".txt"), Pace::Bytewise);
            }
        }
    )*};
}

/// A parsed table.
#[derive(Debug, Default)]
pub struct Script {
    /// Flags for the server of all cases that don't name their own.
    pub flags: Vec<String>,
    /// The cases, in the order of the file.
    pub cases: Vec<Case>,
}

/// Steps on one connection.
#[derive(Debug)]
pub struct Case {
    /// What it claims.
    pub name: String,
    /// Flags for a server of its own.
    pub flags: Option<Vec<String>>,
    /// Why it isn't played to `guira store`, if it isn't.
    pub not_for_store: Option<String>,
    /// What is sent and expected, in order.
    pub steps: Vec<Step>,
}

/// One exchange.
#[derive(Debug)]
pub struct Step {
    /// The line of the file where it begins.
    pub line: usize,
    /// What is sent.
    pub send: Vec<Piece>,
    /// What must come back.
    pub expect: Expect,
    /// What memcached 1.6.18 says, where that differs.
    pub older: Option<Expect>,
    /// What Guira says, where it differs on purpose.
    pub ours: Option<Expect>,
    /// What `guira store` says, where it differs from Guira.
    pub store: Option<Expect>,
}

/// A reply's pattern.
#[derive(Debug, Default, Clone)]
pub struct Expect {
    /// The bytes, with places for numbers.
    pub pieces: Vec<Piece>,
    /// Whether the server closes.
    pub closed: bool,
}

/// A part of what is sent or expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A number with a name.
    Number(String),
    /// Any word.
    Word,
}

/// Numbers that a connection's replies have named.
pub type Numbers = HashMap<String, String>;

/// How a step's bytes go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// In one piece.
    Whole,
    /// Byte by byte.
    Bytewise,
}

impl Script {
    /// Parses a table.
    ///
    /// # Panics
    /// On a line that isn't in the form of the module's head.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut script = Self::default();
        let mut fresh = true;
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let (mark, rest) = line.split_at(mark_bytes(line));
            let rest = rest.strip_prefix(' ').unwrap_or(rest);
            match mark {
                "" => fresh = true,
                "#" => {
                    script.cases.push(Case {
                        name: rest.into(),
                        flags: None,
                        not_for_store: None,
                        steps: Vec::new(),
                    });
                    fresh = true;
                }
                "@" => script.take_flags(rest),
                ">" | "<" | "~" | "!" | "!store" => {
                    let case = script.cases.last_mut();
                    let case = case.unwrap_or_else(|| panic!("line {number} is in no case"));
                    fresh = case.take(number, mark, rest, fresh);
                }
                _ => panic!("line {number} begins with none of # @ > < ~ !: {line:?}"),
            }
        }
        script
    }

    fn take_flags(&mut self, line: &str) {
        let flags = line.split_whitespace().map(str::to_owned);
        match self.cases.last_mut() {
            Some(case) => case.flags.get_or_insert_default().extend(flags),
            None => self.flags.extend(flags),
        }
    }
}

impl Case {
    /// Takes a line of a step; returns whether the next line begins another step.
    fn take(&mut self, line: usize, mark: &str, rest: &str, fresh: bool) -> bool {
        let answered =
            |s: &Step| s.older.is_some() || s.expect.closed || !s.expect.pieces.is_empty();
        if mark == ">" {
            if fresh || self.steps.last().is_none_or(answered) {
                let expect = Expect::default();
                let step =
                    Step { line, send: Vec::new(), expect, older: None, ours: None, store: None };
                self.steps.push(step);
            }
            let step = self.steps.last_mut().expect("just pushed");
            parse_line(rest, line, &mut step.send);
            return false;
        }
        if let ("!store", Some(why)) = (mark, rest.strip_prefix("skip ")) {
            self.not_for_store = Some(why.to_owned());
            return fresh;
        }
        let step = self.steps.last_mut();
        let step = step.unwrap_or_else(|| panic!("line {line} answers nothing"));
        let expect = match mark {
            "<" => &mut step.expect,
            "~" => step.older.get_or_insert_default(),
            "!store" => step.store.get_or_insert_default(),
            _ => step.ours.get_or_insert_default(),
        };
        match rest {
            "eof" => expect.closed = true,
            "" if mark != "<" => {}
            _ => parse_line(rest, line, &mut expect.pieces),
        }
        false
    }

    /// What `play` finds wrong. Where a reply tells how many seconds are left, one may end between two requests: such a case
    /// is played up to three times, and what is wrong each time is wrong.
    pub fn settled(&self, mut play: impl FnMut(&Case) -> Vec<String>) -> Vec<String> {
        let is_time = |word: &str| {
            let seconds = word.strip_prefix('t').unwrap_or_default();
            !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit())
        };
        let tells_time = |step: &Step| step.expect.text().split_whitespace().any(is_time);
        let rounds = if self.steps.iter().any(tells_time) { 3 } else { 1 };
        let mut wrong = play(self);
        for _ in 1..rounds {
            if wrong.is_empty() {
                break;
            }
            wrong = play(self);
        }
        wrong
    }

    /// Plays the case on a connection to Guira: a line for each step that answered something else.
    pub fn play(&self, client: &mut Client, pace: Pace) -> Vec<String> {
        self.play_for(client, pace, Step::wanted)
    }

    /// The same on a connection to a server that must answer what `wanted` says of each step.
    pub fn play_for(
        &self,
        client: &mut Client,
        pace: Pace,
        wanted: impl Fn(&Step) -> &Expect,
    ) -> Vec<String> {
        let mut numbers = Numbers::new();
        let mut wrong = Vec::new();
        for step in &self.steps {
            let reply = step.play(client, pace, &numbers);
            if let Err(want) = wanted(step).take(&reply, &mut numbers) {
                let line = step.line;
                wrong.push(format!("line {line}, {:?}: got {reply:?}, want {want}", self.name));
            }
            if reply.closed {
                break;
            }
        }
        wrong
    }
}

impl Step {
    /// What Guira must answer.
    #[must_use]
    pub fn wanted(&self) -> &Expect {
        self.ours.as_ref().unwrap_or(&self.expect)
    }

    /// What `guira store` must answer.
    #[must_use]
    pub fn wanted_of_store(&self) -> &Expect {
        self.store.as_ref().unwrap_or_else(|| self.wanted())
    }

    /// Sends the step's bytes and takes the reply.
    pub fn play(&self, client: &mut Client, pace: Pace, numbers: &Numbers) -> Reply {
        let mut bytes = Vec::new();
        for piece in &self.send {
            match piece {
                Piece::Bytes(plain) => bytes.extend_from_slice(plain),
                Piece::Number(name) => bytes.extend_from_slice(
                    numbers.get(name).map_or(b"0".as_slice(), |number| number.as_bytes()),
                ),
                Piece::Word => panic!("line {}: $* cannot be sent", self.line),
            }
        }
        if self.expect.closed {
            // No probe: its line end would complete a line that the server must refuse unfinished.
            client.send(&bytes);
            return Reply { bytes: client.read_to_end(), closed: true };
        }
        let no_ops = self.expect.text().matches("MN\r\n").count();
        match pace {
            Pace::Whole => client.exchange_past(&bytes, no_ops),
            Pace::Bytewise => client.exchange_bytewise(&bytes, no_ops),
        }
    }
}

impl Expect {
    /// Whether `reply` has this form, learning the numbers that it names.
    ///
    /// Returns the reply with each named number replaced by its name, so that two servers' replies can
    /// be compared byte for byte.
    ///
    /// # Errors
    /// The pattern as text.
    pub fn take(&self, reply: &Reply, numbers: &mut Numbers) -> Result<Vec<u8>, String> {
        let mut rest = reply.bytes.as_slice();
        let mut normal = Vec::new();
        let mut learnt = numbers.clone();
        for piece in &self.pieces {
            let (taken, shown) = match piece {
                Piece::Bytes(bytes) if rest.starts_with(bytes) => (bytes.len(), bytes.clone()),
                Piece::Number(name) => {
                    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
                    let digits = String::from_utf8_lossy(&rest[..digits]).into_owned();
                    let known = learnt.entry(name.clone()).or_insert_with(|| digits.clone());
                    if digits.is_empty() || *known != digits {
                        return Err(format!("{} with ${name} = {known}", self.text()));
                    }
                    (digits.len(), format!("${name}").into_bytes())
                }
                Piece::Word => {
                    let word = rest.iter().take_while(|b| **b > b' ').count();
                    (word, rest[..word].to_vec())
                }
                Piece::Bytes(_) => return Err(self.text()),
            };
            rest = &rest[taken..];
            normal.extend(shown);
        }
        if !rest.is_empty() || reply.closed != self.closed {
            return Err(self.text());
        }
        *numbers = learnt;
        Ok(normal)
    }

    /// The pattern as text, long ones cut.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => text.push_str(&String::from_utf8_lossy(bytes)),
                Piece::Number(name) => write!(text, "${name}").expect("a string takes all"),
                Piece::Word => text.push_str("$*"),
            }
        }
        if self.closed {
            text.push_str(" and a close");
        }
        text
    }
}

/// Bytes of the mark that a line begins with.
fn mark_bytes(line: &str) -> usize {
    match line.strip_prefix(STORE_MARK) {
        Some(rest) if rest.is_empty() || rest == "eof" || rest.starts_with(' ') => STORE_MARK.len(),
        _ => line.len().min(1),
    }
}

const STORE_MARK: &str = "!store";

/// Parses one line's text into pieces, with `\r\n` behind unless it ends in a backslash.
fn parse_line(text: &str, line: usize, into: &mut Vec<Piece>) {
    let (text, end) = match text.strip_suffix('\\') {
        Some(text) if !text.ends_with('\\') => (text, ""),
        _ => (text, "\r\n"),
    };
    let mut chars = text.chars().peekable();
    let mut bytes = Vec::new();
    while let Some(c) = chars.next() {
        match c {
            '\\' => bytes.extend(escape(&mut chars, line)),
            '$' => match dollar(&mut chars, line) {
                Piece::Bytes(repeated) => bytes.extend(repeated),
                piece => {
                    push_bytes(into, std::mem::take(&mut bytes));
                    into.push(piece);
                }
            },
            c => bytes.extend(c.to_string().into_bytes()),
        }
    }
    bytes.extend(end.bytes());
    push_bytes(into, bytes);
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// What follows a backslash.
fn escape(chars: &mut Chars<'_>, line: usize) -> Vec<u8> {
    match chars.next() {
        Some('n') => b"\n".to_vec(),
        Some('r') => b"\r".to_vec(),
        Some('t') => b"\t".to_vec(),
        Some('0') => b"\0".to_vec(),
        Some('x') => {
            let digits: String = chars.by_ref().take(2).collect();
            vec![
                u8::from_str_radix(&digits, 16)
                    .unwrap_or_else(|_| panic!("line {line}: \\x{digits}")),
            ]
        }
        Some(c @ ('\\' | '$')) => c.to_string().into_bytes(),
        other => panic!("line {line}: unknown escape {other:?}"),
    }
}

/// What follows a dollar: a repetition, a number's name, or `*`.
fn dollar(chars: &mut Chars<'_>, line: usize) -> Piece {
    match chars.peek() {
        Some('*') => {
            chars.next();
            Piece::Word
        }
        Some('{') => {
            let inside: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
            let parsed =
                inside.rsplit_once('*').and_then(|(what, n)| Some((what, n.parse().ok()?)));
            let (what, times) = parsed.unwrap_or_else(|| panic!("line {line}: ${{{inside}}}"));
            let mut unit = Vec::new();
            let mut what = what.chars().peekable();
            while let Some(c) = what.next() {
                match c {
                    '\\' => unit.extend(escape(&mut what, line)),
                    c => unit.extend(c.to_string().into_bytes()),
                }
            }
            Piece::Bytes(unit.repeat(times))
        }
        _ => {
            let mut name = String::new();
            while let Some(c) = chars.next_if(char::is_ascii_alphanumeric) {
                name.push(c);
            }
            assert!(!name.is_empty(), "line {line}: a dollar names nothing (write \\$ for itself)");
            Piece::Number(name)
        }
    }
}

fn push_bytes(into: &mut Vec<Piece>, bytes: Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match into.last_mut() {
        Some(Piece::Bytes(last)) => last.extend(bytes),
        _ => into.push(Piece::Bytes(bytes)),
    }
}

#[cfg(test)]
mod tests;
