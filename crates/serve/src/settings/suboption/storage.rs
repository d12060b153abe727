//! The `ext_*` settings: storage below memory, memcached's settings and Guira's own.

use crate::options::Takes::{Choice, Fraction, Number, Size, Switch, Text};
use crate::options::Unset::{Follows, Is};
use crate::options::{GB, MB, Refusal, Shown, Suboption};

pub(super) const STORAGE: &[Suboption] = &[
    Suboption {
        name: "ext_path",
        takes: Text("FILE:SIZE[:BUCKET]", |e, typed| match typed {
            Some(typed) => e.storage.add_file(typed),
            None => Err(Refusal::missing("ext_path")),
        }),
        unset: Follows(""),
        help: "keep items that memory has no room for in this file, of so many m, g, t or p bytes; may be given several \
               times. A bucket sets its pages apart for some items: default, chunked, lowttl, compact, coldcompact or old. \
               What a file held before is lost",
        shown: Shown::No,
    },
    Suboption {
        name: "ext_page_size",
        takes: Size(MB, MB..=GB, |e, n| e.storage.page_bytes = Some(n as u64)),
        unset: Follows("64, less where a file has no room for eight pages"),
        help: "bytes that are written, compacted and freed together: a multiple of ext_wbuf_size",
        shown: Shown::No,
    },
    Suboption {
        name: "ext_wbuf_size",
        takes: Size(MB, MB..=GB, |e, n| e.storage.wbuf_bytes = n),
        unset: Is("4"),
        help: "bytes of a write buffer, at least -I; there are at most eight, beside -m",
        shown: Shown::As("ext_wbuf_size", |e| e.storage.wbuf_bytes.to_string()),
    },
    Suboption {
        name: "ext_threads",
        takes: Number("N", 1..=1024, |e, n| e.storage.threads = n),
        unset: Is("4"),
        help: "threads that read, where the kernel refuses io_uring, or ext_reads=threads",
        shown: Shown::No,
    },
    Suboption {
        name: "ext_reads",
        takes: Choice(&["ring", "threads"], |e, by| e.storage.has_rings = by == "ring"),
        unset: Is("ring"),
        help: "read by io_uring where the kernel has it and allows it, or by ext_threads in any case",
        shown: Shown::As("ext_reads", |e| by(e.storage.has_rings, "ring", "threads")),
    },
    Suboption {
        name: "ext_admit",
        takes: Choice(&["all", "hit"], |e, which| e.storage.admits_all = which == "all"),
        unset: Is("all"),
        help: "with hit, items that no get has found are evicted rather than stored: fewer writes, for a device that wears out",
        shown: Shown::As("ext_admit", |e| by(e.storage.admits_all, "all", "hit")),
    },
    Suboption {
        name: "ext_inflight",
        takes: Number("N", 1..=4096, |e, n| e.storage.inflight = n),
        unset: Is("256"),
        help: "reads under way for a thread at most; further clients wait",
        shown: Shown::As("ext_inflight", |e| e.storage.inflight.to_string()),
    },
    Suboption {
        name: "ext_items",
        takes: Number("N", 0..=u32::MAX, |e, n| e.storage.items = n),
        unset: Is("0"),
        help: "items that the table of stored items has room for at first; it grows up to sixteenfold. 0: one for each 8 \
               KiB of storage",
        shown: Shown::As("ext_items", |e| e.storage.items.to_string()),
    },
    Suboption {
        name: "ext_item_size",
        takes: Number("BYTES", 0..=u32::MAX, |e, n| e.storage.item_bytes_min = n),
        unset: Is("512"),
        help: "smaller items, counted with key and 48 bytes, are evicted rather than stored",
        shown: Shown::Live,
    },
    Suboption {
        name: "ext_item_age",
        takes: Number("SECONDS", 0..=u32::MAX, |e, n| e.storage.item_age_s = n),
        unset: Is("4294967295"),
        help: "store items that nobody has used for this long, though memory has room; by default only what memory has no \
               room for is stored",
        shown: Shown::Live,
    },
    Suboption {
        name: "ext_low_ttl",
        takes: Number("SECONDS", 0..=u32::MAX, |e, n| e.storage.low_ttl_s = n),
        unset: Is("0"),
        help: "items that expire sooner than this lie in pages of their own, which are freed unread",
        shown: Shown::Live,
    },
    Suboption {
        name: "ext_recache_rate",
        takes: Number("N", 0..=u32::MAX, |e, n| e.storage.recache_rate = n),
        unset: Is("2000"),
        help: "of N stored items that are read a second time, one goes back to memory; 0: none does",
        shown: Shown::Live,
    },
    Suboption {
        name: "ext_compact_under",
        takes: Number("PAGES", 0..=u32::MAX, |e, n| e.storage.compact_under = n),
        unset: Is("0"),
        help: "rewrite sparse pages while fewer are free; 0: a hundredth of all",
        shown: Shown::Live,
    },
    Suboption {
        name: "ext_drop_under",
        takes: Number("PAGES", 0..=u32::MAX, |e, n| e.storage.drop_under = n),
        unset: Is("0"),
        help: "while fewer pages are free and none is sparse, rewrite the oldest without what nobody has read, if \
               ext_drop_unread says so, or into pages for cold and old items; 0: a quarter of all",
        shown: Shown::Live,
    },
    Suboption {
        name: "ext_max_sleep",
        takes: Number("US", 1000..=60_000_000, |e, n| e.storage.max_sleep_us = n),
        unset: Is("1000000"),
        help: "longest pause between two looks for idle items and sparse pages, in microseconds",
        shown: Shown::Live,
    },
    Suboption {
        name: "ext_max_frag",
        takes: Fraction(
            |f| (0.0..=1.0).contains(&f),
            "between 0 and 1",
            |e, f| e.storage.max_frag = f,
        ),
        unset: Is("0.8"),
        help: "a page is sparse if less than this share of it is in use; more than 0.95 counts as that",
        shown: Shown::Live,
    },
    Suboption {
        name: "ext_drop_unread",
        takes: Switch(|e, is_on| e.storage.drop_unread = is_on),
        unset: Is("off"),
        help: "let compaction drop what nobody has read from storage, as ext_drop_under says",
        shown: Shown::Live,
    },
];

fn by(is_first: bool, first: &str, second: &str) -> String {
    if is_first { first.to_owned() } else { second.to_owned() }
}
