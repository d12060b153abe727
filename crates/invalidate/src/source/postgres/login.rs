//! A login at PostgreSQL: the server's requests, and the answers.
//!
//! # Invariants
//! 1. The password, or its MD5, which is worth the same, is sent only if nobody on the network can read it. SCRAM shows
//!    the server nothing that it could use elsewhere.
//! 2. Once SCRAM has asked the server for its own proof, the login fails without it.

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::frontend;

use super::trouble::PgTrouble;
use crate::source::bytes::Bytes;

/// A login in progress.
pub(super) struct Login<'s> {
    pub(super) user: &'s str,
    pub(super) password: &'s str,
    /// Nobody on the network can read the connection.
    pub(super) is_private: bool,
    scram: Option<ScramSha256>,
    /// The server's proof is required, and hasn't come yet.
    wants_proof: bool,
}

impl<'s> Login<'s> {
    pub(super) fn new(user: &'s str, password: &'s str, is_private: bool) -> Self {
        Self { user, password, is_private, scram: None, wants_proof: false }
    }

    /// Returns the answer to a request for authentication; it is empty if none is needed.
    ///
    /// # Errors
    /// The request can't be read, isn't supported, or asks for what must not be sent.
    pub(super) fn answer(&mut self, request: &[u8]) -> Result<BytesMut, PgTrouble> {
        let mut body = Bytes(request);
        let mut answer = BytesMut::new();
        let kind = body.big(4)?;
        match (kind, &mut self.scram) {
            (OK, _) if self.wants_proof => {
                return Err(PgTrouble::Broken("a login without the server's proof".to_owned()));
            }
            (OK, _) => {}
            (CLEAR | MD5, _) if !self.is_private => {
                let words = "it asks for the password itself or its MD5, which isn't sent in clear: set password_encryption = \
                             scram-sha-256, give the user its password again, and let pg_hba.conf have scram-sha-256 for it; or name the \
                             unix socket in hosts, or set tls";
                return Err(PgTrouble::Refused(words.to_owned()));
            }
            (CLEAR, _) => frontend::password_message(self.password.as_bytes(), &mut answer)?,
            (MD5, _) => {
                let mut salt = [0; 4];
                salt.copy_from_slice(body.take(4)?);
                let hash = md5_hash(self.user.as_bytes(), self.password.as_bytes(), salt);
                frontend::password_message(hash.as_bytes(), &mut answer)?;
            }
            (SASL, _) => {
                let mut names = body.0.split(|byte| *byte == 0);
                if !names.any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    let words = "it knows no login by SCRAM-SHA-256".to_owned();
                    return Err(PgTrouble::Refused(words));
                }
                let begun =
                    ScramSha256::new(self.password.as_bytes(), ChannelBinding::unsupported());
                frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut answer)?;
                (self.scram, self.wants_proof) = (Some(begun), true);
            }
            (SASL_GOES_ON, Some(scram)) => {
                scram.update(body.0)?;
                frontend::sasl_response(scram.message(), &mut answer)?;
            }
            (SASL_ENDS, Some(scram)) => {
                scram.finish(body.0)?;
                self.wants_proof = false;
            }
            (kind, _) => {
                let words = format!(
                    "the user's login is of a kind ({kind}) that isn't there yet: use scram-sha-256 in pg_hba.conf"
                );
                return Err(PgTrouble::Refused(words));
            }
        }
        Ok(answer)
    }
}

const OK: u64 = 0;
const CLEAR: u64 = 3;
const MD5: u64 = 5;
const SASL: u64 = 10;
const SASL_GOES_ON: u64 = 11;
const SASL_ENDS: u64 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(login: &mut Login<'_>, kind: u32, rest: &[u8]) -> Result<Vec<u8>, String> {
        let request = [&kind.to_be_bytes()[..], rest].concat();
        login.answer(&request).map(|it| it.to_vec()).map_err(|trouble| trouble.to_string())
    }

    #[test]
    fn the_password_is_sent_only_where_nobody_can_read_along() {
        for (kind, rest) in [(3, &b""[..]), (5, b"salt")] {
            let open = answer(&mut Login::new("guira", "secret", false), kind, rest);
            assert!(open.is_err_and(|words| words.contains("isn't sent in clear")), "{kind}");
            let private = answer(&mut Login::new("guira", "secret", true), kind, rest).unwrap();
            assert!(private.starts_with(b"p"), "{kind}");
        }
        assert!(answer(&mut Login::new("guira", "secret", true), 5, b"sal").is_err());
        let mut scram = Login::new("guira", "secret", false);
        let begun = answer(&mut scram, 10, b"SCRAM-SHA-256\0\0").unwrap();
        assert!(begun.starts_with(b"p") && !begun.windows(6).any(|it| it == b"secret"));
    }

    #[test]
    fn a_server_must_prove_itself_once_it_was_asked_to() {
        let mut login = Login::new("guira", "secret", true);
        assert_eq!(answer(&mut login, 0, b""), Ok(Vec::new()));
        answer(&mut login, 10, b"SCRAM-SHA-256\0\0").unwrap();
        let told = answer(&mut login, 0, b"").unwrap_err();
        assert!(told.contains("without the server's proof"), "{told}");
        for (kind, rest) in [(11, &b"r=x"[..]), (12, b"v=AAAA"), (12, b""), (7, b"")] {
            assert!(answer(&mut login, kind, rest).is_err(), "{kind}");
        }
        assert!(answer(&mut Login::new("guira", "secret", true), 11, b"").is_err());
        assert!(Login::new("guira", "secret", true).answer(b"\0\0").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_request_panics(requests: Vec<Vec<u8>>, kinds in proptest::collection::vec(0..13_u32, 4)) {
            let mut login = Login::new("guira", "secret", true);
            for (kind, rest) in kinds.iter().zip(&requests) {
                let _ = answer(&mut login, *kind, rest);
            }
        }
    }
}
