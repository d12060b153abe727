//! Fields that several types of routes share: hashing of keys, and failover.

use super::hashing::continuum::key_hashes;
use super::{Field, NUMBER, Shape, Takes, U32, field, ignored, needed, words};
use crate::outcome;

/// The `hash` field of a route, if it is an object.
pub(super) static HASH: Shape =
    Shape { name: "hash", fields: &[&HASHING, &FAILOVER, &LOAD, &[ignored("client_fanout")]] };

/// The options of hashing.
pub(super) static HASHING: [Field; 12] = [
    field("hash_func", Takes::Word(functions), "the function (`Ch3`)"),
    field("salt", Takes::Text, "behind each key before it is hashed"),
    field("weights", Takes::List(&NUMBER), "of the children"),
    field("weights_rv", Takes::Text, "the runtime variable with the weights, for `WeightedCh3Rv`"),
    field("tags", Takes::List(&Takes::Text), "the children's names, for `Rendezvous`"),
    field("names", Takes::List(&Takes::Text), "the servers' names, for `Ketama`"),
    field("key_hash", Takes::Word(key_hashes), "how `Ketama` and `Modula` hash (`md5`)"),
    field("hash_tag", Takes::Text, "two characters, between which a key is hashed"),
    field("bucketize", Takes::Bool, "hash the key's bucket"),
    field("error_on_empty", Takes::Bool, "without children answer with an error (true)"),
    field("failover_count", Takes::Whole(0, U32), "for `Latest`: how many children are drawn (5)"),
    field("thread_local_failover", Takes::Bool, "for `Latest`: each thread draws for itself"),
];

/// The names of the hash functions.
pub(super) fn functions() -> Vec<String> {
    words(&[
        "Ch3",
        "ConstShard",
        "Crc32",
        "Ketama",
        "Latest",
        "LoadBalancer",
        "Modula",
        "Rendezvous",
        "WeightedCh3",
        "WeightedCh3Rv",
        "WeightedRendezvous",
    ])
}

/// Options of mcrouter's load balancing, which are ignored: servers don't report their load in the text protocol.
pub(super) static LOAD: [Field; 4] = [
    ignored("algorithm"),
    ignored("default_server_load_percent"),
    ignored("enable_thrift_server_load"),
    ignored("load_ttl_ms"),
];

/// The fields that all kinds of failover share.
pub(super) static FAILOVER: [Field; 5] = [
    field(
        "failover_errors",
        Takes::OneOf(&[Takes::List(&ERROR), Takes::Object(&ERRORS)]),
        "the errors after which another is asked",
    ),
    field("failover_policy", Takes::Object(&POLICY), "which other, and how often"),
    field("failover_limit", Takes::Object(&LIMIT), "how many requests may do so"),
    field("failover_tag", Takes::Bool, "keys with `|#|` end in `:failover=1` there"),
    field(
        "enable_lease_pairing",
        Takes::Bool,
        "a set under a lease goes to the server that gave the lease",
    ),
];

static ERROR: Takes = Takes::Word(outcome::error_names);

pub(super) static ERRORS: Shape = Shape {
    name: "failover_errors",
    fields: &[&[
        field("gets", Takes::List(&ERROR), "for gets"),
        field("updates", Takes::List(&ERROR), "for what stores"),
        field("deletes", Takes::List(&ERROR), "for deletes"),
    ]],
};

/// `failover_policy`
pub(super) static POLICY: Shape = Shape {
    name: "failover_policy",
    fields: &[&[
        needed("type", Takes::Word(policies), "which policy"),
        field("max_tries", Takes::Whole(1, U32), "how many children are asked"),
        field("max_error_tries", Takes::Whole(1, U32), "how many may answer with an error"),
        field("exclude_errors", Takes::List(&ERROR), "errors that aren't counted"),
        field("enable_failure_domains", Takes::Bool, "pass over servers in domains that failed"),
        field("ignore_normal_reply_index", Takes::Bool, "the first choice may come again"),
        field("hash", Takes::Object(&HASH), "how keys choose the order"),
        field("tags", Takes::List(&Takes::Text), "names of the children but the first"),
        field("weights", Takes::List(&NUMBER), "of the tags"),
    ]],
};

fn policies() -> Vec<String> {
    words(&[
        "DeterministicOrderPolicy",
        "FailoverInOrderPolicy",
        "LeastFailuresPolicy",
        "RendezvousPolicy",
    ])
}

/// `failover_limit`
pub(super) static LIMIT: Shape = Shape {
    name: "failover_limit",
    fields: &[&[
        needed("rate", NUMBER, "the share of requests, from 0 to 1"),
        field("burst", NUMBER, "how many may at once (1000)"),
    ]],
};
