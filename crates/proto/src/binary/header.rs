//! What all packets have in common: the header, the status, and how a bad packet is refused.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;
/// The first byte of a request; no text command begins with it.
pub const REQUEST_MAGIC: u8 = 0x80;
/// The first byte of a reply.
pub(super) const REPLY_MAGIC: u8 = 0x81;
/// A request with a larger body is refused, as in memcached.
pub const BODY_BYTES_MAX: u32 = 1 << 30;

/// The front of a request or a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`REQUEST_MAGIC`], or 0x81 in a reply.
    pub magic: u8,
    /// The opcode of the request, also in its reply.
    pub opcode: u8,
    /// Bytes of the key.
    pub key_bytes: u16,
    /// Bytes of the extras.
    pub extras_bytes: u8,
    /// Always 0.
    pub data_type: u8,
    /// A reply's status; a request's virtual bucket.
    pub status: u16,
    /// Bytes of extras, key and value together.
    pub body_bytes: u32,
    /// The client's own number, returned in the reply.
    pub opaque: u32,
    /// The item's unique, or the one to compare with; 0: none.
    pub cas: u64,
}

impl Header {
    /// Reads a header.
    #[inline]
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Header {
        let [magic, opcode, k0, k1, extras_bytes, data_type, s0, s1, rest @ ..] = *bytes;
        let [b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = rest;
        Header {
            magic,
            opcode,
            key_bytes: u16::from_be_bytes([k0, k1]),
            extras_bytes,
            data_type,
            status: u16::from_be_bytes([s0, s1]),
            body_bytes: u32::from_be_bytes([b0, b1, b2, b3]),
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
        }
    }

    /// Returns the header as it is sent.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [k0, k1] = self.key_bytes.to_be_bytes();
        let [s0, s1] = self.status.to_be_bytes();
        let [b0, b1, b2, b3] = self.body_bytes.to_be_bytes();
        let [o0, o1, o2, o3] = self.opaque.to_be_bytes();
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.cas.to_be_bytes();
        let (extras, data_type) = (self.extras_bytes, self.data_type);
        [
            self.magic,
            self.opcode,
            k0,
            k1,
            extras,
            data_type,
            s0,
            s1,
            b0,
            b1,
            b2,
            b3, //
            o0,
            o1,
            o2,
            o3,
            c0,
            c1,
            c2,
            c3,
            c4,
            c5,
            c6,
            c7,
        ]
    }
}

/// The fields of a request that its reply repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The opcode as sent: a quiet request's reply has the quiet opcode.
    pub opcode: u8,
    /// The client's own number.
    pub opaque: u32,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The request was executed.
    Success,
    /// The item or the statistic doesn't exist.
    NotFound,
    /// The item exists, or has another unique.
    Exists,
    /// The item would exceed the size limit.
    TooLarge,
    /// The lengths don't match the opcode, or the key or the body is too long.
    InvalidArguments,
    /// The item to append or prepend to doesn't exist.
    NotStored,
    /// The value isn't a number.
    NonNumeric,
    /// The client isn't logged in, or isn't allowed to do this.
    Auth,
    /// The login continues: the body is the server's challenge.
    Continue,
    /// The opcode is unknown.
    UnknownCommand,
    /// There is no memory for the request.
    OutOfMemory,
}

impl Status {
    /// The code in the header.
    pub const fn code(self) -> u16 {
        match self {
            Status::Success => 0x00,
            Status::NotFound => 0x01,
            Status::Exists => 0x02,
            Status::TooLarge => 0x03,
            Status::InvalidArguments => 0x04,
            Status::NotStored => 0x05,
            Status::NonNumeric => 0x06,
            Status::Auth => 0x20,
            Status::Continue => 0x21,
            Status::UnknownCommand => 0x81,
            Status::OutOfMemory => 0x82,
        }
    }

    /// The body of an error reply: memcached's wording, which clients show.
    pub const fn text(self) -> &'static str {
        match self {
            Status::Success | Status::Continue => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::InvalidArguments => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NonNumeric => "Non-numeric server-side value for incr or decr",
            Status::Auth => "Auth failure.",
            Status::UnknownCommand => "Unknown command",
            Status::OutOfMemory => "Out of memory",
        }
    }
}

/// A request that can't be executed, with the reply to it and how to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPacket {
    /// The status to send, and the fields to repeat; `None`: no reply.
    pub reply: Option<(Echo, Status)>,
    /// Bytes to remove from the front of the buffer.
    pub used: usize,
    /// Bytes to discard after those, as they arrive.
    pub swallow: u64,
    /// Whether to close the connection after the reply.
    pub close: bool,
}

/// The sum of the bytes of extras and key that the header announces.
pub(super) fn extras_and_key(header: &Header) -> u32 {
    u32::from(header.extras_bytes) + u32::from(header.key_bytes)
}
