//! Templates: `mail:{email|lower|md5}` makes a key from the columns of a row.
//!
//! A column without `old.` or `new.` is taken from each image that the change has. An insert has a new image, a delete
//! an old one, an update both. So a template with such columns makes up to two keys, or one if they are equal.
//!
//! # Invariants
//! 1. NULL makes no key, and neither does an image that the change doesn't have.
//! 2. A column that the image lacks makes no key either, but the change is reported as unknown: a cached value may be
//!    stale.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guira_config::perhaps;
use md5::Digest as _;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell<'r> {
    Null,
    Text(Cow<'r, [u8]>),
    /// A value without a text that a key could contain.
    Opaque,
}

/// One image of a row: its columns by name.
pub(crate) trait Image {
    /// Returns the value of a column; `None` if the image doesn't have the column.
    fn cell(&self, column: &str) -> Option<Cell<'_>>;
}

/// The images of a changed row: before the change, after it, or both.
#[derive(Clone, Copy)]
pub(crate) struct Change<'r> {
    pub(crate) old: Option<&'r dyn Image>,
    pub(crate) new: Option<&'r dyn Image>,
}

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    /// The text that was parsed.
    pub(crate) text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Column { from: From, name: String, filters: Vec<Filter> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Each,
    Old,
    New,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Lower,
    Upper,
    Md5,
    Sha1,
    Sha256,
    Hex,
    Base64Url,
    Percent,
    First(usize),
}

/// What a template makes from one image.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// The bytes of a key, not yet checked.
    Key(Vec<u8>),
    Nothing,
    /// The image lacks this column.
    Lacks(String),
    /// The value of this column has no text.
    Opaque(String),
}

impl Template {
    /// Parses `text{column|filter}text`. A doubled brace stands for the brace itself.
    ///
    /// # Errors
    /// A sentence that says what can't be read.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            rest = after;
            if let Some(after) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(format!(
                    "'{text}': a '}}' without its '{{'; the brace itself is '}}}}'"
                ));
            }
            let end = rest.find('}').ok_or_else(|| format!("'{text}': a '{{' without its '}}'"))?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(column(&rest[..end]).map_err(|words| format!("'{text}': {words}"))?);
            rest = &rest[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        if parts.is_empty() {
            return Err("a key has at least one byte".to_owned());
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// Returns the names of the columns that the template needs.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Column { name, .. } => Some(&**name),
            Part::Literal(_) => None,
        })
    }

    /// Whether the template needs the value that a column had before a change.
    pub(crate) fn wants_old(&self, column: &str) -> bool {
        let wants = |part: &Part| matches!(part, Part::Column { from, name, .. } if *from != From::New && name == column);
        self.parts.iter().any(wants)
    }

    /// Passes what the template makes from a change to `take`, once or twice.
    pub(crate) fn make(&self, change: Change<'_>, mut take: impl FnMut(Made)) {
        let is_each =
            self.parts.iter().any(|part| matches!(part, Part::Column { from: From::Each, .. }));
        if !is_each {
            take(self.make_one(change, None));
            return;
        }
        let old = change.old.map(|image| self.make_one(change, Some(image)));
        let new = change.new.map(|image| self.make_one(change, Some(image)));
        let is_same = old == new;
        old.into_iter().for_each(&mut take);
        new.filter(|_| !is_same).into_iter().for_each(take);
    }

    fn make_one(&self, change: Change<'_>, each: Option<&dyn Image>) -> Made {
        let mut made = Vec::new();
        for part in &self.parts {
            let (from, name, filters) = match part {
                Part::Literal(text) => {
                    made.extend_from_slice(text.as_bytes());
                    continue;
                }
                Part::Column { from, name, filters } => (from, name, filters),
            };
            let image = match from {
                From::Each => each,
                From::Old => change.old,
                From::New => change.new,
            };
            let Some(image) = image else { return Made::Nothing };
            match image.cell(name) {
                None => return Made::Lacks(name.clone()),
                Some(Cell::Null) => return Made::Nothing,
                Some(Cell::Opaque) => return Made::Opaque(name.clone()),
                Some(Cell::Text(text)) => {
                    let text = filters.iter().fold(text, |text, filter| filter.apply(&text).into());
                    made.extend_from_slice(&text);
                }
            }
        }
        Made::Key(made)
    }
}

/// Parses the text between two braces.
fn column(text: &str) -> Result<Part, String> {
    let mut words = text.split('|').map(str::trim);
    let name = words.next().unwrap_or_default();
    let (from, name) = match name.split_once('.') {
        Some(("old", name)) => (From::Old, name),
        Some(("new", name)) => (From::New, name),
        Some((image, _)) => {
            return Err(format!("'{image}.' is no image of a row: write old. or new."));
        }
        None => (From::Each, name),
    };
    if name.is_empty() {
        return Err("a column has a name".to_owned());
    }
    let filters = words.map(filter).collect::<Result<_, _>>()?;
    Ok(Part::Column { from, name: name.to_owned(), filters })
}

fn filter(word: &str) -> Result<Filter, String> {
    let argument = |name: &str| {
        word.strip_prefix(name).and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'))
    };
    if let Some(argument) = argument("first") {
        let count = argument.trim().parse().ok().filter(|count| *count > 0);
        return count.map(Filter::First).ok_or_else(|| {
            format!("first({argument}): write how many bytes are kept, as in first(8)")
        });
    }
    if argument("date").is_some() || word == "date" {
        return Err("the filter 'date' isn't there yet".to_owned());
    }
    let found = NAMES.iter().find(|(name, _)| *name == word);
    found.map(|(_, filter)| *filter).ok_or_else(|| {
        let mut known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        known.push("first");
        let perhaps = perhaps(word, &known);
        format!("unknown filter '{word}'{perhaps}; there are {}", known.join(", "))
    })
}

impl Filter {
    fn apply(self, text: &[u8]) -> Vec<u8> {
        let in_case = |change: fn(&str) -> String, ascii: fn(&[u8]) -> Vec<u8>| {
            std::str::from_utf8(text).map_or_else(|_| ascii(text), |text| change(text).into_bytes())
        };
        match self {
            Self::Lower => in_case(str::to_lowercase, <[u8]>::to_ascii_lowercase),
            Self::Upper => in_case(str::to_uppercase, <[u8]>::to_ascii_uppercase),
            Self::Md5 => hex(&md5::Md5::digest(text)),
            Self::Sha1 => hex(&sha1::Sha1::digest(text)),
            Self::Sha256 => hex(&sha2::Sha256::digest(text)),
            Self::Hex => hex(text),
            Self::Base64Url => URL_SAFE_NO_PAD.encode(text).into_bytes(),
            Self::Percent => percent_encode(text, NON_ALPHANUMERIC).to_string().into_bytes(),
            Self::First(count) => text[..text.len().min(count)].to_vec(),
        }
    }
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.into_bytes()
}

const NAMES: [(&str, Filter); 8] = [
    ("lower", Filter::Lower),
    ("upper", Filter::Upper),
    ("md5", Filter::Md5),
    ("sha1", Filter::Sha1),
    ("sha256", Filter::Sha256),
    ("hex", Filter::Hex),
    ("base64url", Filter::Base64Url),
    ("percent", Filter::Percent),
];

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(&'static [(&'static str, Option<&'static str>)]);

    impl Image for Row {
        fn cell(&self, column: &str) -> Option<Cell<'_>> {
            let (_, value) = self.0.iter().find(|(name, _)| *name == column)?;
            Some(value.map_or(Cell::Null, |text| Cell::Text(text.as_bytes().into())))
        }
    }

    const OLD: Row = Row(&[("id", Some("7")), ("mail", Some("Ann@X.org")), ("g", Some("1"))]);
    const NEW: Row = Row(&[("id", Some("7")), ("mail", Some("Bob@X.org")), ("g", None)]);

    fn made(template: &str, old: Option<&Row>, new: Option<&Row>) -> String {
        let template = Template::parse(template).unwrap();
        let change =
            Change { old: old.map(|row| row as &dyn Image), new: new.map(|row| row as &dyn Image) };
        let mut said = Vec::new();
        template.make(change, |made| {
            said.push(match made {
                Made::Key(key) => String::from_utf8(key).unwrap(),
                other => format!("{other:?}"),
            });
        });
        said.join(" ")
    }

    #[test]
    fn a_template_is_made_of_each_image_once_if_they_are_equal() {
        let (old, new) = (Some(&OLD), Some(&NEW));
        for (template, old, new, expected) in [
            ("user:{id}", old, new, "user:7"),
            ("user:{id}", None, new, "user:7"),
            ("user:{id}", old, None, "user:7"),
            ("mail:{mail|lower}", old, new, "mail:ann@x.org mail:bob@x.org"),
            ("m:{mail|first(3)|upper}", old, new, "m:ANN m:BOB"),
            ("{old.mail}", old, new, "Ann@X.org"),
            ("{old.mail}", None, new, "Nothing"),
            ("{new.mail}>{old.mail}", old, new, "Bob@X.org>Ann@X.org"),
            ("{id}:{old.g}", old, new, "7:1"),
            ("g:{g}", old, new, "g:1 Nothing"),
            ("g:{nowhere}", old, new, "Lacks(\"nowhere\")"),
            ("all", old, new, "all"),
            ("{{{id}}}", old, None, "{7}"),
            ("{id|md5}", old, None, "8f14e45fceea167a5a36dedd4bea2543"),
            ("{id|sha1|first(8)}", old, None, "902ba3cd"),
            ("{id|sha256|first(8)}", old, None, "7902699b"),
            ("{mail|hex|first(6)}", old, None, "416e6e"),
            ("{mail|base64url}", old, None, "QW5uQFgub3Jn"),
            ("{mail|percent}", old, None, "Ann%40X%2Eorg"),
        ] {
            assert_eq!(made(template, old, new), expected, "{template}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for (template, words) in [
            ("", "a key has at least one byte"),
            ("a{id", "a '{' without its '}'"),
            ("a}b", "a '}' without its '{'"),
            ("{}", "a column has a name"),
            ("{before.id}", "'before.' is no image of a row"),
            ("{id|lowr}", "unknown filter 'lowr', did you mean 'lower'?"),
            ("{id|first(0)}", "write how many bytes are kept"),
            ("{id|date(%Y)}", "the filter 'date' isn't there yet"),
        ] {
            let refused = Template::parse(template).unwrap_err();
            assert!(refused.contains(words), "{template}: {refused}");
        }
    }
}
