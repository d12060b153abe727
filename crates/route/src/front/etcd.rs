//! A configuration in etcd: `--config etcd:HOST:PORT/KEY`, read and watched by etcd's JSON gateway.
//!
//! ```text
//! range ─▶ the text, and the revision it was seen at ─▶ watch from the next revision ─ a change ─▶ range …
//! ```
//! One thread waits in the watch, and asks for a reload when the key changes. When etcd goes away it tries again, for
//! ever, and what the router has stays in use.
//!
//! # Costs
//! One connection, and nothing while the key stays as it is.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use ureq::Agent;

use super::log::Log;

/// A key in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// `http://host:port`
    url: String,
    key: String,
}

impl Place {
    /// Reads `HOST:PORT/KEY`; a key that begins with a slash stands behind two.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("--config etcd:{text}: write etcd:HOST:PORT/KEY");
        let (host, key) = text.split_once('/').ok_or_else(bad)?;
        let is_good = host
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if !is_good || key.is_empty() {
            return Err(bad());
        }
        Ok(Self { url: format!("http://{host}"), key: key.to_owned() })
    }

    fn agent(limit: Option<Duration>) -> Agent {
        let config = Agent::config_builder()
            .proxy(None)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_global(limit)
            .build();
        config.into()
    }

    fn key(&self) -> String {
        STANDARD.encode(&self.key)
    }

    /// The text, and the revision of the store at which it was read.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn read(&self) -> Result<(String, u64), String> {
        let failed = |why: &dyn std::fmt::Display| format!("etcd at {}: {why}", self.url);
        let body = json!({ "key": self.key() }).to_string();
        let answer = Self::agent(Some(READ_MAX))
            .post(format!("{}/v3/kv/range", self.url))
            .send(body)
            .map_err(|error| failed(&error))?;
        let mut text = String::new();
        let mut reader = answer.into_body().into_reader().take(TEXT_BYTES_MAX);
        reader.read_to_string(&mut text).map_err(|error| failed(&error))?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        let value = answer["kvs"][0]["value"].as_str();
        let value = value.ok_or_else(|| failed(&format!("there is no key {}", self.key)))?;
        let value = STANDARD.decode(value).map_err(|error| failed(&error))?;
        let value = String::from_utf8(value).map_err(|error| failed(&error))?;
        Ok((value, number(&answer["header"]["revision"])))
    }

    /// Returns when the key has changed behind `revision`, or may have: after [`WATCH_MAX`], since a connection whose other
    /// end is gone says nothing.
    fn wait(&self, revision: u64) -> io::Result<()> {
        let began = Instant::now();
        let waited = self.wait_for_event(revision);
        if began.elapsed() >= WATCH_MAX { Ok(()) } else { waited }
    }

    fn wait_for_event(&self, revision: u64) -> io::Result<()> {
        let watch = json!({ "create_request": {
            "key": self.key(),
            "start_revision": (revision + 1).to_string(),
        }});
        let answer = Self::agent(Some(WATCH_MAX))
            .post(format!("{}/v3/watch", self.url))
            .send(watch.to_string())
            .map_err(io::Error::other)?;
        let mut lines = BufReader::new(answer.into_body().into_reader());
        let mut line = Vec::new();
        // The first line says that the watch stands; the connection ends with etcd.
        loop {
            line.clear();
            if (&mut lines).take(TEXT_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let said: Value = serde_json::from_slice(&line)?;
            let result = &said["result"];
            if result["events"].as_array().is_some_and(|events| !events.is_empty()) {
                return Ok(());
            }
            if result["canceled"].as_bool() == Some(true) || !said["error"].is_null() {
                return Err(io::Error::other("etcd ended the watch"));
            }
        }
    }
}

/// Asks for a reload whenever the key changes, on a thread of its own, for ever.
pub(crate) fn watch(place: Place, log: Arc<Log>, reload: Arc<Notify>) -> io::Result<()> {
    let watching = move || {
        let (mut text, mut seen) = place.read().unwrap_or_default();
        let mut is_away = false;
        loop {
            let waited =
                if seen == 0 { Err(io::ErrorKind::NotFound.into()) } else { place.wait(seen) };
            if let Err(error) = &waited {
                if !is_away {
                    let what = "the watch of the configuration in etcd";
                    log.say(format_args!("{what}: {error}; it is tried again"));
                }
                thread::sleep(REST);
            }
            is_away = waited.is_err();
            // After a gap it may have changed unseen.
            match place.read() {
                Ok((now, revision)) => {
                    if now != text {
                        reload.notify_one();
                    }
                    (text, seen) = (now, revision);
                }
                // Without the key, its removal would be told again and again.
                Err(_) => thread::sleep(REST),
            }
        }
    };
    thread::Builder::new().name("etcd".to_owned()).spawn(watching).map(drop)
}

/// etcd writes 64-bit numbers as strings.
fn number(json: &Value) -> u64 {
    json.as_u64().or_else(|| json.as_str()?.parse().ok()).unwrap_or(0)
}

const CONNECT_MAX: Duration = Duration::from_secs(2);
const READ_MAX: Duration = Duration::from_secs(5);
/// A watch is begun anew after this.
const WATCH_MAX: Duration = Duration::from_secs(60);
/// Between attempts.
const REST: Duration = Duration::from_secs(1);
/// etcd takes no larger values by default.
const TEXT_BYTES_MAX: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stands_behind_the_first_slash() {
        let place = Place::parse("10.0.0.1:2379//guira/route");
        let expected = Place { url: "http://10.0.0.1:2379".into(), key: "/guira/route".into() };
        assert_eq!(place, Ok(expected));
        for text in ["", "h", "h:1", "h:1/", "h/k", ":1/k", "h:x/k"] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }
}
