//! The types of routes that a configuration may name, with one file per family.

pub(super) mod all;
pub(super) mod big_value;
mod guards;
mod hot_cache;
mod key_split;
mod l1l2;
mod latency;
pub(super) mod logging;
mod lookaside;
mod migrate;
mod miss_failover;
mod operation;
mod pool;
mod asynclog;
mod bucket;
mod cluster;
mod hash;
mod latest;
mod failover;
mod modify;
mod outstanding;
mod rate_limit;
mod routing_group;
mod shadow;
mod shard_split;
mod slow_warm_up;
mod choice;
mod fields;
mod hashing;
mod null;
mod staging;
mod warm_up;

// Imports that most families need.
use super::builder::{Builder, Kind, Pool};
use super::route::{BoxFuture, Node, Race, Route, begin, detach, owned};
use crate::config::fields::Fields;
use crate::config::shape::{
    CHILDREN, Field, I32, NUMBER, SHARE, Shape, Takes, U32, field, ignored, needed, words,
};
use crate::context::Context;
use guira_config::{ConfigError, Json, Object, Result};
pub(crate) use hashing::KeyHash;

/// All types that a configuration may name, each with its builder.
pub(crate) static KINDS: &[Kind] = &[
    (&all::ASYNC, all::build_async),
    (&all::FASTEST, all::build_fastest),
    (&all::INITIAL, all::build_initial),
    (&all::MAJORITY, all::build_majority),
    (&all::SYNC, all::build_sync),
    (&big_value::SHAPE, big_value::build),
    (&guards::BLACKHOLE, guards::build_blackhole),
    (&lookaside::SHAPE, lookaside::build),
    (&cluster::SHAPE, cluster::build),
    (&null::DEV_NULL, null::build_dev_null),
    (&null::ERROR, null::build_error),
    (&failover::SHAPE, failover::build),
    (&failover::WITH_EXPTIME, failover::build_with_exptime),
    (&hash::SHAPE, hash::build),
    (&guards::HASH_STOPS, guards::build_hash_stops),
    (&hot_cache::SHAPE, hot_cache::build),
    (&choice::HOST_ID, choice::build_host_id),
    (&guards::KEY_PARSE, guards::build_key_parse),
    (&key_split::SHAPE, key_split::build),
    (&l1l2::CACHE, l1l2::build_cache),
    (&l1l2::SIZE_SPLIT, l1l2::build_size_split),
    (&latency::SHAPE, latency::build),
    (&latest::SHAPE, latest::build),
    (&choice::LOAD_BALANCER, choice::build_random),
    (&logging::SHAPE, logging::build),
    (&migrate::SHAPE, migrate::build),
    (&miss_failover::SHAPE, miss_failover::build),
    (&modify::EXPTIME, modify::build_exptime),
    (&modify::KEY, modify::build_key),
    (&null::SHAPE, null::build),
    (&operation::SHAPE, operation::build),
    (&guards::BY_CLIENT, guards::build_by_client),
    (&pool::SHAPE, pool::build),
    (&operation::PREFIX_POLICY, operation::build),
    (&choice::RANDOM, choice::build_random),
    (&rate_limit::SHAPE, rate_limit::build),
    (&routing_group::SHAPE, routing_group::build),
    (&failover::SALTED, failover::build_salted),
    (&shadow::SHAPE, shadow::build),
    (&shard_split::SHAPE, shard_split::build),
    (&staging::SHAPE, staging::build),
    (&warm_up::SHAPE, warm_up::build),
];

#[cfg(test)]
mod handles;
#[cfg(test)]
mod tests;
