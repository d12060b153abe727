//! The SASL mechanisms PLAIN (RFC 4616) and CRAM-MD5 (RFC 2195): the login exchange of one connection.
//!
//! ```text
//! PLAIN      client: [authzid] NUL user NUL password
//! CRAM-MD5   server: a challenge, new each time     client: user SP hex(HMAC-MD5(password, challenge))
//! ```
//! PLAIN reveals the password to anyone who reads the network traffic: use it with TLS. CRAM-MD5 doesn't,
//! but an eavesdropper can try passwords offline.

use super::passwords::same;
use super::users::Auth;
use guira_proto::binary::login::Response;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use std::fmt::Write;

/// The state of a connection's login exchange.
#[derive(Debug, Default)]
pub(crate) enum Exchange {
    /// No mechanism is chosen.
    #[default]
    None,
    /// PLAIN is chosen, and the client hasn't sent its credentials.
    Plain,
    /// CRAM-MD5 is chosen, and this challenge was sent.
    Cram(Box<str>),
}

/// The result of a client's message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'e> {
    Admitted,
    /// The exchange goes on: the server sends this text.
    Continue(&'e str),
    Refused,
}

impl Exchange {
    /// Begins the exchange with the mechanism that the client names.
    pub(crate) fn begin(&mut self, auth: &Auth, response: &Response<'_>) -> Verdict<'_> {
        let is_named = |name: &str| {
            response.mechanism.eq_ignore_ascii_case(name.as_bytes())
                && auth.mechanisms().split(' ').any(|offered| offered == name)
        };
        if is_named("PLAIN") {
            *self = Exchange::Plain;
            if !response.bytes.is_empty() {
                return self.step(auth, response);
            }
            return Verdict::Continue("");
        }
        *self = match challenge() {
            Some(challenge) if is_named("CRAM-MD5") && response.bytes.is_empty() => {
                Exchange::Cram(challenge)
            }
            _ => Exchange::None,
        };
        match self {
            Exchange::Cram(challenge) => Verdict::Continue(challenge),
            _ => Verdict::Refused,
        }
    }

    /// Checks the client's credentials. The exchange is over, whatever the result.
    pub(crate) fn step(&mut self, auth: &Auth, response: &Response<'_>) -> Verdict<'_> {
        let is_right = match std::mem::take(self) {
            Exchange::None => false,
            Exchange::Plain => is_plain_right(auth, response.bytes),
            Exchange::Cram(challenge) => is_cram_right(auth, &challenge, response.bytes),
        };
        if is_right { Verdict::Admitted } else { Verdict::Refused }
    }
}

fn is_plain_right(auth: &Auth, bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(3, |&b| b == 0);
    let (Some(acts_as), Some(user), Some(password)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    // A user can't act for another one.
    let is_own = acts_as.is_empty() || acts_as == user;
    auth.any_source(|passwords| passwords.admit(user, password)) && is_own && !user.is_empty()
}

fn is_cram_right(auth: &Auth, challenge: &str, bytes: &[u8]) -> bool {
    let Some(at) = bytes.iter().rposition(|&b| b == b' ') else { return false };
    let (user, digest) = (&bytes[..at], &bytes[at + 1..]);
    auth.any_source(|passwords| {
        passwords.admit_by(user, |password| same(cram(password, challenge).as_bytes(), digest))
    })
}

/// Returns the digest that a client with `password` sends for `challenge`.
fn cram(password: &[u8], challenge: &str) -> String {
    let mut mac = Hmac::<Md5>::new_from_slice(password).expect("HMAC takes keys of any length");
    mac.update(challenge.as_bytes());
    hex(&mac.finalize().into_bytes())
}

/// Returns a challenge that was never sent before; `None` if the system has no random bytes.
fn challenge() -> Option<Box<str>> {
    let mut nonce = [0; 16];
    let filled = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty());
    (filled == Ok(nonce.len())).then(|| format!("<{}@guira>", hex(&nonce)).into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_rfc_2195() {
        let challenge = "<1896.697170952@postoffice.reston.mci.net>";
        assert_eq!(cram(b"tanstaaftanstaaf", challenge), "b913a602c7eda7a495b4e6e7334d3890");
    }

    #[test]
    fn no_challenge_comes_twice() {
        assert_ne!(challenge().unwrap(), challenge().unwrap());
    }
}
