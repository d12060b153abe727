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
            Some(word) if is_any(&word, &["TO"]) => Deed::Other,
            _ => Deed::End,
        },
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "WITH" => Deed::Rows,
        "TRUNCATE" => {
            let mut next = words.next();
            if next.as_deref().is_some_and(|word| is_any(word, &["TABLE"])) {
                next = words.next();
            }
            Deed::Empties(next.and_then(|word| table(&word, &schema)).into_iter().collect())
        }
        "DROP" => drop_of(words, &schema),
        "CREATE" => match words.next() {
            Some(word) if is_any(&word, &["OR"]) => {
                words.next();
                created(words, &schema)
            }
            _ => Deed::Other,
        },
        "RENAME" => renamed(words, &schema),
        "ALTER" => altered(words, &schema),
        _ => Deed::Other,
    }
}

/// Recognizes `CREATE OR REPLACE TABLE t`, which empties the table.
fn created(mut words: Words<'_>, schema: &str) -> Deed {
    match words.next() {
        Some(word) if is_any(&word, &["TABLE"]) => {
            Deed::Empties(words.next().and_then(|word| table(&word, schema)).into_iter().collect())
        }
        _ => Deed::Other,
    }
}

/// Recognizes `RENAME TABLE a TO b, c TO d`. Each of these names has other rows afterwards, or none.
fn renamed(mut words: Words<'_>, schema: &str) -> Deed {
    let is_of_tables = words.next().is_some_and(|word| is_any(&word, &["TABLE", "TABLES"]));
    let mut tables = Vec::new();
    while is_of_tables && let Some(old) = words.table_name() {
        tables.extend(table(&old, schema));
        // `WAIT n` or `NOWAIT` may come before.
        if words.by_ref().any(|word| is_any(&word, &["TO"])) {
            tables.extend(words.next().and_then(|new| table(&new, schema)));
        }
        if words.next().as_deref() != Some(",") {
            break;
        }
    }
    if is_of_tables { Deed::Empties(tables) } else { Deed::Other }
}

/// Recognizes `ALTER TABLE` that takes rows from the table without logging them: with their partition, or with its name.
fn altered(mut words: Words<'_>, schema: &str) -> Deed {
    // `ONLINE` and `IGNORE` may come before.
    let is_of_table = words.by_ref().take(3).any(|word| is_any(&word, &["TABLE"]));
    let Some(old) = words.table_name().filter(|_| is_of_table) else { return Deed::Other };
    let mut tables: Vec<TableName> = table(&old, schema).into_iter().collect();
    let mut takes_rows = false;
    while let Some(word) = words.next() {
        let next = words.peek().unwrap_or_default();
        let takes = match is_any(&next, &["PARTITION"]) {
            true => is_any(&word, &["DROP", "TRUNCATE", "EXCHANGE", "CONVERT", "DISCARD"]),
            false => is_any(&word, &["DISCARD"]) && is_any(&next, &["TABLESPACE"]),
        };
        if takes {
            takes_rows = true;
        } else if takes_rows && is_any(&word, &["TABLE"]) {
            // `EXCHANGE PARTITION p WITH TABLE t`, `CONVERT PARTITION p TO TABLE t`.
            tables.extend(table(&next, schema));
        } else if is_any(&word, &["RENAME"])
            && !is_any(&next, &["COLUMN", "INDEX", "KEY", "CONSTRAINT"])
        {
            if is_any(&next, &["TO", "AS", "="]) {
                words.next();
            }
            tables.extend(words.next().and_then(|new| table(&new, schema)));
            takes_rows = true;
        }
    }
    if takes_rows { Deed::Empties(tables) } else { Deed::Other }
}

fn is_any(word: &str, of: &[&str]) -> bool {
    of.iter().any(|it| word.eq_ignore_ascii_case(it))
}

fn drop_of(mut words: Words<'_>, schema: &str) -> Deed {
    let mut kind = words.next().unwrap_or_default().to_ascii_uppercase();
    if kind == "TEMPORARY" {
        return Deed::Other;
    }
    let name = words.table_name();
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

impl Words<'_> {
    /// The next word, which is the same again afterwards.
    fn peek(&self) -> Option<String> {
        Words(self.0).next()
    }

    /// The next name, after `IF EXISTS` if that is there.
    fn table_name(&mut self) -> Option<String> {
        let first = self.next()?;
        if is_any(&first, &["IF"]) && self.peek().is_some_and(|word| is_any(&word, &["EXISTS"])) {
            self.next();
            return self.next();
        }
        Some(first)
    }
}

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
            ("RENAME TABLE users TO old", empties(&["shop.users", "shop.old"])),
            (
                "rename tables if exists a WAIT 5 to old, `shop`.`users`  TO b.c , b.c TO users",
                empties(&["shop.a", "shop.old", "shop.users", "b.c", "b.c", "shop.users"]),
            ),
            ("RENAME TABLE a NOWAIT TO b", empties(&["shop.a", "shop.b"])),
            ("RENAME USER a TO b", Deed::Other),
            ("ALTER TABLE users ADD a int", Deed::Other),
            ("ALTER TABLE users RENAME COLUMN a TO b, ALGORITHM=INSTANT", Deed::Other),
            ("ALTER TABLE users RENAME INDEX a TO b", Deed::Other),
            ("ALTER TABLE users ADD PARTITION (PARTITION p VALUES IN (1))", Deed::Other),
            ("ALTER TABLE users RENAME TO b.old", empties(&["shop.users", "b.old"])),
            (
                "alter online ignore table if exists users rename old",
                empties(&["shop.users", "shop.old"]),
            ),
            ("ALTER TABLE users ADD a int, RENAME AS old", empties(&["shop.users", "shop.old"])),
            ("ALTER TABLE users DROP PARTITION p, q", empties(&["shop.users"])),
            ("ALTER TABLE users TRUNCATE PARTITION ALL", empties(&["shop.users"])),
            (
                "ALTER TABLE users EXCHANGE PARTITION p WITH TABLE b.c WITHOUT VALIDATION",
                empties(&["shop.users", "b.c"]),
            ),
            ("ALTER TABLE users DISCARD TABLESPACE", empties(&["shop.users"])),
            ("ALTER DATABASE shop CHARACTER SET utf8mb4", Deed::Other),
            ("", Deed::Other),
            ("/*", Deed::Other),
            ("TRUNCATE", Deed::Empties(Vec::new())),
        ] {
            assert_eq!(deed(text.as_bytes(), b"shop"), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_statement_panics(text in "(DROP|TRUNCATE|RENAME|ALTER|CREATE OR REPLACE|/\\*|) ?(TABLE|DATABASE|)[ -~é`]{0,30}") {
            let _ = deed(text.as_bytes(), b"s");
        }
    }
}
