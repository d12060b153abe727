//! A configuration in etcd: `--config etcd:HOST:PORT,…/KEY`, read and watched.
//!
//! ```text
//! range ─▶ the text and its revision ─▶ watch from the next revision ─ a change ─▶ range …
//! ```
//! If the cluster has several members, one is asked as long as it answers, and then the next.
//!
//! One thread waits in the watch, and requests a reload when the text has changed. If etcd fails, the thread tries
//! again forever, and the router keeps its configuration.
//!
//! # Costs
//! One connection, and no work while the key doesn't change.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guira_etcd::{Error, Etcd, EtcdFlags, EtcdKeys, EtcdPlace};
use tokio::sync::Notify;

use crate::configure::flags::Typed;

/// A key in etcd.
#[derive(Debug)]
pub(crate) struct Place {
    etcd: Etcd,
    key: String,
}

impl Place {
    /// Parses `etcd:HOST:PORT,HOST:PORT/KEY`, or `etcds:` for TLS. A key that begins with a slash is written after two
    /// slashes.
    pub(crate) fn parse(text: &str, typed: &Typed) -> Result<Self, String> {
        let name = text.split(':').next().unwrap_or_default();
        let bad = || {
            format!(
                "--config {text}: write {name}:HOST:PORT/KEY, or more of HOST:PORT, with commas"
            )
        };
        let place = EtcdPlace::parse(text).ok_or_else(bad)?;
        let access = flags(typed).access(place.is_secured);
        let access = access.map_err(|words| format!("--config {words}"))?;
        Ok(Self { etcd: Etcd::new(&place, access), key: place.path })
    }

    /// Reads the text, and the revision of the store at that time.
    pub(crate) fn read(&self) -> Result<(String, u64), String> {
        let range =
            self.etcd.range(&EtcdKeys::one(&self.key)).map_err(|error| error.to_string())?;
        let pair = range.pairs.into_iter().next();
        let value = pair.ok_or_else(|| format!("etcd: there is no key {}", self.key))?.value;
        let value = String::from_utf8(value).map_err(|error| error.to_string())?;
        Ok((value, range.revision))
    }

    /// A name that distinguishes it from other keys and other stores.
    pub(crate) fn name(&self) -> String {
        format!("etcd:{}/{}", self.etcd.urls().join(","), self.key)
    }

    /// Returns when the key may have changed after `revision`, and at the latest after [`WATCH_MAX`], because a dead
    /// connection sends no events.
    fn wait(&self, revision: u64) -> Result<(), Error> {
        let mut watch = self.etcd.watch(&EtcdKeys::one(&self.key), revision + 1, WATCH_MAX)?;
        watch.next_events().map(drop)
    }
}

/// Reads the flags.
pub(super) fn flags(typed: &Typed) -> EtcdFlags {
    let path = |name: &str| Some(typed.text(name)).filter(|t| !t.is_empty()).map(PathBuf::from);
    EtcdFlags {
        cacert: path("etcd_cacert"),
        cert: path("etcd_cert"),
        key: path("etcd_key"),
        auth_file: path("etcd_auth_file"),
    }
}

/// Starts a thread that requests a reload whenever the text changes, forever. `text` is the one that the router has
/// loaded, which may be outdated already.
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

/// How long one watch lasts.
const WATCH_MAX: Duration = Duration::from_secs(60);
/// The pause after a failed attempt.
const REST: Duration = Duration::from_secs(1);
