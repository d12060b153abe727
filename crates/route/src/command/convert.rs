//! `guira route convert`: converts twemproxy's YAML to a configuration of this router, with notes about differences.
//!
//! # Invariants
//! 1. Each key goes to the server that twemproxy sends it to. Otherwise the file is refused, with the reason.

use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use guira_log::Format;
use serde_json::{Value, json};
use yaml_rust2::yaml::Hash;
use yaml_rust2::{Yaml, YamlLoader};

use super::exit::{UNRECOVERABLE, refuse};
use crate::tree::KeyHash;

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("convert")
        .about("Convert a configuration of twemproxy for this router, and print what differs")
        .arg(
            Arg::new("file")
                .required(true)
                .value_name("FILE.yml")
                .help("twemproxy's configuration"),
        )
        .arg(
            Arg::new("pool")
                .long("pool")
                .value_name("POOL")
                .help("Pool to convert, if the file has several"),
        )
}

/// Runs the subcommand.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let file = text("file").unwrap_or_default();
    let read = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"));
    match read.and_then(|yaml| convert(&yaml, text("pool").as_deref())) {
        Ok(config) => {
            print!("{config}");
            ExitCode::SUCCESS
        }
        Err(words) => refuse(Format::Text, &words, UNRECOVERABLE),
    }
}

/// Converts one pool. Returns the configuration as text.
fn convert(yaml: &str, wanted: Option<&str>) -> Result<String, String> {
    let documents = YamlLoader::load_from_str(yaml).map_err(|error| error.to_string())?;
    let pools = documents.first().and_then(Yaml::as_hash).ok_or("there is no pool in the file")?;
    let names: Vec<&str> = pools.keys().filter_map(Yaml::as_str).collect();
    let name = match (wanted, &names[..]) {
        (Some(name), _) => name,
        (None, [name]) => name,
        (None, _) => {
            let all = names.join(", ");
            return Err(format!(
                "twemproxy listens on a port a pool: give --pool with one of {all}, and start a router for each"
            ));
        }
    };
    let pool = pools.get(&Yaml::String(name.to_owned())).and_then(Yaml::as_hash);
    let pool = pool.ok_or_else(|| format!("there is no pool {name}"))?;
    let pool = Pool { name, fields: pool };
    let config = pool.config()?;
    let mut text = String::new();
    for note in pool.notes(&config) {
        // Writing to a string doesn't fail.
        let _ = writeln!(text, "// {note}");
    }
    let pretty = serde_json::to_string_pretty(&config.json).map_err(|error| error.to_string())?;
    Ok(text + &pretty + "\n")
}

struct Pool<'y> {
    name: &'y str,
    fields: &'y Hash,
}

struct Config {
    json: Value,
    has_paths: bool,
}

/// A server as `host:port:weight name`.
struct Server {
    address: String,
    name: String,
    weight: u32,
    is_path: bool,
}

impl Pool<'_> {
    fn field(&self, name: &str) -> Option<&Yaml> {
        self.fields.get(&Yaml::String(name.to_owned()))
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.field(name)? {
            Yaml::String(text) | Yaml::Real(text) => Some(text.clone()),
            Yaml::Integer(number) => Some(number.to_string()),
            Yaml::Boolean(is) => Some(is.to_string()),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.field(name).and_then(Yaml::as_i64)
    }

    fn is(&self, name: &str) -> bool {
        matches!(self.text(name).as_deref(), Some("true" | "yes" | "on"))
    }

    fn servers(&self) -> Result<Vec<Server>, String> {
        let list = self.field("servers").and_then(Yaml::as_vec);
        let list = list.ok_or_else(|| format!("pool {} has no servers", self.name))?;
        let server = |yaml: &Yaml| {
            let text = yaml.as_str().unwrap_or_default();
            server(text).ok_or_else(|| format!("server '{text}': host:port:weight is wanted"))
        };
        let mut servers = list.iter().map(server).collect::<Result<Vec<_>, _>>()?;
        // twemproxy sorts the servers by length of name, and then by name, before it numbers them.
        servers.sort_by(|a, b| (a.name.len(), &a.name).cmp(&(b.name.len(), &b.name)));
        Ok(servers)
    }

    fn config(&self) -> Result<Config, String> {
        if self.is("redis") {
            return Err(format!("pool {} is of Redis, which this router doesn't speak", self.name));
        }
        let servers = self.servers()?;
        let hash = self.text("hash").unwrap_or_else(|| "fnv1a_64".to_owned());
        let distribution = self.text("distribution").unwrap_or_else(|| "ketama".to_owned());
        let addresses: Vec<&str> = servers.iter().map(|s| &s.address[..]).collect();
        let mut pool = json!({ "servers": addresses });
        if let Some(timeout) = self.number("timeout").filter(|&timeout| timeout > 0) {
            pool["server_timeout"] = timeout.into();
        }
        if let Some(n) = self.number("server_connections").filter(|&n| n > 1) {
            pool["additional_fanout"] = (n - 1).into();
        }
        let route = if distribution == "random" {
            json!({ "type": "RandomRoute", "children": format!("Pool|{}", self.name) })
        } else {
            if KeyHash::named(&hash).is_none() {
                return Err(format!(
                    "hash: {hash} is one that this router hasn't; keys would move"
                ));
            }
            let mut func = json!({
                "hash_func": match &distribution[..] {
                    "ketama" => "Ketama",
                    "modula" => "Modula",
                    other => return Err(format!("distribution: {other} is unknown")),
                },
                "key_hash": hash,
                "weights": servers.iter().map(|s| s.weight).collect::<Vec<_>>(),
            });
            if distribution == "ketama" {
                func["names"] = servers.iter().map(|s| s.name.clone()).collect();
            }
            if let Some(tag) = self.text("hash_tag").filter(|tag| !tag.is_empty()) {
                func["hash_tag"] = tag.into();
            }
            json!({ "type": "PoolRoute", "pool": self.name, "hash": func })
        };
        let has_paths = servers.iter().any(|server| server.is_path);
        let json = json!({ "pools": { (self.name): pool }, "route": route });
        Ok(Config { json, has_paths })
    }

    /// Notes about what the configuration can't express, or what differs.
    fn notes(&self, config: &Config) -> Vec<String> {
        let mut notes =
            vec![format!("twemproxy's pool {}. What isn't in a configuration here:", self.name)];
        let mut flags = Vec::new();
        if let Some(listen) = self.text("listen") {
            let address = listen.split(' ').next().unwrap_or_default();
            match address.rsplit_once(':') {
                Some((host, port)) => flags.push(format!("-p {port} --listen-addresses {host}")),
                None => flags.push(format!("--unix-domain-sock {address}")),
            }
        }
        if let Some(backlog) = self.number("backlog") {
            flags.push(format!("--tcp-listen-backlog {backlog}"));
        }
        if let Some(n) = self.number("client_connections").filter(|&n| n > 0) {
            flags.push(format!("--max-conns {n}"));
        }
        if self.is("tcpkeepalive") {
            flags.push("--keepalive-count 9".to_owned());
        }
        if self.is("auto_eject_hosts") {
            let limit = self.number("server_failure_limit").unwrap_or(2);
            let retry = self.number("server_retry_timeout").unwrap_or(30_000);
            flags.push(format!("--timeouts-until-tko {limit} --probe-timeout-initial {retry}"));
        }
        if !flags.is_empty() {
            notes.push(format!("flags that say it: {}", flags.join(" ")));
        }
        if self.is("auto_eject_hosts") {
            notes.push(
                "auto_eject_hosts: keys of a server that fails don't move to the others, where they would be stale once \
                 it returns; it is left alone until a probe succeeds. For a stand-in see FailoverWithExptimeRoute."
                    .to_owned(),
            );
        }
        if self.number("timeout").is_none_or(|timeout| timeout <= 0) {
            notes.push(
                "timeout: twemproxy waits for ever; here a reply has --server-timeout, 1 s"
                    .to_owned(),
            );
        }
        if self.is("preconnect") {
            notes.push("preconnect: connections are opened by the first request".to_owned());
        }
        if config.has_paths {
            notes
                .push("a unix socket's name on the circle is its path, as in twemproxy".to_owned());
        }
        notes.push(
            "keys that begin with /a/b/ have a routing prefix here: the rest is hashed and sent"
                .to_owned(),
        );
        notes
    }
}

/// Parses `host:port:weight [name]` or `/path:weight [name]`.
fn server(text: &str) -> Option<Server> {
    let (place, name) = match text.split_once(' ') {
        Some((place, name)) => (place, Some(name.trim())),
        None => (text, None),
    };
    let (address, weight) = place.rsplit_once(':')?;
    let weight = weight.parse().ok().filter(|&weight| weight > 0)?;
    let is_path = address.starts_with('/');
    let own_name = if is_path {
        address
    } else {
        let (host, port) = address.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        if port == MEMCACHED_PORT { host } else { address }
    };
    let name = name.filter(|name| !name.is_empty()).unwrap_or(own_name).to_owned();
    let address = match (is_path, address.rsplit_once(':')) {
        (true, _) => format!("unix:{address}"),
        (false, Some((host, port))) if host.contains(':') => format!("[{host}]:{port}"),
        _ => address.to_owned(),
    };
    Some(Server { address, name, weight, is_path })
}

const MEMCACHED_PORT: u16 = 11211;

#[cfg(test)]
mod tests {
    use super::convert;

    #[test]
    fn a_pool_becomes_a_configuration_with_notes() {
        let yaml = "alpha:\n  listen: 127.0.0.1:22121\n  hash: md5\n  distribution: ketama\n  hash_tag: \"{}\"\n  \
                    timeout: 400\n  auto_eject_hosts: true\n  servers:\n   - 10.0.0.1:11211:1\n   - 10.0.0.2:11212:2 two\n";
        let text = convert(yaml, None).unwrap_or_default();
        let (notes, json) = text.split_at(text.find("\n{").unwrap_or(0));
        assert!(notes.contains("-p 22121 --listen-addresses 127.0.0.1"), "{notes}");
        assert!(notes.contains("keys of a server that fails don't move"), "{notes}");
        let json: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
        assert_eq!(json["pools"]["alpha"]["server_timeout"], 400);
        let hash = &json["route"]["hash"];
        assert_eq!(
            hash["names"],
            serde_json::json!(["two", "10.0.0.1"]),
            "as twemproxy sorts them"
        );
        assert_eq!((&hash["hash_func"], &hash["weights"][0]), (&"Ketama".into(), &2.into()));
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_name() {
        let of = |field: &str| {
            convert(&format!("a:\n  {field}\n  servers:\n   - h:1:1\n   - h:2:1\n"), None)
        };
        assert!(of("redis: true").unwrap_err().contains("Redis"));
        assert!(of("hash: hsieh").unwrap_err().contains("hsieh"));
        let two = "a:\n  servers:\n   - h:1:1\nb:\n  servers:\n   - h:1:1\n";
        assert!(convert(two, None).unwrap_err().contains("--pool with one of a, b"));
        assert!(convert(two, Some("b")).is_ok());
    }
}
