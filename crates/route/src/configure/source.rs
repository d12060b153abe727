//! The source of the configuration, and the place where its last good text is kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::etcd::Place;
use super::files;

/// The source of the configuration, and when it is read again.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// A path, a key in etcd, or the text itself.
    pub(crate) from: From,
    /// Where the last good one is kept.
    pub(crate) kept: Option<Shelf>,
    pub(crate) kept_age_max: Duration,
    pub(crate) poll: Duration,
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    pub(crate) is_watched: bool,
    /// Whether a configuration with mistakes is refused.
    pub(crate) is_strict: bool,
}

impl Source {
    /// How often the kept text is written anew: often enough that it never gets too old while its source is available.
    pub(crate) fn keep_every(&self) -> Duration {
        (self.kept_age_max / 4).clamp(Duration::from_secs(1), Duration::from_secs(3600))
    }

    /// The file that it is read from, if it is.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.from {
            From::File(path) => Some(path),
            From::Text(_) | From::Etcd(_) => None,
        }
    }

    /// The key in etcd to watch, if the configuration comes from there.
    pub(crate) fn watched_place(&self) -> Option<Arc<Place>> {
        match &self.from {
            From::Etcd(place) if self.is_watched => Some(Arc::clone(place)),
            _ => None,
        }
    }
}

/// A file, a text, or a key in etcd.
#[derive(Clone, Debug)]
pub(crate) enum From {
    File(PathBuf),
    Text(String),
    Etcd(Arc<Place>),
}

impl From {
    /// The name in messages. A text has none.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            From::File(path) => Some(path.display().to_string()),
            From::Etcd(place) => Some(place.name()),
            From::Text(_) => None,
        }
    }
}

/// The place where the last good configuration of one source is kept.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    dir: PathBuf,
    /// The source's name in messages.
    pub(super) source: String,
    name: String,
}

impl Shelf {
    pub(crate) fn new(dir: PathBuf, from: &From) -> Self {
        let source = match from {
            // Links are not resolved: some tools replace a file by changing a link.
            From::File(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("file:{}", path.display())
            }
            From::Etcd(place) => place.name(),
            // The text is given, but its imports and DNS may be unavailable.
            From::Text(text) => format!("text:{}", files::digest(text.as_bytes())),
        };
        let mut name = utf8_percent_encode(&source, &ESCAPED).to_string();
        if name.len() > NAME_MAX {
            name = files::digest(source.as_bytes());
        }
        Self { dir, source, name }
    }

    /// Returns the text and its age, unless it is older than `age_max`.
    pub(super) fn text(&self, age_max: Duration) -> Option<(String, Duration)> {
        let path = self.dir.join(&self.name);
        let modified = fs::metadata(&path).and_then(|file| file.modified()).ok()?;
        let age = SystemTime::now().duration_since(modified).unwrap_or_default();
        if age > age_max {
            return None;
        }
        Some((files::read(&path).ok()?, age))
    }

    /// Keeps a text, and its imports in a second file. `None`: the imports of an earlier text are removed.
    pub(super) fn keep(&self, text: &str, imports: Option<&str>) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        match imports {
            Some(imports) => files::replace(&self.dir, &self.imports(), imports)?,
            // There may be no such file.
            None => drop(fs::remove_file(self.dir.join(self.imports()))),
        }
        files::replace(&self.dir, &self.name, text)
    }

    /// The imports that were kept with a text.
    pub(super) fn kept_imports(&self) -> String {
        fs::read_to_string(self.dir.join(self.imports())).unwrap_or_default()
    }

    fn imports(&self) -> String {
        format!("{}+imports", self.name)
    }
}

/// Characters that are escaped in a file's name.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':');
/// The longest name in bytes, with room for a suffix: file systems accept 255.
const NAME_MAX: usize = 240;
