//! One slot on one node: takes events, returns what to do.
//!
//! The head makes effects of writes and numbers them; they go down the chain; the last of the write path commits them;
//! acknowledgements go up, and the head answers. The reader answers reads.
//!
//! # Invariants
//! 1. What a member has is a beginning of what its predecessor has: it takes exactly the number after its last, from its
//!    present predecessor, in the slot's present epoch.
//! 2. Committed is what each of the write path has, on disk if the cluster waits for disks. A commit needs a `Durable` of
//!    this epoch from each before the last, so none of them holds.
//! 3. While it holds, a member neither forwards, nor says what is durable or committed, nor calls another ready. It holds
//!    as long as a past reader may answer by its grant (see `promises`), and in the first term of its process.
//! 4. The reader answers by a promise of each other of the write path, and shows only committed values.
//! 5. A copy that is alone shows nothing while it holds.
//! 6. A write's answer goes out once it is committed, also if its condition failed.
//! 7. Results go with the content. Copies that all restarted have none: a repetition of a write from before is answered
//!    with [`Told::Unknown`], never executed again. So is one whose result was forgotten, however late it comes.
//!
//! # Weaknesses
//! A new member gets the whole content in one message, and results aren't on disk.

mod chain;
mod message;
mod tag;
mod effect;

#[cfg(test)]
mod tests;

pub use chain::{Around, Slot};
pub use effect::{
    Contents, Decision, Effect, REPEATED, Results, Stand, Version, WriteId, WriteKind,
    WriteVerdict, decide,
};
pub use message::{ClientId, Message, SlotAction, SlotCopy, SlotEvent, Told};
pub use tag::WriteTag;
