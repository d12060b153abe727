//! What the papers compare with: a ratio needs its denominator.
//!
//! These are measured, not served: fixed sizes, no growth, safe code. Where one is an
//! [`Index`](guira_index::Index), drivers written for any index take it next to the product's own.
//!
//! ```text
//! items          items of 64 bytes that never change: 16-byte keys, 32-byte values, a link for chains
//! chain          memcached's table: heads and linked items, under one lock or many
//! single_writer  MemC3's table as the paper has it: one writer, striped version counters; also without tags
//! linear         linear probing, one thread
//! recency        which item a full cache gives up: strict LRU by a linked list, CLOCK by a bit
//! filter         Bloom filters, blocked, counting, d-left counting; the quotient filter
//! pages          huge pages for all of them, as the product's tables have
//! engine         a cache of fixed items over either table with either policy, readers that copy and re-check
//! ```
//!
//! # Locks
//! Where the papers say pthread mutex this is `std::sync::Mutex`: like glibc's, a compare-and-swap on a futex word to
//! take it, an exchange to give it back, a sleep in the kernel if another holds it for long.

pub(crate) mod engine;
pub(crate) mod filter;
pub(crate) mod items;
pub(crate) mod chain;
pub(crate) mod linear;
pub(crate) mod recency;
pub(crate) mod single_writer;
pub(crate) mod pages;

#[cfg(test)]
mod tests;
