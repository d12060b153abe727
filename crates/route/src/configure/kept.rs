//! The last good configuration, kept on disk for a start without: its text, imported files, and what DNS said that entries of
//! pools stand for.
//!
//! # Layout
//! `SOURCE` and `SOURCE+imports` in the directory of a service and a router, where `SOURCE` is the configuration's file, key in
//! etcd or, for a text from the command line, its digest. What has no place in a name is written as `%2F`; of a name that would be
//! too long there is a digest.
//!
//! # Invariants
//! 1. A text stands in for its own source only: routers by other files have others, even in the same directory.
//! 2. Its age is the time since its source last had it: what is in use is kept anew each hour, while the source confirms it.
//! 3. Imports are used with the text that they were kept with, and with no other: they hold that text's digest.
//!
//! # Weaknesses
//! What sources that nobody uses any more left behind stays until somebody deletes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::source::Shelf;
use crate::servers::names::Members;

/// Imported files' texts, and members of pools.
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

    /// What was kept with the text of that digest; nothing, if anything is wrong with it.
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

    /// As a text; none, if there is nothing.
    pub(super) fn to_json(&self) -> Option<String> {
        if self.texts.is_empty() && self.members.is_empty() {
            return None;
        }
        let texts = self.texts.iter().filter_map(|(path, text)| {
            // What has no name in JSON is read from its file.
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
