//! Parses the whole file: its members, and their dependencies.

use std::path::Path;

use guira_config::budget::{BUDGET_BYTES, Budget};
use guira_config::{ConfigError, ConfigFindings, Json, Object, Result, parse_within};

use super::audit::audit;
use super::etcd::etcd;
use super::fields::Fields;
use super::rules::rule;
use super::sources::{NAME, destination, is_name, source};
use super::{InvalidateConfig, JournalLimits, WhenFull};
use std::time::Duration;

/// Reads a configuration file.
///
/// # Errors
/// Why the file can't be used, and on which line.
pub(crate) fn read(path: &Path) -> Result<InvalidateConfig> {
    let file = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::new(format!("{file}: {error}")))?;
    parse(&text).map_err(|error| ConfigError {
        file: (error.line > 0).then(|| path.to_string_lossy().into()),
        ..error
    })
}

/// Parses the text of a configuration.
///
/// # Errors
/// See [`read`].
pub(crate) fn parse(text: &str) -> Result<InvalidateConfig> {
    let mut findings = ConfigFindings::default();
    let json = parse_within(text, &Budget::new(BUDGET_BYTES), &mut findings)?;
    if let Some(mistake) = findings.mistakes.into_iter().next() {
        return Err(mistake);
    }
    let fields = Fields::new("the configuration".to_owned(), &json, WHOLE, &[])?;
    let region = fields.text("region")?;
    if region.is_some_and(|region| !is_name(region)) {
        return Err(fields.error("region", format!(": {NAME}")));
    }
    let destinations: Vec<_> = members(&fields, "destinations")?
        .iter()
        .map(|(name, json)| destination(name, json))
        .collect::<Result<_>>()?;
    let of_deletes = destinations.iter().filter(|it| !it.has_markers);
    let names: Vec<&str> = of_deletes.map(|it| it.name.as_str()).collect();
    if names.is_empty() {
        return Err(fields.error("destinations", "all have markers: nothing would be deleted"));
    }
    let rules = match fields.get("rules") {
        None => &[][..],
        Some(json) => {
            json.as_array().ok_or_else(|| fields.error("rules", "is a list of objects"))?
        }
    };
    let rules: Vec<_> = rules
        .iter()
        .enumerate()
        .map(|(index, json)| rule(index + 1, json, &names))
        .collect::<Result<_>>()?;
    let sources: Vec<_> = members(&fields, "sources")?
        .iter()
        .map(|(name, json)| source(name, json, region))
        .collect::<Result<_>>()?;
    let names_keys = |source: &super::SourceConfig| !source.comments.prefixes.is_empty();
    if rules.is_empty() && !sources.iter().any(names_keys) {
        let words = "are missing, and no source takes comments: nothing would ever be deleted";
        return Err(fields.error("rules", words));
    }
    if destinations.iter().any(|it| it.has_markers) {
        if region.is_none() {
            let words = "is missing: whose markers are cleared, as its writers' marks name it";
            return Err(fields.error("region", words));
        }
        if !sources.iter().any(names_keys) {
            let words =
                ": a destination has markers, and no source takes the comments that marks stand in";
            return Err(fields.error("destinations", words));
        }
    }
    Ok(InvalidateConfig {
        name: fields.text("name")?.unwrap_or("guira").to_owned(),
        region: region.map(str::to_owned),
        state: fields.needed_text("state")?.into(),
        http: fields.text("http")?.map(str::to_owned),
        memory: usize::try_from(fields.size("memory", MEMORY_LEAST)?.unwrap_or(MEMORY))
            .unwrap_or(usize::MAX),
        journal: journal(fields.get("journal"))?,
        audit: audit(fields.get("audit"))?,
        etcd: etcd(fields.get("etcd"))?,
        sources,
        rules,
        destinations,
    })
}

/// Returns an object that must have members.
fn members<'j>(fields: &Fields<'j>, name: &str) -> Result<&'j Object> {
    let object = fields.needed(name)?.as_object().filter(|object| !object.is_empty());
    object.ok_or_else(|| fields.error(name, "is an object with a member for each"))
}

fn journal(json: Option<&Json>) -> Result<JournalLimits> {
    let empty = Json::from(Object::default());
    let known = ["bytes", "keep", "when_full"];
    let fields = Fields::new("journal".to_owned(), json.unwrap_or(&empty), &known, &[])?;
    let choices = [("taint", WhenFull::Taint), ("hold", WhenFull::Hold)];
    Ok(JournalLimits {
        bytes: fields.size("bytes", JOURNAL_LEAST)?.unwrap_or(JOURNAL),
        keep: fields.duration("keep")?.unwrap_or(KEEP),
        when_full: fields.choice("when_full", &choices, &[])?,
    })
}

const WHOLE: &[&str] = &[
    "name",
    "region",
    "state",
    "http",
    "memory",
    "journal",
    "sources",
    "rules",
    "destinations",
    "audit",
    "etcd",
];
const MEMORY: u64 = 64 << 20;
const MEMORY_LEAST: u64 = 1 << 20;
const JOURNAL: u64 = 4 << 30;
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// Two segments, and the one that is being written.
const JOURNAL_LEAST: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OnGap, PostgresConfig, SourceKind, Tail};
    use crate::rule::{How, OnTruncate, Verb};
    use guira_client::Address;

    const WHOLE_FILE: &str = r#"{ // a shop
      "name": "shop", "state": "/var/lib/guira/invalidate", "memory": "16MiB",
      "journal": {"bytes": "1GiB", "keep": "1h", "when_full": "hold"},
      "sources": {"orders": {"kind": "mariadb", "hosts": ["localhost"], "user": "guira",
        "password_file": "/etc/guira/pw", "server_id": 4242, "on_gap": "flush", "outbox": "shop.mcinv",
        "comments": {"prefixes": ["user:"], "keys_max": 8}}},
      "rules": [
        {"table": "shop.users", "keys": ["user:{id}", "mail:{email|lower|md5}"]},
        {"table": "shop.users", "on": ["update"], "changed": ["name"], "keys": ["card:{id}"],
          "how": "stale:30s", "to": ["c1"], "on_truncate": ["all"]},
        {"table": "shop.carts", "keys": ["cart:{id}"], "on_truncate": "flush"}
      ],
      "destinations": {
        "c1": {"routers": ["r1:5000", "/run/router.sock"], "prefix": "/eu/c1/"},
        "c2": {"routers": ["r3"], "leases": true, "how": "hold_off:2s", "flush_after": "10m"}} }"#;

    #[test]
    fn a_whole_file_means_what_it_says() {
        let config = parse(WHOLE_FILE).unwrap();
        assert_eq!(config.memory, 16 << 20);
        assert_eq!(config.journal.when_full, WhenFull::Hold);
        let source = &config.sources[0];
        assert_eq!(source.host, Address::Tcp { host: "localhost".into(), port: 3306 });
        assert_eq!(source.tail, Tail::Any);
        assert_eq!((source.server_id, source.comments.keys_max), (4242, 8));
        assert_eq!(source.outbox.as_ref().unwrap().to_string(), "shop.mcinv");
        assert_eq!(config.rules[0].on.len(), 3);
        assert_eq!(config.rules[1].on, [Verb::Update]);
        assert_eq!(config.rules[1].how, Some(How::Stale(30)));
        assert!(matches!(&config.rules[1].on_truncate, OnTruncate::Keys(keys) if keys.len() == 1));
        assert_eq!(
            (source.on_gap, &config.rules[2].on_truncate),
            (OnGap::Flush, &OnTruncate::Flush)
        );
        let [c1, c2] = &config.destinations[..] else { panic!("two") };
        assert_eq!((c1.again, c1.how), (Duration::from_secs(2), How::Delete));
        assert_eq!((c2.again, c2.how), (Duration::ZERO, How::HoldOff(2)));
        assert_eq!(c2.routers[0].to_string(), "r3:5000");
        let waits = config.destinations.iter().map(|it| it.flush_after).collect::<Vec<_>>();
        assert_eq!(waits, [Duration::ZERO, Duration::from_secs(600)]);
    }

    #[test]
    fn several_hosts_have_their_turns_and_the_primary_is_followed_unless_another_is_wanted() {
        let hosts = r#"["localhost", "127.0.0.1:7", "/run/db"]"#;
        let text = WHOLE_FILE.replacen("[\"localhost\"]", hosts, 1);
        let source = parse(&text).unwrap().sources.remove(0);
        assert_eq!((source.hosts.len(), source.tail), (3, Tail::Primary));
        let asked: Vec<String> = (0..4).map(|turn| source.at(turn).host.to_string()).collect();
        assert_eq!(asked[0], source.host.to_string());
        assert_eq!((&*asked[1], &asked[3]), ("127.0.0.1:7", &asked[0]));
        for (word, tail) in [("replica", Tail::Replica), ("any", Tail::Any)] {
            let by = format!("\"tail\": \"{word}\", \"server_id\"");
            let text = text.replacen("\"server_id\"", &by, 1);
            assert_eq!(parse(&text).unwrap().sources[0].tail, tail);
        }
    }

    #[test]
    fn a_postgres_has_a_database_a_slot_and_messages() {
        let mariadb = "\"kind\": \"mariadb\", \"hosts\": [\"localhost\"], \"user\": \"guira\",";
        let postgres = r#""kind": "postgres", "hosts": ["localhost"], "user": "guira", "database": "shop", "messages": "m","#;
        let text =
            WHOLE_FILE.replacen(mariadb, postgres, 1).replacen("\"server_id\": 4242,", "", 1);
        let source = parse(&text).unwrap().sources.remove(0);
        assert_eq!(source.host, Address::Tcp { host: "localhost".into(), port: 5432 });
        let name = "guira".to_owned();
        let database = PostgresConfig {
            database: "shop".to_owned(),
            slot: name.clone(),
            publication: name,
            messages: Some("m".to_owned()),
        };
        assert_eq!(source.kind, SourceKind::Postgres(database));
        for (piece, by, words) in [
            ("\"database\": \"shop\",", "", "'database' is missing"),
            ("\"messages\": \"m\",", "\"slot\": \"a'b\",", "'slot' is 1 to 63 small letters"),
            ("\"messages\": \"m\",", "\"messages\": \"\",", "'messages' is empty"),
        ] {
            let told = parse(&text.replacen(piece, by, 1)).expect_err(by).to_string();
            assert!(told.contains(words), "{told}");
        }
    }

    /// Returns the error for the file with one piece replaced.
    fn refused(piece: &str, by: &str) -> String {
        assert!(WHOLE_FILE.contains(piece), "{piece}");
        parse(&WHOLE_FILE.replacen(piece, by, 1)).expect_err(by).to_string()
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_what_was_meant() {
        for (piece, by, words) in [
            ("\"state\"", "\"stat\"", "unknown field 'stat', did you mean 'state'? line: 2"),
            (
                "[\"localhost\"]",
                "[\"db1\"]",
                "'hosts' is another machine, and password and rows would go there in clear",
            ),
            (
                "[\"localhost\"]",
                "[\"10.0.0.1\"], \"tls\": {}",
                "tls of source 'orders': 'ca' is missing",
            ),
            (
                "[\"localhost\"]",
                "[\"/s\"], \"tls\": {\"ca\": \"x\"}",
                "nobody reads along at a unix socket",
            ),
            ("\"mariadb\"", "\"mysqld\"", "'mysqld' is none, did you mean 'mysql'?"),
            ("\"mariadb\"", "\"postgres\"", "source 'orders': unknown field 'server_id'"),
            ("\"mariadb\"", "\"mariadv\"", "'mariadv' is none, did you mean 'mariadb'?"),
            (
                "[\"localhost\"]",
                "[\"db1:3306\"]",
                "'hosts' is another machine, and password and rows",
            ),
            ("[\"localhost\"]", "[\"::1\", \"127.0.0.1\"]", "is no address"),
            (
                "[\"localhost\"]",
                "[\"[::1]:1\", \"db2\"]",
                "'hosts' is another machine, and password and rows",
            ),
            ("\"server_id\"", "\"tail\": \"primry\", \"server_id\"", "did you mean 'primary'?"),
            ("4242", "0", "'server_id' is a whole number from 1 to 4294967295"),
            ("\"16MiB\"", "\"16 apples\"", "'memory' : a size is a number of bytes"),
            ("\"1h\"", "\"1\"", "'keep' is a time with its unit"),
            ("\"hold\"", "\"holt\"", "did you mean 'hold'?"),
            ("\"shop.mcinv\"", "\"mcinv\"", "is a schema and a table"),
            ("[\"user:\"]", "[]", "lists what keys in comments may begin with"),
            (
                "{email|lower|md5}",
                "{email|loewr}",
                "rule 1: 'keys' 'mail:{email|loewr}': unknown filter",
            ),
            ("[\"update\"]", "[\"upsert\"]", "'upsert' is none"),
            ("\"stale:30s\"", "\"stale\"", "is delete, stale:30s or hold_off:2s"),
            ("[\"c1\"]", "[\"c3\"]", "names 'c3', which is no destination, did you mean 'c1'?"),
            ("[\"all\"]", "[\"a b\"]", "'a b' is no key: it has a blank"),
            ("[\"all\"]", "\"flush!\"", "is count, ignore, flush, or a list of keys"),
            ("\"on_gap\": \"flush\"", "\"on_gap\": \"flash\"", "did you mean 'flush'?"),
            ("\"/eu/c1/\"", "\"/*/c1/\"", "without '*'"),
            (
                "\"name\": \"shop\",",
                "\"region\": \"e.u\",",
                "'region' : a name has 1 to 64 letters",
            ),
            ("\"leases\": true", "\"linger\": 1", "'linger' isn't there yet"),
            ("\"leases\": true", "\"markers\": true", "'how' is about deletes, of which"),
            ("\"name\": \"shop\",", "\"state\": \"x\",", "'state' stands twice"),
            ("\"c2\"", "\"c 2\"", "a name has 1 to 64 letters"),
        ] {
            let told = refused(piece, by);
            assert!(told.contains(words), "{by}: {told}");
        }
    }

    #[test]
    fn a_destination_has_markers_or_gets_deletes_and_marks_have_a_region() {
        let text = WHOLE_FILE.replacen(
            "\"c1\": {",
            "\"m\": {\"routers\": [\"r9\"], \"markers\": true}, \"c1\": {",
            1,
        );
        let text =
            text.replacen("\"name\": \"shop\",", "\"name\": \"shop\", \"region\": \"eu\",", 1);
        let config = parse(&text).unwrap();
        let marker = |it: &super::super::DestinationConfig| (it.has_markers, it.again.is_zero());
        let of_markers: Vec<_> = config.destinations.iter().map(marker).collect();
        assert_eq!(of_markers, [(true, true), (false, false), (false, true)]);
        assert_eq!(config.region.as_deref(), Some("eu"));
        assert_eq!(config.sources[0].comments.region.as_deref(), Some("eu"));
        let moved = parse(&text.replacen("\"region\": \"eu\"", "\"region\": \"us\"", 1)).unwrap();
        assert_eq!(config.differs_from(&moved), ["region", "sources"]);
        let comments = "\"outbox\": \"shop.mcinv\",\n        \"comments\": {\"prefixes\": [\"user:\"], \"keys_max\": 8}";
        for (piece, by, words) in [
            ("\"region\": \"eu\",", "", "'region' is missing: whose markers"),
            ("[\"c1\"]", "[\"m\"]", "names 'm', which is no destination"),
            (comments, "\"on_unknown\": \"count\"", "no source takes the comments that marks"),
        ] {
            assert!(text.contains(piece), "{piece}");
            let told = parse(&text.replacen(piece, by, 1)).expect_err(by).to_string();
            assert!(told.contains(words), "{told}");
        }
        let at = text.find("\"c1\": {").unwrap();
        let told =
            parse(&format!("{} }} }}", text[..at].trim_end().trim_end_matches(','))).unwrap_err();
        assert!(told.to_string().contains("all have markers"), "{told}");
    }

    #[test]
    fn mistakes_about_etcd_are_told() {
        for (fields, words) in [
            ("", "etcd: 'at' is missing"),
            ("\"at\": \"h:1/a\"", "'at' is etcd:HOST:PORT/NAME"),
            ("\"at\": \"etcds:h:1/a\"", "'cacert' is missing: who signs"),
            (
                "\"at\": \"etcd:h:1/a\", \"lease\": \"2s\"",
                "'lease' is whole seconds, from 3s to 5m",
            ),
        ] {
            let told = refused("\"name\": \"shop\",", &format!("\"etcd\": {{{fields}}},"));
            assert!(told.contains(words), "{fields}: {told}");
        }
    }
}
