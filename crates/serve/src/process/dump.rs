//! Lines about items: `lru_crawler metadump` and `mgdump`, `stats cachedump`.
//!
//! The formats are memcached's, including metadump's space before its bare newline. Sizes and classes are
//! Guira's own, as shown by `me` and `stats slabs`.

use crate::time::ServerTime;
use guira_cache::ItemRef;
use guira_proto::{append_base64, append_uri};
use std::io::Write;

/// How a dump lists an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A line of `name=value` words.
    Meta,
    /// The request that gets the item: `mg` and the key.
    Mg,
}

impl Format {
    /// Appends an item's line.
    pub(crate) fn append(
        self,
        out: &mut Vec<u8>,
        item: &ItemRef<'_>,
        unique: u64,
        now: u32,
        clock: &ServerTime,
    ) {
        match self {
            Format::Meta => metadump(out, item, unique, now, clock),
            Format::Mg => mgdump(out, item),
        }
    }

    /// The bytes after the last line.
    pub(crate) fn end(self) -> &'static [u8] {
        match self {
            Format::Meta => b"END\r\n",
            Format::Mg => b"EN\r\n",
        }
    }
}

fn metadump(out: &mut Vec<u8>, item: &ItemRef<'_>, unique: u64, now: u32, clock: &ServerTime) {
    out.extend_from_slice(b"key=");
    append_uri(out, item.key());
    let exp = match item.exptime() {
        0 => -1,
        at => clock.unix(at),
    };
    let la = clock.unix(now.saturating_sub(item.idle_s(now)));
    let fetch = if item.was_fetched() { "yes" } else { "no" };
    let (class, size, flags) = (item.class() + 1, item.bytes(), item.client_flags());
    // Writing to memory can't fail.
    let _ = writeln!(
        out,
        " exp={exp} la={la} cas={unique} fetch={fetch} cls={class} size={size} flags={flags} "
    );
}

/// A key that doesn't fit in a line is listed in base64, whichever protocol it came by: binary keys can hold any bytes.
fn mgdump(out: &mut Vec<u8>, item: &ItemRef<'_>) {
    out.extend_from_slice(b"mg ");
    if item.is_key_binary() || !fits_a_line(item.key()) {
        append_base64(out, item.key());
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(item.key());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends an item's line of `stats cachedump` and returns true. As in memcached, an item whose key was
/// sent in base64 is left out. So is a binary key that doesn't fit in a line: it could imitate another
/// item, or the end.
pub(crate) fn cachedump(out: &mut Vec<u8>, item: &ItemRef<'_>, clock: &ServerTime) -> bool {
    let is_shown = !item.is_key_binary() && fits_a_line(item.key());
    if is_shown {
        let expiry = if item.exptime() == 0 { 0 } else { clock.unix(item.exptime()) };
        out.extend_from_slice(b"ITEM ");
        out.extend_from_slice(item.key());
        // Writing to memory can't fail.
        let _ = write!(out, " [{} b; {expiry} s]\r\n", item.value_bytes());
    }
    is_shown
}

/// Whether these bytes can be shown as one word of a line.
pub(crate) fn fits_a_line(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}
