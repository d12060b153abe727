//! A ribbon filter: which hashes a run may have. It takes 1.03 times the bits that its false-positive rate requires.
//!
//! *Ribbon filter: practically smaller than Bloom and Xor* (Dillinger, Walzer; 2021), the standard variant with a width
//! of 128. A run is written once, so nothing is inserted later. A cuckoo filter takes a third more bits to allow that.
//!
//! # Layout
//! ```text
//! section  | columns c 4 | seed 4 | blocks b 8 | group | group | …      little-endian
//! group    | block 0 | block 1 | … | block b-1 |                        of four columns, the last one of those that are left
//! block    | column, 16 B | column, 16 B | …                            one bit for each of 128 slots, the lowest first
//! ```
//! # How it works
//! A hash determines a window of 128 slots, a mask of the slots that count, and c bits. The columns are the solution of
//! one linear equation for each hash of the run and each column: the sum (XOR) of the slots that count is the hash's
//! bit. Of the other hashes, one in 2^c matches all its bits by chance.
//!
//! # Invariants
//! 1. Each hash that the filter was built from is found.
//! 2. Building the filter ends: each attempt uses another seed and half a percent more slots. With 5 % more slots
//!    hardly any attempt fails.
//!
//! # Costs
//! Building takes 0.2 to 0.5 µs per hash, and 20 bytes per hash of temporary memory. A lookup reads two adjacent cache
//! lines for the first four bits, which reject 15 in 16 absent hashes. It reads c/2 lines for a hash that is present:
//! about twice the time of a cuckoo filter.

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Ribbon {
    columns: usize,
    seed: u32,
    blocks: usize,
    words: Vec<u128>,
}

/// The equation of a hash.
struct Row {
    /// The first slot of its window.
    start: usize,
    /// The slots of the window that count. The first slot always does.
    mask: u128,
    /// The sum of these slots: a bit for each column.
    sum: u32,
}

impl Ribbon {
    /// Builds the filter of these hashes. At most about `rate` of all other hashes are found in it.
    pub(crate) fn of(hashes: &[u64], rate: f64) -> Self {
        Self::in_blocks(hashes, columns(rate), blocks(hashes.len()))
    }

    /// Builds the filter with `columns` columns and at least `blocks` blocks.
    fn in_blocks(hashes: &[u64], columns: usize, mut blocks: usize) -> Self {
        let mut seed = 0_u32;
        loop {
            if let Some(solved) = solve(hashes, (columns, seed), blocks) {
                return solved;
            }
            // One attempt in a few fails. A little more room makes the next one likelier to succeed.
            blocks += blocks.div_ceil(200);
            seed = seed.wrapping_add(1);
        }
    }

    /// Returns false if the filter wasn't built from this hash.
    pub(crate) fn may_hold(&self, hash: u64) -> bool {
        let row = Row::of(hash, self.seed, self.blocks);
        let (block, within) = (row.start / WIDTH, row.start % WIDTH);
        // The part of the window in its first block, and the part in the next block. It is empty if there is no next
        // block.
        let low = row.mask << within;
        let high = (row.mask >> 1) >> (WIDTH - 1 - within);
        let next = (block + 1).min(self.blocks - 1);
        let mut sum = row.sum;
        let mut words = &self.words[..];
        let mut left = self.columns;
        while left > 0 {
            let columns = left.min(GROUP);
            let (group, others) = words.split_at(self.blocks * columns);
            let here = &group[block * columns..][..columns];
            let there = &group[next * columns..][..columns];
            // All columns of a group are computed before the first branch: a mispredicted branch costs more.
            let sums = here.iter().zip(there).rev().fold(0, |sums, (here, there)| {
                let both = (here & low) ^ (there & high);
                sums << 1 | (high_half(both) ^ low_half(both)).count_ones() & 1
            });
            if sums != sum & ((1 << columns) - 1) {
                return false;
            }
            sum >>= columns;
            (words, left) = (others, left - columns);
        }
        true
    }

    /// Encodes the filter as a section of a file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut section = Vec::with_capacity(HEAD_BYTES + self.bytes());
        section
            .extend_from_slice(&(self.columns as u64 | u64::from(self.seed) << 32).to_le_bytes());
        section.extend_from_slice(&(self.blocks as u64).to_le_bytes());
        self.words.iter().for_each(|word| section.extend_from_slice(&word.to_le_bytes()));
        section
    }

    /// Decodes such a section. None for bytes that `encode` doesn't write.
    pub(crate) fn decode(section: &[u8]) -> Option<Self> {
        let (columns, rest) = section.split_first_chunk()?;
        let (seed, rest) = rest.split_first_chunk()?;
        let (blocks, rest) = rest.split_first_chunk()?;
        let columns = usize::try_from(u32::from_le_bytes(*columns)).ok()?;
        let blocks = usize::try_from(u64::from_le_bytes(*blocks)).ok()?;
        let bytes = blocks.checked_mul(columns)?.checked_mul(WORD_BYTES)?;
        if !(1..=COLUMNS_MAX).contains(&columns) || blocks == 0 || rest.len() != bytes {
            return None;
        }
        let (words, _) = rest.as_chunks();
        let words = words.iter().map(|word| u128::from_le_bytes(*word)).collect();
        Some(Self { columns, seed: u32::from_le_bytes(*seed), blocks, words })
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * WORD_BYTES
    }
}

impl Row {
    fn of(hash: u64, seed: u32, blocks: usize) -> Self {
        let (a, b) = mix(hash ^ u64::from(seed).wrapping_mul(SEED_STEP), ONE);
        let (c, d) = mix(a ^ b, OTHER);
        let starts = (blocks * WIDTH - WIDTH + 1) as u128;
        let start = usize::try_from((u128::from(a) * starts) >> 64).unwrap_or(0);
        let sum = u32::try_from(b >> 32).unwrap_or(0);
        Self { start, mask: u128::from(c) << 64 | u128::from(d) | 1, sum }
    }
}

/// Returns two numbers that depend on all bits of `a`, made from the halves of a product.
fn mix(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a ^ (b << 1 | 1)) * u128::from(b);
    let (high, low) = (high_half(product), low_half(product));
    (high ^ low, (high.rotate_left(32) ^ low).wrapping_mul(b))
}

#[expect(clippy::cast_possible_truncation, reason = "it is what is asked for")]
fn low_half(n: u128) -> u64 {
    n as u64
}

fn high_half(n: u128) -> u64 {
    low_half(n >> 64)
}

/// Solves all equations by Gaussian elimination, in which no row is longer than a window. None if two equations
/// contradict.
fn solve(hashes: &[u64], (columns, seed): (usize, u32), blocks: usize) -> Option<Ribbon> {
    let slots = blocks * WIDTH;
    let keep = u32::MAX >> (COLUMNS_MAX - columns);
    let mut masks = vec![0_u128; slots];
    let mut sums = vec![0_u32; slots];
    for &hash in hashes {
        let row = Row::of(hash, seed, blocks);
        let (mut at, mut mask, mut sum) = (row.start, row.mask, row.sum & keep);
        while masks[at] != 0 {
            mask ^= masks[at];
            sum ^= sums[at];
            if mask == 0 {
                break;
            }
            let zeros = mask.trailing_zeros();
            mask >>= zeros;
            at += zeros as usize;
        }
        if mask != 0 {
            (masks[at], sums[at]) = (mask, sum);
        } else if sum != 0 {
            return None;
        }
    }
    // Back substitution: from the last slot down, each slot's bits follow from those after it. `behind` holds a
    // column's last 128.
    let mut words = vec![0_u128; blocks * columns];
    let mut behind = vec![0_u128; columns];
    for at in (0..slots).rev() {
        for (column, behind) in behind.iter_mut().enumerate() {
            *behind <<= 1;
            let sum = (*behind & masks[at]).count_ones() ^ sums[at] >> column;
            *behind |= u128::from(sum & 1) * u128::from(masks[at] != 0);
        }
        if at % WIDTH == 0 {
            let block = at / WIDTH;
            for (group, behind) in behind.chunks(GROUP).enumerate() {
                let from = group * GROUP * blocks + block * behind.len();
                words[from..][..behind.len()].copy_from_slice(behind);
            }
        }
    }
    Some(Ribbon { columns, seed, blocks, words })
}

/// Filter bits per hash for so many hashes and this rate, if the first attempt succeeds.
pub(crate) fn bits_per_hash(hashes: usize, rate: f64) -> f64 {
    (columns(rate) * blocks(hashes) * WIDTH) as f64 / hashes.max(1) as f64
}

/// The number of columns for a rate.
fn columns(rate: f64) -> usize {
    let keeps = |columns: &usize| (*columns as f64).exp2() * rate >= 1.0;
    (1..=COLUMNS_MAX).find(keeps).unwrap_or(COLUMNS_MAX)
}

/// The number of blocks for so many hashes, with which three attempts in four succeed.
fn blocks(hashes: usize) -> usize {
    let spare = hashes / 625 * hashes.max(2).ilog2() as usize;
    (hashes + spare + WIDTH).div_ceil(WIDTH)
}

/// Columns that are checked together.
const GROUP: usize = 4;
/// Slots of a window, and of a block.
const WIDTH: usize = 128;
const WORD_BYTES: usize = 16;
const COLUMNS_MAX: usize = 32;
const HEAD_BYTES: usize = 16;
const ONE: u64 = 0x9E37_79B9_7F4A_7C15;
const OTHER: u64 = 0xD6E8_FEB8_6659_FD93;
const SEED_STEP: u64 = 0xBF58_476D_1CE4_E5B9;

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(from: u64, count: u64) -> Vec<u64> {
        // Well mixed numbers, as hashes of keys are.
        (from..from + count)
            .map(|n| mix(n.wrapping_mul(ONE), SEED_STEP).1 ^ mix(n, OTHER).0.rotate_left(17))
            .collect()
    }

    #[test]
    fn what_it_was_made_of_is_found_and_little_else() {
        for count in [0, 1, 2, 100, 127, 128, 129, 5000, 110_000] {
            let (inside, outside) = (numbers(0, count), numbers(1 << 40, 200_000));
            for rate in [0.5, 0.01, 0.0005] {
                let made = Ribbon::of(&inside, rate);
                let filter = Ribbon::decode(&made.encode()).expect("its own");
                assert!(inside.iter().all(|it| filter.may_hold(*it)), "{count} {rate}");
                let found = outside.iter().filter(|it| filter.may_hold(**it)).count() as f64;
                let most = rate * outside.len() as f64;
                assert!(found < most + 5.0 * most.sqrt(), "{count} {rate}: {found}, not {most}");
                let bits = filter.bytes() as f64 * 8.0 / inside.len().max(1) as f64;
                let planned = bits_per_hash(inside.len(), rate);
                assert!((planned..=planned * 1.03).contains(&bits), "{count} {rate}: {bits}");
            }
        }
        let filter = Ribbon::of(&numbers(0, 110_000), 0.0005);
        assert!(filter.bytes() * 8 < 114 * 110_000 / 10, "{} bytes", filter.bytes());
    }

    #[test]
    fn hashes_that_are_there_twice_do_no_harm() {
        let mut hashes = numbers(0, 3000);
        hashes.extend(numbers(1000, 500));
        hashes.extend([7; 5000]);
        let filter = Ribbon::of(&hashes, 0.001);
        assert!(hashes.iter().all(|it| filter.may_hold(*it)));
    }

    #[test]
    fn equations_that_contradict_are_tried_again_with_more_room() {
        let hashes = numbers(0, 5000);
        // There are more equations than slots.
        assert!(solve(&hashes, (8, 0), 39).is_none());
        let filter = Ribbon::in_blocks(&hashes, 8, 30);
        assert!(filter.seed > 8 && (40..44).contains(&filter.blocks), "{}", filter.blocks);
        assert!(hashes.iter().all(|it| filter.may_hold(*it)));
    }

    #[test]
    fn only_whole_sections_are_filters() {
        let section = Ribbon::of(&numbers(0, 700), 0.001).encode();
        assert!(Ribbon::decode(&section).is_some());
        for cut in [0, 3, 15, 16, section.len() - 1] {
            assert!(Ribbon::decode(&section[..cut]).is_none(), "{cut}");
        }
        for (at, byte) in [(0, 0), (0, 9), (1, 1), (8, 0), (8, 9), (15, 255)] {
            let mut other = section.clone();
            other[at] = byte;
            assert!(Ribbon::decode(&other).is_none(), "{at}: {byte}");
        }
        assert!(Ribbon::decode(&[&section[..], &[0]].concat()).is_none());
    }
}
