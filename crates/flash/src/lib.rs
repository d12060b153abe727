//! The flash tier of a cache: items that don't fit in memory lie in files, and an index of 7 bytes per item finds them.
//!
//! It knows no protocol and reads no clock. It trusts nothing that it reads: a record carries its key, its page's
//! generation and a CRC. A record that can't be read, or doesn't match the index, is a miss.
//!
//! # Floors
//! ```text
//! tier       the files, what callers ask; compaction
//! plan       which page compaction takes next
//! buffers    records on their way to flash
//! pages      free, open and sealed pages, and their generations
//! index      from a hash to places
//! entry      56 bits of the index
//! record     an item on flash
//! stats, settings, bucket
//! ```
#![deny(unsafe_code)]

mod tier;
mod plan;
mod buffers;
mod pages;
mod index;
mod entry;
mod record;
mod stats;
mod settings;
mod bucket;

pub use bucket::Bucket;
pub use entry::FlashEntry;
pub use pages::{PageCounts, PageFigures};
pub use plan::{Action, Compaction, CompactionPolicy};
pub use record::{FlashRecord, NoRecord};
pub use settings::{FileSpec, OpenError, PAGES_MAX, TierSettings};
pub use stats::{Compacted, Counted};
pub use tier::{Draft, ReadPlan, ReadSource, Tier};
