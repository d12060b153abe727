//! What a configuration was built from beside its own text, kept for a start without: imported files, and what DNS said that
//! entries of pools stand for.
//!
//! # Invariants
//! 1. It is used with the text that it was kept with, and with no other: it holds that text's digest.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::names::Members;
use super::{Loaded, replace};

/// Imported files' texts, and members of pools.
#[derive(Debug, Default)]
pub(super) struct Kept {
    digest: String,
    texts: BTreeMap<PathBuf, String>,
    members: Members,
}

impl Kept {
    pub(super) fn new(loaded: &Loaded) -> Self {
        let Loaded { digest, texts, members, .. } = loaded;
        Self { digest: digest.clone(), texts: texts.clone(), members: members.clone() }
    }

    /// What was kept with the text of that digest; nothing, if anything is wrong with it.
    pub(super) fn read(dir: &Path, digest: &str) -> Self {
        let text = fs::read_to_string(dir.join(NAME)).unwrap_or_default();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
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

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        if self.texts.is_empty() && self.members.is_empty() {
            // What is there belongs to another text, if there is anything.
            let _ = fs::remove_file(dir.join(NAME));
            return Ok(());
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
        replace(dir, NAME, &format!("{json:#}\n"))
    }

    pub(super) fn text(&self, path: &Path) -> Option<String> {
        self.texts.get(path).cloned()
    }

    pub(super) fn members(&self, entry: &str) -> Option<Vec<String>> {
        self.members.get(entry).cloned()
    }
}

/// The file's, beside the kept text.
const NAME: &str = "mcrouter_config_sources";
