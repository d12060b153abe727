//! Ch3, mcrouter's default hash: which of `n` children a key belongs to, such that a child appended moves 1/n of keys.

/// Chosen for good bits after any number of re-hashes.
const SEED: u64 = 4_193_360_111;
/// Bits between two levels of the tree; children can be at most 2 to this.
const LEVEL_BITS: u32 = 23;
const TRIES_MAX: u32 = 32;
const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;

/// The child of a key. 0 for fewer than two children.
pub(crate) fn ch3(key: &[u8], children: usize) -> usize {
    let Some(last) = children.checked_sub(1).filter(|last| *last > 0) else { return 0 };
    let first = murmur(key);
    let mut bits = Bits { first, hash: first, word: 0 };
    let mut depth = usize::BITS - last.leading_zeros();
    let mut at = depth;
    for _ in 0..TRIES_MAX {
        while !bits.get(at) {
            depth -= 1;
            if depth == 0 {
                return 0;
            }
            at = depth;
        }
        at += LEVEL_BITS;
        let mut number = 1;
        for _ in 1..depth {
            number = number << 1 | usize::from(bits.get(at));
            at += LEVEL_BITS;
        }
        if number < children {
            return number;
        }
    }
    0
}

/// An endless row of bits that depends on the key. To go back costs a start from the front, and is rare.
struct Bits {
    first: u64,
    hash: u64,
    word: u32,
}

impl Bits {
    fn get(&mut self, index: u32) -> bool {
        if index / 64 < self.word {
            (self.hash, self.word) = (self.first, 0);
        }
        while self.word < index / 64 {
            self.hash = murmur(&self.hash.to_le_bytes());
            self.word += 1;
        }
        self.hash >> (index % 64) & 1 == 1
    }
}

fn murmur(bytes: &[u8]) -> u64 {
    let mix = |word: u64| {
        let word = word.wrapping_mul(MULTIPLIER);
        (word ^ word >> 47).wrapping_mul(MULTIPLIER)
    };
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = (hash ^ mix(u64::from_le_bytes(*word))).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    let hash = (hash ^ hash >> 47).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 47
}
