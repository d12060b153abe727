//! A block of a ring: places one after the other, or, once it is far from both ends, packed.
//!
//! # Layout
//! ```text
//! packed    | distance | distance | …       from each place to the next higher one, the first from 0
//! distance  | 16 |                          below 0xffff
//!           | 0xffff | low 16 | high 16 |
//! ```
//! A thousand places of a class lie so close that one word tells nearly all distances, up to some 2 GB of items. In larger
//! memory they stay as they are. Packing loses the order within the block, which is a thousandth of a long ring.

use guira_index::Location;
use std::collections::VecDeque;

/// See the module's head.
pub(super) enum Block {
    Open(VecDeque<Location>),
    Packed { words: Box<[u16]>, len: usize },
}

impl Block {
    pub(super) fn with_room(places: usize) -> Block {
        Block::Open(VecDeque::with_capacity(places))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Block::Open(places) => places.len(),
            Block::Packed { len, .. } => *len,
        }
    }

    /// The places, to be changed. Unpacks them.
    #[inline]
    pub(super) fn open(&mut self) -> &mut VecDeque<Location> {
        if let Block::Packed { words, len } = self {
            *self = Block::Open(unpacked(words, *len));
        }
        match self {
            Block::Open(places) => places,
            Block::Packed { .. } => unreachable!("it was just unpacked"),
        }
    }

    /// Packs the places, in another order, if that takes less.
    pub(super) fn pack(&mut self) {
        let Block::Open(places) = self else { return };
        let places = places.make_contiguous();
        places.sort_unstable_by_key(|at| at.0);
        let words = packed(places);
        if size_of_val(words.as_slice()) < size_of_val(places) {
            // A copy: an allocator may leave what is cut by half where it is.
            *self = Block::Packed { words: words.as_slice().into(), len: places.len() };
        }
    }
}

fn packed(places: &[Location]) -> Vec<u16> {
    let mut words = Vec::with_capacity(3 * places.len());
    let mut before = 0;
    for at in places {
        let distance = at.0 - before;
        before = at.0;
        match u16::try_from(distance) {
            Ok(near) if near != FAR => words.push(near),
            _ => {
                let [low, high] = bytemuck::cast(distance);
                words.extend([FAR, low, high]);
            }
        }
    }
    words
}

fn unpacked(words: &[u16], len: usize) -> VecDeque<Location> {
    let mut places = VecDeque::with_capacity(len);
    let (mut at, mut rest) = (0, words);
    while let [near, after @ ..] = rest {
        let distance;
        (distance, rest) = match after {
            [low, high, after @ ..] if *near == FAR => (bytemuck::cast([*low, *high]), after),
            _ => (u32::from(*near), after),
        };
        at += distance;
        places.push_back(Location(at));
    }
    places
}

/// What stands before a distance of two words.
const FAR: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_out_of_a_packed_block_as_they_went_in_but_for_the_order() {
        let far =
            [0, u32::MAX, 7, 7, 0xfffe + 7, 0xffff + 0xfffe + 7, 1 << 30, 1 << 31, u32::MAX - 1];
        for places in [&[][..], &[0], &[u32::MAX], &far] {
            let locations: Vec<Location> = places.iter().copied().map(Location).collect();
            let mut sorted = locations.clone();
            sorted.sort_unstable_by_key(|at| at.0);
            assert_eq!(unpacked(&packed(&sorted), places.len()), sorted);
            let mut block = Block::Open(locations.into());
            block.pack();
            assert_eq!((block.len(), &*block.open()), (places.len(), &sorted.into()));
        }
    }

    #[test]
    fn a_packed_block_takes_little_more_than_half_the_memory() {
        // 512 pages of 64 MB and of 1 GB, full of items of 52 bytes; and places anywhere.
        for (slot_bits, slots, bytes_max) in
            [(12, 2520, 2060), (16, 40_329, 2700), (23, 1 << 23, 4096)]
        {
            let places = (1..=1024_u64).map(|n| {
                let number = guira_policy::mix(n) % (slots << 9);
                let (page, slot) = (number / slots, number % slots);
                Location(u32::try_from((page << slot_bits) | slot).unwrap())
            });
            let mut block = Block::Open(places.collect());
            block.pack();
            let bytes = match &block {
                Block::Open(places) => places.len() * size_of::<Location>(),
                Block::Packed { words, .. } => size_of_val(&words[..]),
            };
            assert!(bytes <= bytes_max, "{slots} slots a page: {bytes} bytes");
        }
    }
}
