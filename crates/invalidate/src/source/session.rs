//! A login at MariaDB or MySQL, and questions in SQL.

use std::fmt;
use std::io;
use std::time::Duration;

use super::bytes::{Broken, Bytes};
use super::dial::{self, NoTls};
use super::follower::{Calling, Calls, Stopped};
use super::login::{Greeting, NATIVE, greeting, proof};
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

impl From<NoTls> for Trouble {
    fn from(why: NoTls) -> Self {
        match why {
            NoTls::Io(error) => error.into(),
            NoTls::Refused(words) => Self::Refused(words),
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
        let packets = Packets::connect(source, silence)?;
        let mut session = Self { packets, payload: Vec::new() };
        session.log_in(source, &password)?;
        Ok(session)
    }

    fn log_in(&mut self, source: &SourceConfig, password: &str) -> Result<(), Trouble> {
        let Greeting { nonce, plugin, capabilities } = greeting(self.receive(ANSWER_MAX)?)?;
        let mut answer = if source.tls.is_some() { CAPABILITIES | ENCRYPTED } else { CAPABILITIES }
            .to_le_bytes()
            .to_vec();
        answer.extend_from_slice(&(1_u32 << 24).to_le_bytes());
        answer.push(UTF8MB4);
        answer.extend_from_slice(&[0; 23]);
        if let Some(tls) = &source.tls {
            if capabilities & ENCRYPTED == 0 {
                let words = "TLS: the server has none: give it a certificate (ssl_cert, ssl_key)";
                return Err(Trouble::Refused(words.to_owned()));
            }
            self.packets.write(&answer)?;
            self.packets.encrypt(source, tls)?;
        }
        let first = proof(&plugin, password, &nonce);
        let (plugin, proof) = match first {
            Some(proof) => (&*plugin, proof),
            // The server says which one it is, after this.
            None => (NATIVE, Vec::new()),
        };
        answer.extend_from_slice(source.user.as_bytes());
        answer.push(0);
        answer.push(u8::try_from(proof.len()).unwrap_or(0));
        answer.extend_from_slice(&proof);
        answer.extend_from_slice(plugin);
        answer.push(0);
        self.packets.write(&answer)?;
        for _ in 0..ANSWERS_MAX {
            let payload = self.receive(ANSWER_MAX)?.to_vec();
            match &payload[..] {
                [0, ..] => return Ok(()),
                [0xfe, switch @ ..] => self.switch(switch, password)?,
                // The server has what it needs, and says whether it is right.
                [1, 3] => {}
                [1, 4] => self.show(password)?,
                _ => return Err(Trouble::Broken("an answer to the login".to_owned())),
            }
        }
        Err(Trouble::Broken("a login without end".to_owned()))
    }

    /// The server asks for another proof.
    fn switch(&mut self, switch: &[u8], password: &str) -> Result<(), Trouble> {
        let mut switch = Bytes(switch);
        let plugin = switch.until_zero()?;
        let Some(proof) = proof(plugin, password, switch.0) else {
            let words = format!(
                "the user's login by '{}' isn't there yet: give it a password by caching_sha2_password or mysql_native_password",
                plugin.escape_ascii()
            );
            return Err(Trouble::Refused(words));
        };
        Ok(self.packets.write(&proof)?)
    }

    /// The server doesn't have the user's password in its memory, and asks for it.
    fn show(&mut self, password: &str) -> Result<(), Trouble> {
        if !self.packets.is_private {
            let words = "the password is wrong, or the server forgot its proof (it was started, or the password changed): it asks for the password \
                         itself, which isn't sent in clear. Name its unix socket in hosts, set tls, or log in once as this user by another client";
            return Err(Trouble::Refused(words.to_owned()));
        }
        Ok(self.packets.write(&[password.as_bytes(), &[0]].concat())?)
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

const COM_QUERY: u8 = 3;
const NULL: u8 = 0xfb;
/// Long password, long flags, 4.1's protocol, transactions, secure connection, plugins.
const CAPABILITIES: u32 = 0x1 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
/// What comes after this is TLS.
const ENCRYPTED: u32 = 0x800;
const UTF8MB4: u8 = 45;
/// Of a login.
const ANSWERS_MAX: u32 = 8;
const ANSWER_MAX: usize = 1 << 20;
const ROWS_MAX: usize = 10_000;
