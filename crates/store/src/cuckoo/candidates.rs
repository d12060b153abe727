//! Places where a key's record may lie.

/// Places, the newest first: an iterator that owns what it has left, so that a look-up can wait for a read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    /// Those of two buckets.
    near: [u32; NEAR],
    count: usize,
    /// All, if there are more.
    far: Vec<u32>,
}

impl Candidates {
    /// Adds one. After the last comes [`Candidates::sort`].
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

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        self.far.clear();
    }

    /// Puts the highest place first. One that was seen in two buckets, as it moved, may come twice.
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
