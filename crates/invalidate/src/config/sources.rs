//! Parses the databases and the destinations of a configuration.

use std::time::Duration;

use guira_client::Address;
use guira_config::{ConfigError, Json, Result};

use super::fields::{Fields, duration};
use super::{
    DestinationConfig, OnGap, OnUnknown, PostgresConfig, SourceConfig, SourceKind, Tail, TlsConfig,
    is_loopback,
};
use crate::rule::{How, TableName};
use crate::text::CommentLimits;

/// Parses one of `sources`.
pub(super) fn source(name: &str, json: &Json, region: Option<&str>) -> Result<SourceConfig> {
    let kind = json.as_object().and_then(|object| object.get("kind")).and_then(Json::as_str);
    let (known, later) = match kind {
        Some("postgres") => (POSTGRES, POSTGRES_LATER),
        Some("mysql") => (MYSQL, MYSQL_LATER),
        _ => (SOURCE, SOURCE_LATER),
    };
    let fields = Fields::new(format!("source '{name}'"), json, known, later)?;
    check_name(&fields, name, json)?;
    fields.needed("kind")?;
    let is_postgres = fields.choice("kind", KINDS, &[])?;
    fields.choice("start", &[("now", ())], &[])?;
    let hosts = addresses(&fields, "hosts", if is_postgres { 5432 } else { 3306 })?;
    let tail = tail(&fields, hosts.len(), is_postgres)?;
    let tls = fields.get("tls").map(|json| tls(json, name)).transpose()?;
    hosts.iter().try_for_each(|host| check_tls(&fields, host, tls.is_some()))?;
    if !is_postgres {
        fields.needed("server_id")?;
    }
    let server_id = fields.number("server_id", 1, u64::from(u32::MAX))?.unwrap_or(1);
    let outbox = fields.text("outbox")?.map(|text| table(&fields, "outbox", text)).transpose()?;
    let mut comments = match fields.get("comments") {
        None => CommentLimits { prefixes: Vec::new(), bytes_max: 4096, keys_max: 64, region: None },
        Some(json) => comments(json, name)?,
    };
    comments.region = region.map(str::to_owned);
    let kind = match is_postgres {
        false if kind == Some("mysql") => SourceKind::MySql,
        false => SourceKind::MariaDb,
        true => SourceKind::Postgres(postgres(&fields)?),
    };
    let has_messages =
        matches!(&kind, SourceKind::Postgres(PostgresConfig { messages: Some(_), .. }));
    for (name, names_keys) in [("messages", has_messages), ("outbox", outbox.is_some())] {
        if names_keys && comments.prefixes.is_empty() {
            let words =
                "needs the prefixes that its keys may have: \"comments\": {\"prefixes\": […]}";
            return Err(fields.error(name, words));
        }
    }
    Ok(SourceConfig {
        name: name.to_owned(),
        kind,
        host: hosts[0].clone(),
        hosts: hosts.into(),
        tail,
        tls,
        user: fields.needed_text("user")?.to_owned(),
        password_file: fields.text("password_file")?.map(Into::into),
        server_id: u32::try_from(server_id).unwrap_or(u32::MAX),
        on_gap: fields.choice("on_gap", ON_GAP, &[])?,
        outbox,
        comments,
        on_unknown: fields.choice("on_unknown", ON_UNKNOWN, &[])?,
        has_accepted_cascades: fields.choice(
            "cascades",
            &[("refused", false), ("accepted", true)],
            &[],
        )?,
    })
}

/// Parses `tail`. Of several hosts usually only one accepts changes; a single host may have any role.
fn tail(fields: &Fields<'_>, hosts: usize, is_postgres: bool) -> Result<Tail> {
    let all = [("primary", Tail::Primary), ("replica", Tail::Replica), ("any", Tail::Any)];
    match fields.get("tail") {
        None if hosts == 1 && !is_postgres => Ok(Tail::Any),
        None => Ok(Tail::Primary),
        Some(_) if is_postgres => fields.choice("tail", &all[..1], &["replica", "any"]),
        Some(_) => fields.choice("tail", &all, &[]),
    }
}

/// Parses the settings of PostgreSQL. The names become parts of SQL and commands, so they have only letters, digits and
/// `_`.
fn postgres(fields: &Fields<'_>) -> Result<PostgresConfig> {
    let plain = |name: &str, default: &str| -> Result<String> {
        let text = fields.text(name)?.unwrap_or(default);
        let is_plain = text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        match is_plain && (1..=63).contains(&text.len()) {
            true => Ok(text.to_owned()),
            false => Err(fields.error(name, "is 1 to 63 small letters, digits and '_'")),
        }
    };
    let messages = fields.text("messages")?;
    if messages.is_some_and(str::is_empty) {
        return Err(fields.error("messages", "is empty"));
    }
    Ok(PostgresConfig {
        database: fields.needed_text("database")?.to_owned(),
        slot: plain("slot", "guira")?,
        publication: plain("publication", "guira")?,
        messages: messages.map(str::to_owned),
    })
}

/// Checks that a host is asked in clear only on this machine.
fn check_tls(fields: &Fields<'_>, host: &Address, has_tls: bool) -> Result<()> {
    match host {
        Address::Tcp { host, .. } if !has_tls && !is_loopback(host) => {
            let words = "is another machine, and password and rows would go there in clear: add \"tls\": {\"ca\": \"/etc/guira/db.pem\"}";
            Err(fields.error("hosts", words))
        }
        Address::Unix(_) if has_tls => {
            Err(fields.error("tls", "is for ports: nobody reads along at a unix socket"))
        }
        _ => Ok(()),
    }
}

fn tls(json: &Json, name: &str) -> Result<TlsConfig> {
    let fields = Fields::new(format!("tls of source '{name}'"), json, &["ca", "name"], &[])?;
    Ok(TlsConfig {
        ca: fields.needed_text("ca")?.into(),
        name: fields.text("name")?.map(str::to_owned),
    })
}

fn comments(json: &Json, name: &str) -> Result<CommentLimits> {
    let known = ["prefixes", "bytes_max", "keys_max"];
    let fields = Fields::new(format!("comments of source '{name}'"), json, &known, &[])?;
    let prefixes = fields.texts("prefixes")?.unwrap_or_default();
    if prefixes.is_empty() || prefixes.contains(&"") {
        return Err(fields.error("prefixes", "lists what keys in comments may begin with"));
    }
    let most = |name: &str, default: u64, most: u64| -> Result<usize> {
        let number = fields.number(name, 1, most)?.unwrap_or(default);
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    };
    Ok(CommentLimits {
        prefixes: prefixes.into_iter().map(str::to_owned).collect(),
        bytes_max: most("bytes_max", 4096, 4096)?,
        keys_max: most("keys_max", 64, 4096)?,
        region: None,
    })
}

/// Parses one of `destinations`.
pub(super) fn destination(name: &str, json: &Json) -> Result<DestinationConfig> {
    let fields =
        Fields::new(format!("destination '{name}'"), json, DESTINATION, DESTINATION_LATER)?;
    check_name(&fields, name, json)?;
    let prefix = fields.text("prefix")?.unwrap_or_default();
    let is_plain = prefix.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*');
    let is_prefix = prefix.starts_with('/') && prefix.ends_with('/');
    let is_good = is_plain && is_prefix && prefix.len() <= PREFIX_BYTES_MAX;
    if !(prefix.is_empty() || is_good) {
        let words = "is a route as /region/cluster/, without '*': only the first route of several is waited for";
        return Err(fields.error("prefix", words));
    }
    let has_markers = fields.truth("markers")?;
    if has_markers {
        let of_deletes = ["again", "leases", "how", "flush_after", "flush_over"];
        if let Some(name) = of_deletes.into_iter().find(|name| fields.get(name).is_some()) {
            let words = "is about deletes, of which a destination with markers gets none";
            return Err(fields.error(name, words));
        }
    }
    let has_leases = fields.truth("leases")? || has_markers;
    let again = if has_leases { Duration::ZERO } else { AGAIN };
    Ok(DestinationConfig {
        name: name.to_owned(),
        routers: addresses(&fields, "routers", 5000)?,
        prefix: prefix.to_owned(),
        again: fields.duration("again")?.unwrap_or(again),
        how: how(&fields)?.unwrap_or(How::Delete),
        flush_after: fields.duration("flush_after")?.unwrap_or(Duration::ZERO),
        flush_over: fields.duration("flush_over")?.unwrap_or(Duration::ZERO),
        has_markers,
    })
}

/// Parses `delete`, `stale:30s` or `hold_off:2s`.
pub(super) fn how(fields: &Fields<'_>) -> Result<Option<How>> {
    let Some(text) = fields.text("how")? else { return Ok(None) };
    let (word, seconds) = match text.split_once(':') {
        Some((word, time)) => (word, duration(time).map(|time| time.as_secs())),
        None => (text, None),
    };
    let seconds =
        seconds.filter(|it| (1..=HOLD_S_MAX).contains(it)).and_then(|it| u32::try_from(it).ok());
    match (word, seconds) {
        ("delete", None) if word == text => Ok(Some(How::Delete)),
        ("stale", Some(seconds)) => Ok(Some(How::Stale(seconds))),
        ("hold_off", Some(seconds)) => Ok(Some(How::HoldOff(seconds))),
        _ => Err(fields.error(
            "how",
            format!("is delete, stale:30s or hold_off:2s, with seconds from 1 to {HOLD_S_MAX}: '{text}' is none"),
        )),
    }
}

pub(super) fn table(fields: &Fields<'_>, name: &str, text: &str) -> Result<TableName> {
    let words = || format!("is a schema and a table, as in shop.users: '{text}' isn't");
    TableName::parse(text).ok_or_else(|| fields.error(name, words()))
}

/// Checks a name, which becomes part of file names and labels.
fn check_name(fields: &Fields<'_>, name: &str, json: &Json) -> Result<()> {
    if is_name(name) {
        return Ok(());
    }
    Err(ConfigError::at(json.line, format!("{}: {NAME}", fields.at)))
}

pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

fn addresses(fields: &Fields<'_>, name: &str, port: u16) -> Result<Vec<Address>> {
    fields.needed(name)?;
    let texts = fields.texts(name)?.unwrap_or_default();
    if texts.is_empty() {
        return Err(fields.error(name, "is empty"));
    }
    let address = |text: &str| {
        let has_port = text.starts_with(['/', '[']) || text.contains(':');
        let text = if has_port { text.to_owned() } else { format!("{text}:{port}") };
        text.parse().map_err(|error| fields.error(name, format!(": {error}")))
    };
    texts.into_iter().map(address).collect()
}

const ON_UNKNOWN: &[(&str, OnUnknown)] =
    &[("count", OnUnknown::Count), ("stop", OnUnknown::Stop), ("flush", OnUnknown::Flush)];
const ON_GAP: &[(&str, OnGap)] =
    &[("stop", OnGap::Stop), ("now", OnGap::Now), ("flush", OnGap::Flush)];
/// The kinds of sources, and whether each is PostgreSQL.
const KINDS: &[(&str, bool)] = &[("mariadb", false), ("mysql", false), ("postgres", true)];
const SOURCE: &[&str] = &[
    "kind",
    "hosts",
    "tail",
    "tls",
    "user",
    "password_file",
    "server_id",
    "start",
    "on_gap",
    "on_unknown",
    "outbox",
    "comments",
];
const MYSQL: &[&str] = &[
    "kind",
    "hosts",
    "tail",
    "tls",
    "user",
    "password_file",
    "server_id",
    "start",
    "on_gap",
    "on_unknown",
    "outbox",
    "comments",
    "cascades",
];
const MYSQL_LATER: &[&str] = &["gate"];
const SOURCE_LATER: &[&str] = &["gate", "cascades"];
const POSTGRES: &[&str] = &[
    "kind",
    "hosts",
    "tail",
    "tls",
    "user",
    "password_file",
    "database",
    "slot",
    "publication",
    "messages",
    "start",
    "on_gap",
    "on_unknown",
    "outbox",
    "comments",
];
const POSTGRES_LATER: &[&str] = &["gate"];
pub(super) const NAME: &str = "a name has 1 to 64 letters, digits, '_' and '-'";
const DESTINATION: &[&str] =
    &["routers", "prefix", "again", "leases", "how", "flush_after", "flush_over", "markers"];
const DESTINATION_LATER: &[&str] = &["tls", "ack", "linger"];
/// The default delay of the second delete. Readers without leases may store what they read before the first delete, but
/// hardly later than this.
const AGAIN: Duration = Duration::from_secs(2);
/// A month. memcached takes a longer time for a date.
const HOLD_S_MAX: u64 = 30 * 86_400;
const PREFIX_BYTES_MAX: usize = 128;
