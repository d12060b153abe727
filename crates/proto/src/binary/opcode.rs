//! The opcodes, and which of them are quiet.
//!
//! A quiet twin (`…Q`) answers only what is out of the ordinary: a get that hits, anything else that
//! fails. A client sends a run of them and a [`NOOP`] behind, whose answer says that all are done.

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: u8 = $code;)*
        /// Each opcode of this module by name, for tests.
        pub const ALL: &[(&str, u8)] = &[$((stringify!($name), $name)),*];
    };
}

opcodes! {
    /// The value of a key.
    GET = 0x00;
    /// Stores, whatever was there.
    SET = 0x01;
    /// Stores if nothing is there.
    ADD = 0x02;
    /// Stores if something is there.
    REPLACE = 0x03;
    /// Removes.
    DELETE = 0x04;
    /// Adds to a number.
    INCREMENT = 0x05;
    /// Takes from a number.
    DECREMENT = 0x06;
    /// Answers, then closes.
    QUIT = 0x07;
    /// Empties the cache.
    FLUSH = 0x08;
    /// Quiet twin of [`GET`].
    GET_Q = 0x09;
    /// Answers: everything before it was answered.
    NOOP = 0x0a;
    /// The server's version.
    VERSION = 0x0b;
    /// As [`GET`], with the key in the reply.
    GET_K = 0x0c;
    /// Quiet twin of [`GET_K`].
    GET_K_Q = 0x0d;
    /// Stores behind what is there.
    APPEND = 0x0e;
    /// Stores before what is there.
    PREPEND = 0x0f;
    /// Statistics, a reply each.
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
    /// Closes without a word.
    QUIT_Q = 0x17;
    /// Quiet twin of [`FLUSH`].
    FLUSH_Q = 0x18;
    /// Quiet twin of [`APPEND`].
    APPEND_Q = 0x19;
    /// Quiet twin of [`PREPEND`].
    PREPEND_Q = 0x1a;
    /// A new exptime.
    TOUCH = 0x1c;
    /// As [`GET`], with a new exptime.
    GAT = 0x1d;
    /// Quiet twin of [`GAT`].
    GAT_Q = 0x1e;
    /// Names the ways to log in.
    SASL_MECHANISMS = 0x20;
    /// Begins to log in.
    SASL_AUTH = 0x21;
    /// Goes on logging in.
    SASL_STEP = 0x22;
    /// As [`GET_K`], with a new exptime.
    GAT_K = 0x23;
    /// Quiet twin of [`GAT_K`].
    GAT_K_Q = 0x24;
}

/// Whether `opcode` is a quiet twin.
#[inline]
pub const fn is_quiet(opcode: u8) -> bool {
    matches!(opcode, GET_Q | GET_K_Q | SET_Q..=PREPEND_Q | GAT_Q | GAT_K_Q)
}
