//! Kinds of transactions, in the SQL of MariaDB and MySQL or of PostgreSQL, with the keys that they must delete.

use super::chance::Chance;
use crate::sql::Sql;

/// Whose SQL it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `MariaDB`'s.
    MariaDb,
    /// `MySQL`'s.
    MySql,
    /// `PostgreSQL`'s.
    Postgres,
}

/// A transaction.
pub(super) struct Step {
    pub(super) kind: &'static str,
    pub(super) sql: String,
    /// Keys that go if it is committed.
    pub(super) gone: Vec<String>,
    /// Keys that stay.
    pub(super) kept: Vec<String>,
    pub(super) commits: bool,
    /// What becomes of it if the database is killed meanwhile is decided by whoever recovers it.
    pub(super) is_prepared: bool,
}

/// Rows of a transaction's own.
const ROWS: u64 = 4;
/// New rows, far from those that are there.
const NEW: u64 = 1_000_000_000;
const COPY: u64 = 3 * NEW;
const MANY: u64 = 500;

impl Dialect {
    fn is_postgres(self) -> bool {
        self == Self::Postgres
    }

    /// All tables, with the rows of so many transactions.
    pub(super) fn schema(self, transactions: u64) -> String {
        let rows = self.series(0, transactions * ROWS);
        let text = self.text("'m'", "n");
        let first = match self {
            Self::MySql => "SET SESSION cte_max_recursion_depth = 1000000000; ",
            Self::MariaDb | Self::Postgres => "",
        };
        let common = format!(
            "{first}CREATE TABLE users (id BIGINT PRIMARY KEY, mail VARCHAR(90), g INT); \
             CREATE TABLE done (id BIGINT PRIMARY KEY); CREATE TABLE emptied (id INT); \
             CREATE TABLE orders (id BIGINT PRIMARY KEY, who BIGINT); \
             INSERT INTO users SELECT n, {text}, 0 FROM {rows}"
        );
        match self {
            Self::Postgres => format!(
                "{common}; ALTER TABLE users REPLICA IDENTITY FULL; CREATE TABLE mcinv (k text NOT NULL, opts text); \
                 CREATE TABLE parents (id BIGINT PRIMARY KEY); \
                 CREATE TABLE kids (id BIGINT PRIMARY KEY REFERENCES parents ON DELETE CASCADE); \
                 INSERT INTO parents SELECT n FROM {parents}; INSERT INTO kids SELECT id FROM parents; \
                 CREATE PROCEDURE bump(x BIGINT) LANGUAGE SQL AS 'UPDATE users SET g = g + 1 WHERE id = x'; \
                 CREATE FUNCTION ordered() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN UPDATE users SET g = g + 1 WHERE id = NEW.who; RETURN NEW; END'; \
                 CREATE TRIGGER ordered AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION ordered()",
                parents = self.series(0, transactions)
            ),
            Self::MariaDb | Self::MySql => format!(
                "{common}; CREATE TABLE mcinv (k VARCHAR(250) NOT NULL, opts VARCHAR(250)) ENGINE = InnoDB; \
                 CREATE PROCEDURE bump(x BIGINT) UPDATE users SET g = g + 1 WHERE id = x; \
                 CREATE TRIGGER ordered AFTER INSERT ON orders FOR EACH ROW UPDATE users SET g = g + 1 WHERE id = NEW.who"
            ),
        }
    }

    /// A table of numbers `n` from `from` on, below `below`.
    fn series(self, from: u64, below: u64) -> String {
        match self {
            Self::Postgres => format!("generate_series({from}, {}) n", below - 1),
            Self::MariaDb => format!("(SELECT seq AS n FROM seq_{from}_to_{}) s", below - 1),
            Self::MySql => format!(
                "(WITH RECURSIVE s AS (SELECT {from} AS n UNION ALL SELECT n + 1 FROM s WHERE n + 1 < {below}) SELECT n FROM s) s"
            ),
        }
    }

    fn text(self, prefix: &str, number: &str) -> String {
        match self {
            Self::Postgres => format!("{prefix} || {number}"),
            _ => format!("CONCAT({prefix}, {number})"),
        }
    }

    fn of(self, table: &str) -> String {
        let schema = if self.is_postgres() { "public" } else { "shop" };
        format!("{schema}.{table}")
    }

    pub(super) fn rules(self) -> String {
        let mut rules = format!(
            r#"{{"table": "{}", "keys": ["user:{{id}}", "mail:{{mail}}"], "on_truncate": "ignore"}},
               {{"table": "{}", "keys": ["emptied:{{id}}"], "on_truncate": ["emptied:all"]}}"#,
            self.of("users"),
            self.of("emptied")
        );
        if self.is_postgres() {
            rules.push_str(r#", {"table": "public.kids", "keys": ["kid:{id}"]}"#);
        }
        rules
    }

    /// More of the source.
    pub(super) fn source(self) -> &'static str {
        match self {
            Self::Postgres => {
                r#", "outbox": "public.mcinv", "messages": "mcinv", "comments": {"prefixes": ["page:"]}"#
            }
            _ => r#", "outbox": "shop.mcinv", "comments": {"prefixes": ["page:"]}"#,
        }
    }

    /// What a session begins with.
    pub(super) fn begin(self) -> &'static str {
        if self.is_postgres() { "SELECT 1" } else { "USE shop" }
    }

    /// Commits what is prepared. `None`: the database is gone.
    pub(super) fn commit_prepared(self, sql: &mut Sql) -> Option<()> {
        let rows = match self {
            Self::Postgres => sql.try_ask("SELECT gid FROM pg_prepared_xacts")?,
            _ => sql.try_ask("XA RECOVER")?,
        };
        for row in rows {
            let name = row.rsplit('\t').next().unwrap_or_default();
            let commit = if self.is_postgres() { "COMMIT PREPARED" } else { "XA COMMIT" };
            sql.try_ask(&format!("{commit} '{name}'"))?;
        }
        Some(())
    }
}

/// The transaction of that number.
pub(super) fn step(dialect: Dialect, number: u64, chance: &mut Chance) -> Step {
    let rows = [0, 1, 2, 3].map(|at| number * ROWS + at);
    let own = Own { dialect, number, rows, done: format!("INSERT INTO done VALUES ({number})") };
    match chance.below(20) {
        which @ 0..10 => own.plain(which),
        17 => own.defined(chance),
        19 if chance.below(20) == 0 => own.many(),
        which => own.special(which),
    }
}

/// What is a transaction's own.
struct Own {
    dialect: Dialect,
    number: u64,
    rows: [u64; 4],
    /// The mark of its commit.
    done: String,
}

fn keys(ids: &[u64]) -> Vec<String> {
    ids.iter().flat_map(|id| [format!("user:{id}"), format!("mail:m{id}")]).collect()
}

fn bump(id: u64) -> String {
    format!("UPDATE users SET g = g + 1 WHERE id = {id}")
}

impl Own {
    fn whole(&self, kind: &'static str, sql: &str, gone: Vec<String>) -> Step {
        Step {
            kind,
            sql: format!("BEGIN; {sql}; {}; COMMIT", self.done),
            gone,
            kept: keys(&self.rows[3..]),
            commits: true,
            is_prepared: false,
        }
    }

    /// Changes of rows, and what becomes of them.
    fn plain(&self, which: u64) -> Step {
        let (number, [a, b, c, d]) = (self.number, self.rows);
        let (bump_a, bump_b) = (bump(a), bump(b));
        match which {
            0 => self.whole("update", &bump_a, keys(&[a])),
            1 => {
                let sql = format!("UPDATE users SET mail = 'x{a}' WHERE id = {a}");
                let gone = [keys(&[a]), vec![format!("mail:x{a}")]].concat();
                self.whole("other value", &sql, gone)
            }
            2 => {
                let id = NEW + number;
                let sql = format!("INSERT INTO users VALUES ({id}, 'm{id}', 0)");
                self.whole("insert", &sql, keys(&[id]))
            }
            3 => self.whole("delete", &format!("DELETE FROM users WHERE id = {a}"), keys(&[a])),
            4 => {
                let sql = format!("UPDATE users SET g = 7 WHERE id BETWEEN {a} AND {c}");
                self.whole("several rows", &sql, keys(&[a, b, c]))
            }
            5 => {
                let sql = format!("{bump_a}; {bump_b}; {bump_a}");
                self.whole("several statements", &sql, keys(&[a, b]))
            }
            6 => Step {
                sql: format!("BEGIN; {bump_a}; {}; ROLLBACK", self.done),
                commits: false,
                ..self.whole("rollback", "", keys(&[a]))
            },
            7 => {
                let sql = format!("{bump_a}; SAVEPOINT s; {bump_b}; ROLLBACK TO SAVEPOINT s");
                Step { kept: keys(&[b, d]), ..self.whole("savepoint", &sql, keys(&[a])) }
            }
            8 => self.prepared(true, self.whole("prepared", "", keys(&[a]))),
            _ => self.prepared(false, self.whole("prepared rollback", "", keys(&[a]))),
        }
    }

    /// What names keys in another way, or changes rows in another way.
    fn special(&self, which: u64) -> Step {
        let (number, is_postgres, [a, b, ..]) =
            (self.number, self.dialect.is_postgres(), self.rows);
        let (bump_a, page) = (bump(a), format!("page:{number}"));
        let and_page = [keys(&[a]), vec![page.clone()]].concat();
        match which {
            10 if is_postgres => {
                let named = format!("SELECT pg_logical_emit_message(true, 'mcinv', '{page}')");
                self.whole("message", &format!("{named}; {bump_a}"), and_page)
            }
            10 => self.whole("comment", &format!("/* mcinv:{page} */ {bump_a}"), and_page),
            11 => {
                let sql = format!("INSERT INTO mcinv (k) VALUES ('{page}')");
                self.whole("outbox", &sql, vec![page])
            }
            12 => self.whole("procedure", &format!("CALL bump({a})"), keys(&[a])),
            13 => {
                let sql = format!("INSERT INTO orders VALUES ({number}, {a})");
                self.whole("trigger", &sql, keys(&[a]))
            }
            14 => {
                let change = "UPDATE users SET g = g + 1 WHERE id =";
                let sql = match is_postgres {
                    true => {
                        format!("PREPARE s (bigint) AS {change} $1; EXECUTE s({a}); DEALLOCATE s")
                    }
                    false => {
                        format!("PREPARE s FROM '{change} ?'; SET @a = {a}; EXECUTE s USING @a")
                    }
                };
                self.whole("prepared statement", &sql, keys(&[a]))
            }
            15 => {
                let upsert = match is_postgres {
                    true => "ON CONFLICT (id) DO UPDATE SET g = 9",
                    false => "ON DUPLICATE KEY UPDATE g = 9",
                };
                let id = NEW + number;
                let values = format!("({a}, 'm{a}', 1), ({id}, 'm{id}', 1)");
                let sql = format!("INSERT INTO users VALUES {values} {upsert}");
                self.whole("upsert", &sql, keys(&[a, id]))
            }
            16 => {
                let select = format!("SELECT id + {COPY}, mail, 1 FROM users WHERE id = {a}");
                let gone = vec![format!("user:{}", a + COPY), format!("mail:m{a}")];
                let step =
                    self.whole("insert of a select", &format!("INSERT INTO users {select}"), gone);
                Step { kept: vec![format!("user:{a}")], ..step }
            }
            18 if is_postgres => {
                let sql = format!("DELETE FROM parents WHERE id = {number}");
                self.whole("cascade", &sql, vec![format!("kid:{number}")])
            }
            18 => {
                let sql = format!("REPLACE INTO users VALUES ({a}, 'm{a}', 5)");
                self.whole("replace", &sql, keys(&[a]))
            }
            _ => {
                let sql = format!("UPDATE users SET g = g WHERE id = {a}; {}", bump(b));
                self.whole("no change", &sql, keys(&[b]))
            }
        }
    }

    /// Ends by a second step, or doesn't.
    fn prepared(&self, commits: bool, step: Step) -> Step {
        let Self { number, done, .. } = self;
        let inner = format!("{}; {done}", bump(self.rows[0]));
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        let name = format!("'x{number}'");
        let sql = match self.dialect.is_postgres() {
            true => format!("BEGIN; {inner}; PREPARE TRANSACTION {name}; {end} PREPARED {name}"),
            false => {
                format!(
                    "XA START {name}; {inner}; XA END {name}; XA PREPARE {name}; XA {end} {name}"
                )
            }
        };
        Step { sql, commits, is_prepared: true, ..step }
    }

    /// A change of a table's definition, or a table that is emptied.
    fn defined(&self, chance: &mut Chance) -> Step {
        let a = self.rows[0];
        let step = self.whole("definition", &bump(a), keys(&[a]));
        if chance.below(2) == 0 {
            let alter = match self.dialect.is_postgres() {
                true => "ALTER TABLE users ALTER COLUMN g SET DEFAULT",
                false => "ALTER TABLE users COMMENT =",
            };
            return Step { sql: format!("{alter} '{}'; {}", chance.below(1000), step.sql), ..step };
        }
        // Its key is that of each one, and the mark is no part of it.
        let sql = format!("TRUNCATE TABLE emptied; {}", self.done);
        let gone = vec!["emptied:all".to_owned()];
        Step { kind: "truncate", sql, gone, is_prepared: true, ..step }
    }

    /// Some keys of a transaction with many rows.
    fn many(&self) -> Step {
        let from = 2 * NEW + self.number * MANY;
        let text = self.dialect.text("'m'", "n");
        let rows = self.dialect.series(from, from + MANY);
        let gone = (0..MANY).step_by(50).map(|at| format!("user:{}", from + at)).collect();
        self.whole("many rows", &format!("INSERT INTO users SELECT n, {text}, 0 FROM {rows}"), gone)
    }
}
