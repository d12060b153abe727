//! Parses the rules of a configuration.

use std::sync::Arc;

use guira_config::{ConfigError, Json, Result, perhaps};

use super::fields::Fields;
use super::sources::{how, table};
use crate::key::Key;
use crate::rule::{OnTruncate, Rule, Verb};
use crate::template::Template;

/// Parses one of `rules`. `destinations` are the names that `to` may list.
pub(super) fn rule(number: usize, json: &Json, destinations: &[&str]) -> Result<Rule> {
    let fields = Fields::new(format!("rule {number}"), json, RULE, RULE_LATER)?;
    let table = table(&fields, "table", fields.needed_text("table")?)?;
    fields.needed("keys")?;
    let texts = fields.texts("keys")?.unwrap_or_default();
    if texts.is_empty() {
        return Err(fields.error("keys", "is empty"));
    }
    let read = |text: &str| Template::parse(text).map_err(|words| fields.error("keys", words));
    let keys = texts.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    let to = fields.texts("to")?.map(|names| to(&fields, names, destinations)).transpose()?;
    let changed = fields.texts("changed")?.unwrap_or_default();
    Ok(Rule {
        table,
        on: on(&fields)?,
        changed: changed.into_iter().map(str::to_owned).collect(),
        keys,
        how: how(&fields)?,
        to,
        on_truncate: on_truncate(&fields)?,
    })
}

fn on(fields: &Fields<'_>) -> Result<Vec<Verb>> {
    let Some(words) = fields.texts("on")? else { return Ok(VERBS.map(|(_, verb)| verb).to_vec()) };
    let verb = |word: &str| {
        let found = VERBS.iter().find(|(name, _)| *name == word);
        found.map(|(_, verb)| *verb).ok_or_else(|| {
            let perhaps = perhaps(word, &VERBS.map(|(name, _)| name));
            fields.error("on", format!("lists insert, update, delete: '{word}' is none{perhaps}"))
        })
    };
    if words.is_empty() {
        return Err(fields.error("on", "is empty: the rule would do nothing"));
    }
    words.into_iter().map(verb).collect()
}

fn to(fields: &Fields<'_>, names: Vec<&str>, known: &[&str]) -> Result<Arc<[String]>> {
    if names.is_empty() {
        return Err(fields.error("to", "is empty: the rule would do nothing"));
    }
    if names.len() > TO_MAX {
        return Err(fields.error("to", format!("lists more than {TO_MAX}")));
    }
    match names.iter().find(|name| !known.contains(name)) {
        None => Ok(names.into_iter().map(str::to_owned).collect()),
        Some(name) => {
            let perhaps = perhaps(name, known);
            Err(fields.error("to", format!("names '{name}', which is no destination{perhaps}")))
        }
    }
}

fn on_truncate(fields: &Fields<'_>) -> Result<OnTruncate> {
    let Some(json) = fields.get("on_truncate") else { return Ok(OnTruncate::default()) };
    match json.as_str() {
        Some("count") => return Ok(OnTruncate::Count),
        Some("ignore") => return Ok(OnTruncate::Ignore),
        Some("flush") => return Ok(OnTruncate::Flush),
        _ => {}
    }
    let words = "is count, ignore, flush, or a list of keys without columns";
    let texts: Option<Vec<&str>> =
        json.as_array().and_then(|array| array.iter().map(Json::as_str).collect());
    let texts = texts.ok_or_else(|| fields.error("on_truncate", words))?;
    let key = |text: &str| -> Result<Key> {
        Key::new(text.as_bytes())
            .map_err(|why| fields.error("on_truncate", format!(": '{text}' is no key: {why}")))
    };
    Ok(OnTruncate::Keys(
        texts.into_iter().map(key).collect::<std::result::Result<_, ConfigError>>()?,
    ))
}

const RULE: &[&str] = &["table", "on", "changed", "keys", "how", "to", "on_truncate"];
const RULE_LATER: &[&str] = &["version", "on_schema"];
const VERBS: [(&str, Verb); 3] =
    [("insert", Verb::Insert), ("update", Verb::Update), ("delete", Verb::Delete)];
/// The most destinations of a rule. The journal has room for this many with each key.
const TO_MAX: usize = 64;
