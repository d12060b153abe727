//! The messages between nodes, as bytes.
//!
//! The layout of a frame; numbers are little-endian:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | the number of bytes after the checksum |
//! | 4 | 4 | CRC-32C of those bytes |
//! | 8 | 1 | version: 1, or 0 in a hello |
//! | 9 | 1 | kind |
//! | 10 | 2 | slot, or 0 |
//! | 12 | 4 | 0 |
//! | 16 | 8 | epoch: of the slot, or of the sender's view, or 0 |
//! | 24 | | body |
//!
//! A link begins with a [`PeerHello`]. Its layout never changes; it lists the versions that its sender speaks. A length
//! precedes each key, name and value. It has two bytes for a key, one for a name, and four for a value.
//!
//! # Invariants
//! 1. No input causes a panic, or takes more memory than a few times its length.
//! 2. Encoding what was parsed yields the same bytes. Exceptions: a view, which is JSON and stays the same view, and
//!    the hello of a newer version.
//! 3. A frame is accepted only if all of it is valid, to its last byte. An error names the part that isn't.
//!
//! # Weaknesses
//! [`Message::Copy`](crate::slot::Message::Copy) must fit into one frame, so a slot larger than [`FRAME_BYTES_MAX`]
//! can't be copied. Nothing is compressed.

#[cfg(any(test, fuzzing))]
mod laws;
mod frame;
mod parts;
mod bytes;
mod fault;

#[cfg(test)]
mod tests;

pub use fault::{BadFrame, VERSION};
pub use frame::{
    FRAME_BYTES_MAX, FRONT_END, Framed, HELLO_BYTES_MAX, PeerFrame, PeerHello, parse_frame,
};
#[cfg(any(test, fuzzing))]
pub use laws::fuzz_frames;
pub use parts::Asked;
