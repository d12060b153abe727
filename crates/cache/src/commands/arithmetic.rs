//! `incr` and `decr`: numbers kept as text, as memcached keeps them.

use super::commit::Actor;
use super::store::{Mode, StoreTerms, Stored};
use crate::engine::{Decision, Lower, NoRoom, Swap, Swapped};
use crate::items::{EXPTIME_MAX, Fields, ItemRef, Key};

/// The most digits of a 64-bit number.
const DIGITS_MAX: usize = 20;

/// The parameters of an arithmetic command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delta {
    /// The amount to add or subtract.
    pub delta: u64,
    /// Whether to subtract. A difference stops at 0, while a sum wraps at 2^64.
    pub down: bool,
    /// Creates a missing item with this number and this expiry.
    pub initial: Option<(u64, u32)>,
    /// The item's new expiry.
    pub exptime: Option<u32>,
    /// Applies only if the item's unique equals this.
    pub compare: Option<u64>,
    /// The new unique, instead of the stripe's next one.
    pub explicit_cas: Option<u64>,
    /// The key was given in base64.
    pub key_binary: bool,
}

/// The outcome of an arithmetic command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The new number.
    Number {
        /// The number.
        number: u64,
        /// The item's new cas unique.
        cas: u64,
        /// The item's expiry, 0 for never.
        exptime: u32,
        /// The item's slab class.
        class: usize,
        /// Whether the item was created.
        created: bool,
    },
    /// The value is not a number of 1 to 20 digits.
    NonNumeric,
    /// No such item.
    NotFound,
    /// The unique differs.
    Exists,
}

impl Actor<'_> {
    pub(crate) fn arithmetic(
        &self,
        key: &Key<'_>,
        what: &Delta,
        now: u32,
    ) -> Result<Counted, NoRoom> {
        loop {
            let counted = match self.get(key, now) {
                Ok(item) => self.count_on(key, &item, what, now)?,
                Err(_) => {
                    self.local.absent(key, now)?;
                    self.create(key, what, now)?
                }
            };
            if let Some(counted) = counted {
                return Ok(counted);
            }
        }
    }

    /// Creates the number. Returns `None` if another thread created the item meanwhile.
    fn create(&self, key: &Key<'_>, what: &Delta, now: u32) -> Result<Option<Counted>, NoRoom> {
        let Some((number, exptime)) = what.initial else { return Ok(Some(Counted::NotFound)) };
        let how = StoreTerms {
            mode: Mode::Add,
            exptime,
            explicit_cas: what.explicit_cas,
            key_binary: what.key_binary,
            ..StoreTerms::default()
        };
        Ok(match self.store(key, number.to_string().as_bytes(), &how, now)? {
            Stored::Stored { cas, class, .. } => {
                Some(Counted::Number { number, cas, exptime, class, created: true })
            }
            _ => None,
        })
    }

    /// Tries once to change a present item. Returns `None` if the item was replaced meanwhile.
    fn count_on(
        &self,
        key: &Key<'_>,
        item: &ItemRef<'_>,
        what: &Delta,
        now: u32,
    ) -> Result<Option<Counted>, NoRoom> {
        // The whole value is read and copied: any number of spaces may surround the number.
        self.note_moved(item.value_bytes());
        let Some(old) = item.value().and_then(parse) else { return Ok(Some(Counted::NonNumeric)) };
        let number =
            if what.down { old.saturating_sub(what.delta) } else { old.wrapping_add(what.delta) };
        let mut digits = itoa::Buffer::new();
        let text = digits.format(number).as_bytes();
        let padding = item.value_bytes().saturating_sub(text.len());
        let spaces =
            (0..padding).step_by(SPACES.len()).map(|at| &SPACES[..SPACES.len().min(padding - at)]);
        let fields = Fields {
            cas: what.explicit_cas.is_some(),
            life: item.can_be_claimed() || what.exptime.is_some_and(|e| e != 0),
            ..item.fields()
        };
        let new = self.local.begin(key, text.len() + padding, fields, now)?;
        let new = self.local.filled(new, std::iter::once(text).chain(spaces), now)?;
        let mut life = 0;
        let swap = Swap {
            inserts: false,
            explicit_cas: what.explicit_cas,
            advances: true,
            lower: Lower::Asks,
        };
        let swapped = self.swap_voiding(key, new, &swap, now, |live| match live {
            Some(live) if live.location() == item.location() => {
                let unique = self.cas_of(live, self.cas_unique(key));
                if what.compare.is_some_and(|given| given != unique) {
                    Decision::Refuse(Some(Counted::Exists))
                } else {
                    // Read with the place locked: the item may have been marked stale in place.
                    let old = live.life_word();
                    life = what.exptime.map_or(old, |e| (old & !EXPTIME_MAX) | e.min(EXPTIME_MAX));
                    Decision::Put(life)
                }
            }
            _ => Decision::Refuse(None),
        });
        match swapped.map_err(|refused| self.local.discarded(refused))? {
            Swapped::Put { cas, .. } => Ok(Some(Counted::Number {
                number,
                cas,
                exptime: life & EXPTIME_MAX,
                class: item.class(),
                created: false,
            })),
            Swapped::Refused(counted) => Ok(counted),
        }
    }
}

/// The padding of a number, copied piece by piece.
static SPACES: [u8; 4096] = [b' '; 4096];

/// Parses a number from text: digits, surrounded by any spaces.
fn parse(mut text: &[u8]) -> Option<u64> {
    // Strips spaces in blocks first, for a value that is mostly spaces.
    while let Some(rest) = text.strip_suffix(&SPACES) {
        text = rest;
    }
    let digits = text.trim_ascii();
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::{SPACES, parse};

    #[test]
    fn a_number_is_up_to_twenty_digits_with_spaces_around() {
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse(b"9 "), Some(9));
        for text in [&b""[..], b" ", b"18446744073709551616", b"-1", b"1x", b"0x1"] {
            assert_eq!(parse(text), None, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn a_number_may_be_mostly_spaces() {
        for spaces in [1, SPACES.len() - 1, SPACES.len(), 2 * SPACES.len() + 1] {
            let around = vec![b' '; spaces];
            assert_eq!(parse(&[b"17", &around[..]].concat()), Some(17), "{spaces} behind");
            assert_eq!(parse(&[&around[..], b"17", &around[..]].concat()), Some(17), "{spaces}");
            assert_eq!(parse(&[b"1", &around[..], b"7"].concat()), None, "{spaces} within");
            assert_eq!(parse(&around), None, "{spaces} and no more");
        }
    }
}
