//! `guira invalidate explain`: what a change or a statement would delete, and why.

use std::fmt::Write as _;

use guira_client::marker_key;
use guira_config::{Json, Value, parse};

use crate::config::InvalidateConfig;
use crate::mark::Unmark;
use crate::rule::{Delete, TableName, TextRow, Verb, Yield};
use crate::template::{Change, Image};
use crate::text::keys_in;

/// Returns the keys of a changed row.
///
/// # Errors
/// A sentence that says which argument can't be used.
pub(crate) fn row(
    config: &InvalidateConfig,
    table: &str,
    old: Option<&str>,
    new: Option<&str>,
) -> Result<String, String> {
    let table = TableName::parse(table)
        .ok_or_else(|| format!("--table {table}: write a schema and a table, as in shop.users"))?;
    let old = old.map(|text| image("--old", text)).transpose()?;
    let new = new.map(|text| image("--new", text)).transpose()?;
    let verb = match (&old, &new) {
        (None, None) => return Err("--old, --new or both are needed".to_owned()),
        (None, Some(_)) => Verb::Insert,
        (Some(_), None) => Verb::Delete,
        (Some(_), Some(_)) => Verb::Update,
    };
    let change = Change {
        old: old.as_ref().map(|row| row as &dyn Image),
        new: new.as_ref().map(|row| row as &dyn Image),
    };
    let mut text = String::new();
    for (index, rule) in config.rules.iter().enumerate().filter(|(_, rule)| rule.table == table) {
        let mut made = Yield::default();
        rule.apply(verb, change, &mut made);
        let why = format!("rule {}", index + 1);
        tell(&mut text, config, &made.deletes, &why);
        for refusal in made.refused {
            let _ = writeln!(text, "no key, because {refusal} ({why})");
        }
        if let Some(column) = made.lacking {
            let _ = writeln!(text, "unknown: the row lacks the column '{column}' ({why})");
        }
    }
    if text.is_empty() {
        text = format!("nothing: no rule makes a key of this change of {table}\n");
    }
    Ok(text)
}

/// Returns the keys that a statement's comments name, at each source.
pub(crate) fn statement(config: &InvalidateConfig, statement: &str) -> String {
    let mut text = String::new();
    for source in &config.sources {
        let named = keys_in(statement.as_bytes(), &source.comments);
        let why = format!("a comment, at source {}", source.name);
        let delete = |key| Delete { key, how: None, to: None };
        let deletes: Vec<Delete> = named.keys.into_iter().map(delete).collect();
        tell(&mut text, config, &deletes, &why);
        tell_unmarks(&mut text, config, &named.unmarks, &why);
        for refusal in named.refused {
            let _ = writeln!(text, "no key, because {refusal} ({why})");
        }
        if source.comments.prefixes.is_empty() {
            let _ = writeln!(text, "source {} takes no comments: it has no prefixes", source.name);
        }
    }
    if text.is_empty() {
        text = "nothing: neither the first nor the last comment begins with mcinv:\n".to_owned();
    }
    text
}

/// Writes one line per key: at which destinations, how, and why. Writing to a string can't fail.
fn tell(text: &mut String, config: &InvalidateConfig, deletes: &[Delete], why: &str) {
    for Delete { key, how, to } in deletes {
        let is_meant = |name: &String| to.as_ref().is_none_or(|to| to.contains(name));
        let places: Vec<String> = config
            .destinations
            .iter()
            .filter(|destination| !destination.has_markers && is_meant(&destination.name))
            .map(|destination| format!("{} {}", destination.name, how.unwrap_or(destination.how)))
            .collect();
        let _ = writeln!(text, "{key}: {} ({why})", places.join(", "));
    }
}

/// Writes one line per marker that loses a token.
fn tell_unmarks(text: &mut String, config: &InvalidateConfig, unmarks: &[Unmark], why: &str) {
    let names = config.destinations.iter().filter(|it| it.has_markers).map(|it| &*it.name);
    let names: Vec<&str> = names.collect();
    for Unmark { key, token } in unmarks {
        let places = match &names[..] {
            [] => "no destination has markers".to_owned(),
            names => format!("{} loses the mark {token}", names.join(", ")),
        };
        let marker = marker_key(key.bytes());
        let _ = writeln!(text, "{}: {places} ({why})", marker.escape_ascii());
    }
}

fn image(flag: &str, text: &str) -> Result<TextRow, String> {
    let json = parse(text).map_err(|error| format!("{flag}: {error}"))?;
    let object =
        json.as_object().ok_or_else(|| format!("{flag}: write an object, as in {{\"id\": 1}}"))?;
    let cell = |(name, value): (&str, &Json)| {
        let text = match &value.value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            Value::Bool(truth) => Some(u8::from(*truth).to_string()),
            _ => Some(value.to_string()),
        };
        (name.to_owned(), text.map(String::into_bytes))
    };
    Ok(TextRow(object.iter().map(cell).collect()))
}
