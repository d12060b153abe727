//! The settings of `-o` that have an effect, grouped by subject.

use super::storage::STORAGE;
use super::tls::TLS;
use crate::options::Takes::{Fraction, Nothing, Number, Size, Switch, Text};
use crate::options::Unset::{Follows, Is};
use crate::options::{GB, KB, MB, PAGE_BYTES, Refusal, Shown, Suboption, yes};

/// A group of settings.
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) suboptions: &'static [Suboption],
}

/// The groups, in the order of the help.
pub(crate) const WORKING: &[Group] = &[
    Group { heading: "Connections", suboptions: CONNECTIONS },
    Group { heading: "Memory", suboptions: MEMORY },
    Group {
        heading: "Leases (lease-get, lease-set) and hold-off (delete KEY SECONDS)",
        suboptions: LEASES,
    },
    Group { heading: "Storage below memory, with ext_path", suboptions: STORAGE },
    Group { heading: "UDP", suboptions: UDP },
    Group { heading: "Crawler, watchers and statistics", suboptions: WATCHING },
    Group { heading: "TLS, with -Z", suboptions: TLS },
    Group { heading: "Compatibility and tests", suboptions: OTHERS },
];

const CONNECTIONS: &[Suboption] = &[
    Suboption {
        name: "maxconns_fast",
        takes: Switch(|e, is_on| e.maxconns_fast = is_on),
        unset: Is("on"),
        help: "answer connections beyond -c with an error and close them; with no_maxconns_fast they wait until there is room",
        shown: Shown::As("maxconns_fast", |e| yes(e.maxconns_fast)),
    },
    Suboption {
        name: "idle_timeout",
        takes: Number("SECONDS", 0..=u32::MAX, |e, n| e.idle_timeout_s = n),
        unset: Is("0"),
        help: "close a TCP connection that sent nothing for this long; 0: never",
        shown: Shown::As("idle_timeout", |e| e.idle_timeout_s.to_string()),
    },
    Suboption {
        name: "read_buf_mem_limit",
        takes: Size(MB, 0..=(1 << 50), |e, n| e.read_buf_mem_limit_bytes = n as u64),
        unset: Is("0"),
        help: "memory for requests and replies, counted as memcached counts it: 16 KiB for each connection with an \
               incomplete request, and for each 32 replies to one connection. Beyond the limit a multiget is answered \
               SERVER_ERROR; other connections that need more are closed. 0: no limit",
        shown: Shown::As("read_buf_mem_limit", |e| e.read_buf_mem_limit_bytes.to_string()),
    },
    Suboption {
        name: "unfinished_limit",
        takes: Size(MB, 1..=(1 << 50), |e, n| e.unfinished_limit_bytes = n),
        unset: Follows("a tenth of -m"),
        help: "memory for requests that have arrived only in part, at least twice -I. When it is used up, a large \
               one of them is refused, of which nothing came for longest",
        // The effective value depends on -m and -I.
        shown: Shown::Live,
    },
    Suboption {
        name: "unsent_limit",
        takes: Size(MB, 1..=(1 << 50), |e, n| e.unsent_limit_bytes = n),
        unset: Follows("a tenth of -m"),
        help: "memory for replies that clients have not read yet; at least four times -I, and at least 2 MiB per thread. When \
               half of it is used up, large values are no longer copied for clients that wait: they are read from \
               the cache piece by piece",
        shown: Shown::Live,
    },
];

const MEMORY: &[Suboption] = &[
    Suboption {
        name: "slab_reassign",
        takes: Switch(|e, is_on| e.slab_reassign = is_on),
        unset: Is("on"),
        help: "let slab pages move from one class to another",
        shown: Shown::As("slab_reassign", |e| yes(e.slab_reassign)),
    },
    Suboption {
        name: "slab_automove",
        takes: Text("N", |e, level| {
            e.slab_automove = match level {
                None | Some("1") => 1,
                Some("0") => 0,
                Some("2") => 2,
                Some(_) => return Err(Refusal::value("slab_automove must be between 0 and 2")),
            };
            Ok(())
        }),
        unset: Is("1"),
        help: "whether the server moves slab pages by itself: 0 never, 1 at most one page per second from class to class, 2 as fast as \
               pages can be emptied. With 1 and 2, a class with more than two and a half pages' worth of free chunks gives pages \
               to the pool as fast as they can be emptied",
        shown: Shown::Live,
    },
    Suboption {
        name: "no_slab_automove",
        takes: Nothing(|e| e.slab_automove = 0),
        unset: Follows(""),
        help: "the same as slab_automove=0",
        shown: Shown::No,
    },
    Suboption {
        name: "slab_automove_ratio",
        takes: Fraction(
            |f| f > 0.0 && f <= 1.0,
            "> 0 and at most 1",
            |e, f| e.slab_automove_ratio = f,
        ),
        unset: Is("0.8"),
        help: "a class gets a page if the items it evicts are younger than this share of the age at which other classes evict",
        shown: Shown::Live,
    },
    Suboption {
        name: "slab_automove_window",
        takes: Number("SECONDS", 3..=1800, |e, n| e.slab_automove_window = n),
        unset: Is("10"),
        help: "time over which those ages are averaged; also how long a class must have had free chunks before it gives their pages to the pool",
        shown: Shown::Live,
    },
    Suboption {
        name: "slab_chunk_max",
        takes: Size(KB, KB..=MB, |e, n| {
            e.slab_chunk_bytes_max = n;
            e.chunk_max_is_given = true;
        }),
        unset: Follows("512, or -I if that is less"),
        help: "with --slabs memcached: the largest chunk; larger items are chained",
        shown: Shown::As("slab_chunk_max", |e| e.slab_chunk_bytes_max.to_string()),
    },
    Suboption {
        name: "no_chunked_items",
        takes: Nothing(|e| e.slab_chunk_bytes_max = PAGE_BYTES),
        unset: Follows(""),
        help: "the same as slab_chunk_max=1m",
        shown: Shown::No,
    },
    Suboption {
        name: "transient",
        takes: Number("SECONDS", 0..=3600, |e, n| e.transient_s = Some(n)),
        unset: Follows("0; 60 with --slabs memcached, unless no_modern is set"),
        help: "items with a time to live of at most this are reclaimed in the second in which they expire. 60 is a good \
               start where many items live for seconds. Each such item takes 4 bytes more, together at most a 16th of -m",
        shown: Shown::Live,
    },
];

const LEASES: &[Suboption] = &[
    Suboption {
        name: "lease_interval",
        takes: Number("SECONDS", 0..=3600, |e, n| e.leases.interval_s = n),
        unset: Is("10"),
        help: "give at most one lease token for a key in this time",
        shown: Shown::As("lease_interval", |e| e.leases.interval_s.to_string()),
    },
    Suboption {
        name: "lease_stale",
        takes: Number("SECONDS", 0..=3600, |e, n| e.leases.stale_s = n),
        unset: Is("20"),
        help: "how long clients that use leases may read a deleted value as stale; 0: not at all",
        shown: Shown::As("lease_stale", |e| e.leases.stale_s.to_string()),
    },
    Suboption {
        name: "lease_stale_size",
        takes: Size(KB, 0..=GB, |e, n| {
            e.leases.stale_bytes_max = n;
            e.stale_size_is_given = true;
        }),
        unset: Follows("a 64th of -m"),
        help: "memory for such values, in addition to -m",
        shown: Shown::As("lease_stale_size", |e| e.leases.stale_bytes_max.to_string()),
    },
    Suboption {
        name: "lease_keys",
        takes: Number("N", 8..=1 << 24, |e, n| e.leases.keys_max = n as usize),
        unset: Is("16384"),
        help: "keys whose leases are remembered, 32 bytes each",
        shown: Shown::As("lease_keys", |e| e.leases.keys_max.to_string()),
    },
    Suboption {
        name: "holdoff_keys",
        takes: Number("N", 8..=1 << 24, |e, n| e.holdoff_keys = n as usize),
        unset: Is("16384"),
        help: "keys for which \"delete KEY SECONDS\" may refuse \"add\" at a time, 8 bytes each",
        shown: Shown::As("holdoff_keys", |e| e.holdoff_keys.to_string()),
    },
];

const UDP: &[Suboption] = &[
    Suboption {
        name: "udp_writes",
        takes: Nothing(|e| e.udp_writes = true),
        unset: Follows(""),
        help: "execute all commands over UDP, not only gets",
        shown: Shown::As("udp_writes", |e| yes(e.udp_writes)),
    },
    Suboption {
        name: "udp_budget",
        takes: Size(KB, 0..=GB, |e, n| e.udp_budget_bytes = u32::try_from(n).unwrap_or(u32::MAX)),
        unset: Is("64"),
        help: "most KB per second that a source address without a TCP connection gets in replies over UDP; 0: no limit",
        shown: Shown::As("udp_budget", |e| e.udp_budget_bytes.to_string()),
    },
    Suboption {
        name: "udp_known_budget",
        takes: Size(KB, 0..=GB, |e, n| {
            e.udp_known_budget_bytes = u32::try_from(n).unwrap_or(u32::MAX);
        }),
        unset: Is("16384"),
        help: "the same for a source address with a TCP connection; 0: no limit",
        shown: Shown::As("udp_known_budget", |e| e.udp_known_budget_bytes.to_string()),
    },
];

const WATCHING: &[Suboption] = &[
    Suboption {
        name: "lru_crawler",
        takes: Switch(|e, is_on| e.lru_crawler = is_on),
        unset: Is("on"),
        help: "allow \"lru_crawler\" to list items and to remove expired ones",
        shown: Shown::Live,
    },
    Suboption {
        name: "lru_crawler_sleep",
        takes: Number("US", 0..=1_000_000, |e, n| e.lru_crawler_sleep_us = n),
        unset: Is("100"),
        help: "pause of the crawler after each 1,000 items, in microseconds",
        shown: Shown::Live,
    },
    Suboption {
        name: "lru_crawler_tocrawl",
        takes: Number("N", 0..=u32::MAX, |e, n| e.lru_crawler_tocrawl = n),
        unset: Is("0"),
        help: "items of each slab class that \"lru_crawler crawl\" reads; 0: all",
        shown: Shown::Live,
    },
    Suboption {
        name: "watcher_logbuf_size",
        takes: Size(KB, KB..=GB, |e, n| e.watcher_logbuf_bytes = n),
        unset: Is("256"),
        help: "buffer of each watcher for lines that it has not read yet; further lines are dropped",
        shown: Shown::As("watcher_logbuf_size", |e| e.watcher_logbuf_bytes.to_string()),
    },
    Suboption {
        name: "track_sizes",
        takes: Nothing(|e| e.track_sizes = true),
        unset: Follows(""),
        help: "count items by size for \"stats sizes\"",
        shown: Shown::As("track_sizes", |e| yes(e.track_sizes)),
    },
];

const OTHERS: &[Suboption] = &[
    Suboption {
        name: "modern",
        takes: Switch(|e, is_on| {
            if !is_on {
                e.unmake_modern();
            }
        }),
        unset: Is("on"),
        help: "no_modern behaves as memcached 1.4: strict LRU and memcached's slab classes",
        shown: Shown::No,
    },
    Suboption {
        name: "relaxed_privileges",
        takes: Nothing(|e| {
            e.debug_commands = true;
            e.udp_writes = true;
        }),
        unset: Follows(""),
        help: "for tests only: allow \"debugtime\", which shifts the server's clock, and turn udp_writes on",
        shown: Shown::No,
    },
];
