//! What a statement that was logged as text does, as far as keys depend on it.
//!
//! Only the first words after comments are read. That is enough for statements that a server writes, or that name one
//! table. The keys of a statement that changes rows can't be found: it is only recognized as one.

use crate::rule::TableName;

/// The effect of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Begin,
    End,
    /// It changes rows, which the log doesn't have.
    Rows,
    /// It empties or drops these tables.
    Empties(Vec<TableName>),
    /// It drops a whole schema.
    DropsSchema(String),
    Other,
}

pub(super) fn deed(text: &[u8], schema: &[u8]) -> Deed {
    let text = String::from_utf8_lossy(&text[..text.len().min(TEXT_MAX)]);
    let mut words = Words(&text);
    let first = words.next().unwrap_or_default().to_ascii_uppercase();
    let schema = String::from_utf8_lossy(schema);
    match &*first {
        "BEGIN" => Deed::Begin,
        "START" => Deed::Begin,
        "COMMIT" => Deed::End,
        "ROLLBACK" => match words.next() {
            // To a savepoint: the transaction goes on.
            Some(word) if word.eq_ignore_ascii_case("TO") => Deed::Other,
            _ => Deed::End,
        },
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "WITH" => Deed::Rows,
        "TRUNCATE" => {
            let mut next = words.next();
            if next.as_deref().is_some_and(|word| word.eq_ignore_ascii_case("TABLE")) {
                next = words.next();
            }
            Deed::Empties(next.and_then(|word| table(&word, &schema)).into_iter().collect())
        }
        "DROP" => drop_of(words, &schema),
        "CREATE" => match words.next() {
            Some(word) if word.eq_ignore_ascii_case("OR") => {
                words.next();
                created(words, &schema)
            }
            _ => Deed::Other,
        },
        "RENAME" => {
            words.next();
            Deed::Empties(words.next().and_then(|word| table(&word, &schema)).into_iter().collect())
        }
        _ => Deed::Other,
    }
}

/// Recognizes `CREATE OR REPLACE TABLE t`, which empties the table.
fn created(mut words: Words<'_>, schema: &str) -> Deed {
    match words.next() {
        Some(word) if word.eq_ignore_ascii_case("TABLE") => {
            Deed::Empties(words.next().and_then(|word| table(&word, schema)).into_iter().collect())
        }
        _ => Deed::Other,
    }
}

fn drop_of(mut words: Words<'_>, schema: &str) -> Deed {
    let mut kind = words.next().unwrap_or_default().to_ascii_uppercase();
    if kind == "TEMPORARY" {
        return Deed::Other;
    }
    let mut name = words.next();
    if name.as_deref().is_some_and(|word| word.eq_ignore_ascii_case("IF")) {
        words.next();
        name = words.next();
    }
    if kind == "SCHEMA" {
        kind = "DATABASE".to_owned();
    }
    match (&*kind, name) {
        ("DATABASE", Some(name)) => Deed::DropsSchema(unquoted(&name)),
        ("TABLE", Some(first)) => {
            let mut tables: Vec<TableName> = table(&first, schema).into_iter().collect();
            for word in words {
                if word == "," {
                    continue;
                }
                tables.extend(table(&word, schema));
            }
            Deed::Empties(tables)
        }
        _ => Deed::Other,
    }
}

/// Parses `t`, `` `t` ``, `s.t`, or `` `s`.`t` ``.
fn table(word: &str, schema: &str) -> Option<TableName> {
    let (schema, table) = match split_name(word) {
        (table, None) => (schema.to_owned(), unquoted(table)),
        (first, Some(table)) => (unquoted(first), unquoted(table)),
    };
    (!table.is_empty()).then_some(TableName { schema, table })
}

/// Splits a name at the first dot outside of backticks.
fn split_name(word: &str) -> (&str, Option<&str>) {
    let mut is_quoted = false;
    for (at, character) in word.char_indices() {
        match character {
            '`' => is_quoted = !is_quoted,
            '.' if !is_quoted => return (&word[..at], Some(&word[at + 1..])),
            _ => {}
        }
    }
    (word, None)
}

fn unquoted(name: &str) -> String {
    match name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) {
        Some(name) => name.replace("``", "`"),
        None => name.to_owned(),
    }
}

/// The words of a statement: names with their backticks and dots, and single commas. Comments are skipped.
struct Words<'t>(&'t str);

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            self.0 = self.0.trim_start_matches(|c: char| c.is_whitespace() || c == ';' || c == '(');
            if let Some(rest) = self.0.strip_prefix("/*") {
                // The server executes the content of `/*! … */`, so it is read as part of the statement.
                if let Some(code) = rest.strip_prefix('!').or_else(|| rest.strip_prefix("M!")) {
                    self.0 = code.trim_start_matches(|c: char| c.is_ascii_digit());
                    continue;
                }
                self.0 = rest.split_once("*/").map_or("", |(_, after)| after);
            } else if let Some(rest) = self.0.strip_prefix("*/") {
                self.0 = rest;
            } else if self.0.starts_with("-- ") || self.0.starts_with('#') {
                self.0 = self.0.split_once('\n').map_or("", |(_, after)| after);
            } else {
                break;
            }
        }
        if let Some(rest) = self.0.strip_prefix(',') {
            self.0 = rest;
            return Some(",".to_owned());
        }
        let mut is_quoted = false;
        let end = self.0.char_indices().find(|(at, character)| {
            is_quoted ^= *character == '`';
            !is_quoted
                && (character.is_whitespace()
                    || ",;()".contains(*character)
                    || self.0[*at..].starts_with("/*"))
        });
        let (word, rest) = self.0.split_at(end.map_or(self.0.len(), |(at, _)| at));
        self.0 = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }
}

/// How many bytes of a statement are read.
const TEXT_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_say_what_a_statement_does() {
        let empties = |names: &[&str]| {
            Deed::Empties(names.iter().map(|name| TableName::parse(name).unwrap()).collect())
        };
        for (text, expected) in [
            ("BEGIN", Deed::Begin),
            ("COMMIT", Deed::End),
            ("ROLLBACK", Deed::End),
            ("ROLLBACK TO `a`", Deed::Other),
            ("SAVEPOINT a", Deed::Other),
            ("/* x */ insert into t values (1)", Deed::Rows),
            ("-- x\nUPDATE t SET a = 1", Deed::Rows),
            ("WITH a AS (SELECT 1) DELETE FROM t", Deed::Rows),
            ("TRUNCATE TABLE users", empties(&["shop.users"])),
            ("truncate `my shop`.`users`", empties(&["my shop.users"])),
            ("TRUNCATE users;", empties(&["shop.users"])),
            ("TRUNCATE/**/TABLE/**/users", empties(&["shop.users"])),
            (
                "DROP TABLE IF EXISTS `users`,a.b /* generated by server */",
                empties(&["shop.users", "a.b"]),
            ),
            ("DROP TEMPORARY TABLE x", Deed::Other),
            ("DROP DATABASE IF EXISTS `shop`", Deed::DropsSchema("shop".to_owned())),
            ("CREATE OR REPLACE TABLE users (id int)", empties(&["shop.users"])),
            ("CREATE TABLE users (id int)", Deed::Other),
            ("RENAME TABLE users TO old", empties(&["shop.users"])),
            ("ALTER TABLE users ADD a int", Deed::Other),
            ("", Deed::Other),
            ("/*", Deed::Other),
            ("TRUNCATE", Deed::Empties(Vec::new())),
        ] {
            assert_eq!(deed(text.as_bytes(), b"shop"), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_statement_panics(text in "(DROP|TRUNCATE|CREATE OR REPLACE|/\\*|) ?(TABLE|DATABASE|)[ -~é`]{0,30}") {
            let _ = deed(text.as_bytes(), b"s");
        }
    }
}
