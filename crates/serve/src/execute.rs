//! Execution of requests: what each command does to the cache and replies, one file per verb.

pub(crate) mod operator;
mod meta_get;
mod get;
mod touch;
mod delete;
mod arithmetic;
mod below;
mod watched;
mod store;
mod store_form;
mod record;
mod executor;
mod listing;

pub(crate) use executor::{Executor, Fed, Flow, KEY_BYTES, MoreKeys, asks_unique};
pub(crate) use get::prefetch_items;
pub(crate) use listing::Listing;
pub(crate) use store::{Opened, earns_chunk};
pub(crate) use store_form::StoreForm;
