//! What goes from node to node, as bytes.
//!
//! A frame, little-endian:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | how many bytes follow the checksum |
//! | 4 | 4 | CRC-32C of them |
//! | 8 | 1 | version: 1, and 0 in a hello |
//! | 9 | 1 | kind |
//! | 10 | 2 | slot, or 0 |
//! | 12 | 4 | 0 |
//! | 16 | 8 | epoch: of the slot, or of the sender's view, or 0 |
//! | 24 | | body |
//!
//! A link begins with a [`PeerHello`], whose form is the same for ever: it says which versions its sender speaks. A key and a
//! name have their length before them, in two bytes and in one; a value in four.
//!
//! # Invariants
//! 1. No bytes panic, and none take more memory than a few times their number.
//! 2. What is read is written as the same bytes, but a view (that is JSON, and is the same view) and a newer version's hello.
//! 3. A frame is taken if all of it fits, to its last byte. An error says which part doesn't.
//!
//! # Weaknesses
//! [`Message::Copy`](crate::slot::Message::Copy) must fit into one frame, so a slot of more than [`FRAME_BYTES_MAX`] can't be
//! copied. Nothing is compressed.

#[cfg(any(test, fuzzing))]
mod laws;
mod frame;
mod parts;
mod bytes;
mod fault;

#[cfg(test)]
mod tests;

pub use fault::{BadFrame, VERSION};
pub use frame::{FRAME_BYTES_MAX, Framed, HELLO_BYTES_MAX, PeerFrame, PeerHello, parse_frame};
#[cfg(any(test, fuzzing))]
pub use laws::fuzz_frames;
pub use parts::Asked;
