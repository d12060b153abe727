//! A vector of bits, the most significant first, that stores numbers of any width.
//!
//! # Invariants
//! 1. Bits after the last one are 0, so each vector has exactly one form as bytes.
//! 2. A read past the end returns zeros and never fails: the caller compares its position with [`Bits::len`].

/// Bits, the first in the highest place of the first word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: u64,
}

impl Bits {
    /// The number of bits.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Appends the `count` lowest bits of `n`, at most 64, the highest of them first.
    pub(crate) fn push(&mut self, n: u64, count: u32) {
        if count == 0 {
            return;
        }
        let n = n << (64 - count);
        let used = (self.len % 64) as u32;
        match self.words.last_mut() {
            Some(last) if used > 0 => {
                *last |= n >> used;
                if used + count > 64 {
                    self.words.push(n << (64 - used));
                }
            }
            _ => self.words.push(n),
        }
        self.len += u64::from(count);
    }

    /// The 64 bits from `at`.
    #[inline]
    pub(crate) fn peek(&self, at: u64) -> u64 {
        let Ok(word) = usize::try_from(at / 64) else { return 0 };
        let shift = at % 64;
        let here = self.words.get(word).map_or(0, |it| it << shift);
        let next = self.words.get(word + 1).map_or(0, |it| it >> 1 >> (63 - shift));
        here | next
    }

    /// The number in `count` bits from `at`, at most 64.
    #[inline]
    pub(crate) fn read(&self, at: u64, count: u32) -> u64 {
        if count == 0 { 0 } else { self.peek(at) >> (64 - count) }
    }

    /// The words, for callers that scan them.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Appends the words as bytes. Their number follows from the number of bits.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.words.iter().for_each(|word| out.extend(word.to_le_bytes()));
    }

    /// Decodes `len` bits from the front of `bytes`, and advances `bytes` past them.
    pub(crate) fn decode(bytes: &mut &[u8], len: u64) -> Option<Self> {
        let size = usize::try_from(len.div_ceil(64).checked_mul(8)?).ok()?;
        let (taken, rest) = bytes.split_at_checked(size)?;
        let words: Vec<u64> =
            taken.as_chunks().0.iter().map(|it| u64::from_le_bytes(*it)).collect();
        let spare = (64 - len % 64) % 64;
        let is_clean =
            words.last().is_none_or(|last| spare == 0 || last.trailing_zeros() as u64 >= spare);
        *bytes = rest;
        is_clean.then_some(Self { words, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_at_their_places() {
        let mut random = fastrand::Rng::with_seed(1);
        let numbers: Vec<(u64, u32)> = (0..5000)
            .map(|_| {
                let count = random.u32(0..=64);
                (if count == 0 { 0 } else { random.u64(..) >> (64 - count) }, count)
            })
            .collect();
        let mut bits = Bits::default();
        numbers.iter().for_each(|&(n, count)| bits.push(n, count));
        let mut at = 0;
        for &(n, count) in &numbers {
            assert_eq!(bits.read(at, count), n);
            at += u64::from(count);
        }
        assert_eq!((at, bits.read(at, 64)), (bits.len(), 0));
        let mut bytes = Vec::new();
        bits.encode(&mut bytes);
        assert_eq!(Bits::decode(&mut &bytes[..], bits.len()), Some(bits.clone()));
        assert_eq!(Bits::decode(&mut &bytes[..bytes.len() - 1], bits.len()), None);
        assert_eq!(Bits::decode(&mut &bytes[..], u64::MAX), None);
        *bytes.last_mut().unwrap() |= 0;
        let last = bytes.len() - 8;
        bytes[last] |= 1;
        assert_eq!(Bits::decode(&mut &bytes[..], bits.len()), None, "a stray bit behind the end");
    }
}
