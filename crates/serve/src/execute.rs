//! Executing requests: what each command does to the cache and answers.

mod text;
mod binary;
mod operator;
mod meta;
mod lease;
mod watched;
mod store;
mod record;
mod executor;
mod listing;

pub(crate) use executor::{Executor, Fed, Flow, KEY_BYTES};
pub(crate) use listing::Listing;
pub(crate) use record::{kind_of, kind_of_packet};
pub(crate) use store::{Asked, Begun, earns_chunk};
