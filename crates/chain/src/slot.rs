//! One slot on one node: a state machine that takes events and returns actions.
//!
//! The head turns writes into numbered effects and sends them down the chain. The last node of the write path commits
//! them. Acknowledgements go up the chain, and the head answers. The reader answers reads.
//!
//! # Invariants
//! 1. A member's content is a prefix of its predecessor's. It takes only the number after its last, from its present
//!    predecessor, in the slot's present epoch.
//! 2. An effect is committed when every node of the write path has it, on disk if the cluster waits for disks. A commit
//!    needs a `Durable` of this epoch from every node before the last, so none of them holds.
//! 3. A member *holds* while a past reader may answer by its grant (see `promises`), and in the first term of its
//!    process. Meanwhile it doesn't forward, doesn't report what is durable or committed, and calls no other node
//!    ready.
//! 4. The reader answers only with a promise from every other node of the write path. It shows only committed values.
//! 5. A copy that is alone on the write path answers no read while it holds.
//! 6. A write is answered once it is committed, even if its condition failed.
//! 7. Results travel with the content. If all copies restarted, the results are lost. A repetition of an earlier write
//!    then gets [`Told::Unknown`], and is never executed again. So does one whose result was forgotten, however late it
//!    comes.
//! 8. A reader may grant a client a *hold*: the client keeps the value and answers from it. No member lets a change of a
//!    key go on while a hold that it granted may run. It doesn't commit the change, and doesn't report it as durable.
//! 9. A hold lasts no longer than the promises by which the reader answered. So it ends before a chain without the reader
//!    commits anything. A member calls no other node ready while a hold of an earlier epoch may run: the new node's
//!    promise didn't limit it.
//!
//! # Weaknesses
//! A new member gets the whole content in one message, and results aren't stored on disk.

mod chain;
mod noted;
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
