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
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::super::aside::Aside;
use super::super::files;
use super::super::names::Members;
use super::super::options::{From, Source};
use super::super::shared::Shared;
use super::{Loaded, READ_MAX, digest, file_digest, replace};

/// Where the last good configuration of one source is kept.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    dir: PathBuf,
    /// The source, as people read it.
    pub(super) source: String,
    name: String,
}

impl Shelf {
    pub(crate) fn new(dir: PathBuf, from: &From) -> Self {
        let source = match from {
            // Links stay as they are: that they lead elsewhere is how some replace a file.
            From::File(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("file:{}", path.display())
            }
            From::Etcd(place) => place.name(),
            // It stays what it is, but what it imports and DNS may be missing.
            From::Text(text) => format!("text:{}", digest(text.as_bytes())),
        };
        let mut name = utf8_percent_encode(&source, &ESCAPED).to_string();
        if name.len() > NAME_MAX {
            name = digest(source.as_bytes());
        }
        Self { dir, source, name }
    }

    /// The text, and how long ago it was kept, unless that is longer than `age_max`.
    pub(super) fn text(&self, age_max: Duration) -> Option<(String, Duration)> {
        let path = self.dir.join(&self.name);
        let modified = fs::metadata(&path).and_then(|file| file.modified()).ok()?;
        let age = SystemTime::now().duration_since(modified).unwrap_or_default();
        if age > age_max {
            return None;
        }
        Some((files::read(&path).ok()?, age))
    }

    pub(super) fn keep(&self, loaded: &Loaded) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        Kept::new(loaded).write(self)?;
        replace(&self.dir, &self.name, &loaded.text)
    }

    fn imports(&self) -> String {
        format!("{}+imports", self.name)
    }
}

/// Keeps a configuration for a start without its source.
pub(super) fn keep(source: &Source, loaded: &Loaded) {
    if let Some(Err(error)) = source.kept.as_ref().map(|shelf| shelf.keep(loaded)) {
        tracing::warn!("the configuration can't be kept for later: {error}");
    }
}

/// Keeps the configuration in use anew if its source still has it.
pub(super) async fn keep_confirmed(shared: &Shared, aside: &Aside) {
    let current = {
        let standing = shared.standing.lock();
        standing.loaded.clone().filter(|_| !standing.is_from_disk)
    };
    let (Some(current), source) = (current, shared.options.config.clone()) else { return };
    let keep_it = move || {
        if is_confirmed(&current, &source) {
            keep(&source, &current);
        }
    };
    // A disk or an etcd that doesn't answer confirms nothing.
    let _ = aside.run(READ_MAX, keep_it).await;
}

/// Whether the source can be read and says what it did.
fn is_confirmed(current: &Loaded, source: &Source) -> bool {
    let is_same = |(path, digest): (&PathBuf, &String)| file_digest(path).as_ref() == Some(digest);
    let are_files_same = current.files.iter().all(is_same);
    are_files_same
        && match &source.from {
            From::File(_) | From::Text(_) => true,
            From::Etcd(place) => place.read().is_ok_and(|(text, _)| text == current.text),
        }
}

/// Imported files' texts, and members of pools.
#[derive(Debug, Default)]
pub(super) struct Kept {
    digest: String,
    texts: BTreeMap<PathBuf, String>,
    members: Members,
}

impl Kept {
    fn new(loaded: &Loaded) -> Self {
        let Loaded { digest, texts, members, .. } = loaded;
        Self { digest: digest.clone(), texts: texts.clone(), members: members.clone() }
    }

    /// What was kept with the text of that digest; nothing, if anything is wrong with it.
    pub(super) fn read(shelf: &Shelf, digest: &str) -> Self {
        let text = fs::read_to_string(shelf.dir.join(shelf.imports())).unwrap_or_default();
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

    fn write(&self, shelf: &Shelf) -> io::Result<()> {
        if self.texts.is_empty() && self.members.is_empty() {
            // What is there belongs to another text, if there is anything.
            let _ = fs::remove_file(shelf.dir.join(shelf.imports()));
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
        replace(&shelf.dir, &shelf.imports(), &format!("{json:#}\n"))
    }

    pub(super) fn text(&self, path: &Path) -> Option<String> {
        self.texts.get(path).cloned()
    }

    pub(super) fn members(&self, entry: &str) -> Option<Vec<String>> {
        self.members.get(entry).cloned()
    }
}

/// What has no place in a file's name.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':');
/// Bytes of a name, with room for what comes behind it: file systems take 255.
const NAME_MAX: usize = 240;
