//! The first word of a chunk, and the meaning of its bits.

use std::fmt;

const VALUE_SHIFT: u32 = 8;
const ACCESS_SHIFT: u32 = 16;
const ACCESS_MASK: u32 = 0x7f;

pub(crate) const RETIRED: u32 = 1 << 23;
const HAS_CLIENT_FLAGS: u32 = 1 << 24;
const HAS_LIFE: u32 = 1 << 25;
const HAS_EXTRAS: u32 = 1 << 26;
const FETCHED: u32 = 1 << 27;
const HITS_SHIFT: u32 = 28;
const HITS_MASK: u32 = 0x3;
const ON_PROBATION: u32 = 1 << 30;
const GENERATION: u32 = 1 << 31;

/// Seconds in one tick of the last-access field, as a shift.
const TICK_SHIFT: u32 = 1;

/// The longest idle time that an item records, in seconds. Longer ones read as this.
pub(crate) const IDLE_MAX_S: u32 = (ACCESS_MASK - 1) << TICK_SHIFT;

/// The value length that means: the actual length is in a word of its own.
pub(crate) const VALUE_EXTENDED: usize = 255;

/// Word 0 of a link: key length 0, and a mark where an item has its value length.
pub(crate) const LINK: u32 = 1 << VALUE_SHIFT;
/// Word 0 of an item's first link, through which a hand finds the item.
pub(crate) const LINK_FIRST: u32 = 2 << VALUE_SHIFT;

/// Word 0 of a chunk, by value. All zero means free or unpublished.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header(pub(crate) u32);

impl Header {
    /// The header of an item about to be published, without an access or hits.
    pub(crate) fn new(key_bytes: usize, value_bytes: usize) -> Header {
        let key = u32::try_from(key_bytes).expect("a key has at most 250 bytes");
        let value = u32::try_from(value_bytes.min(VALUE_EXTENDED)).expect("at most 255");
        Header(key | (value << VALUE_SHIFT))
    }

    pub(crate) fn with_fields(self, client_flags: bool, life: bool, extras: bool) -> Header {
        let on = |is: bool, bit: u32| if is { bit } else { 0 };
        Header(
            self.0
                | on(client_flags, HAS_CLIENT_FLAGS)
                | on(life, HAS_LIFE)
                | on(extras, HAS_EXTRAS),
        )
    }

    /// The header with the flush generation (0 or 1) that the item belongs to.
    pub(crate) fn of_generation(self, generation: u32) -> Header {
        Header((self.0 & !GENERATION) | (generation << 31))
    }

    #[inline]
    pub(crate) fn key_bytes(self) -> usize {
        (self.0 & 0xff) as usize
    }

    /// The value length, or [`VALUE_EXTENDED`].
    #[inline]
    pub(crate) fn value_bytes(self) -> usize {
        (self.0 >> VALUE_SHIFT & 0xff) as usize
    }

    /// Whether this is an item in the index, as far as a hand can see from the header alone.
    pub(crate) fn is_published(self) -> bool {
        self.key_bytes() != 0 && self.0 & RETIRED == 0
    }

    /// Whether the item has left the index, or is about to leave its chunk.
    pub(crate) fn is_retired(self) -> bool {
        self.0 & RETIRED != 0
    }

    /// Whether this is the first link of a published item.
    pub(crate) fn is_first_link(self) -> bool {
        self.0 == LINK_FIRST
    }

    /// Whether this is any link of a published item.
    pub(crate) fn is_link(self) -> bool {
        self.0 == LINK || self.0 == LINK_FIRST
    }

    pub(crate) fn has_client_flags(self) -> bool {
        self.0 & HAS_CLIENT_FLAGS != 0
    }

    #[inline]
    pub(crate) fn has_life(self) -> bool {
        self.0 & HAS_LIFE != 0
    }

    #[inline]
    pub(crate) fn has_extras(self) -> bool {
        self.0 & HAS_EXTRAS != 0
    }

    pub(crate) fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    /// Hits counted for the eviction policy: 0 to 3, or 0 to 1 under policies with the single bit of MemC3 §3.3.
    #[inline]
    pub(crate) fn hits(self) -> u32 {
        self.0 >> HITS_SHIFT & HITS_MASK
    }

    pub(crate) fn with_hits(self, hits: u32) -> Header {
        debug_assert!(hits <= HITS_MASK, "two bits");
        Header((self.0 & !(HITS_MASK << HITS_SHIFT)) | hits << HITS_SHIFT)
    }

    /// The header after a hit: the count is one higher, up to `most`.
    #[inline]
    pub(crate) fn hit(self, most: u32) -> Header {
        Header(self.0 + (u32::from(self.hits() < most) << HITS_SHIFT))
    }

    /// Whether S3-CLOCK has the item on probation.
    pub(crate) fn is_on_probation(self) -> bool {
        self.0 & ON_PROBATION != 0
    }

    pub(crate) fn with_probation(self, is: bool) -> Header {
        Header(if is { self.0 | ON_PROBATION } else { self.0 & !ON_PROBATION })
    }

    pub(crate) fn fetched(self) -> Header {
        Header(self.0 | FETCHED)
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        self.0 >> 31
    }

    /// The header after an access at second `now`.
    #[inline]
    pub(crate) fn accessed(self, now: u32) -> Header {
        Header((self.0 & !(ACCESS_MASK << ACCESS_SHIFT)) | (tick(now) << ACCESS_SHIFT))
    }

    /// The header without its last access, which then reads as longer ago than the field can record.
    pub(crate) fn idle_for_long(self) -> Header {
        Header(self.0 & !(ACCESS_MASK << ACCESS_SHIFT))
    }

    /// Seconds since the last access, in whole ticks: 0 within the same tick.
    pub(crate) fn idle_s(self, now: u32) -> u32 {
        let then = self.0 >> ACCESS_SHIFT & ACCESS_MASK;
        if then == 0 {
            return IDLE_MAX_S;
        }
        let ticks = (tick(now) + ACCESS_MASK - then) % ACCESS_MASK;
        ticks << TICK_SHIFT
    }
}

/// The tick of second `now`: cycles through 1 to 127. 0 is reserved for "long ago".
fn tick(now: u32) -> u32 {
    (now >> TICK_SHIFT) % ACCESS_MASK + 1
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("free");
        }
        if self.is_link() {
            return f.write_str("link");
        }
        let on = |is: bool, name: &'static str| if is { name } else { "" };
        write!(
            f,
            "{}/{} hits {}{}{}{}",
            self.key_bytes(),
            self.value_bytes(),
            self.hits(),
            on(self.is_on_probation(), " on probation"),
            on(self.is_fetched(), " fetched"),
            on(self.0 & RETIRED != 0, " retired"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_told_to_two_seconds_until_the_field_wraps() {
        for stored in [2, 7, 8, 1000, 123_456] {
            let header = Header::new(3, 4).accessed(stored);
            assert_eq!(header.idle_s(stored), 0);
            for idle in 2..IDLE_MAX_S - 1 {
                let told = header.idle_s(stored + idle);
                assert!(told > 0 && told.abs_diff(idle) < 2, "{idle} told as {told}");
            }
        }
        assert_eq!(Header::new(3, 4).idle_s(99), IDLE_MAX_S);
    }

    #[test]
    fn marks_leave_the_lengths_alone() {
        let header = Header::new(250, 1000).with_fields(true, true, false).of_generation(1);
        let marked = header.accessed(77).hit(3).hit(3).with_probation(true).fetched();
        assert_eq!((marked.key_bytes(), marked.value_bytes()), (250, VALUE_EXTENDED));
        assert!(marked.is_on_probation() && marked.is_fetched() && marked.has_life());
        assert_eq!((marked.hits(), marked.hit(2).hits(), marked.hit(3).hit(3).hits()), (2, 2, 3));
        assert_eq!(marked.with_hits(0).with_probation(false).generation(), 1);
        assert!(!Header(LINK).is_published() && !Header(0).is_published());
    }
}
