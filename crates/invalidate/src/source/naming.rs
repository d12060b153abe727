//! Finds the keys that a row, a text or a TRUNCATE names, in any database's log.

use std::sync::Arc;

use super::halt::{BAD, Halt};
use crate::config::{OnUnknown, SourceConfig};
use crate::key::{Key, Refusal};
use crate::line::Line;
use crate::mark::{Unmark, options};
use crate::rule::{Delete, OnTruncate, Rule, TableName, Verb, Yield};
use crate::template::{Cell, Change, Image};
use crate::text::{CommentLimits, Named};

/// The configuration that names keys, and the line that counts them.
#[derive(Clone, Copy)]
pub(super) struct Naming<'s> {
    pub(super) config: &'s SourceConfig,
    pub(super) rules: &'s [Rule],
    pub(super) line: &'s Line,
}

/// The parts of the configuration that apply to a table.
#[derive(Debug)]
pub(super) struct About {
    /// The indexes of its rules.
    pub(super) rules: Vec<usize>,
    pub(super) is_outbox: bool,
    /// The table's name, for messages.
    pub(super) name: String,
}

/// The work that a row or a text calls for.
#[derive(Debug, Default)]
pub(super) struct Called {
    pub(super) deletes: Vec<Delete>,
    pub(super) unmarks: Vec<Unmark>,
    /// A column that a rule needs and the log lacks.
    pub(super) lacking: Option<String>,
}

/// The work that an emptied table calls for.
#[derive(Debug)]
pub(super) enum Emptied {
    Keys(Called),
    /// Flush these destinations; `None`: all.
    Flush(Option<Arc<[String]>>),
}

impl<'s> Naming<'s> {
    /// Returns the tables of the rules and the outbox, each once.
    pub(super) fn tables(config: &SourceConfig, rules: &[Rule]) -> Vec<TableName> {
        let mut tables: Vec<TableName> = Vec::new();
        for table in rules.iter().map(|rule| &rule.table).chain(&config.outbox) {
            if !tables.contains(table) {
                tables.push(table.clone());
            }
        }
        tables
    }

    /// Returns what applies to a table; `None` if nothing does.
    pub(super) fn about(&self, schema: &[u8], table: &[u8]) -> Option<About> {
        let rules = self.rules.iter().enumerate();
        let rules: Vec<usize> =
            rules.filter(|(_, rule)| rule.table.is(schema, table)).map(|(at, _)| at).collect();
        let is_outbox = self.config.outbox.as_ref().is_some_and(|it| it.is(schema, table));
        let name = || format!("{}.{}", schema.escape_ascii(), table.escape_ascii());
        (is_outbox || !rules.is_empty()).then(|| About { rules, is_outbox, name: name() })
    }

    /// Returns the columns that the rules and the outbox need.
    pub(super) fn columns(&self, about: &About) -> impl Iterator<Item = &'s str> {
        let rules = self.rules_of(about).flat_map(Rule::columns);
        rules.chain(Some(OUTBOX_KEY).filter(|_| about.is_outbox))
    }

    pub(super) fn rules_of(&self, about: &About) -> impl Iterator<Item = &'s Rule> {
        let rules = self.rules;
        about.rules.iter().map(move |rule| &rules[*rule])
    }

    /// Returns what the rules and the outbox make from a change.
    pub(super) fn of_row(&self, about: &About, verb: Verb, change: Change<'_>) -> Called {
        self.line.counts.rows.add(1);
        let mut made = Yield::default();
        self.rules_of(about).for_each(|rule| rule.apply(verb, change, &mut made));
        self.line.counts.keys_of_rules.add(made.deletes.len() as u64);
        let mut unmarks = Vec::new();
        if let Some(row) = change.new.filter(|_| about.is_outbox && verb == Verb::Insert) {
            unmarks.extend(self.take_from_outbox(row, &mut made));
        }
        for why in made.refused {
            self.refuse(why, &about.name);
        }
        Called { deletes: made.deletes, unmarks, lacking: made.lacking }
    }

    fn take_from_outbox(&self, row: &dyn Image, made: &mut Yield) -> Option<Unmark> {
        let (counts, limits) = (&self.line.counts, self.limits());
        let mut token = None;
        if let Some(Cell::Text(text)) = row.cell(OUTBOX_OPTIONS) {
            let words = text.split(|byte| *byte == b';').filter(|word| !word.is_empty());
            let options = options(words, limits.region.as_deref());
            counts.options.add(options.unused as u64);
            made.refused.extend(options.refused);
            token = options.token;
        }
        let Some(Cell::Text(text)) = row.cell(OUTBOX_KEY) else { return None };
        let has_prefix = limits.prefixes.iter().any(|prefix| text.starts_with(prefix.as_bytes()));
        let key = match Key::new(&text) {
            Ok(key) if has_prefix => key,
            Ok(_) => {
                made.refused.push(Refusal::Prefix);
                return None;
            }
            Err(why) => {
                made.refused.push(why);
                return None;
            }
        };
        counts.keys_of_outbox.add(1);
        let unmark = token.map(|token| Unmark::new(&key, token)).transpose();
        made.deletes.push(Delete { key, how: None, to: None });
        let unmark = unmark.unwrap_or_else(|why| {
            made.refused.push(why);
            None
        });
        counts.marks.add(unmark.iter().len() as u64);
        unmark
    }

    /// The limits on the keys of texts.
    pub(super) fn limits(&self) -> &'s CommentLimits {
        &self.config.comments
    }

    /// Returns what a text names. `whence` is the origin in messages about refused keys.
    pub(super) fn of_text(&self, named: Named, whence: &str) -> Called {
        let counts = &self.line.counts;
        counts.keys_of_comments.add(named.keys.len() as u64);
        counts.marks.add(named.unmarks.len() as u64);
        counts.options.add(named.options as u64);
        for why in named.refused {
            self.refuse(why, whence);
        }
        let delete = |key| Delete { key, how: None, to: None };
        let deletes = named.keys.into_iter().map(delete).collect();
        Called { deletes, unmarks: named.unmarks, lacking: None }
    }

    /// Returns a rule's answer to a TRUNCATE, or to whatever its table `was`: keys, or a flush.
    ///
    /// # Errors
    /// The rule has no answer, and `on_unknown` is `stop`.
    pub(super) fn of_empty(&self, rule: &Rule, was: &str) -> Result<Emptied, Halt> {
        let mut deletes = Vec::new();
        match &rule.on_truncate {
            OnTruncate::Ignore => {}
            OnTruncate::Keys(keys) => {
                deletes.extend(keys.iter().map(|key| rule.delete(key.clone())));
            }
            OnTruncate::Flush => {
                self.line.counts.flushes.add(1);
                let table = &rule.table;
                tracing::warn!(
                    "source {}: {table} was {was}: caches are flushed (on_truncate)",
                    self.config.name
                );
                return Ok(Emptied::Flush(rule.to.clone()));
            }
            OnTruncate::Count => {
                let words = format!("{} was {was} (on_truncate)", rule.table);
                if self.note_unknown(&words)? {
                    return Ok(Emptied::Flush(rule.to.clone()));
                }
            }
        }
        Ok(Emptied::Keys(Called { deletes, ..Called::default() }))
    }

    fn refuse(&self, why: Refusal, whence: &str) {
        self.line.counts.refuse(why);
        tracing::warn!("source {}: {whence} names a key that is refused: {why}", self.config.name);
    }

    /// Counts and logs a change whose keys can't be known. Returns `true` if all destinations must be flushed.
    ///
    /// # Errors
    /// `on_unknown` is `stop`.
    #[must_use = "caches must be flushed if it says so"]
    pub(super) fn note_unknown(&self, words: &str) -> Result<bool, Halt> {
        self.line.counts.unknown.add(1);
        let becomes = match self.config.on_unknown {
            OnUnknown::Stop => {
                return Err(self.halt(BAD, &format!("{words} (on_unknown is stop)")));
            }
            OnUnknown::Count => "may stay cached as they were",
            OnUnknown::Flush => {
                self.line.counts.flushes.add(1);
                "caches are flushed (on_unknown)"
            }
        };
        tracing::error!(
            "source {}: {words}: its keys are unknown, and {becomes}",
            self.config.name
        );
        Ok(self.config.on_unknown == OnUnknown::Flush)
    }

    /// Reports something that can't be read and may be any change. If unknown changes flush, this does, too.
    ///
    /// # Errors
    /// Unknown changes don't flush: the daemon must end with this code.
    pub(super) fn note_unreadable(&self, code: u8, words: &str) -> Result<(), Halt> {
        match self.config.on_unknown {
            OnUnknown::Flush => self.note_unknown(words).map(drop),
            OnUnknown::Count | OnUnknown::Stop => Err(self.halt(code, words)),
        }
    }

    pub(super) fn halt(&self, code: u8, words: &str) -> Halt {
        Halt { code, words: format!("source {}: {words}", self.config.name) }
    }
}

const OUTBOX_KEY: &str = "k";
pub(super) const OUTBOX_OPTIONS: &str = "opts";
