//! The places where a key's record may lie.

/// Places, the newest first. The iterator owns what is left, so a lookup can keep it while it waits for a read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    /// Up to as many places as two buckets have slots.
    near: [u32; NEAR],
    count: usize,
    /// All places, if there are more.
    far: Vec<u32>,
}

impl Candidates {
    /// Adds a place. [`Candidates::sort`] must follow the last one.
    pub(super) fn push(&mut self, place: u32) {
        if !self.far.is_empty() {
            self.far.push(place);
        } else if let Some(slot) = self.near.get_mut(self.count) {
            *slot = place;
            self.count += 1;
        } else {
            self.far.extend_from_slice(&self.near);
            self.far.push(place);
        }
    }

    /// Removes all places.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.far.clear();
    }

    /// Sorts the places so that the highest comes out first. An entry that moved and was seen in both buckets comes out
    /// twice.
    pub(super) fn sort(&mut self) {
        if self.far.is_empty() {
            self.near[..self.count].sort_unstable();
        } else {
            self.far.sort_unstable();
            self.count = 0;
        }
    }
}

impl Iterator for Candidates {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if let Some(place) = self.far.pop() {
            return Some(place);
        }
        self.count = self.count.checked_sub(1)?;
        self.near.get(self.count).copied()
    }
}

/// Slots of two buckets.
const NEAR: usize = 8;
