//! memcached's binary protocol: bytes to requests, and replies to bytes.
//!
//! ```text
//! header (24)                                                       extras      key       value
//! magic opcode key:2 extras:1 type:1 status:2 body:4 opaque:4 cas:8 | 0 – 20 B | ≤ 250 B | the rest of body
//! └──────────────── parse: a Packet, `used` bytes ─────────────────────────────────────┘ └ the caller's ┘
//! ```
//! All numbers are big-endian. `body` counts extras, key and value. A reply repeats the opcode and the
//! opaque. Its status is in the place where a request names a virtual bucket, which isn't used.
//!
//! # Laws
//! 1. A prefix of a request is never an error: it is [`Incomplete`](crate::Parsed::Incomplete) until
//!    header, extras and key have arrived.
//! 2. Bytes beyond `used` aren't examined.
//! 3. `encode ∘ parse` is the identity on requests whose data type and virtual bucket are 0.
//! 4. No input causes a panic, and no length above [`BODY_BYTES_MAX`] is accepted.
//!
//! # Costs
//! No allocation; a request borrows its key. Parsing takes about 10 ns per request.

pub mod login;
pub mod reply;
mod packet;
mod request;
mod header;
pub mod opcode;

pub use header::{BODY_BYTES_MAX, BadPacket, Echo, HEADER_BYTES, Header, REQUEST_MAGIC, Status};
pub use packet::parse;
pub use request::{Packet, PacketArithmetic, PacketBody, PacketStore};
