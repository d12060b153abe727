//! Where the configuration comes from, and where the last good one of that source is kept.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::etcd::Place;
use super::files;

/// Where the configuration comes from, and when it is looked at again.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// A path, or the text itself.
    pub(crate) from: From,
    /// Where the last good one is kept.
    pub(crate) kept: Option<Shelf>,
    pub(crate) kept_age_max: Duration,
    pub(crate) poll: Duration,
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    pub(crate) is_watched: bool,
    /// What nobody reads is refused.
    pub(crate) is_strict: bool,
}

impl Source {
    /// How often what is kept is kept anew: often enough that it never grows too old while its source is there.
    pub(crate) fn keep_every(&self) -> Duration {
        (self.kept_age_max / 4).clamp(Duration::from_secs(1), Duration::from_secs(3600))
    }

    /// The key in etcd that is to be watched, if that is where it comes from.
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
    /// As messages name it; a text has no name.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            From::File(path) => Some(path.display().to_string()),
            From::Etcd(place) => Some(place.name()),
            From::Text(_) => None,
        }
    }
}

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
            From::Text(text) => format!("text:{}", files::digest(text.as_bytes())),
        };
        let mut name = utf8_percent_encode(&source, &ESCAPED).to_string();
        if name.len() > NAME_MAX {
            name = files::digest(source.as_bytes());
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

    /// Keeps a text, and beside it what belongs to it; nothing: what is there of another text goes.
    pub(super) fn keep(&self, text: &str, imports: Option<&str>) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        match imports {
            Some(imports) => files::replace(&self.dir, &self.imports(), imports)?,
            // There may be none.
            None => drop(fs::remove_file(self.dir.join(self.imports()))),
        }
        files::replace(&self.dir, &self.name, text)
    }

    /// What was kept beside a text.
    pub(super) fn kept_imports(&self) -> String {
        fs::read_to_string(self.dir.join(self.imports())).unwrap_or_default()
    }

    fn imports(&self) -> String {
        format!("{}+imports", self.name)
    }
}

/// What has no place in a file's name.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b':');
/// Bytes of a name, with room for what comes behind it: file systems take 255.
const NAME_MAX: usize = 240;
