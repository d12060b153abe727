//! Rules: the keys that become stale when a row of a table changes.
//!
//! # Invariants
//! 1. A rule that can't make its keys from a change, because the log lacks a column, reports it: the change is counted
//!    as unknown.
//! 2. A rule with `changed` ignores updates that change none of those columns. Inserts and deletes always count.

use std::fmt;
use std::sync::Arc;

use crate::key::{Key, Refusal};
use crate::template::{Cell, Change, Image, Made, Template};

/// What is done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    /// `delete`: removes the item, and a lease on it.
    Delete,
    /// `stale:N`: keeps the item for N seconds. One client refills it; others see the old value meanwhile.
    Stale(u32),
    /// `hold_off:N`: removes the item, and refuses `add` for N seconds.
    HoldOff(u32),
}

/// A key to delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Delete {
    pub(crate) key: Key,
    /// `None`: as the destination is configured.
    pub(crate) how: Option<How>,
    /// The destinations that get the delete; `None`: all.
    pub(crate) to: Option<Arc<[String]>>,
}

/// The name of a table: `schema.table`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableName {
    pub(crate) schema: String,
    pub(crate) table: String,
}

/// The kind of a change to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Insert,
    Update,
    Delete,
}

/// The answer to a TRUNCATE or DROP of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnTruncate {
    /// The keys are unknown: the change is counted and logged.
    #[default]
    Count,
    Ignore,
    Keys(Vec<Key>),
    /// Flush everything that the rule's destinations cache.
    Flush,
}

/// A rule of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) table: TableName,
    pub(crate) on: Vec<Verb>,
    /// An update counts only if one of these columns changed. Empty: every update counts.
    pub(crate) changed: Vec<String>,
    pub(crate) keys: Vec<Template>,
    pub(crate) how: Option<How>,
    pub(crate) to: Option<Arc<[String]>>,
    pub(crate) on_truncate: OnTruncate,
}

/// What rules make from a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Yield {
    pub(crate) deletes: Vec<Delete>,
    pub(crate) refused: Vec<Refusal>,
    /// A column that the rule needs and the log lacks.
    pub(crate) lacking: Option<String>,
}

impl Rule {
    /// Adds what the rule makes from a change to `made`.
    pub(crate) fn apply(&self, verb: Verb, change: Change<'_>, made: &mut Yield) {
        if !self.on.contains(&verb) || (verb == Verb::Update && !self.is_touched(change, made)) {
            return;
        }
        for template in &self.keys {
            template.make(change, |key| match key {
                Made::Key(bytes) => match Key::new(&bytes) {
                    Ok(key) => made.deletes.push(self.delete(key)),
                    Err(why) => made.refused.push(why),
                },
                Made::Nothing => {}
                Made::Lacks(column) => made.lacking = Some(column),
                Made::Opaque(_) => made.refused.push(Refusal::Value),
            });
        }
    }

    /// Creates a delete with this rule's settings.
    pub(crate) fn delete(&self, key: Key) -> Delete {
        Delete { key, how: self.how, to: self.to.clone() }
    }

    /// Whether an update changed one of the columns in `changed`.
    fn is_touched(&self, change: Change<'_>, made: &mut Yield) -> bool {
        let (Some(old), Some(new)) = (change.old, change.new) else { return true };
        let is_changed = |column: &String| match (old.cell(column), new.cell(column)) {
            (Some(old), Some(new)) => old != new || old == Cell::Opaque,
            _ => {
                made.lacking = Some(column.clone());
                true
            }
        };
        // All columns are compared, so that a missing one is found whatever the others show.
        self.changed.is_empty() | (self.changed.iter().map(is_changed).filter(|it| *it).count() > 0)
    }

    /// Whether the rule needs the value that a column had before a change.
    pub(crate) fn wants_old(&self, column: &str) -> bool {
        let is_after_change = self.on.iter().any(|verb| *verb != Verb::Insert);
        let is_compared =
            self.on.contains(&Verb::Update) && self.changed.iter().any(|it| it == column);
        is_after_change && (is_compared || self.keys.iter().any(|key| key.wants_old(column)))
    }

    /// Returns the names of the columns that the rule needs.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        let of_keys = self.keys.iter().flat_map(Template::columns);
        self.changed.iter().map(|name| &**name).chain(of_keys)
    }
}

impl TableName {
    /// Parses `schema.table`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (schema, table) = text.split_once('.')?;
        let is_name = |name: &str| !name.is_empty() && !name.contains('.');
        (is_name(schema) && is_name(table))
            .then(|| Self { schema: schema.to_owned(), table: table.to_owned() })
    }

    pub(crate) fn is(&self, schema: &[u8], table: &[u8]) -> bool {
        self.schema.as_bytes() == schema && self.table.as_bytes() == table
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete => f.write_str("delete"),
            Self::Stale(seconds) => write!(f, "stale:{seconds}s"),
            Self::HoldOff(seconds) => write!(f, "hold_off:{seconds}s"),
        }
    }
}

/// An image with its own names and texts, for `explain` and for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextRow(pub(crate) Vec<(String, Option<Vec<u8>>)>);

impl Image for TextRow {
    fn cell(&self, column: &str) -> Option<Cell<'_>> {
        let (_, value) = self.0.iter().find(|(name, _)| name == column)?;
        Some(value.as_ref().map_or(Cell::Null, |text| Cell::Text(text.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(keys: &[&str]) -> Rule {
        Rule {
            table: TableName::parse("shop.users").unwrap(),
            on: vec![Verb::Insert, Verb::Update, Verb::Delete],
            changed: Vec::new(),
            keys: keys.iter().map(|text| Template::parse(text).unwrap()).collect(),
            how: None,
            to: None,
            on_truncate: OnTruncate::Count,
        }
    }

    fn row(cells: &[(&str, Option<&str>)]) -> TextRow {
        let cell = |(name, text): &(&str, Option<&str>)| {
            ((*name).to_owned(), text.map(|text| text.as_bytes().to_vec()))
        };
        TextRow(cells.iter().map(cell).collect())
    }

    fn said(rule: &Rule, verb: Verb, old: Option<&TextRow>, new: Option<&TextRow>) -> String {
        let mut made = Yield::default();
        let change =
            Change { old: old.map(|row| row as &dyn Image), new: new.map(|row| row as &dyn Image) };
        rule.apply(verb, change, &mut made);
        let keys: Vec<String> = made.deletes.iter().map(|delete| delete.key.to_string()).collect();
        format!("{} {:?} {:?}", keys.join(","), made.refused, made.lacking)
    }

    #[test]
    fn an_update_counts_if_a_column_changed_that_the_rule_is_about() {
        let cards = Rule { changed: vec!["name".to_owned()], ..rule(&["card:{id}"]) };
        let old = row(&[("id", Some("1")), ("name", Some("a")), ("age", Some("3"))]);
        let older = row(&[("id", Some("1")), ("name", Some("a")), ("age", Some("4"))]);
        let renamed = row(&[("id", Some("1")), ("name", None), ("age", Some("3"))]);
        let cut = row(&[("id", Some("1"))]);
        for (verb, old, new, expected) in [
            (Verb::Update, Some(&old), Some(&older), " [] None"),
            (Verb::Update, Some(&old), Some(&renamed), "card:1 [] None"),
            (Verb::Insert, None, Some(&old), "card:1 [] None"),
            (Verb::Delete, Some(&old), None, "card:1 [] None"),
            (Verb::Update, Some(&old), Some(&cut), "card:1 [] Some(\"name\")"),
        ] {
            assert_eq!(said(&cards, verb, old, new), expected);
        }
        let of_inserts = Rule { on: vec![Verb::Insert], ..rule(&["list"]) };
        assert_eq!(said(&of_inserts, Verb::Update, Some(&old), Some(&older)), " [] None");
        assert_eq!(said(&of_inserts, Verb::Insert, None, Some(&older)), "list [] None");
    }

    #[test]
    fn what_is_no_key_is_refused_and_its_neighbours_stand() {
        let new = row(&[("id", Some("1")), ("name", Some("a b"))]);
        let users = rule(&["n:{name}", "user:{id}", "x:{nowhere}"]);
        assert_eq!(
            said(&users, Verb::Insert, None, Some(&new)),
            "user:1 [Blank] Some(\"nowhere\")"
        );
    }

    proptest::proptest! {
        /// Compared with a model that knows no templates: the keys of both images, each once.
        #[test]
        fn keys_are_those_of_both_images(
            old in proptest::option::of((0..5_u8, proptest::option::of("[a-c ]{0,3}"))),
            new in proptest::option::of((0..5_u8, proptest::option::of("[a-c ]{0,3}"))),
        ) {
            let image = |(id, name): &(u8, Option<String>)| {
                row(&[("id", Some(&*id.to_string())), ("name", name.as_deref())])
            };
            let (old_row, new_row) = (old.as_ref().map(image), new.as_ref().map(image));
            let verb = match (&old, &new) {
                (None, _) => Verb::Insert,
                (_, None) => Verb::Delete,
                _ => Verb::Update,
            };
            let mut made = Yield::default();
            let change = Change {
                old: old_row.as_ref().map(|row| row as &dyn Image),
                new: new_row.as_ref().map(|row| row as &dyn Image),
            };
            rule(&["u:{id}", "n{name|upper}"]).apply(verb, change, &mut made);
            let mut expected = std::collections::BTreeSet::new();
            for (id, name) in old.iter().chain(&new) {
                expected.insert(format!("u:{id}"));
                if let Some(name) = name.as_ref().filter(|name| !name.contains(' ')) {
                    expected.insert(format!("n{}", name.to_uppercase()));
                }
            }
            let keys: Vec<String> = made.deletes.iter().map(|it| it.key.to_string()).collect();
            let once: std::collections::BTreeSet<String> = keys.iter().cloned().collect();
            proptest::prop_assert_eq!(once.len(), keys.len());
            proptest::prop_assert_eq!(once, expected);
        }
    }
}
