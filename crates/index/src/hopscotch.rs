//! Concurrent hopscotch table: a key is within H slots of its home, and the home's hop word says in which.
//!
//! Hopscotch hashing (Herlihy, Shavit, Tzafrir 2008) as Dharmapuram et al. put it to use in memcached, sections 3 and 6.
//! Ours differs in: several writers, a lock for each line of homes; one version guards a key, not three; 15-bit tags;
//! growth in place, by an eighth at a time, while everybody goes on.
//!
//! # Layout
//! ```text
//! reserved | line 0 | line 1 | ... | line n-1 | H slots without homes | untouched zero pages ... |
//! line     | version | hop words of 6 homes | 6 locations | 6 tags |     (H = 64: 4 of each)
//! ```
//! # Invariants
//! 1. Bit d of home h's word is set if and only if slot h + d holds a key whose home is h. A filled slot has one such
//!    bit. Hop words change under the lock of the home's line.
//! 2. To find a key takes its home's hop word and the slots that it names. A key that leaves a slot does so under that
//!    lock, which then advances the version. So a miss stands if the home's line was not locked, its version is as it
//!    was, and the home is still the key's.
//! 3. A displaced key is in its new slot before one store to the hop word changes the bits, and in its old slot
//!    until the displacer uses that.
//! 4. A line's keys move to their homes in the larger table like so: copies are entered; the new boundary is published;
//!    the old are cleared and the line is unlocked. So whoever saw that they had left sees the boundary too, and
//!    whoever holds a line's lock knows which positions are its own.
//! 5. Who waits for a line's lock while holding another waits for one of higher number, and nobody who holds a line's
//!    lock waits for growth. So there is no deadlock.
//!
//! # Costs
//! get: the home's line and the next, which are fetched together, and the item; no store. 10.7 bytes a slot, so 15.5 to
//! 17.5 bytes a key while it grows; H = 64 takes 16 bytes a slot, 19 to 21.5 a key. While a growth is under way, one
//! insert in six, each insert also moves eight lines' keys: two microseconds.
//! Load: growth begins at 66 % (H = 64: 80 %) and ends before 69 % (84 %); a table of the largest size is 66 % (80 %) full
//! with as many keys as it was made for. Up to there no key of a well mixed hash is refused: `tests/room.rs`. Beyond, more
//! keys than slots come together by chance now and then: at 72 % in one table of 100 000 keys in a thousand.
//! Bad at: memory, beside [`Cuckoo`](crate::Cuckoo); more than H keys with equal hashes ([`Full`]).

mod index;
mod entry;
mod grow;
mod room;
mod validate;
mod table;
mod address;
mod line;

pub use entry::HopscotchEntry;
pub use table::{Hopscotch, Hopscotch64, HopscotchTable};

#[cfg(doc)]
use crate::Full;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
