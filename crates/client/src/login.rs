//! A client's login: memcached's login for the text protocol (`-Y`). SASL (`-S`) belongs to the binary protocol, which
//! this client doesn't speak. So it can't log in to servers that accept only SASL.

use std::fmt;

/// A name and a password. Debug output has only the name.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// Creates the login that matches a line `user:password` in the server's file.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into() }
    }

    /// Returns the bytes to send before anything else.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let token = format!("{} {}", self.user, self.password);
        format!("set auth 0 0 {}\r\n{token}\r\n", token.len()).into_bytes()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({:?}, …)", self.user)
    }
}
