//! Values that can be checked by themselves.
//!
//! ```text
//! key|seq|length|filler...       length = of the whole value; filler follows from key and seq
//! ```

use super::Kind;
use super::random::{Random, mix};

/// A value of about `bytes` bytes, at least long enough for its head.
pub(super) fn encode(key: &str, seq: u64, bytes: usize) -> Vec<u8> {
    let mut bytes = bytes;
    loop {
        let head = format!("{key}|{seq}|{bytes}|");
        if head.len() <= bytes {
            let mut value = head.into_bytes();
            fill(&mut value, key, seq, bytes);
            return value;
        }
        bytes = head.len() + 2;
    }
}

/// The place in its writer's order of a value that stood under `key`.
///
/// # Errors
/// The kind of lie, and what shows it.
pub(super) fn decode(key: &str, value: &[u8]) -> Result<u64, (Kind, String)> {
    let torn = |what: &str| (Kind::Torn, format!("{key}: {what} in {}", show(value)));
    let mut parts = value.splitn(4, |b| *b == b'|');
    let named = parts.next().unwrap_or_default();
    let seq = number(parts.next()).ok_or_else(|| torn("no sequence number"))?;
    let bytes = number(parts.next()).ok_or_else(|| torn("no length"))?;
    let named = String::from_utf8_lossy(named).into_owned();
    if bytes != value.len() as u64 {
        return Err(torn(&format!("{} bytes where {bytes} were written", value.len())));
    }
    let whole = encode(&named, seq, value.len());
    if whole != value {
        let at = whole.iter().zip(value).take_while(|(a, b)| a == b).count();
        return Err(torn(&format!("byte {at} of {bytes} is not what was written")));
    }
    if named != key {
        return Err((Kind::WrongKey, format!("{key} holds the value of {named}")));
    }
    Ok(seq)
}

fn fill(value: &mut Vec<u8>, key: &str, seq: u64, bytes: usize) {
    let of_key = key.bytes().fold(7, |hash, b| mix(hash ^ u64::from(b)));
    let mut random = Random::new(of_key ^ mix(seq));
    while value.len() < bytes {
        let word = random.next().to_le_bytes();
        value.extend_from_slice(&word[..word.len().min(bytes - value.len())]);
    }
}

fn number(text: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(text?).ok()?.parse().ok()
}

/// The beginning of some bytes, for a message.
pub(super) fn show(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    format!("{text:?} ({} bytes)", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_own_place_and_no_other_key_takes_it() {
        for bytes in [0, 1, 10, 99, 100, 101, 1_000, 8_000] {
            let value = encode("k.7", 42, bytes);
            assert_eq!(decode("k.7", &value).unwrap(), 42);
            assert_eq!(decode("k.8", &value).unwrap_err().0, Kind::WrongKey);
        }
    }

    #[test]
    fn each_changed_byte_and_each_cut_shows() {
        let value = encode("k.7", 42, 200);
        for at in 0..value.len() {
            let mut other = value.clone();
            other[at] ^= 1;
            assert!(decode("k.7", &other).is_err(), "byte {at}");
            assert!(decode("k.7", &value[..at]).is_err(), "cut at {at}");
        }
        let newer = encode("k.7", 43, 200);
        let mixed = [&newer[..100], &value[100..]].concat();
        assert_eq!(decode("k.7", &mixed).unwrap_err().0, Kind::Torn);
    }
}
