//! The baselines that the papers compare with: the denominators of their ratios.
//!
//! They are for measurements only: they have fixed sizes, don't grow, and are written in safe code. Drivers written for
//! any [`Index`](guira_index::Index) can take a baseline that is one, next to the product's own.
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
//! A pthread mutex of the papers is a `std::sync::Mutex` here. Like glibc's mutex, it takes a compare-and-swap on a
//! futex word to lock, an exchange to unlock, and a sleep in the kernel if another thread holds it for long.

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
