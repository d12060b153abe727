//! The settings of a tier, and why one can't be opened.

use crate::Bucket;
use guira_disk::BLOCK;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The settings of a tier.
#[derive(Clone, Debug)]
pub struct TierSettings {
    /// The files that the tier uses.
    pub files: Vec<FileSpec>,
    /// Bytes of a page: a multiple of `buffer_bytes`.
    pub page_bytes: u64,
    /// Bytes of a write buffer, and so the longest record: a multiple of 4 KiB.
    pub buffer_bytes: u64,
    /// The most write buffers.
    pub buffers_max: usize,
    /// The number of entries that the index has room for at first; it grows up to sixteenfold.
    pub entries: u64,
    /// The most memory of the index.
    pub index_bytes_max: usize,
    /// Bits of a tag in an entry: 16, or fewer for tests.
    pub tag_bits: u32,
}

/// A file of a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// The path of the file.
    pub path: PathBuf,
    /// The bytes of it that may be used; rounded down to whole pages.
    pub bytes: u64,
    /// The bucket that its pages are for.
    pub bucket: Bucket,
}

/// The most pages of a tier.
pub const PAGES_MAX: u64 = 65_534;
/// Records begin at multiples of at least this many bytes.
const UNIT_BYTES_MIN: u64 = 32;

impl TierSettings {
    /// The number of pages in all files.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.files.iter().map(|file| file.bytes / self.page_bytes.max(1)).sum()
    }

    /// The unit in which places are counted: large enough for 32 bits to reach all of them.
    pub(crate) fn unit_bytes(&self) -> u64 {
        let mut unit = UNIT_BYTES_MIN;
        while self.pages() * self.page_bytes / unit > 1 << 32 {
            unit *= 2;
        }
        unit
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let refused = |why: String| Err(OpenError { why, kind: None });
        if self.buffer_bytes == 0 || !self.buffer_bytes.is_multiple_of(BLOCK as u64) {
            return refused("write buffers must be a multiple of 4 KiB".to_owned());
        }
        if self.page_bytes == 0 || !self.page_bytes.is_multiple_of(self.buffer_bytes) {
            return refused(
                "the page size must be a multiple of the write buffers' size".to_owned(),
            );
        }
        if let Some(file) = self.files.iter().find(|file| file.bytes < self.page_bytes) {
            let path = file.path.display();
            return refused(format!("{path} is smaller than a page of {} bytes", self.page_bytes));
        }
        for (n, file) in self.files.iter().enumerate() {
            if self.files[..n].iter().any(|before| before.path == file.path) {
                return refused(format!("{} is given twice", file.path.display()));
            }
        }
        match self.pages() {
            0 => refused("there is no file".to_owned()),
            1..=PAGES_MAX => Ok(()),
            pages => refused(format!(
                "{pages} pages are too many; take larger ones, at most {PAGES_MAX}"
            )),
        }
    }
}

/// Why a tier can't be opened.
#[derive(Debug)]
pub struct OpenError {
    why: String,
    kind: Option<io::ErrorKind>,
}

impl OpenError {
    /// The kind of the system's error about a file; `None`: the settings are wrong. A file that another process
    /// uses is `WouldBlock`.
    #[must_use]
    pub fn kind(&self) -> Option<io::ErrorKind> {
        self.kind
    }

    pub(crate) fn file(path: &Path, error: &io::Error) -> OpenError {
        let why = match error.kind() {
            io::ErrorKind::WouldBlock => "another process uses it".to_owned(),
            io::ErrorKind::InvalidInput => {
                format!("it is no file that can be cut and made longer: {error}")
            }
            _ => error.to_string(),
        };
        OpenError { why: format!("{}: {why}", path.display()), kind: Some(error.kind()) }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for OpenError {}
