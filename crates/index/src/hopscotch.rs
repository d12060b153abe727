//! Concurrent hopscotch table: a key is within H slots of its home, and the home's hop word shows in which.
//!
//! Hopscotch hashing (Herlihy, Shavit, Tzafrir 2008), as Dharmapuram et al. applied it to memcached, sections 3 and
//! 6. This table differs in four ways: several writers, with one lock per line of homes; one version guards a key,
//! not three; 15-bit tags; growth in place, by an eighth at a time, while other threads continue.
//!
//! # Layout
//! ```text
//! reserved | line 0 | line 1 | ... | line n-1 | H slots without homes | untouched zero pages ... |
//! line     | version | hop words of 6 homes | 6 locations | 6 tags |     (H = 64: 4 of each)
//! ```
//! # Invariants
//! 1. Bit d of home h's word is set if and only if slot h + d holds a key whose home is h. A filled slot has exactly
//!    one such bit. Hop words change under the lock of the home's line.
//! 2. A lookup needs only the hop word of the key's home and the slots that it names. A key leaves a slot under that
//!    lock, and the unlock then advances the version. So a miss is valid if the home's line was not locked, its
//!    version is unchanged, and the home is still the key's.
//! 3. A displaced key is in its new slot before one store to the hop word changes the bits. It stays in its old slot
//!    until the displacing thread reuses that slot.
//! 4. A line's keys move to their homes in the larger table in this order: the copies are entered; the new boundary
//!    is published; the old bits are cleared and the line is unlocked. So a thread that saw that the keys had left
//!    also sees the new boundary, and the holder of a line's lock knows which positions belong to the line.
//! 5. A thread that waits for a line's lock while it holds another waits only for a line of a higher number. No
//!    thread that holds a line's lock waits for growth. So there is no deadlock.
//!
//! # Costs
//! get: the home's line and the next, which are fetched together, and the item; no store. 10.7 bytes per slot, so
//! 15.5 to 17.5 bytes per key while the table grows; H = 64 takes 16 bytes per slot, 19 to 21.5 per key. During a
//! growth, which covers one insert in six, each insert also moves eight lines' keys, which takes two microseconds.
//! Load: growth begins at 66 % (H = 64: 80 %) and ends before 69 % (84 %). A table of the largest size is 66 % (80 %)
//! full when it holds as many keys as it was made for. Up to that load no key with a well mixed hash is refused
//! (`tests/room.rs`). Beyond it, by chance more keys than slots occasionally fall together: at 72 % in one table of
//! 100 000 keys in a thousand.
//! Bad at: memory, compared with [`Cuckoo`](crate::Cuckoo); more than H keys with equal hashes ([`Full`]).

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
