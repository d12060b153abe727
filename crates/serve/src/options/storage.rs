//! The values of the `ext_*` settings: the storage below memory.

use super::refusal::Refusal;
use super::size::{GB, MB};
use guira_flash::{Bucket, FileSpec, PAGES_MAX};
use std::path::PathBuf;

/// Values of the `ext_*` settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StorageOptions {
    /// Files of the storage; if empty, there is no storage.
    pub(crate) files: Vec<FileSpec>,
    /// Bytes of a page. `None`: the smallest file holds eight pages, but a page has at most [`PAGE_BYTES_MAX`].
    pub(crate) page_bytes: Option<u64>,
    /// Bytes of a write buffer.
    pub(crate) wbuf_bytes: usize,
    /// Threads that read, if the kernel has no `io_uring`.
    pub(crate) threads: u32,
    /// Whether to read by `io_uring` if the kernel has it.
    pub(crate) has_rings: bool,
    /// Whether items that no get has found in memory are written too.
    pub(crate) admits_all: bool,
    /// Smaller items are evicted instead of written.
    pub(crate) item_bytes_min: u32,
    /// Seconds after which an idle item is written; `u32::MAX`: only when memory is short.
    pub(crate) item_age_s: u32,
    /// Items with less time to live are written to separate pages.
    pub(crate) low_ttl_s: u32,
    /// One of this many items that could go back to memory does; 0: none.
    pub(crate) recache_rate: u32,
    /// Pages are compacted while fewer are free; 0: a hundredth of all.
    pub(crate) compact_under: u32,
    /// Cold items are dropped while fewer pages are free; 0: a quarter of all.
    pub(crate) drop_under: u32,
    /// The longest sleep of the background threads, in microseconds.
    pub(crate) max_sleep_us: u32,
    /// Pages whose live fraction is less than this are compacted.
    pub(crate) max_frag: f64,
    /// Whether items that were never read from storage are dropped.
    pub(crate) drop_unread: bool,
    /// How many items the table can hold before it grows; 0: one per eight KiB of the files.
    pub(crate) items: u32,
    /// The most reads under way per worker.
    pub(crate) inflight: u32,
}

impl Default for StorageOptions {
    fn default() -> Self {
        StorageOptions {
            files: Vec::new(),
            page_bytes: None,
            wbuf_bytes: 4 * MB,
            threads: 4,
            has_rings: true,
            admits_all: true,
            item_bytes_min: 512,
            item_age_s: u32::MAX,
            low_ttl_s: 0,
            recache_rate: 2000,
            compact_under: 0,
            drop_under: 0,
            max_sleep_us: 1_000_000,
            max_frag: 0.8,
            drop_unread: false,
            items: 0,
            inflight: 256,
        }
    }
}

impl StorageOptions {
    /// The bytes of a page.
    pub(crate) fn page_bytes(&self) -> u64 {
        let wbuf = self.wbuf_bytes as u64;
        self.page_bytes.unwrap_or_else(|| {
            let smallest = self.files.iter().map(|file| file.bytes).min().unwrap_or(0);
            let page = (smallest / PAGES_OF_A_FILE).min(PAGE_BYTES_MAX);
            (page - page % wbuf).max(wbuf)
        })
    }

    /// Adds a file, as typed: `FILE:SIZE[:BUCKET]`.
    pub(crate) fn add_file(&mut self, typed: &str) -> Result<(), Refusal> {
        let wrong = |why: &str| {
            Err(Refusal::value(format!(
                "-o ext_path={typed}: {why}; give FILE:SIZE or FILE:SIZE:BUCKET, such as /mnt/flash/guira:64g"
            )))
        };
        let Some((front, last)) = typed.rsplit_once(':') else { return wrong("no size") };
        let is_size = |text: &str| text.bytes().next().is_some_and(|b| b.is_ascii_digit());
        let (path, size, bucket) = match front.rsplit_once(':') {
            Some((path, size)) if is_size(size) && !is_size(last) => (path, size, last),
            _ => (front, last, "default"),
        };
        let Ok(bucket) = bucket.parse::<Bucket>() else {
            return wrong(
                "the bucket must be one of default, compact, chunked, lowttl, coldcompact, old",
            );
        };
        if path.is_empty() {
            return wrong("no file");
        }
        match size_of_file(size) {
            None => wrong("the size must be a whole number and one of the units m, g, t, p"),
            Some(0) => wrong("the size is 0"),
            Some(bytes) => {
                self.files.push(FileSpec { path: PathBuf::from(path), bytes, bucket });
                Ok(())
            }
        }
    }

    /// Checks the settings that depend on other flags.
    pub(crate) fn check(&self, item_bytes_max: usize, has_udp: bool) -> Result<(), Refusal> {
        if self.files.is_empty() {
            return Ok(());
        }
        let usage = |message: String| Err(Refusal::usage(message));
        if has_udp {
            return usage(
                "-o ext_path: clients of UDP can't wait for storage. Start without -U, or without ext_path."
                    .to_owned(),
            );
        }
        if item_bytes_max > self.wbuf_bytes {
            return usage(format!(
                "-I (item_size_max: {item_bytes_max}) cannot be larger than ext_wbuf_size ({} MB)",
                self.wbuf_bytes / MB
            ));
        }
        let (page, wbuf) = (self.page_bytes(), self.wbuf_bytes as u64);
        if !page.is_multiple_of(wbuf) {
            return usage(format!(
                "ext_page_size ({} MB) must be a multiple of ext_wbuf_size ({} MB)",
                page / MB as u64,
                wbuf / MB as u64
            ));
        }
        if let Some(file) = self.files.iter().find(|file| file.bytes < page) {
            return usage(format!(
                "-o ext_path: {} has {} MB, less than a page of {} MB (ext_page_size)",
                file.path.display(),
                file.bytes / MB as u64,
                page / MB as u64
            ));
        }
        self.check_pages(page)
    }

    /// Refuses files with more pages of so many bytes than storage can have.
    fn check_pages(&self, page: u64) -> Result<(), Refusal> {
        let pages: u64 = self.files.iter().map(|file| file.bytes / page).sum();
        if pages <= PAGES_MAX {
            return Ok(());
        }
        let bytes = self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        let needed = bytes.div_ceil(PAGES_MAX).next_multiple_of(self.wbuf_bytes as u64);
        let gigabytes = bytes / GB as u64;
        Err(Refusal::usage(if needed > GB as u64 {
            format!(
                "-o ext_path: {gigabytes} GB are more than storage can have, {PAGES_MAX} GB in pages of 1 GB (ext_page_size)"
            )
        } else {
            format!(
                "-o ext_path: {gigabytes} GB are too much for pages of {} MB: set ext_page_size={} or more",
                page / MB as u64,
                needed / MB as u64
            )
        }))
    }
}

/// Parses a size, which must have a unit.
fn size_of_file(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return None,
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The largest page, unless a larger one is asked for.
const PAGE_BYTES_MAX: u64 = 64 << 20;
/// The least number of pages in a file, unless the size of a page was given.
const PAGES_OF_A_FILE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn file(typed: &str) -> Result<(String, u64, Bucket), String> {
        let mut options = StorageOptions::default();
        options.add_file(typed).map_err(|refusal| format!("{refusal:?}"))?;
        let FileSpec { path, bytes, bucket } = options.files.remove(0);
        Ok((path.display().to_string(), bytes, bucket))
    }

    #[test]
    fn a_file_is_a_path_a_size_and_perhaps_a_bucket() {
        let f = |path: &str, bytes, bucket| Ok((path.to_owned(), bytes, bucket));
        assert_eq!(file("/f/e:64m"), f("/f/e", 64 << 20, Bucket::Default));
        assert_eq!(file("/f:7/e:2G:old"), f("/f:7/e", 2 << 30, Bucket::Old));
        for wrong in ["", "/f", "/f:0m", "/f:1GB", "/f:1", "/f:m", "/f:-1m", ":1g", "/f:1g:x"] {
            assert!(file(wrong).is_err(), "{wrong}");
        }
        assert!(file("/f:99999999p").is_err(), "too large for 64 bits");
    }

    #[test]
    fn a_small_file_has_small_pages_unless_told_otherwise() {
        let mut options = StorageOptions::default();
        options.add_file("/f:64m").unwrap();
        assert_eq!(options.page_bytes(), 8 << 20);
        options.add_file("/g:1t").unwrap();
        assert_eq!(options.page_bytes(), 8 << 20);
        options.files.remove(0);
        assert_eq!(options.page_bytes(), 64 << 20);
        options.page_bytes = Some(12 << 20);
        assert_eq!(options.page_bytes(), 12 << 20);
        assert!(options.check(1 << 20, false).is_err(), "more pages than storage can have");
        options.files[0].bytes = 64 << 30;
        assert!(options.check(1 << 20, false).is_ok() && options.check(1 << 20, true).is_err());
        assert!(options.check(5 << 20, false).is_err(), "an item must fit a write buffer");
        options.page_bytes = Some(6 << 20);
        assert!(options.check(1 << 20, false).is_err(), "whole buffers");
    }
}
