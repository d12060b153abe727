//! `guira invalidate` behind a real PostgreSQL, in front of real routers and servers: which keys go, when, and that none is
//! lost when the daemon or the database is killed.

use std::thread;
use std::time::Duration;

use guira_tests::client::Client;
use guira_tests::postgres::{Postgres, lsn};
use guira_tests::server::{eventually, within};
use guira_tests::shop::{ROWS, stop};
use guira_tests::sql::Sql;

type Shop = guira_tests::shop::Shop<Postgres>;

#[test]
fn keys_of_rules_messages_and_the_outbox_go_in_every_cluster() {
    let schema = "CREATE TABLE users (id int PRIMARY KEY, mail text, g int); ALTER TABLE users REPLICA IDENTITY FULL; \
                  CREATE TABLE other (id int PRIMARY KEY, body text); \
                  CREATE TABLE mcinv (k text NOT NULL, opts text); \
                  INSERT INTO users VALUES (1, 'Ann', 1), (2, 'Bob', 1)";
    let rules = r#"{"table": "public.users", "keys": ["user:{id}", "mail:{mail|lower}"], "on_truncate": "ignore"},
                   {"table": "public.users", "on": ["delete"], "keys": ["group:{old.g}"], "to": ["c2"], "on_truncate": ["users"]},
                   {"table": "public.other", "keys": ["other:{id}"]}"#;
    let more =
        r#", "outbox": "public.mcinv", "messages": "mcinv", "comments": {"prefixes": ["page:"]}"#;
    let shop = Shop::new(2, schema, rules, true, more);
    let (is_good, words) = shop.asks("check");
    assert!(is_good, "{words}");
    let mut daemon = Some(shop.daemon());
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    let all = "user:1 user:2 user:3 user:4 mail:ann mail:anne mail:bob group:2 other:1 other:2 page:1 page:2 page:3 page:4 \
               page:5 secret:1 users";
    for (statements, gone) in [
        ("UPDATE users SET mail = 'Anne' WHERE id = 1", "user:1 mail:ann mail:anne"),
        ("INSERT INTO users VALUES (3, NULL, 2)", "user:3"),
        ("UPDATE users SET id = 4 WHERE id = 3", "user:3 user:4"),
        ("BEGIN; DELETE FROM users WHERE id = 2; COMMIT", "user:2 mail:bob"),
        ("BEGIN; UPDATE users SET g = 7 WHERE id = 1; ROLLBACK", ""),
        (
            "BEGIN; SAVEPOINT a; UPDATE users SET g = 7 WHERE id = 1; ROLLBACK TO a; INSERT INTO other VALUES (1); COMMIT",
            "other:1",
        ),
        ("UPDATE other SET id = 2 WHERE id = 1", "other:1 other:2"),
        ("SELECT pg_logical_emit_message(true, 'mcinv', 'page:1,page:%32')", "page:1 page:2"),
        ("SELECT pg_logical_emit_message(false, 'mcinv', 'page:3')", "page:3"),
        ("BEGIN; SELECT pg_logical_emit_message(true, 'mcinv', 'page:1'); ROLLBACK", ""),
        ("SELECT pg_logical_emit_message(true, 'others', 'page:1')", ""),
        ("INSERT INTO mcinv (k) VALUES ('page:4'), ('secret:1')", "page:4"),
        (
            "BEGIN; UPDATE users SET g = 8 WHERE id = 1; PREPARE TRANSACTION 'x'; ROLLBACK PREPARED 'x'",
            "",
        ),
    ] {
        for client in &mut clients {
            all.split_whitespace().for_each(|key| drop(client.set(key, b"v")));
        }
        sql.ask(statements);
        shop.catch_up(&mut sql);
        let gone: Vec<&str> = gone.split_whitespace().collect();
        // A max_prepared_transactions of 0 makes of the last an error, and a rollback.
        for key in all.split_whitespace() {
            for client in &mut clients {
                let is_there = client.get(key).is_some();
                assert_eq!(is_there, !gone.contains(&key), "{statements}: {key}: {}", shop.said());
            }
        }
    }
    answers_without_keys(&shop, &mut sql, &mut clients);
    stop(&mut daemon.take().expect("it runs"));
    let (is_good, words) = shop.asks("positions");
    assert!(is_good && words.contains("read up to '0/"), "{words}");
}

/// A rule for one destination, a TRUNCATE, a refused key.
fn answers_without_keys(shop: &Shop, sql: &mut Sql, clients: &mut [Client]) {
    sql.ask("UPDATE users SET g = 2; DELETE FROM users WHERE id = 4");
    shop.catch_up(sql);
    let there: Vec<bool> = clients.iter_mut().map(|it| it.get("group:2").is_some()).collect();
    assert_eq!(there, [true, false], "only at c2");
    assert_eq!(shop.metric("unknown_total"), Some(0), "{}", shop.said());
    sql.ask("TRUNCATE TABLE users, other");
    shop.catch_up(sql);
    let there: Vec<bool> = clients.iter_mut().map(|it| it.get("users").is_some()).collect();
    assert_eq!(there, [true, false]);
    assert_eq!(shop.metric("unknown_total"), Some(1), "the rule of other has no answer");
    assert_eq!(shop.metric("keys_refused_total"), Some(1), "secret: is no prefix");
}

#[test]
fn a_change_without_what_a_rule_needs_is_counted_and_check_says_what_mends_it() {
    let schema = "CREATE TABLE pages (id int PRIMARY KEY, body text, slug text); \
                  ALTER TABLE pages ALTER body SET STORAGE EXTERNAL; \
                  INSERT INTO pages VALUES (1, repeat('a', 9000), 'one')";
    let rules =
        r#"{"table": "public.pages", "keys": ["page:{id}", "body:{body|md5}", "new:{new.slug}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let (is_good, words) = shop.asks("check");
    assert!(
        !is_good && words.contains("ALTER TABLE public.pages REPLICA IDENTITY FULL"),
        "{words}"
    );
    assert!(words.contains("old value of body:"), "only of body: {words}");
    let _daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut client = shop.clients().remove(0);
    client.set("page:1", b"v");
    client.set("new:uno", b"v");
    // The long value is stored apart and unchanged: neither image has it.
    sql.ask("UPDATE pages SET slug = 'uno'");
    shop.catch_up(&mut sql);
    assert_eq!((client.get("page:1"), client.get("new:uno")), (None, None), "{}", shop.said());
    assert_eq!(shop.metric("unknown_total"), Some(1), "{}", shop.said());
    sql.ask("ALTER TABLE pages REPLICA IDENTITY FULL");
    let body = sql.ask("SELECT 'body:' || md5(body) FROM pages").concat();
    client.set(&body, b"v");
    sql.ask("UPDATE pages SET slug = 'uno'");
    shop.catch_up(&mut sql);
    assert_eq!(client.get(&body), None, "the old image has it");
    assert_eq!(shop.metric("unknown_total"), Some(1), "{}", shop.said());
    assert!(shop.asks("check").0);
}

#[test]
fn values_of_all_types_have_the_text_that_sql_shows() {
    let columns = [
        ("a", "smallint", "-5"),
        ("b", "bigint", "-9223372036854775808"),
        ("c", "numeric(20,3)", "-12345678901.250"),
        ("d", "real", "1.1"),
        ("e", "double precision", "0.1"),
        ("f", "boolean", "true"),
        ("g", "text", "'é-x'"),
        ("h", "varchar(30)", "'a b'"),
        ("i", "char(3)", "'ab'"),
        ("j", "bytea", "'\\x00ff'"),
        ("k", "date", "'2026-02-28'"),
        ("l", "timestamp(3)", "'2026-02-28T01:02:03.045'"),
        ("m", "timestamptz", "'2026-07-01 10:20:30.4+02'"),
        ("n", "time", "'01:02:03.5'"),
        ("o", "interval", "'1 day 2 hours'"),
        ("p", "uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"),
        ("q", "jsonb", "'{\"b\": [1, null], \"a\": 2}'"),
        ("r", "int[]", "'{1,2,NULL}'"),
        ("s", "inet", "'10.0.0.1/8'"),
        ("t", "mood", "'happy'"),
        ("u", "bit(5)", "B'10101'"),
        ("v", "int4range", "'[1,5)'"),
    ];
    let schema = |columns: &str| {
        format!(
            "CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TABLE types ({columns}); \
             ALTER DATABASE postgres SET timezone = 'Asia/Tokyo'; \
             ALTER DATABASE postgres SET datestyle = 'SQL, DMY'"
        )
    };
    let session = "SET timezone = 'UTC'; SET datestyle = 'ISO'";
    guira_tests::keys::are_what_sql_shows::<Postgres>(
        "public.types",
        &columns,
        schema,
        session,
        str::to_owned,
    );
}

/// PostgreSQL sends a transaction that waits for a standby; readers see the old row meanwhile. A reader without a lease
/// puts it into the cache: after the delete, if that comes too early.
#[test]
fn no_delete_comes_before_the_change_can_be_read_and_without_the_barrier_a_stale_value_stays() {
    let schema = "CREATE TABLE users (id int PRIMARY KEY, v int); INSERT INTO users VALUES (1, 1)";
    let rules = r#"{"table": "public.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let _daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut writer = shop.sql();
    let mut client = shop.clients().remove(0);
    let rows = || shop.metric("rows_total").expect("a test can have it");
    freeze(&mut sql, true);
    let before = rows();
    writer.begin("UPDATE users SET v = 2 WHERE id = 1");
    eventually("the log has the change", || rows() > before);
    client.set("user:1", b"1");
    eventually("the barrier was asked often", || {
        shop.metric("barrier_asked_total").is_some_and(|asked| asked > 50)
    });
    assert_eq!(sql.ask("SELECT v FROM users"), ["1"], "the commit is held");
    assert_eq!(client.get("user:1").as_deref(), Some(&b"1"[..]), "a delete came too early");
    assert_eq!(shop.metric("deletes_total"), Some(0));
    freeze(&mut sql, false);
    eventually("the delete comes after the commit", || client.get("user:1").is_none());
    assert_eq!(sql.ask("SELECT v FROM users"), ["2"]);
    // Without the right to ask, the daemon has no barrier after ten seconds.
    freeze(&mut sql, true);
    sql.ask("SET synchronous_commit = local; REVOKE EXECUTE ON FUNCTION pg_current_snapshot() FROM PUBLIC");
    writer.begin("UPDATE users SET v = 3 WHERE id = 1");
    let deletes = || shop.metric("deletes_total").expect("a test can have it");
    let sent = deletes();
    within(40, "the delete comes too early", || deletes() > sent);
    let seen = sql.ask("SELECT v FROM users").concat();
    assert_eq!(seen, "2", "the commit is held");
    client.set("user:1", seen.as_bytes());
    freeze(&mut sql, false);
    eventually("the commit is there", || sql.ask("SELECT v FROM users") == ["3"]);
    assert_eq!(client.get("user:1").as_deref(), Some(&b"2"[..]), "no barrier, and a stale value");
    sql.ask("GRANT EXECUTE ON FUNCTION pg_current_snapshot() TO PUBLIC");
    within(20, "what went unproven goes again", || client.get("user:1").is_none());
}

#[test]
fn a_transaction_of_many_rows_and_an_idle_slot_leave_nothing_behind() {
    let schema = "CREATE TABLE users (id int PRIMARY KEY); CREATE TABLE noise (body text)";
    let rules = r#"{"table": "public.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let _daemon = shop.daemon();
    let mut sql = shop.sql();
    let mut client = shop.clients().remove(0);
    for key in ["user:1", "user:777", "user:20000", "user:20001"] {
        client.set(key, b"v");
    }
    sql.ask("INSERT INTO users SELECT generate_series(1, 20000)");
    shop.catch_up(&mut sql);
    assert_eq!(shop.metric("rows_total"), Some(20_000));
    for (key, is_there) in
        [("user:1", false), ("user:777", false), ("user:20000", false), ("user:20001", true)]
    {
        assert_eq!(client.get(key).is_some(), is_there, "{key}");
    }
    // What no rule is about moves the slot, too.
    sql.ask("ALTER PUBLICATION guira SET (publish = 'insert')");
    sql.ask("INSERT INTO noise SELECT repeat('a', 1000) FROM generate_series(1, 2000)");
    sql.ask("DELETE FROM noise");
    let end = lsn(&sql.ask("SELECT pg_current_wal_flush_lsn()").concat());
    let confirmed = "SELECT confirmed_flush_lsn FROM pg_replication_slots";
    within(30, "the slot has moved", || lsn(&sql.ask(confirmed).concat()) >= end);
}

/// What the slot was told of, the database forgets: it must be stored by then.
#[test]
fn the_slot_is_told_of_what_is_stored_only() {
    let schema = "CREATE TABLE users (id serial PRIMARY KEY)";
    let rules = r#"{"table": "public.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let _daemon = shop.daemon();
    let mut sql = shop.sql();
    let position = shop.database.dir.join("state/db/position");
    let (mut before, mut moves) = (0, 0);
    within(60, "the slot moves", || {
        let ask = "INSERT INTO users DEFAULT VALUES; SELECT confirmed_flush_lsn FROM pg_replication_slots";
        let confirmed = lsn(&sql.ask(ask).concat());
        let text = std::fs::read_to_string(&position).expect("it is there from the start");
        let read = text.lines().find_map(|line| line.strip_prefix("read "));
        let stored = lsn(read.expect("a position"));
        assert!(confirmed <= stored, "the slot has {confirmed:X}, stored is {stored:X}");
        moves += u32::from(confirmed > before);
        before = before.max(confirmed);
        moves > 4
    });
}

#[test]
fn a_slot_that_is_gone_ends_the_daemon_with_its_code() {
    let schema = "CREATE TABLE users (id int PRIMARY KEY)";
    let rules = r#"{"table": "public.users", "keys": ["user:{id}"]}"#;
    let shop = Shop::new(1, schema, rules, true, "");
    let mut sql = shop.sql();
    let mut daemon = shop.daemon();
    sql.ask("INSERT INTO users VALUES (1)");
    shop.catch_up(&mut sql);
    stop(&mut daemon);
    drop_slot(&mut sql);
    shop.ends(3, "the slot is gone");
    let (is_good, words) = shop.asks("check");
    assert!(
        !is_good && words.contains("pg_create_logical_replication_slot('guira', 'pgoutput')"),
        "{words}"
    );
    sql.ask("INSERT INTO users VALUES (2)");
    sql.ask("SELECT pg_create_logical_replication_slot('guira', 'pgoutput')");
    shop.ends(3, "made it anew");
    let (code, words) = shop.asks_with("check", &[]);
    assert_eq!(code, Some(3), "{words}");
    assert!(words.contains("made it anew") && words.contains("remove db/position"), "{words}");
    sql.ask("DROP PUBLICATION guira");
    let (is_good, words) = shop.asks("check");
    assert!(
        !is_good && words.contains("CREATE PUBLICATION \"guira\" FOR TABLE public.users"),
        "{words}"
    );
    let (is_good, words) = shop.asks("init");
    assert!(
        is_good && words.contains("CREATE PUBLICATION \"guira\" FOR TABLE public.users"),
        "{words}"
    );
}

/// Commits wait for a standby that isn't there, or no longer.
fn freeze(sql: &mut Sql, is_frozen: bool) {
    let name = if is_frozen { "nobody" } else { "" };
    sql.ask(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
    sql.ask("SELECT pg_reload_conf()");
    within(10, "the setting holds", || sql.ask("SHOW synchronous_standby_names").concat() == name);
}

/// Readers without leases fill caches, while rows change and daemon and database are killed. In the end no cached value is
/// older than its row.
#[test]
fn no_stale_value_stays_over_kills_of_daemon_and_database() {
    let schema = format!(
        "CREATE TABLE users (id int PRIMARY KEY, v int); INSERT INTO users SELECT generate_series(0, {}), 0",
        ROWS - 1
    );
    let rules = r#"{"table": "public.users", "keys": ["user:{id}"]}"#;
    let mut shop = Shop::new(2, &schema, rules, false, "");
    shop.stays_fresh_over_kills("users");
}

/// Drops the slot of a daemon that has ended, once the server has seen that.
fn drop_slot(sql: &mut Sql) {
    let left = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'guira'";
    let drop =
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active";
    within(30, "the slot is dropped", || {
        sql.ask(drop);
        sql.ask(left) == ["0"]
    });
}

/// What changed while the slot was gone stays as it was (`now`), or goes with all else that is cached (`flush`). So does what
/// is cached when a table is emptied that a rule flushes for.
#[test]
fn a_lost_slot_or_an_emptied_table_flushes_all_if_it_must() {
    let schema = "CREATE TABLE users (id int PRIMARY KEY, v int); INSERT INTO users VALUES (1, 1), (2, 1); \
                  CREATE TABLE pages (id int PRIMARY KEY); CREATE TABLE logs (id int PRIMARY KEY)";
    let rules = r#"{"table": "public.users", "keys": ["user:{id}"]},
                   {"table": "public.logs", "keys": ["log:{id}"], "on_truncate": "ignore"},
                   {"table": "public.pages", "keys": ["page:{id}"], "to": ["c2"], "on_truncate": "flush"}"#;
    let shop = Shop::new(2, schema, rules, true, r#", "on_gap": "now""#);
    let mut sql = shop.sql();
    let mut clients = shop.clients();
    let fill = |clients: &mut Vec<Client>| {
        for key in ["user:1", "user:2", "other"] {
            clients.iter_mut().for_each(|client| drop(client.set(key, b"v")));
        }
    };
    let there = |clients: &mut Vec<Client>, key: &str| -> Vec<bool> {
        clients.iter_mut().map(|client| client.get(key).is_some()).collect()
    };
    let mut daemon = shop.daemon();
    sql.ask("UPDATE users SET v = 2 WHERE id = 1");
    shop.catch_up(&mut sql);
    for (answer, is_kept) in [("now", true), ("flush", false)] {
        stop(&mut daemon);
        fill(&mut clients);
        shop.reconfigure("\"now\"", &format!("\"{answer}\""));
        drop_slot(&mut sql);
        sql.ask("UPDATE users SET v = v + 1 WHERE id = 1");
        // The new slot waits for a transaction that is under way.
        let mut writer = shop.sql();
        writer.ask("BEGIN; UPDATE users SET v = v + 1 WHERE id = 1");
        daemon = shop.begin();
        let made = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'guira'";
        within(30, "a slot is being made", || sql.ask(made) == ["1"]);
        thread::sleep(Duration::from_secs(6));
        assert_eq!(there(&mut clients, "other"), [true; 2], "not before those can be read");
        writer.ask("COMMIT");
        within(60, "it reads", || shop.metric("reading") == Some(1));
        shop.catch_up(&mut sql);
        for key in ["user:1", "other"] {
            assert_eq!(there(&mut clients, key), [is_kept; 2], "{answer}: {}", shop.said());
        }
        assert_eq!(shop.metric("gaps_total"), Some(1), "{}", shop.said());
        assert_eq!(shop.metric("flushes_total"), Some(if is_kept { 0 } else { 2 }));
        fill(&mut clients);
        sql.ask("UPDATE users SET v = v + 1 WHERE id = 2");
        shop.catch_up(&mut sql);
        assert_eq!(there(&mut clients, "user:2"), [false; 2], "it goes on");
        assert_eq!(there(&mut clients, "other"), [true; 2]);
    }
    sql.ask("TRUNCATE logs");
    shop.catch_up(&mut sql);
    assert_eq!(there(&mut clients, "other"), [true; 2]);
    sql.ask("BEGIN; TRUNCATE pages; ROLLBACK; BEGIN; INSERT INTO users VALUES (3, 1); COMMIT");
    shop.catch_up(&mut sql);
    assert_eq!(there(&mut clients, "other"), [true; 2]);
    sql.ask("TRUNCATE pages, logs");
    shop.catch_up(&mut sql);
    assert_eq!(there(&mut clients, "other"), [true, false], "{}", shop.said());
    assert_eq!(shop.metric("unknown_total"), Some(0), "{}", shop.said());
}
