//! Who a client is: memcached's login for the text protocol (`-Y`). SASL (`-S`) is the binary protocol's, which isn't
//! spoken here: servers that take only SASL can't be logged in to.

use std::fmt;

/// A name and a password; what is printed of it has the name only.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// The login that a line `user:password` of the server's file lets in.
    #[must_use]
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into() }
    }

    /// As it is sent, before anything else.
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
