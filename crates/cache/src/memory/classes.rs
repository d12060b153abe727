//! The chunk sizes: which slab class serves an item of a given size.
//!
//! Guira's own classes go in steps of 4 bytes up to 256, so that a small item wastes at most 3 bytes of its chunk,
//! and grow by about 6 % above. From 1/64 of a page on they are whole fractions of the page, so that a page has no
//! unused tail. If a growth factor is given (memcached's `-f`), each class is the one below times the factor.
//!
//! [`Classes::memcacheds`] are memcached's classes, for users who rely on its figures: chunks from 96 bytes on, each
//! a quarter larger than the one below. An item is charged what it would occupy in memcached.
//!
//! The largest chunk is an eighth of a page, or as in memcached. Larger items are chains of several chunks
//! (items/item.rs).

/// How memory is cut into pages and chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slabs {
    /// Guira's own classes: many, in small pages, with chunks close to the item's size.
    #[default]
    Fine,
    /// memcached's classes in pages of 1 MiB, with each item charged what it would occupy in memcached. For users who
    /// rely on memcached's figures by class, or on how many items fit.
    Memcached {
        /// The largest chunk (memcached's `slab_chunk_max`).
        chunk_bytes_max: usize,
    },
}

/// Index of a slab class: 0 is the smallest.
pub(crate) type Class = u8;

/// The smallest chunk: 2^32 locations times this is the most memory that a cache can have.
pub(crate) const CHUNK_MIN: usize = 32;

const FINE_STEP: usize = 4;
const FINE_MAX: usize = 256;
const GROWTH: f64 = 1.06;

/// Bytes of a memcached item before its key.
const MEMCACHED_HEADER: usize = 48;
const MEMCACHED_STEP: usize = 8;
const MEMCACHED_CLASSES: usize = 63;

/// The table of classes of one cache.
pub(crate) struct Classes {
    /// Chunk bytes by class, ascending, in multiples of 4.
    sizes: Vec<u32>,
    /// Class by (bytes + 3) / 4, for small items.
    small: [Class; FINE_MAX / FINE_STEP + 1],
    /// Whether items are charged as in memcached.
    are_memcacheds: bool,
}

impl Classes {
    /// Makes classes for pages of `page_bytes`. The smallest chunk has `smallest` bytes if a `factor` is given.
    pub(crate) fn new(page_bytes: usize, factor: Option<f64>, smallest: usize) -> Classes {
        let largest = page_bytes / 8;
        let mut sizes = Vec::new();
        let mut size = match factor {
            None => CHUNK_MIN,
            Some(_) => smallest.clamp(CHUNK_MIN, largest / 2),
        };
        while size < largest && sizes.len() < usize::from(Class::MAX) - 1 {
            size = size.next_multiple_of(FINE_STEP);
            sizes.push(size);
            size = match factor {
                None if size < FINE_MAX => size + FINE_STEP,
                None => next_grown(size, page_bytes),
                Some(f) => scaled(size, f).max(size + FINE_STEP),
            };
        }
        sizes.push(largest);
        Classes::of(sizes, false)
    }

    /// Makes memcached's classes. The smallest chunk has `room` bytes in addition to the item's header.
    pub(crate) fn memcacheds(factor: f64, room: usize, largest: usize) -> Classes {
        let mut sizes = Vec::new();
        let mut size = (MEMCACHED_HEADER + room).next_multiple_of(MEMCACHED_STEP);
        while scaled(size, factor) < largest && sizes.len() < MEMCACHED_CLASSES - 1 {
            sizes.push(size);
            size = scaled(size, factor).max(size + 1).next_multiple_of(MEMCACHED_STEP);
        }
        sizes.push(largest);
        Classes::of(sizes, true)
    }

    fn of(sizes: Vec<usize>, are_memcacheds: bool) -> Classes {
        let sizes: Vec<u32> =
            sizes.into_iter().map(|s| u32::try_from(s).expect("a chunk is below 4 GiB")).collect();
        let mut small = [0; FINE_MAX / FINE_STEP + 1];
        for (quads, class) in small.iter_mut().enumerate() {
            *class = search(&sizes, quads * FINE_STEP).unwrap_or(0);
        }
        Classes { sizes, small, are_memcacheds }
    }

    /// Whether these are memcached's classes.
    pub(crate) fn are_memcacheds(&self) -> bool {
        self.are_memcacheds
    }

    /// How many classes there are.
    pub(crate) fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Bytes of a chunk of `class`.
    #[inline]
    pub(crate) fn bytes(&self, class: Class) -> usize {
        self.sizes[usize::from(class)] as usize
    }

    /// The class of the largest chunks.
    pub(crate) fn largest(&self) -> Class {
        Class::try_from(self.sizes.len() - 1).expect("there are fewer than 256 classes")
    }

    /// The smallest class whose chunks hold `bytes`; `None` beyond the largest.
    #[inline]
    pub(crate) fn fit(&self, bytes: usize) -> Option<Class> {
        if bytes <= FINE_MAX {
            Some(self.small[bytes.div_ceil(FINE_STEP)])
        } else {
            search(&self.sizes, bytes)
        }
    }
}

fn search(sizes: &[u32], bytes: usize) -> Option<Class> {
    let class = sizes.partition_point(|&size| (size as usize) < bytes);
    (class < sizes.len()).then(|| Class::try_from(class).expect("there are fewer than 256 classes"))
}

/// The next size, about 6 % larger: a whole fraction of the page where that wastes less.
fn next_grown(size: usize, page_bytes: usize) -> usize {
    let aim = scaled(size, GROWTH).next_multiple_of(FINE_STEP).max(size + FINE_STEP);
    if aim < page_bytes / 64 {
        return aim;
    }
    let fraction = page_bytes / (page_bytes / aim) / FINE_STEP * FINE_STEP;
    fraction.max(size + FINE_STEP)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "chunk sizes are far below 2^52"
)]
fn scaled(size: usize, factor: f64) -> usize {
    (size as f64 * factor).ceil() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_chunk_that_holds_it() {
        let step = if cfg!(miri) { 997 } else { 1 };
        for page in [64 << 10, 2 << 20] {
            for factor in [None, Some(1.25), Some(1.01)] {
                let classes = Classes::new(page, factor, 48);
                assert!(classes.sizes.is_sorted_by(|a, b| a < b));
                assert!(classes.sizes.iter().all(|s| s % 4 == 0));
                for bytes in (1..=page / 8).step_by(step) {
                    let class = classes.fit(bytes).unwrap();
                    assert!(classes.bytes(class) >= bytes);
                    assert!(class == 0 || classes.bytes(class - 1) < bytes);
                }
                assert_eq!(classes.fit(page / 8 + 1), None);
            }
        }
    }

    #[test]
    fn a_small_item_loses_at_most_three_bytes_and_a_large_one_seven_percent() {
        let classes = Classes::new(2 << 20, None, 48);
        assert_eq!(classes.bytes(classes.fit(52).unwrap()), 52);
        for bytes in (CHUNK_MIN..=(2 << 20) / 8).step_by(if cfg!(miri) { 997 } else { 1 }) {
            let chunk = classes.bytes(classes.fit(bytes).unwrap());
            assert!(chunk - bytes <= 3.max(bytes * 14 / 100), "{bytes} in {chunk}");
        }
    }
}
