//! Executing requests: what each command does to the cache and answers.

mod binary;
pub(crate) mod operator;
mod meta;
mod lease;
mod watched;
mod store;
mod record;
mod executor;
mod listing;

pub(crate) use executor::{Executor, Fed, Flow, KEY_BYTES, MoreKeys, prefetch_items};
pub(crate) use listing::Listing;
pub(crate) use meta::asks_unique;
pub(crate) use store::{Asked, Begun, earns_chunk};
