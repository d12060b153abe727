//! The last good configuration, kept on disk for a start without its source: its text, imported files, and the servers
//! that DNS returned for pool entries.
//!
//! # Layout
//! `SOURCE` and `SOURCE+imports` in the directory of a service and a router. `SOURCE` is the configuration's file or
//! key in etcd, or the digest of a text from the command line. Special characters are escaped, such as `/` by `%2F`. A
//! name that would be too long is replaced by its digest.
//!
//! # Invariants
//! 1. A text is used only for its own source. Routers with other files have other texts, even in the same directory.
//! 2. Its age is the time since its source last had it: the text in use is written anew each hour, if the source
//!    confirms it.
//! 3. Imports are used only with the text that they were kept with: they contain that text's digest.
//!
//! # Bad at
//! Cleaning up: entries of sources that are no longer used stay until an operator deletes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::source::Shelf;
use crate::servers::names::Members;

/// The texts of imported files, and the members of pools.
#[derive(Debug, Default)]
pub(super) struct Kept {
    digest: String,
    texts: BTreeMap<PathBuf, String>,
    members: Members,
}

impl Kept {
    pub(super) fn new(digest: &str, texts: &BTreeMap<PathBuf, String>, members: &Members) -> Self {
        Self { digest: digest.to_owned(), texts: texts.clone(), members: members.clone() }
    }

    /// Reads the entry that was kept with the text of this digest. It is empty if anything is wrong with it.
    pub(super) fn read(shelf: &Shelf, digest: &str) -> Self {
        let json: Value = serde_json::from_str(&shelf.kept_imports()).unwrap_or_default();
        if json["digest"] != digest {
            return Self::default();
        }
        let object = |name: &str| json[name].as_object().into_iter().flatten();
        let text = |json: &Value| json.as_str().map(str::to_owned);
        let texts = object("files").filter_map(|(path, json)| Some((path.into(), text(json)?)));
        let members = object("members").map(|(entry, json)| {
            (entry.clone(), json.as_array().into_iter().flatten().filter_map(text).collect())
        });
        Self { digest: digest.to_owned(), texts: texts.collect(), members: members.collect() }
    }

    /// The entry as JSON text; `None` if it is empty.
    pub(super) fn to_json(&self) -> Option<String> {
        if self.texts.is_empty() && self.members.is_empty() {
            return None;
        }
        let texts = self.texts.iter().filter_map(|(path, text)| {
            // A path that JSON can't represent is read from its file instead.
            Some((path.to_str()?.to_owned(), text.clone().into()))
        });
        let (digest, members) = (&self.digest, &self.members);
        let json = json!({
            "digest": digest,
            "files": texts.collect::<Map<_, _>>(),
            "members": members,
        });
        Some(format!("{json:#}\n"))
    }

    pub(super) fn text(&self, path: &Path) -> Option<String> {
        self.texts.get(path).cloned()
    }

    pub(super) fn members(&self, entry: &str) -> Option<Vec<String>> {
        self.members.get(entry).cloned()
    }
}
