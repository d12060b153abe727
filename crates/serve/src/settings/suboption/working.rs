//! Settings of `-o` that do something, by what they are about.

use super::Takes::{Fraction, Nothing, Number, Size, Switch, Text};
use super::Unset::{Follows, Is};
use super::tls::TLS;
use super::{GB, Group, KB, MB, Shown, Suboption};
use crate::settings::extended::PAGE_BYTES;

/// The tables, in the order of the help.
pub(crate) const WORKING: &[Group] = &[
    Group { heading: "Connections", suboptions: CONNECTIONS },
    Group { heading: "Memory", suboptions: MEMORY },
    Group { heading: "Leases and hold-off", suboptions: LEASES },
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
        help: "tell a connection over -c so and close it, instead of letting it wait",
        shown: Shown::As("maxconns_fast", |e| super::yes(e.maxconns_fast)),
    },
    Suboption {
        name: "idle_timeout",
        takes: Number("SECONDS", 0..=u32::MAX, |e, n| e.idle_timeout_s = n),
        unset: Is("0"),
        help: "close a TCP connection that has been idle for so long; 0: never",
        shown: Shown::As("idle_timeout", |e| e.idle_timeout_s.to_string()),
    },
    Suboption {
        name: "read_buf_mem_limit",
        takes: Size(MB, 0..=(1 << 50), |e, n| e.read_buf_mem_limit_bytes = n as u64),
        unset: Is("0"),
        help: "what clients may make the threads keep, by memcached's account: 16 KiB for a connection with a piece \
               of a request, and for 32 replies of one turn. A larger multiget is answered SERVER_ERROR, a longer \
               pipeline or one more piece ends its connection. 0: no limit",
        shown: Shown::As("read_buf_mem_limit", |e| e.read_buf_mem_limit_bytes.to_string()),
    },
    Suboption {
        name: "unfinished_limit",
        takes: Size(MB, 1..=(1 << 50), |e, n| e.unfinished_limit_bytes = n),
        unset: Follows("a tenth of -m"),
        help: "what requests that aren't whole may hold, at least twice -I: pieces of lines and of values; the newest \
               is refused when it is used up",
        // What it comes to depends on -m and -I.
        shown: Shown::Live,
    },
    Suboption {
        name: "unsent_limit",
        takes: Size(MB, 1..=(1 << 50), |e, n| e.unsent_limit_bytes = n),
        unset: Follows("a tenth of -m"),
        help: "what replies may hold that clients have yet to take, at least four times -I and 2 MiB per thread; once \
               half of it is used up large values wait in the cache instead",
        shown: Shown::Live,
    },
];

const MEMORY: &[Suboption] = &[
    Suboption {
        name: "slab_reassign",
        takes: Switch(|e, is_on| e.slab_reassign = is_on),
        unset: Is("on"),
        help: "let slab pages move from one class to another",
        shown: Shown::As("slab_reassign", |e| super::yes(e.slab_reassign)),
    },
    Suboption {
        name: "slab_automove",
        takes: Text("N", |e, level| {
            e.slab_automove = match level {
                None | Some("1") => 1,
                Some("0") => 0,
                Some("2") => 2,
                Some(_) => return Err(super::refusal("slab_automove must be between 0 and 2")),
            };
            Ok(())
        }),
        unset: Is("1"),
        help: "pages move by themselves: 0 not at all, 1 a page a second at most, 2 as fast as pages get empty",
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
        help: "a class gets a page if its victims are younger than this share of the others' age",
        shown: Shown::Live,
    },
    Suboption {
        name: "slab_automove_window",
        takes: Number("SECONDS", 3..=1800, |e, n| e.slab_automove_window = n),
        unset: Is("10"),
        help: "time over which those ages are averaged",
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
        help: "reclaim items that live no longer than this in the second in which they expire, without a read; 60 is \
               a good start where many items live for seconds. Such an item costs 4 bytes more, all of them a 16th \
               of -m at most",
        shown: Shown::Live,
    },
];

const LEASES: &[Suboption] = &[
    Suboption {
        name: "lease_interval",
        takes: Number("SECONDS", 0..=3600, |e, n| e.leases.interval_s = n),
        unset: Is("10"),
        help: "time between two lease tokens of a key",
        shown: Shown::As("lease_interval", |e| e.leases.interval_s.to_string()),
    },
    Suboption {
        name: "lease_stale",
        takes: Number("SECONDS", 0..=3600, |e, n| e.leases.stale_s = n),
        unset: Is("20"),
        help: "how long a deleted value may be read as stale; 0 keeps none",
        shown: Shown::As("lease_stale", |e| e.leases.stale_s.to_string()),
    },
    Suboption {
        name: "lease_stale_size",
        takes: Size(KB, 0..=GB, |e, n| {
            e.leases.stale_bytes_max = n;
            e.stale_size_is_given = true;
        }),
        unset: Follows("a 64th of -m"),
        help: "memory for such values, beside -m",
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
        help: "keys that deletes may hold off at a time, 8 bytes each",
        shown: Shown::As("holdoff_keys", |e| e.holdoff_keys.to_string()),
    },
];

const UDP: &[Suboption] = &[
    Suboption {
        name: "udp_writes",
        takes: Nothing(|e| e.udp_writes = true),
        unset: Follows(""),
        help: "execute over UDP what changes something, too",
        shown: Shown::As("udp_writes", |e| super::yes(e.udp_writes)),
    },
    Suboption {
        name: "udp_budget",
        takes: Size(KB, 0..=GB, |e, n| e.udp_budget_bytes = u32::try_from(n).unwrap_or(u32::MAX)),
        unset: Is("64"),
        help: "replies a second over UDP to a source that holds no TCP connection; 0: no limit",
        shown: Shown::As("udp_budget", |e| e.udp_budget_bytes.to_string()),
    },
    Suboption {
        name: "udp_known_budget",
        takes: Size(KB, 0..=GB, |e, n| {
            e.udp_known_budget_bytes = u32::try_from(n).unwrap_or(u32::MAX);
        }),
        unset: Is("16384"),
        help: "the same to a source that holds one; 0: no limit",
        shown: Shown::As("udp_known_budget", |e| e.udp_known_budget_bytes.to_string()),
    },
];

const WATCHING: &[Suboption] = &[
    Suboption {
        name: "lru_crawler",
        takes: Switch(|e, is_on| e.lru_crawler = is_on),
        unset: Is("on"),
        help: "allow \"lru_crawler\" to list items and to take out the dead",
        shown: Shown::Live,
    },
    Suboption {
        name: "lru_crawler_sleep",
        takes: Number("US", 0..=1_000_000, |e, n| e.lru_crawler_sleep_us = n),
        unset: Is("100"),
        help: "its rest after 1,000 items, in microseconds",
        shown: Shown::Live,
    },
    Suboption {
        name: "lru_crawler_tocrawl",
        takes: Number("N", 0..=u32::MAX, |e, n| e.lru_crawler_tocrawl = n),
        unset: Is("0"),
        help: "items of a class that its \"crawl\" looks at; 0: all",
        shown: Shown::Live,
    },
    Suboption {
        name: "watcher_logbuf_size",
        takes: Size(KB, KB..=GB, |e, n| e.watcher_logbuf_bytes = n),
        unset: Is("256"),
        help: "room for log lines that wait for a watcher; more are dropped",
        shown: Shown::As("watcher_logbuf_size", |e| e.watcher_logbuf_bytes.to_string()),
    },
    Suboption {
        name: "track_sizes",
        takes: Nothing(|e| e.track_sizes = true),
        unset: Follows(""),
        help: "count items by size for \"stats sizes\"",
        shown: Shown::As("track_sizes", |e| super::yes(e.track_sizes)),
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
        help: "no_modern is memcached of version 1.4: strict LRU, and its slab classes at any -m",
        shown: Shown::No,
    },
    Suboption {
        name: "relaxed_privileges",
        takes: Nothing(|e| {
            e.debug_commands = true;
            e.udp_writes = true;
        }),
        unset: Follows(""),
        help: "allow \"debugtime\", which shifts the server's clock, and udp_writes; for tests only",
        shown: Shown::No,
    },
];
