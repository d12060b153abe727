//! `SpookyHash` V2 (Bob Jenkins, public domain), in its 32-bit form: the source of mcrouter's pseudo-random draws.
//!
//! It is two hashes under one name. Messages shorter than [`SHORT_BYTES`] use four words of state, longer ones twelve.
//! The code loops over tables of rotations. Results are the same on big-endian machines.

/// Returns the hash of `key`, which is the same on every machine.
///
/// # Cost
/// Some fifty operations for a key of up to 31 bytes, without multiplications.
#[must_use]
pub fn spooky32(key: &[u8], seed: u32) -> u32 {
    (spooky64(key, u64::from(seed)) & 0xffff_ffff) as u32
}

/// The 64-bit form. [`spooky32`] is its lower half.
#[must_use]
pub fn spooky64(key: &[u8], seed: u64) -> u64 {
    if key.len() < SHORT_BYTES { short(key, seed) } else { long(key, seed) }
}

fn short(key: &[u8], seed: u64) -> u64 {
    let mut state = [seed, seed, FILL, FILL];
    let (blocks, mut rest) = key.as_chunks::<32>();
    for block in blocks {
        short_half(&mut state, &block[..16]);
        state[0] = state[0].wrapping_add(word(&block[16..24]));
        state[1] = state[1].wrapping_add(word(&block[24..]));
    }
    if let Some((half, last)) = rest.split_at_checked(16) {
        short_half(&mut state, half);
        rest = last;
    }
    let (low, high) = if rest.is_empty() {
        (FILL, FILL)
    } else {
        (word(&rest[..rest.len().min(8)]), word(&rest[rest.len().min(8)..]))
    };
    state[2] = state[2].wrapping_add(low);
    state[3] = state[3].wrapping_add((key.len() as u64) << 56).wrapping_add(high);
    short_end(&mut state);
    state[0]
}

/// Adds sixteen bytes to the last two words, and mixes all words.
fn short_half(state: &mut [u64; 4], half: &[u8]) {
    state[2] = state[2].wrapping_add(word(&half[..8]));
    state[3] = state[3].wrapping_add(word(&half[8..]));
    for (i, by) in [50, 52, 30, 41, 54, 48, 38, 37, 62, 34, 5, 36].into_iter().enumerate() {
        let (at, next, over) = ((i + 2) % 4, (i + 3) % 4, i % 4);
        state[at] = state[at].rotate_left(by).wrapping_add(state[next]);
        state[over] ^= state[at];
    }
}

fn short_end(state: &mut [u64; 4]) {
    for (i, by) in [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63].into_iter().enumerate() {
        let (at, from) = ((i + 3) % 4, (i + 2) % 4);
        state[at] ^= state[from];
        state[from] = state[from].rotate_left(by);
        state[at] = state[at].wrapping_add(state[from]);
    }
}

fn long(key: &[u8], seed: u64) -> u64 {
    let mut state = [seed, seed, FILL, seed, seed, FILL, seed, seed, FILL, seed, seed, FILL];
    let (blocks, rest) = key.as_chunks::<BLOCK_BYTES>();
    for block in blocks {
        mix(&mut state, block);
    }
    let mut last = [0; BLOCK_BYTES];
    last[..rest.len()].copy_from_slice(rest);
    last[BLOCK_BYTES - 1] = u8::try_from(rest.len()).unwrap_or(0);
    for (at, bytes) in last.as_chunks::<8>().0.iter().enumerate() {
        state[at] = state[at].wrapping_add(u64::from_le_bytes(*bytes));
    }
    for _ in 0..3 {
        end_part(&mut state);
    }
    state[0]
}

fn mix(state: &mut [u64; 12], block: &[u8; BLOCK_BYTES]) {
    let words = block.as_chunks::<8>().0;
    for (i, by) in [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46].into_iter().enumerate() {
        state[i] = state[i].wrapping_add(u64::from_le_bytes(words[i]));
        state[(i + 2) % 12] ^= state[(i + 10) % 12];
        state[(i + 11) % 12] ^= state[i];
        state[i] = state[i].rotate_left(by);
        state[(i + 11) % 12] = state[(i + 11) % 12].wrapping_add(state[(i + 1) % 12]);
    }
}

fn end_part(state: &mut [u64; 12]) {
    for (i, by) in [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54].into_iter().enumerate() {
        let (at, next, over) = ((i + 11) % 12, (i + 1) % 12, (i + 2) % 12);
        state[at] = state[at].wrapping_add(state[next]);
        state[over] ^= state[at];
        state[next] = state[next].rotate_left(by);
    }
}

/// Reads up to eight bytes as a little-endian number.
fn word(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

/// The length in bytes from which a message uses the long form.
const SHORT_BYTES: usize = 192;
const BLOCK_BYTES: usize = 96;
const FILL: u64 = 0xdead_beef_dead_beef;
