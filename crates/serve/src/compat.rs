//! Settings of memcached that have no effect in Guira. They are checked, and shown in `stats settings` as
//! memcached does, so that start scripts and exporters keep working.

use crate::options::Takes::{Choice, Fraction, Nothing, Number, Size, Switch, Text};
use crate::options::Unset::{Follows, Is};
use crate::options::{KB, MB, Queues, Refusal, Shown, Suboption, yes};

/// The suboptions of `-o` that have no effect, with the reason for each.
pub(crate) const SETTINGS: &[Suboption] = &[
    Suboption {
        name: "hashpower",
        takes: Number("N", 12..=32, |e, n| e.hashpower = n),
        unset: Follows(""),
        help: "the index has the size that its items need, and grows; `stats` shows at least this power",
        shown: Shown::As("hashpower_init", |e| e.hashpower.to_string()),
    },
    Suboption {
        name: "no_hashexpand",
        takes: Nothing(|_| ()),
        unset: Follows(""),
        help: "the index grows while the server runs; when it can't, items are evicted",
        shown: Shown::No,
    },
    Suboption {
        name: "hash_algorithm",
        takes: Choice(&["jenkins", "murmur3", "xxh3"], |e, name| e.hash_algorithm = name),
        unset: Is("murmur3"),
        help: "keys are hashed by rapidhash under a random seed",
        shown: Shown::As("hash_algorithm", |e| e.hash_algorithm.to_owned()),
    },
    Suboption {
        name: "slab_automove_freeratio",
        takes: Fraction(
            |f| f >= 0.0,
            "a number of at least 0",
            |e, f| e.slab_automove_freeratio = f,
        ),
        unset: Is("0.01"),
        help: "items go to storage in the store that takes their place, so no memory is kept free for that",
        shown: Shown::As("slab_automove_freeratio", |e| {
            format!("{:.3}", e.slab_automove_freeratio)
        }),
    },
    Suboption {
        name: "ext_io_depth",
        takes: Number("N", 1..=u32::MAX, |_, _| ()),
        unset: Is("1"),
        help: "reads of storage under way are bounded by `ext_inflight`",
        shown: Shown::No,
    },
    Suboption {
        name: "slab_sizes",
        takes: Text("A-B-C", |_, list| rising_sizes(list)),
        unset: Follows(""),
        help: "slab classes follow from `-f`, `-n` and `--slabs`",
        shown: Shown::No,
    },
    Suboption {
        name: "tail_repair_time",
        takes: Number("SECONDS", 10..=u32::MAX, |e, n| e.tail_repair_time_s = n),
        unset: Follows(""),
        help: "readers hold no references that could leak",
        shown: Shown::As("tail_repair_time", |e| e.tail_repair_time_s.to_string()),
    },
    Suboption {
        name: "lru_maintainer",
        takes: Switch(|e, is_on| {
            e.lru_maintainer = is_on;
            e.queues.is_segmented &= is_on;
        }),
        unset: Is("on"),
        help: "there are no queues to maintain; without it the `lru` commands are refused and `stats` has fewer lines",
        shown: Shown::Live,
    },
    Suboption {
        name: "hot_lru_pct",
        takes: Number("N", 1..=79, |e, n| e.queues.hot_percent = n),
        unset: Is("20"),
        help: "policies (`--eviction`) have no hot queue",
        shown: Shown::Live,
    },
    Suboption {
        name: "warm_lru_pct",
        takes: Number("N", 1..=79, |e, n| e.queues.warm_percent = n),
        unset: Is("40"),
        help: "policies have no warm queue",
        shown: Shown::Live,
    },
    Suboption {
        name: "hot_max_factor",
        takes: Fraction(|f| f > 0.0, "a number above 0", |e, f| e.queues.hot_factor = f),
        unset: Is("0.2"),
        help: "policies have no hot queue",
        shown: Shown::Live,
    },
    Suboption {
        name: "warm_max_factor",
        takes: Fraction(|f| f > 0.0, "a number above 0", |e, f| e.queues.warm_factor = f),
        unset: Is("2"),
        help: "policies have no warm queue",
        shown: Shown::Live,
    },
    Suboption {
        name: "temporary_ttl",
        takes: Number("SECONDS", 0..=u32::MAX, |e, n| {
            e.queues = Queues { has_temporary: true, temporary_ttl_s: n, ..e.queues };
        }),
        unset: Follows(""),
        help: "there is no queue of short-lived items: `transient` reclaims them",
        shown: Shown::Live,
    },
    Suboption {
        name: "worker_logbuf_size",
        takes: Size(KB, KB..=(1 << 30), |e, n| e.worker_logbuf_bytes = n),
        unset: Is("64"),
        help: "each watcher has one buffer, `watcher_logbuf_size`",
        shown: Shown::As("worker_logbuf_size", |e| e.worker_logbuf_bytes.to_string()),
    },
    Suboption {
        name: "resp_obj_mem_limit",
        takes: Size(MB, 0..=(1 << 50), |_, _| ()),
        unset: Follows(""),
        help: "replies have no objects",
        shown: Shown::No,
    },
    Suboption {
        name: "inline_ascii_resp",
        takes: Switch(|_, _| ()),
        unset: Follows(""),
        help: "items hold no piece of a reply",
        shown: Shown::As("inline_ascii_response", |_| "no".to_owned()),
    },
    Suboption {
        name: "drop_privileges",
        takes: Switch(|e, is_on| e.drop_privileges = is_on),
        unset: Is("off"),
        help: "system calls are not restricted; the systemd units do that",
        shown: Shown::As("drop_privileges", |e| yes(e.drop_privileges)),
    },
    Suboption {
        name: "sock_cookie_id",
        takes: Text("N", |_, _| Ok(())),
        unset: Follows(""),
        help: "it belongs to FreeBSD's packet filter",
        shown: Shown::No,
    },
];

fn rising_sizes(list: Option<&str>) -> Result<(), Refusal> {
    let list = list.ok_or_else(|| Refusal::missing("slab_sizes"))?;
    let sizes: Option<Vec<u32>> = list.split('-').map(|s| s.parse().ok()).collect();
    if sizes.is_some_and(|s| s.is_sorted_by(|a, b| a < b)) {
        return Ok(());
    }
    Err(Refusal::usage("slab_sizes must be rising sizes in bytes, joined by -: 64-128-1024"))
}
