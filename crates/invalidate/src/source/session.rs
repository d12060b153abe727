//! A login at MariaDB or MySQL, and queries in SQL.

use std::fmt;
use std::io;
use std::time::Duration;

use super::bytes::{Broken, Bytes};
use super::dial::{self, NoTls};
use super::follower::{Calling, Calls, Stopped};
use super::login::{Greeting, NATIVE, greeting, proof};
use super::packets::{Long, Packets};
use crate::config::SourceConfig;

/// A connection that is logged in.
pub(super) struct Session {
    packets: Packets,
    payload: Vec<u8>,
}

/// Why the database can't be asked.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection failed: another try may succeed.
    Io(io::Error),
    /// The server's own message.
    Server { code: u16, words: String },
    /// What the server sent can't be read.
    Broken(String),
    /// Trying again doesn't help, for this reason.
    Refused(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => f.write_str(&dial::said_of(error)),
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
            Self::Server { code, .. } if FOR_SOMEBODY.contains(code) => Calls::Somebody,
            Self::Io(_) | Self::Server { .. } => Calls::Again,
            Self::Broken(words) => Calls::Few(words),
            Self::Refused(_) => Calls::Somebody,
        }
    }
}

/// Errors that need an administrator: a user, a password or a right won't do the next time either.
const FOR_SOMEBODY: [u16; 5] = [1045, 1130, 1227, 1524, 1698];
/// Errors of a login: a wrong password or no user, a host from which there is none, a user who has no password.
const REFUSES_LOGIN: [u16; 3] = [1045, 1130, 1698];
/// A packet of the log: in memory, or too long for that.
pub(super) enum Packet<'p> {
    Whole(&'p [u8]),
    Long(Long<'p>),
}

type Rows = Vec<Vec<Option<String>>>;

impl Session {
    /// Connects and logs in.
    pub(super) fn open(source: &SourceConfig, silence: Duration) -> Result<Self, Trouble> {
        let password = dial::password(source).map_err(Trouble::Refused)?;
        let packets = Packets::connect(source, silence)?;
        let mut session = Self { packets, payload: Vec::new() };
        match session.log_in(source, &password) {
            Ok(()) => Ok(session),
            Err(trouble) => Err(advised(trouble, source)),
        }
    }

    /// Uses a connection that is logged in.
    #[cfg(any(test, fuzzing))]
    pub(super) fn over(packets: Packets) -> Self {
        Self { packets, payload: Vec::new() }
    }

    pub(super) fn log_in(&mut self, source: &SourceConfig, password: &str) -> Result<(), Trouble> {
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
            // After this the server names the plugin that it wants.
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
                // The server has what it needs, and its verdict follows.
                [1, 3] => {}
                [1, 4] => self.show(password)?,
                _ => return Err(Trouble::Broken("an answer to the login".to_owned())),
            }
        }
        Err(Trouble::Broken("a login without end".to_owned()))
    }

    /// Answers the server's request for another proof.
    fn switch(&mut self, switch: &[u8], password: &str) -> Result<(), Trouble> {
        let mut switch = Bytes(switch);
        let plugin = switch.until_zero()?;
        let Some(proof) = proof(plugin, password, switch.0) else {
            let words = format!(
                "the user's login by '{}' isn't there yet: give it a password by caching_sha2_password or mysql_native_password. MySQL also asks so if there is no such user: \
                 make it by the SQL that 'guira invalidate init' prints",
                plugin.escape_ascii()
            );
            return Err(Trouble::Refused(words));
        };
        Ok(self.packets.write(&proof)?)
    }

    /// Sends the password itself: the server doesn't have it in its memory, and asks for it.
    fn show(&mut self, password: &str) -> Result<(), Trouble> {
        if !self.packets.is_private {
            let words = "the password is wrong, or the server forgot its proof (it was started, or the password changed): it asks for the password \
                         itself, which isn't sent in clear. Name its unix socket in hosts, set tls, or log in once as this user by another client";
            return Err(Trouble::Refused(words.to_owned()));
        }
        Ok(self.packets.write(&[password.as_bytes(), &[0]].concat())?)
    }

    /// Receives the next payload. An error that the server sends is returned as one.
    pub(super) fn receive(&mut self, most: usize) -> Result<&[u8], Trouble> {
        self.packets.read(&mut self.payload, most)?;
        no_error(&self.payload)
    }

    /// Receives the next packet of the log.
    pub(super) fn receive_event(&mut self) -> Result<Packet<'_>, Trouble> {
        match self.packets.read_or_begin(&mut self.payload, WHOLE_MAX)? {
            Some(long) => Ok(Packet::Long(long)),
            None => no_error(&self.payload).map(Packet::Whole),
        }
    }

    /// Sends a command.
    pub(super) fn command(&mut self, command: u8, arguments: &[u8]) -> Result<(), Trouble> {
        Ok(self.packets.begin(&[&[command], arguments].concat())?)
    }

    /// Sends a statement, and reads its whole answer.
    pub(super) fn query(&mut self, statement: &str) -> Result<Rows, Trouble> {
        self.command(COM_QUERY, statement.as_bytes())?;
        let columns = {
            let payload = self.receive(ANSWER_MAX)?;
            match payload.first() {
                Some(0) => return Ok(Vec::new()),
                _ => Bytes(payload).packed()?,
            }
        };
        if columns > COLUMNS_MAX {
            return Err(Trouble::Broken(format!("an answer of {columns} columns")));
        }
        let mut left = ANSWER_MAX;
        for _ in 0..=columns {
            self.receive_within(&mut left)?;
        }
        let mut rows = Vec::new();
        loop {
            let payload = self.receive_within(&mut left)?;
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
            left = within(left, row.len() * size_of::<Option<String>>())?;
            rows.push(row);
        }
    }

    /// Like [`Self::receive`], for an answer of many packets: `left` is the memory that they may still take.
    fn receive_within(&mut self, left: &mut usize) -> Result<&[u8], Trouble> {
        let payload = self.receive(ANSWER_MAX)?;
        *left = within(*left, payload.len() + PACKET_WEIGHT)?;
        Ok(payload)
    }

    /// Returns the texts of the first row, with NULL as an empty text.
    pub(super) fn row(&mut self, statement: &str) -> Result<Vec<String>, Trouble> {
        let first = self.query(statement)?.into_iter().next().unwrap_or_default();
        Ok(first.into_iter().map(Option::unwrap_or_default).collect())
    }
}

/// Adds what mends a refused login.
fn advised(trouble: Trouble, source: &SourceConfig) -> Trouble {
    match trouble {
        Trouble::Server { code, words } if REFUSES_LOGIN.contains(&code) => {
            let file = match &source.password_file {
                Some(path) => path.display().to_string(),
                None => "password_file, which isn't set".to_owned(),
            };
            let words = format!(
                "{words}. Either there is no such user for the host behind the @, which may be 127.0.0.1 instead of localhost: make it by \
                 the SQL that 'guira invalidate init' prints; or its password isn't that of {file}"
            );
            Trouble::Server { code, words }
        }
        other => other,
    }
}

/// Returns the payload, unless it is an error of the server.
fn no_error(payload: &[u8]) -> Result<&[u8], Trouble> {
    let Some(error) = payload.strip_prefix(&[0xff]) else { return Ok(payload) };
    let mut error = Bytes(error);
    let code = error.short()?;
    let words = error.0.strip_prefix(b"#").and_then(|rest| rest.get(5..)).unwrap_or(error.0);
    Err(Trouble::Server { code, words: String::from_utf8_lossy(words).into_owned() })
}

/// Subtracts what was taken from the memory that an answer may take.
fn within(left: usize, taken: usize) -> Result<usize, Trouble> {
    let end = || Trouble::Broken(format!("an answer of more than {ANSWER_MAX} bytes"));
    left.checked_sub(taken).ok_or_else(end)
}

/// An id that no replica has: the server ends no other client's dump for it.
pub(super) const NOBODY: u32 = 0;
/// The log no longer has what comes next.
pub(super) const PURGED: u16 = 1236;
/// The index of the log names a file that was removed.
pub(super) const FILE_GONE: u16 = 29;
/// Longer packets are read as they arrive.
pub(super) const WHOLE_MAX: usize = 1 << 20;
const COM_QUERY: u8 = 3;
const NULL: u8 = 0xfb;
/// Long password, long flags, protocol 4.1, transactions, secure connection, plugins.
const CAPABILITIES: u32 = 0x1 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x8_0000;
/// TLS follows this message.
const ENCRYPTED: u32 = 0x800;
const UTF8MB4: u8 = 45;
/// The most messages of a login.
const ANSWERS_MAX: u32 = 8;
/// The most memory that an answer may take.
const ANSWER_MAX: usize = 2 << 20;
/// The memory of a packet in addition to its bytes.
const PACKET_WEIGHT: usize = 64;
/// The most columns of a table.
const COLUMNS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::dial::Script;
    use std::io::{Cursor, Read};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A session with a database that sends `first`, and then `then` forever.
    fn session(first: &[&[u8]], then: &[u8]) -> Session {
        session_counted(first, then, &Arc::default())
    }

    /// Like [`session`], and counts how often `then` was sent.
    fn session_counted(first: &[&[u8]], then: &[u8], said_again: &Arc<AtomicUsize>) -> Session {
        let said = Cursor::new(first.iter().flat_map(|it| packet(it)).collect::<Vec<_>>());
        let then = Endless { packet: packet(then), at: 0, times: Arc::clone(said_again) };
        let packets = Packets::over(Box::new(Script(said.chain(then))), false);
        Session::over(packets)
    }

    fn packet(payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        [&length[..3], &[0], payload].concat()
    }

    struct Endless {
        packet: Vec<u8>,
        at: usize,
        times: Arc<AtomicUsize>,
    }

    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let mut rest = &self.packet[self.at..];
            let read = rest.read(into)?;
            self.at = (self.at + read) % self.packet.len();
            self.times.fetch_add(usize::from(self.at == 0), Ordering::Relaxed);
            Ok(read)
        }
    }

    const END: &[u8] = &[0xfe, 0, 0, 0, 0];

    #[test]
    fn an_answer_is_read_and_one_that_would_not_end_is_refused() {
        let mut good = session(&[&[2], b"def", b"def", END, b"\x01a\xfb", END], b"");
        assert_eq!(good.query("SELECT").unwrap(), [[Some("a".to_owned()), None]]);
        let told = |first: &[&[u8]], then: &[u8]| {
            session(first, then).query("SELECT").unwrap_err().to_string()
        };
        // 4 billion columns, and what is no number of columns.
        let many = told(&[b"\xfe\0\0\0\0\x01\0\0\0"], b"def");
        assert!(many.contains("an answer of 4294967296 columns"), "{many}");
        assert!(told(&[b"\xfbfile"], b"").contains("a length that is none"));
        // About how many more packets are read before the answer is refused.
        for (first, then, most) in [
            // Rows of many bytes, of none, and columns that don't fit.
            (
                &[&[1][..], b"def", END][..],
                &[&[0xfd, 0, 0, 1][..], &[b'a'; 1 << 16]].concat()[..],
                32,
            ),
            (&[b"\xfc\0\0", END], b"\x01", 40_000),
            (&[b"\xfc\0\x10"], &[b'd'; 5000], 500),
            // 4096 columns, all NULL: few bytes that take much memory.
            (&[&[&[0xfc, 0, 16][..]][..], &[&b"d"[..]; 4096], &[END]].concat(), &[0xfb; 4096], 25),
        ] {
            let times = Arc::default();
            let told =
                session_counted(first, then, &times).query("SELECT").unwrap_err().to_string();
            assert!(told.contains("an answer of more than 2097152 bytes"), "{told}");
            let times = times.load(Ordering::Relaxed);
            assert!(times <= most, "{times} packets");
        }
        let told = told(&[], &[b'x'; PART]);
        assert!(told.contains("more than 2097152 bytes"), "{told}");
    }

    #[test]
    fn a_login_that_would_not_end_is_refused() {
        let greeting: [&[u8]; 6] = [
            b"\x0a9\0\x07\0\0\0",
            &[7; 8],
            b"\0\0\x08\x2d\x02\0\x08\0\x15",
            &[0; 10],
            &[7; 12],
            b"\0x\0",
        ];
        let config = crate::config::parse(
            r#"{"state": "/nowhere", "destinations": {"c1": {"routers": ["r1"]}},
                "sources": {"db": {"kind": "mysql", "hosts": ["localhost"], "user": "guira", "server_id": 7,
                  "comments": {"prefixes": ["user:"]}}}}"#,
        );
        let source = config.unwrap().sources.remove(0);
        let log_in = |then: &[u8]| {
            session(&[&greeting.concat()], then).log_in(&source, "secret").unwrap_err().to_string()
        };
        assert!(log_in(b"\xfemysql_native_password\0nonce").contains("a login without end"));
        assert!(log_in(b"\x01\x03").contains("a login without end"));
        assert!(log_in(b"\x01\x04").contains("isn't sent in clear"));
        assert!(log_in(b"\x07").contains("an answer to the login"));
    }

    /// The length of a packet that goes on in the next one.
    const PART: usize = (1 << 24) - 1;
}
