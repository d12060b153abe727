//! A configuration in etcd: `--config etcd:HOST:PORT,…/KEY`, read and watched by etcd's JSON gateway.
//!
//! ```text
//! range ─▶ the text, and the revision it was seen at ─▶ watch from the next revision ─ a change ─▶ range …
//! ```
//! Of several members of a cluster one is asked as long as it answers, then the next.
//!
//! One thread waits in the watch, and asks for a reload when the text isn't what it was. When etcd goes away it tries
//! again, for ever, and what the router has stays in use.
//!
//! # Costs
//! One connection, and nothing while the key stays as it is.

mod access;

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use access::Access;
use access::{ANSWER_BYTES_MAX, json_of};

/// A key in etcd.
#[derive(Debug)]
pub(crate) struct Place {
    /// `http://host:port`, at least one.
    urls: Vec<String>,
    /// Who is asked first.
    turn: AtomicUsize,
    key: String,
    access: Access,
}

impl Place {
    /// Reads `HOST:PORT,HOST:PORT/KEY`; a key that begins with a slash stands behind two.
    pub(crate) fn parse(text: &str, is_secured: bool, access: Access) -> Result<Self, String> {
        let (name, scheme) = if is_secured { ("etcds", "https") } else { ("etcd", "http") };
        let bad = || {
            format!(
                "--config {name}:{text}: write {name}:HOST:PORT/KEY, or more of HOST:PORT, with commas"
            )
        };
        let (hosts, key) = text.split_once('/').ok_or_else(bad)?;
        let is_good = |host: &str| {
            let parts = host.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if !hosts.split(',').all(is_good) || key.is_empty() {
            return Err(bad());
        }
        let urls = hosts.split(',').map(|host| format!("{scheme}://{host}")).collect();
        Ok(Self { urls, turn: AtomicUsize::new(0), key: key.to_owned(), access })
    }

    fn key(&self) -> String {
        STANDARD.encode(&self.key)
    }

    /// The text, and the revision of the store at which it was read.
    pub(crate) fn read(&self) -> Result<(String, u64), String> {
        self.of_one(|url| self.range(url))
    }

    /// Tells it from other keys and other stores.
    pub(crate) fn name(&self) -> String {
        format!("etcd:{}/{}", self.urls.join(","), self.key)
    }

    /// What the first says who can; else why the last couldn't.
    fn of_one<T>(&self, ask: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let mut last = Err("no etcd is named".to_owned());
        for _ in &self.urls {
            let turn = self.turn.load(Relaxed);
            let url = &self.urls[turn % self.urls.len()];
            last = ask(url).map_err(|why| format!("etcd at {url}: {why}"));
            if last.is_ok() {
                break;
            }
            // Unless somebody else has passed it on.
            let _ = self.turn.compare_exchange(turn, turn.wrapping_add(1), Relaxed, Relaxed);
        }
        last
    }

    fn range(&self, url: &str) -> Result<(String, u64), String> {
        let question = json!({ "key": self.key() });
        let answer = self.access.post(url, "/v3/kv/range", &question, READ_MAX)?;
        let answer = json_of(answer)?;
        let value = answer["kvs"][0]["value"].as_str();
        let value = value.ok_or_else(|| format!("there is no key {}", self.key))?;
        let value = STANDARD.decode(value).map_err(|error| error.to_string())?;
        let value = String::from_utf8(value).map_err(|error| error.to_string())?;
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
        let post = |url: &str| self.access.post(url, "/v3/watch", &watch, WATCH_MAX);
        let answer = self.of_one(post);
        let mut lines = BufReader::new(answer.map_err(io::Error::other)?.into_body().into_reader());
        let mut line = Vec::new();
        // The first line says that the watch stands; the connection ends with etcd.
        loop {
            line.clear();
            if (&mut lines).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let said: Value = serde_json::from_slice(&line)?;
            let result = &said["result"];
            if result["events"].as_array().is_some_and(|events| !events.is_empty()) {
                return Ok(());
            }
            if result["canceled"].as_bool() == Some(true) || !said["error"].is_null() {
                let why =
                    result["cancel_reason"].as_str().or_else(|| said["error"]["message"].as_str());
                return Err(io::Error::other(format!(
                    "etcd ended it: {}",
                    why.unwrap_or("no reason")
                )));
            }
        }
    }
}

/// Asks for a reload whenever the text isn't what it was, on a thread of its own, for ever. What it was is at first
/// `text`, which the router has loaded: it may have changed since.
pub(crate) fn watch(place: Arc<Place>, mut text: String, reload: Arc<Notify>) -> io::Result<()> {
    let watching = move || {
        let mut is_away = false;
        loop {
            let waited = match place.read() {
                Ok((now, revision)) => {
                    if now != text {
                        reload.notify_one();
                    }
                    text = now;
                    place.wait(revision).map_err(|error| error.to_string())
                }
                Err(words) => Err(words),
            };
            if let Err(words) = &waited {
                if !is_away {
                    let what = "the watch of the configuration in etcd";
                    tracing::warn!("{what}: {words}; it is tried again");
                }
                thread::sleep(REST);
            }
            is_away = waited.is_err();
        }
    };
    thread::Builder::new().name("etcd".to_owned()).spawn(watching).map(drop)
}

/// etcd writes 64-bit numbers as strings.
fn number(json: &Value) -> u64 {
    json.as_u64().or_else(|| json.as_str()?.parse().ok()).unwrap_or(0)
}

const READ_MAX: Duration = Duration::from_secs(5);
/// A watch is begun anew after this.
const WATCH_MAX: Duration = Duration::from_secs(60);
/// Between attempts.
const REST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stands_behind_the_first_slash() {
        let parsed = |text, is_secured| Place::parse(text, is_secured, Access::default());
        for (is_secured, url) in [(false, "http://10.0.0.1:2379"), (true, "https://10.0.0.1:2379")]
        {
            let place = parsed("10.0.0.1:2379//guira/route", is_secured);
            let place = place.map(|place| (place.urls, place.key));
            assert_eq!(place, Ok((vec![url.to_owned()], "/guira/route".to_owned())));
            let three = parsed("a:1,b:2,c:3/k", is_secured).map(|place| place.urls.len());
            assert_eq!(three, Ok(3));
        }
        for text in ["", "h", "h:1", "h:1/", "h/k", ":1/k", "h:x/k", "h:1,/k"] {
            assert!(parsed(text, false).is_err(), "{text}");
        }
    }
}
