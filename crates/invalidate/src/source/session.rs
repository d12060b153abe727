//! A login at MariaDB, and questions in SQL.

use std::fmt;
use std::io;
use std::time::Duration;

use sha1::{Digest as _, Sha1};

use super::bytes::{Broken, Bytes};
use super::dial;
use super::follower::{Calling, Calls, Stopped};
use super::packets::Packets;
use crate::config::SourceConfig;

/// A connection that is logged in.
pub(super) struct Session {
    packets: Packets,
    payload: Vec<u8>,
}

/// Why the database can't be asked.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection: worth another try.
    Io(io::Error),
    /// The server's own words.
    Server { code: u16, words: String },
    /// What it sent can't be read.
    Broken(String),
    /// What can't be mended by trying again: in a sentence.
    Refused(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::WouldBlock => {
                f.write_str("it is silent")
            }
            Self::Io(error) => write!(f, "{error}"),
            Self::Server { code, words } => write!(f, "error {code}: {words}"),
            Self::Broken(words) => write!(f, "what it sent can't be read: {words}"),
            Self::Refused(words) => f.write_str(words),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Broken(error.to_string()),
            _ => Self::Io(error),
        }
    }
}

impl From<Broken> for Trouble {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken.to_string())
    }
}

impl From<Trouble> for Stopped<Trouble> {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Calling for Trouble {
    fn calls(&self) -> Calls<'_> {
        match self {
            Self::Io(_) | Self::Server { .. } => Calls::Again,
            Self::Broken(words) => Calls::Few(words),
            Self::Refused(_) => Calls::Somebody,
        }
    }
}

type Rows = Vec<Vec<Option<String>>>;

impl Session {
    /// Connects and logs in.
    pub(super) fn open(source: &SourceConfig, silence: Duration) -> Result<Self, Trouble> {
        let password = dial::password(source).map_err(Trouble::Refused)?;
        let packets = Packets::connect(&source.host, silence)?;
        let mut session = Self { packets, payload: Vec::new() };
        session.log_in(&source.user, &password)?;
        Ok(session)
    }

    fn log_in(&mut self, user: &str, password: &str) -> Result<(), Trouble> {
        let nonce = {
            let payload = self.receive(ANSWER_MAX)?;
            let mut greeting = Bytes(payload);
            if greeting.byte()? != 10 {
                return Err(Trouble::Broken("this is no MariaDB".to_owned()));
            }
            greeting.until_zero()?;
            greeting.take(4)?;
            let mut nonce = greeting.take(8)?.to_vec();
            // A filler, capabilities, character set, status, more capabilities, the nonce's length, reserved.
            greeting.take(1 + 2 + 1 + 2 + 2 + 1 + 10)?;
            nonce.extend_from_slice(greeting.take(12)?);
            nonce
        };
        let proof = scramble(password, &nonce);
        let mut answer = CAPABILITIES.to_le_bytes().to_vec();
        answer.extend_from_slice(&(1_u32 << 24).to_le_bytes());
        answer.push(UTF8MB4);
        answer.extend_from_slice(&[0; 23]);
        answer.extend_from_slice(user.as_bytes());
        answer.push(0);
        answer.push(u8::try_from(proof.len()).unwrap_or(0));
        answer.extend_from_slice(&proof);
        answer.extend_from_slice(b"mysql_native_password\0");
        self.packets.write(&answer)?;
        let mut asked = 0;
        loop {
            let switch = {
                let payload = self.receive(ANSWER_MAX)?;
                match payload.first() {
                    Some(0) => return Ok(()),
                    Some(0xfe) => payload[1..].to_vec(),
                    _ => return Err(Trouble::Broken("an answer to the login".to_owned())),
                }
            };
            asked += 1;
            let mut switch = Bytes(&switch);
            let plugin = switch.until_zero()?;
            let proof = match plugin {
                b"mysql_native_password" if asked < 3 => {
                    scramble(password, switch.0.strip_suffix(&[0]).unwrap_or(switch.0))
                }
                b"unix_socket" | b"auth_socket" if asked < 3 => Vec::new(),
                _ => {
                    let plugin = plugin.escape_ascii();
                    let words = format!(
                        "the user's login by '{plugin}' isn't there yet: give it a password by mysql_native_password"
                    );
                    return Err(Trouble::Refused(words));
                }
            };
            self.packets.write(&proof)?;
        }
    }

    /// The next payload; an error of the server's is one here.
    pub(super) fn receive(&mut self, most: usize) -> Result<&[u8], Trouble> {
        self.packets.read(&mut self.payload, most)?;
        if self.payload.first() != Some(&0xff) {
            return Ok(&self.payload);
        }
        let mut error = Bytes(&self.payload[1..]);
        let code = error.short()?;
        let words = error.0.strip_prefix(b"#").and_then(|rest| rest.get(5..)).unwrap_or(error.0);
        Err(Trouble::Server { code, words: String::from_utf8_lossy(words).into_owned() })
    }

    /// Sends a command.
    pub(super) fn command(&mut self, command: u8, arguments: &[u8]) -> Result<(), Trouble> {
        Ok(self.packets.begin(&[&[command], arguments].concat())?)
    }

    /// Sends a statement and reads all that it answers.
    pub(super) fn query(&mut self, statement: &str) -> Result<Rows, Trouble> {
        self.command(COM_QUERY, statement.as_bytes())?;
        let columns = {
            let payload = self.receive(ANSWER_MAX)?;
            match payload.first() {
                Some(0) => return Ok(Vec::new()),
                _ => Bytes(payload).packed()?,
            }
        };
        for _ in 0..=columns {
            self.receive(ANSWER_MAX)?;
        }
        let mut rows = Vec::new();
        loop {
            let payload = self.receive(ANSWER_MAX)?;
            if payload.first() == Some(&0xfe) && payload.len() < 9 {
                return Ok(rows);
            }
            let mut bytes = Bytes(payload);
            let mut row = Vec::new();
            for _ in 0..columns {
                if bytes.0.first() == Some(&NULL) {
                    bytes.take(1)?;
                    row.push(None);
                } else {
                    row.push(Some(String::from_utf8_lossy(bytes.packed_text()?).into_owned()));
                }
            }
            rows.push(row);
            if rows.len() > ROWS_MAX {
                return Err(Trouble::Broken("an answer without end".to_owned()));
            }
        }
    }

    /// The texts of the first row; NULL is empty.
    pub(super) fn row(&mut self, statement: &str) -> Result<Vec<String>, Trouble> {
        let first = self.query(statement)?.into_iter().next().unwrap_or_default();
        Ok(first.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// `mysql_native_password`: the password isn't sent, nor what the server keeps of it.
fn scramble(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

const COM_QUERY: u8 = 3;
const NULL: u8 = 0xfb;
/// Long password, long flags, 4.1's protocol, transactions, secure connection, plugins.
const CAPABILITIES: u32 = 0x1 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
const UTF8MB4: u8 = 45;
const ANSWER_MAX: usize = 1 << 20;
const ROWS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_proved_as_the_server_expects() {
        // From the server's side: SHA1(nonce, SHA1(SHA1(password))) undoes the mask, and its SHA1 is what is stored.
        let (password, nonce) = ("secret", b"12345678901234567890");
        let stored = Sha1::digest(Sha1::digest(password));
        let mask = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
        let proof = scramble(password, nonce);
        let once: Vec<u8> = proof.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(&once), stored);
        assert!(scramble("", nonce).is_empty());
    }
}
