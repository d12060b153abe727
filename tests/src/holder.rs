//! A program that asks a node of a cluster for holds of a key, as a router with a hot cache does, and never says that it dropped
//! the value. Its frames are written here byte by byte.

use crate::client::PATIENCE;
use std::io::{Read, Write};
use std::net::TcpStream;

/// See the module's head.
#[derive(Debug)]
pub struct Holder {
    link: TcpStream,
    number: u64,
}

impl Holder {
    /// Dials the port at which a node hears other nodes.
    ///
    /// # Panics
    /// If no node of the cluster is there.
    #[must_use]
    pub fn dial(port: u16, cluster: &str) -> Self {
        let link = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        link.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
        let mut holder = Self { link, number: 0 };
        // Versions 1 to 1, and the number of who is no node.
        let mut hello = b"guira/1\n\x01\x01\xff\xff\xff\xff".to_vec();
        for name in [cluster, "holder", ""] {
            hello.push(u8::try_from(name.len()).expect("a short name"));
            hello.extend_from_slice(name.as_bytes());
        }
        holder.send((0, HELLO), (0, 0), &hello);
        let (kind, _) = holder.next();
        assert_eq!(kind, HELLO);
        holder
    }

    /// Asks for a hold of a key, in a slot with its epoch. Returns for how many microseconds it may keep the value; 0: it gets
    /// none.
    ///
    /// # Panics
    /// If the link ends.
    pub fn ask(&mut self, (slot, epoch): (u16, u64), key: &str) -> u64 {
        self.number += 1;
        let length = u16::try_from(key.len()).expect("a short key");
        let body = [&self.number.to_le_bytes()[..], &length.to_le_bytes(), key.as_bytes()].concat();
        self.send((1, HOLD), (slot, epoch), &body);
        loop {
            let (kind, body) = self.next();
            if kind == HELD && body[..8] == self.number.to_le_bytes() {
                return u64::from_le_bytes(body[8..16].try_into().expect("a term"));
            }
        }
    }

    fn send(&mut self, (version, kind): (u8, u8), (slot, epoch): (u16, u64), body: &[u8]) {
        let mut counted = vec![version, kind];
        counted.extend_from_slice(&slot.to_le_bytes());
        counted.extend_from_slice(&[0; 4]);
        counted.extend_from_slice(&epoch.to_le_bytes());
        counted.extend_from_slice(body);
        let length = u32::try_from(counted.len()).expect("a short frame");
        let prefix = [length.to_le_bytes(), crc32c(&counted).to_le_bytes()].concat();
        self.link.write_all(&[prefix, counted].concat()).expect("the link is up");
    }

    /// The next frame: its kind and its body.
    fn next(&mut self) -> (u8, Vec<u8>) {
        let mut prefix = [0; 8];
        self.link.read_exact(&mut prefix).expect("a frame");
        let [a, b, c, d, ..] = prefix;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).expect("a length");
        let mut counted = vec![0; length];
        self.link.read_exact(&mut counted).expect("a whole frame");
        (counted[1], counted.split_off(16))
    }
}

/// The checksum of frames.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

const HELLO: u8 = 0;
const HOLD: u8 = 13;
const HELD: u8 = 14;

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
    }
}
