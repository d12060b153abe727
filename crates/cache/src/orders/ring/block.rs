//! A block of a ring: a plain list of places or, once the block is far from both ends, a packed one.
//!
//! # Layout
//! ```text
//! packed    | distance | distance | …       from each place to the next higher one, the first from 0
//! distance  | 1 7 | … | 0 7 |               seven bits a byte, the lowest first; the high bit says that more follow
//! ```
//! While memory fills, neighbours are on probation together, and one byte holds their distance. Later, a thousand
//! places of a class are close enough that two bytes hold nearly all distances in 64 MB of items, and three bytes in
//! 64 GB. Packing loses the order within the block, which is a thousandth of a long ring.

use guira_index::Location;
use std::collections::VecDeque;

/// See the module's head.
pub(super) enum Block {
    Open(VecDeque<Location>),
    Packed { bytes: Box<[u8]>, len: usize },
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

    /// The places, for modification. Unpacks them.
    #[inline]
    pub(super) fn open(&mut self) -> &mut VecDeque<Location> {
        if let Block::Packed { bytes, len } = self {
            *self = Block::Open(unpacked(bytes, *len));
        }
        match self {
            Block::Open(places) => places,
            Block::Packed { .. } => unreachable!("it was just unpacked"),
        }
    }

    /// Sorts and packs the places, if that takes less memory.
    pub(super) fn pack(&mut self) {
        let Block::Open(places) = self else { return };
        let places = places.make_contiguous();
        places.sort_unstable_by_key(|at| at.0);
        let bytes = packed(places);
        if bytes.len() < size_of_val(places) {
            // Copied into a new allocation: an allocator may leave a shrunk one in its larger size.
            *self = Block::Packed { bytes: bytes.as_slice().into(), len: places.len() };
        }
    }
}

fn packed(places: &[Location]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(DISTANCE_BYTES_MAX * places.len());
    let mut before = 0;
    for at in places {
        let mut distance = at.0 - before;
        before = at.0;
        loop {
            let [low, ..] = distance.to_le_bytes();
            distance >>= BITS;
            if distance == 0 {
                bytes.push(low & !MORE);
                break;
            }
            bytes.push(low | MORE);
        }
    }
    bytes
}

fn unpacked(bytes: &[u8], len: usize) -> VecDeque<Location> {
    let mut places = VecDeque::with_capacity(len);
    let (mut at, mut distance, mut shift) = (0, 0, 0);
    for byte in bytes {
        distance |= u32::from(byte & !MORE) << shift;
        shift += BITS;
        if byte & MORE == 0 {
            at += distance;
            places.push_back(Location(at));
            (distance, shift) = (0, 0);
        }
    }
    places
}

/// Bits of a distance per byte.
const BITS: u32 = 7;
/// The bit of a byte that means that the distance continues in the next byte.
const MORE: u8 = 1 << BITS;
const DISTANCE_BYTES_MAX: usize = u32::BITS.div_ceil(BITS) as usize;

#[cfg(test)]
mod tests {
    use super::super::BLOCK;
    use super::*;

    #[test]
    fn places_come_out_of_a_packed_block_as_they_went_in_but_for_the_order() {
        let far =
            [0, u32::MAX, 7, 7, 7 + 0x7f, 7 + 0xff, 0x3fff, 0x4000, 1 << 21, 1 << 28, 1 << 31];
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

    fn packed_bytes(places: impl Iterator<Item = u32>) -> usize {
        let mut block = Block::Open(places.map(Location).collect());
        block.pack();
        match &block {
            Block::Open(places) => places.len() * size_of::<Location>(),
            Block::Packed { bytes, .. } => bytes.len(),
        }
    }

    #[test]
    fn a_packed_block_takes_a_byte_a_place_while_memory_fills_and_about_half_the_memory_later() {
        // Caches of 512 pages, of 64 MB and of 1 GB, full of items of 52 bytes; and places anywhere. The bounds are
        // size classes of an allocator, and BLOCK is the largest block that fits them.
        for (slot_bits, slots, bytes_max) in
            [(12, 2520, 2048), (16, 40_329, 2560), (23, 1 << 23, 2880 + 960)]
        {
            let place = |number: u64| {
                let (page, slot) = (number / slots, number % slots);
                u32::try_from((page << slot_bits) | slot).unwrap()
            };
            let count = BLOCK as u64;
            // A quarter of the new items is on probation.
            let filling = packed_bytes((0..count).map(|n| place(7 * slots + 4 * n)));
            assert!(filling <= 1024, "{slots} slots a page: {filling} bytes of neighbours");
            let random = (1..=count).map(|n| guira_policy::mix(n) % (slots << 9));
            let later = packed_bytes(random.map(place));
            assert!(later <= bytes_max, "{slots} slots a page: {later} bytes");
        }
    }
}
