//! The opcodes, and which of them are quiet.
//!
//! A quiet twin (`…Q`) only gets a reply in the exceptional case: a quiet get on a hit, any other quiet
//! request on an error. A client sends a series of them followed by a [`NOOP`], whose reply shows that
//! all are done.

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: u8 = $code;)*
        /// Each opcode of this module by name, for tests.
        pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
    };
}

opcodes! {
    /// Returns the value of a key.
    GET = 0x00;
    /// Stores a value, whether the item exists or not.
    SET = 0x01;
    /// Stores a value if the item doesn't exist.
    ADD = 0x02;
    /// Stores a value if the item exists.
    REPLACE = 0x03;
    /// Deletes an item.
    DELETE = 0x04;
    /// Increments a number.
    INCREMENT = 0x05;
    /// Decrements a number.
    DECREMENT = 0x06;
    /// Replies, then closes the connection.
    QUIT = 0x07;
    /// Empties the cache.
    FLUSH = 0x08;
    /// Quiet twin of [`GET`].
    GET_Q = 0x09;
    /// Replies, which shows that everything before it was answered.
    NOOP = 0x0a;
    /// Returns the server's version.
    VERSION = 0x0b;
    /// Like [`GET`], with the key in the reply.
    GET_K = 0x0c;
    /// Quiet twin of [`GET_K`].
    GET_K_Q = 0x0d;
    /// Appends to the value of an item.
    APPEND = 0x0e;
    /// Prepends to the value of an item.
    PREPEND = 0x0f;
    /// Returns statistics, one reply for each.
    STAT = 0x10;
    /// Quiet twin of [`SET`].
    SET_Q = 0x11;
    /// Quiet twin of [`ADD`].
    ADD_Q = 0x12;
    /// Quiet twin of [`REPLACE`].
    REPLACE_Q = 0x13;
    /// Quiet twin of [`DELETE`].
    DELETE_Q = 0x14;
    /// Quiet twin of [`INCREMENT`].
    INCREMENT_Q = 0x15;
    /// Quiet twin of [`DECREMENT`].
    DECREMENT_Q = 0x16;
    /// Closes the connection without a reply.
    QUIT_Q = 0x17;
    /// Quiet twin of [`FLUSH`].
    FLUSH_Q = 0x18;
    /// Quiet twin of [`APPEND`].
    APPEND_Q = 0x19;
    /// Quiet twin of [`PREPEND`].
    PREPEND_Q = 0x1a;
    /// Sets a new exptime.
    TOUCH = 0x1c;
    /// Like [`GET`], with a new exptime.
    GAT = 0x1d;
    /// Quiet twin of [`GAT`].
    GAT_Q = 0x1e;
    /// Returns the mechanisms for logins.
    SASL_MECHANISMS = 0x20;
    /// Begins a login.
    SASL_AUTH = 0x21;
    /// Continues a login.
    SASL_STEP = 0x22;
    /// Like [`GET_K`], with a new exptime.
    GAT_K = 0x23;
    /// Quiet twin of [`GAT_K`].
    GAT_K_Q = 0x24;
}

/// Whether `opcode` is a quiet twin.
#[inline]
pub const fn is_quiet(opcode: u8) -> bool {
    matches!(opcode, GET_Q | GET_K_Q | SET_Q..=PREPEND_Q | GAT_Q | GAT_K_Q)
}
