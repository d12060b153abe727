//! The code of one split: how many of n keys go left.
//!
//! Up to 16 keys have a Huffman code with the weights C(n, l), the exact probabilities of a split of random keys. More
//! keys have Elias' gamma code of the distance from n / 2, in the order 0, -1, 1, -2, 2 ….
//!
//! In the weak order, "all go right" and "all go left" share a code. The keys keep their positions; only the position
//! of an absent key loses its meaning.
//!
//! The Huffman codes are canonical: shorter ones first, equally long ones in the order of l. Only the lengths depend on
//! how ties are broken: the two lightest groups are merged, and of equal weights the older group comes first.

use crate::block_index::bits::Bits;
use std::sync::LazyLock;

/// Whether an absent key's position is its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It is.
    Strict,
    /// It isn't, which saves 0.44 bits per key.
    Weak,
}

/// Appends the code for `left` of `keys` keys, of which there are at least 2.
pub(super) fn put(bits: &mut Bits, order: Order, keys: u64, left: u64) {
    let left = if order == Order::Weak && left == keys { 0 } else { left };
    if let Some(table) = table(order, keys) {
        let symbol = usize::try_from(left).expect("at most 16");
        bits.push(u64::from(table.codes[symbol]), u32::from(table.lengths[symbol]));
    } else {
        let gamma = folded(keys, left) + 1;
        let width = gamma.ilog2();
        bits.push(0, width);
        bits.push(gamma, width + 1);
    }
}

/// Decodes the split of `keys` keys at `at`, and advances `at` past it. None if the code is invalid or cut short.
#[inline]
pub(super) fn take(bits: &Bits, at: &mut u64, order: Order, keys: u64) -> Option<u64> {
    let window = bits.peek(*at);
    let (left, used) = match table(order, keys) {
        Some(table) => table.take(window)?,
        None => take_gamma(window, keys)?,
    };
    *at += u64::from(used);
    (*at <= bits.len() && left <= keys && (order == Order::Strict || left < keys)).then_some(left)
}

fn take_gamma(window: u64, keys: u64) -> Option<(u64, u32)> {
    let width = window.leading_zeros();
    if width > 31 {
        return None;
    }
    let gamma = window << width >> (63 - width);
    let folded = gamma - 1;
    let half = keys / 2;
    let distance = folded.div_ceil(2);
    let left = if folded % 2 == 1 { half.checked_sub(distance)? } else { half + distance };
    Some((left, 2 * width + 1))
}

/// Numbers the distances of `left` from the middle: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4.
fn folded(keys: u64, left: u64) -> u64 {
    let half = keys / 2;
    if left >= half { 2 * (left - half) } else { 2 * (half - left) - 1 }
}

#[inline]
fn table(order: Order, keys: u64) -> Option<&'static Huffman> {
    let tables = match order {
        Order::Strict => &TABLES.0,
        Order::Weak => &TABLES.1,
    };
    usize::try_from(keys).ok().and_then(|it| tables.get(it))
}

static TABLES: LazyLock<([Huffman; 17], [Huffman; 17])> = LazyLock::new(|| {
    let all = |order| std::array::from_fn(|keys| Huffman::new(&weights(order, keys)));
    (all(Order::Strict), all(Order::Weak))
});

/// The probabilities that 0, 1, 2 … of `keys` random keys go left, times 2^keys.
fn weights(order: Order, keys: usize) -> Vec<u64> {
    let mut row = vec![1];
    for _ in 0..keys {
        let sums = row.windows(2).map(|pair| pair[0] + pair[1]);
        row = [1].into_iter().chain(sums).chain([1]).collect();
    }
    if order == Order::Weak && keys > 0 {
        row[0] += row.pop().unwrap_or(0);
    }
    row
}

/// A canonical Huffman code of at most 17 symbols.
struct Huffman {
    lengths: [u8; 17],
    codes: [u16; 17],
    /// Symbol and length for each value of the next eight bits. Length 0: the code is longer.
    short: [(u8, u8); 256],
    /// The symbols in the order of their codes, each with its code shifted to the top of 16 bits.
    sorted: Vec<(u16, u8)>,
}

impl Huffman {
    fn new(weights: &[u64]) -> Self {
        let lengths = lengths(weights);
        let mut order: Vec<usize> = (0..weights.len()).filter(|&it| lengths[it] > 0).collect();
        order.sort_by_key(|&it| (lengths[it], it));
        let mut made = Self { lengths, codes: [0; 17], short: [(0, 0); 256], sorted: Vec::new() };
        // The next code, shifted to the top of 16 bits.
        let mut next = 0_u32;
        for symbol in order {
            let length = u32::from(lengths[symbol]);
            let code = u16::try_from(next).expect("the codes fill 16 bits, no more");
            made.codes[symbol] = code >> (16 - length);
            let symbol = u8::try_from(symbol).expect("at most 16");
            made.sorted.push((code, symbol));
            if length <= 8 {
                let from = usize::from(code >> 8);
                made.short[from..from + (1 << (8 - length))]
                    .fill((symbol, lengths[usize::from(symbol)]));
            }
            next += 1 << (16 - length);
        }
        made
    }

    #[inline]
    fn take(&self, window: u64) -> Option<(u64, u32)> {
        let (symbol, length) = self.short[usize::from((window >> 56) as u8)];
        if length > 0 {
            return Some((u64::from(symbol), u32::from(length)));
        }
        let code = (window >> 48) as u16;
        let behind = self.sorted.partition_point(|&(from, _)| from <= code);
        let (_, symbol) = *self.sorted.get(behind.checked_sub(1)?)?;
        Some((u64::from(symbol), u32::from(self.lengths[usize::from(symbol)])))
    }
}

/// The code lengths of symbols with these weights; 0 for a single symbol.
fn lengths(weights: &[u64]) -> [u8; 17] {
    let mut lengths = [0; 17];
    // The weight and the age of each group, and its symbols as bits.
    let mut groups: Vec<(u64, usize, u32)> =
        weights.iter().enumerate().map(|(at, &weight)| (weight, at, 1 << at)).collect();
    let mut age = groups.len();
    while groups.len() > 1 {
        groups.sort_unstable();
        let merged = (groups[0].0 + groups[1].0, age, groups[0].2 | groups[1].2);
        groups.drain(..2);
        (0..17).filter(|at| merged.2 >> at & 1 == 1).for_each(|at| lengths[at] += 1);
        groups.push(merged);
        age += 1;
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_split_comes_back() {
        for order in [Order::Strict, Order::Weak] {
            for keys in (2..70_u64).chain([1000, 65_535, 1 << 31]) {
                let some = (0..=keys.min(80)).chain([keys / 2, keys / 2 + 1, keys - 1, keys]);
                for left in some {
                    let mut bits = Bits::default();
                    put(&mut bits, order, keys, left);
                    let mut at = 0;
                    let expected = if order == Order::Weak && left == keys { 0 } else { left };
                    assert_eq!(take(&bits, &mut at, order, keys), Some(expected), "{keys} {left}");
                    assert_eq!(at, bits.len());
                    let mut short = Bits::default();
                    short.push(bits.read(0, 1), 1);
                    if bits.len() > 1 {
                        assert_eq!(take(&short, &mut 0, order, keys), None, "cut after a bit");
                    }
                }
            }
        }
    }

    /// The code is part of the file format. These lengths were computed by another program.
    #[test]
    fn the_codes_have_the_lengths_of_the_format() {
        let lengths = |order, keys: usize, symbols: usize| {
            table(order, keys as u64).expect("a code").lengths[..symbols].to_vec()
        };
        assert_eq!(lengths(Order::Strict, 3, 4), [3, 2, 1, 3]);
        assert_eq!(lengths(Order::Strict, 4, 5), [3, 2, 2, 2, 3]);
        assert_eq!(lengths(Order::Weak, 4, 4), [2, 2, 2, 2]);
        assert_eq!(lengths(Order::Weak, 5, 5), [3, 3, 2, 2, 2]);
        let strict = [12, 11, 9, 7, 5, 4, 3, 3, 2, 3, 3, 4, 4, 6, 8, 10, 12];
        assert_eq!(lengths(Order::Strict, 16, 17), strict);
        let weak = [11, 11, 9, 7, 5, 4, 3, 3, 2, 3, 3, 4, 4, 6, 8, 10];
        assert_eq!(lengths(Order::Weak, 16, 16), weak);
    }

    #[test]
    fn any_bits_are_a_split_or_refused() {
        let mut random = fastrand::Rng::with_seed(6);
        for _ in 0..100_000 {
            let mut bits = Bits::default();
            bits.push(random.u64(..) >> random.u32(0..64), 64);
            let width = random.u32(2..32);
            let keys = random.u64(2..1 << width);
            for order in [Order::Strict, Order::Weak] {
                let mut at = 0;
                assert!(take(&bits, &mut at, order, keys).is_none_or(|it| it <= keys && at > 0));
            }
        }
    }
}
