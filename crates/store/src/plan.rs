//! Estimates of memory, disk and bytes written, from the number of keys and how they change.
//!
//! This is the analytic model of the SILT paper (section 5), for these files. All keys exist and have equal lengths,
//! and changes are puts of keys drawn uniformly: the worst case for merges. Let a log have n records of d different
//! keys, a merge r young runs, and the store N keys. Then a change writes
//!
//! ```text
//! log record  +  d/n of an entry of a young run  +  N/(r n) of an entry of the last level
//! ```
//! # Weaknesses
//! Merges that fall behind take more runs at once and write less. Keys that change more often than others cost less, too.

use crate::file::BLOCK_BYTES;
use crate::log::{BYTES_PER_KEY, RECORD_HEAD_BYTES, RECORD_UNIT};
use crate::options::{Options, RunIndex};
use crate::ribbon;
use crate::run::{BLOCK_ROOM, SPLIT_BYTES_MAX, SPLIT_ROOM, UNIT_HEAD};
use guira_filter::Plan;

/// The expected content of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The number of keys.
    pub keys: u64,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
}

/// The expected resources of a store: see [`Expected::sizing`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Sizing {
    /// The number of young runs that a merge takes.
    pub runs: f64,
    /// Memory of the logs: their indexes, and their last records.
    pub log_memory_bytes: f64,
    /// Memory of the young runs when they are about to be merged: their block indexes and filters.
    pub young_memory_bytes: f64,
    /// Memory of the last level's block indexes.
    pub last_index_bytes: f64,
    /// Memory of the last level's filters.
    pub last_filter_bytes: f64,
    /// Bytes of logs.
    pub log_bytes: f64,
    /// Bytes of the young runs when they are about to be merged.
    pub young_bytes: f64,
    /// Bytes of the last level.
    pub last_bytes: f64,
    /// Bytes of disk that stay free for merges.
    pub reserve_bytes: f64,
    /// Bytes of key and value that a change brings.
    pub bytes_of_caller: f64,
    /// Bytes that a change writes to a log.
    pub bytes_logged: f64,
    /// Bytes that conversions write for a change.
    pub bytes_converted: f64,
    /// Bytes that merges write for a change.
    pub bytes_merged: f64,
}

impl Sizing {
    /// The total memory.
    #[must_use]
    pub fn memory_bytes(&self) -> f64 {
        let last = self.last_index_bytes + self.last_filter_bytes;
        self.log_memory_bytes + self.young_memory_bytes + last
    }

    /// The total disk space, including the part that stays free.
    #[must_use]
    pub fn disk_bytes(&self) -> f64 {
        self.log_bytes + self.young_bytes + self.last_bytes + self.reserve_bytes
    }

    /// Bytes written for each byte that a change brings.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let written = self.bytes_logged + self.bytes_converted + self.bytes_merged;
        written / self.bytes_of_caller
    }
}

/// The sizes of runs that hold so many entries.
struct Files {
    bytes: f64,
    index_bytes: f64,
    filter_bytes: f64,
}

impl Expected {
    /// Estimates what a store with this content takes, if it is opened with `options`.
    #[must_use]
    pub fn sizing(&self, options: &Options) -> Sizing {
        let body = self.key_bytes + self.value_bytes;
        let keys = self.keys.max(1) as f64;
        let record = (RECORD_HEAD_BYTES as u64 + body).next_multiple_of(RECORD_UNIT as u64) as f64;
        let bits = f64::from(options.last_level_filter_bits);
        let filter =
            |entries| if bits > 0.0 { filter_bits(entries, 8.0 / bits.exp2()) } else { 0.0 };
        let in_file = keys.min(PARTITION_FULL * options.partition_bytes as f64 / body as f64);
        let last = self.files(keys, keys, (options.index, filter(in_file)), in_file);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's cast saturates, and it is above 0"
        )]
        let last_bytes = last.bytes as u64;
        let log_bytes = options.log_bytes_at(last_bytes);
        // The log is full when its bytes or its index are full.
        let slots = slots(log_bytes);
        let by_bytes = (log_bytes - BLOCK_BYTES as u64) as f64 / record;
        let by_index = records_of(keys, slots * 15.0 / 16.0);
        let records = by_bytes.min(by_index).max(1.0);
        let distinct = distinct_of(keys, records);
        let runs_due = options.runs_due(last_bytes);
        let runs = runs_due as f64;
        let filter = ribbon::bits_per_hash(whole(distinct), Options::young_rate(runs_due));
        let young = self.files(distinct, records / 2.0, (options.index, filter), distinct);
        Sizing {
            runs,
            log_memory_bytes: LOGS * (slots * SLOT_BYTES + TAIL_BYTES),
            young_memory_bytes: runs * (young.index_bytes + young.filter_bytes),
            last_index_bytes: last.index_bytes,
            last_filter_bytes: last.filter_bytes,
            log_bytes: LOGS * log_bytes as f64,
            young_bytes: runs * young.bytes,
            last_bytes: last.bytes,
            // Data that waits to be merged exists twice at the end of a merge.
            reserve_bytes: options.reserve_least(last_bytes) as f64 + runs * young.bytes,
            bytes_of_caller: body as f64,
            bytes_logged: record,
            bytes_converted: young.bytes / records,
            bytes_merged: last.bytes / (runs * records),
        }
    }

    /// Files with `entries` entries in total, `in_file` of them per file, whose numbers are `age` below the highest.
    /// `how`: the index kind, and the filter bits per entry.
    fn files(&self, entries: f64, age: f64, how: (RunIndex, f64), in_file: f64) -> Files {
        let block = BLOCK_BYTES as f64;
        let (key, value) = (self.key_bytes as f64, self.value_bytes as f64);
        let head = varint_bytes(key) + varint_bytes(value) + varint_bytes(age) + 1.0;
        let entry = head + key + value;
        let packed = packed(entry);
        let (blocks, units) = (entries * packed.blocks, entries * packed.units);
        let split_bytes = if packed.is_split { units / 2.0 } else { 0.0 };
        let index_bytes = index_bits(how.0, units, entries) / 8.0 + split_bytes;
        let filter_bytes = entries * how.1 / 8.0;
        // Each file has a header, a footer and sections, which begin at block boundaries.
        let files = (entries / in_file).max(1.0);
        let is_filtered = if filter_bytes > 0.0 { 0.5 } else { 0.0 };
        let beside = files * block * (4.5 + is_filtered);
        let bytes = blocks * block + index_bytes + filter_bytes + beside;
        Files { bytes, index_bytes, filter_bytes }
    }
}

/// The space that an entry takes in a run.
struct Packed {
    /// Blocks.
    blocks: f64,
    /// Blocks in which an entry begins.
    units: f64,
    /// Whether entries continue in the next block.
    is_split: bool,
}

/// Computes how entries of `entry` bytes lie in blocks.
fn packed(entry: f64) -> Packed {
    let (room, least) = (BLOCK_ROOM as f64, SPLIT_ROOM as f64);
    if entry > SPLIT_BYTES_MAX as f64 {
        let blocks = ((UNIT_HEAD as f64 + entry) / BLOCK_BYTES as f64).ceil();
        return Packed { blocks, units: 1.0, is_split: false };
    }
    let in_block = (room / entry).floor();
    if in_block >= 1.0 && room - in_block * entry < least {
        let blocks = 1.0 / in_block;
        return Packed { blocks, units: blocks, is_split: false };
    }
    // The end of a block is lost if it is too short for a part of an entry. An entry may end anywhere in a block.
    let lost = least * least / 2.0 / entry.min(room);
    let blocks = if entry < room { entry / (room - lost) } else { (entry + lost) / room };
    Packed { blocks, units: blocks.min(1.0), is_split: true }
}

/// The number of slots of a log's index.
fn slots(log_bytes: u64) -> f64 {
    let buckets = log_bytes / BYTES_PER_KEY / 4;
    ((buckets - buckets / 8).max(2).next_power_of_two() * 4) as f64
}

/// How many of `keys` keys occur in `records` records, if the keys are drawn uniformly.
fn distinct_of(keys: f64, records: f64) -> f64 {
    -keys * (-records / keys).exp_m1()
}

/// The number of records in which `distinct` of `keys` keys occur.
fn records_of(keys: f64, distinct: f64) -> f64 {
    if distinct >= keys { f64::INFINITY } else { -keys * (-distinct / keys).ln_1p() }
}

/// Bits of the index of so many units and entries.
fn index_bits(index: RunIndex, units: f64, entries: f64) -> f64 {
    match index {
        RunIndex::Fence => 16.5 * units,
        RunIndex::EliasFano => 9.0 * units,
        RunIndex::Trie => 2.6 * entries,
    }
}

/// Bits per entry of the last level's filter, for a file of `entries` entries.
fn filter_bits(entries: f64, rate: f64) -> f64 {
    Plan::for_rate(whole(entries).max(1), rate).map_or(0.0, |plan| plan.bits_per_item())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float's cast saturates, and it is above 0"
)]
fn whole(entries: f64) -> usize {
    entries as usize
}

fn varint_bytes(n: f64) -> f64 {
    (n.max(1.0).log2().floor() / 7.0).floor() + 1.0
}

/// The active log, and one that is being converted.
const LOGS: f64 = 2.0;
/// Bytes of a slot of a log's index: a tag and a place.
const SLOT_BYTES: f64 = 6.0;
/// Memory of a log's last records.
const TAIL_BYTES: f64 = (1 << 20) as f64;
/// The mean fill of partitions: they are split when they are full, so they are between half full and full.
const PARTITION_FULL: f64 = 0.75;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_values_more_keys_and_filters_take_more() {
        let expected = Expected { keys: 5_000_000, key_bytes: 20, value_bytes: 100 };
        let options = Options::default();
        let sizing = expected.sizing(&options);
        let last_bits = 8.0 * sizing.last_index_bytes / 5e6;
        assert!(
            (0.4..0.7).contains(&last_bits),
            "{last_bits} bits a key, as the crate's head says"
        );
        let amplification = sizing.write_amplification();
        // 110,000 records per log, 1.76 million per merge, 5 million keys.
        assert!((4.5..5.5).contains(&amplification), "{amplification}");
        let more = Expected { keys: 10_000_000, ..expected }.sizing(&options);
        assert!(more.write_amplification() > amplification + 2.0);
        let mut filtered = options.clone();
        filtered.last_level_filter_bits = 12;
        let more = expected.sizing(&filtered);
        assert!((7e6..9e6).contains(&more.last_filter_bytes), "{more:?}");
        assert_eq!(sizing.last_filter_bytes, 0.0);
        // These values continue in the next block.
        let long = Expected { value_bytes: 5000, ..expected }.sizing(&options);
        assert!((2.5e10..2.6e10).contains(&long.last_bytes), "{long:?}");
    }

    #[test]
    fn what_no_store_holds_gives_numbers_all_the_same() {
        for (keys, key_bytes, value_bytes) in [(0, 0, 0), (1, 1, 0), (u64::MAX >> 1, 250, 1 << 30)]
        {
            let expected = Expected { keys, key_bytes, value_bytes };
            let sizing = expected.sizing(&Options::default());
            assert!(sizing.memory_bytes() >= 0.0 && sizing.disk_bytes().is_finite(), "{sizing:?}");
        }
    }
}
