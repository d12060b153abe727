//! Proves a password to MariaDB and MySQL without sending it.

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use super::bytes::{Broken, Bytes};

/// The first message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// The server's challenge: a proof is valid only for this one.
    pub(super) nonce: Vec<u8>,
    pub(super) capabilities: u32,
    /// The login plugin that the server prefers.
    pub(super) plugin: Vec<u8>,
}

pub(super) fn greeting(payload: &[u8]) -> Result<Greeting, Broken> {
    let mut bytes = Bytes(payload);
    if bytes.byte()? != 10 {
        return Err(Broken("this is neither MariaDB nor MySQL"));
    }
    bytes.until_zero()?;
    bytes.take(4)?;
    let mut nonce = bytes.take(8)?.to_vec();
    bytes.take(1)?;
    let low = bytes.short()?;
    // Character set and status.
    bytes.take(1 + 2)?;
    let high = bytes.short()?;
    // The length of the nonce, and reserved bytes.
    bytes.take(1 + 10)?;
    nonce.extend_from_slice(bytes.take(12)?);
    bytes.take(1)?;
    let plugin = bytes.until_zero().unwrap_or_default().to_vec();
    Ok(Greeting { nonce, capabilities: u32::from(high) << 16 | u32::from(low), plugin })
}

/// Returns the proof for a login plugin; `None` if the plugin isn't supported.
pub(super) fn proof(plugin: &[u8], password: &str, nonce: &[u8]) -> Option<Vec<u8>> {
    let nonce = nonce.strip_suffix(&[0]).unwrap_or(nonce);
    match plugin {
        NATIVE => Some(native(password, nonce)),
        CACHING => Some(caching(password, nonce)),
        b"unix_socket" | b"auth_socket" => Some(Vec::new()),
        _ => None,
    }
}

fn native(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

fn caching(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha256::digest(password);
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

pub(super) const NATIVE: &[u8] = b"mysql_native_password";
pub(super) const CACHING: &[u8] = b"caching_sha2_password";

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &[u8] = b"12345678901234567890";

    #[test]
    fn a_password_is_proved_as_the_server_expects() {
        // The server's side: SHA1(nonce, SHA1(SHA1(password))) undoes the mask. The SHA1 of the result is what the
        // server stores.
        let stored = Sha1::digest(Sha1::digest("secret"));
        let mask = Sha1::new().chain_update(NONCE).chain_update(stored).finalize();
        let told = proof(NATIVE, "secret", &[NONCE, &[0]].concat()).unwrap();
        let once: Vec<u8> = told.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(&once), stored);
        // The same with what the server caches: SHA256(SHA256(password)).
        let cached = Sha256::digest(Sha256::digest("secret"));
        let mask = Sha256::new().chain_update(cached).chain_update(NONCE).finalize();
        let told = proof(CACHING, "secret", NONCE).unwrap();
        let once: Vec<u8> = told.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(&once), cached);
        assert_eq!([NATIVE, CACHING].map(|it| proof(it, "", NONCE)), [Some(vec![]), Some(vec![])]);
        assert_eq!(proof(b"dialog", "secret", NONCE), None);
    }

    #[test]
    fn a_greeting_is_read_and_a_cut_one_refused() {
        let parts: [&[u8]; 9] = [
            b"\x0a9.7.4\0\x07\0\0\0",
            &NONCE[..8],
            b"\0\x00\x08",
            b"\x2d\x02\0",
            b"\x08\0\x15",
            &[0; 10],
            &NONCE[8..],
            b"\0",
            b"caching_sha2_password\0",
        ];
        let whole = parts.concat();
        let read = greeting(&whole).unwrap();
        assert_eq!((&*read.nonce, read.capabilities, &*read.plugin), (NONCE, 0x8_0800, CACHING));
        for cut in 0..whole.len() - parts[8].len() {
            assert!(greeting(&whole[..cut]).is_err(), "{cut}");
        }
    }
}
