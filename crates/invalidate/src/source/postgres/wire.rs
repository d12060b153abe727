//! PostgreSQL's protocol over a socket: a login, SQL by simple queries, and a stream of copied data.
//!
//! ```text
//! frame    | tag 1 | length 4, which counts itself | body |
//! ```
//! # Invariants
//! 1. A frame longer than [`FRAME_MAX`] takes no memory: in the stream, its head is returned and the rest is skipped.
//!    Elsewhere it is an error.
//! 2. The parts of a frame that have arrived are kept when a read times out, so the caller can check other things
//!    meanwhile.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use guira_client::Address;
use postgres_protocol::message::frontend;

use super::login::Login;
use super::trouble::PgTrouble;
use crate::config::{PostgresConfig, SourceConfig};
use crate::source::bytes::{Broken, Bytes};
use crate::source::dial::{self, Socket, Waits};

/// A connection that is logged in.
pub(super) struct Wire {
    socket: Box<dyn Socket>,
    input: BytesMut,
    /// The number of bytes of a frame that are still to be skipped.
    leave_out: usize,
}

/// A frame of the protocol.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) tag: u8,
    pub(super) body: BytesMut,
    /// The frame was too long, and the body is only its head.
    pub(super) is_cut: bool,
}

type Rows = Vec<Vec<Option<String>>>;

impl Wire {
    /// Connects and logs in. With `for_replication` the connection can request the log.
    pub(super) fn open(
        source: &SourceConfig,
        database: &PostgresConfig,
        for_replication: bool,
    ) -> Result<Self, PgTrouble> {
        let password = dial::password(source).map_err(PgTrouble::Refused)?;
        let socket = open_socket(source)?;
        let mut wire = Self::over(socket);
        let mut parameters = vec![
            ("user", &*source.user),
            ("database", &*database.database),
            ("application_name", "guira invalidate"),
            ("client_encoding", "UTF8"),
            ("options", OPTIONS),
        ];
        if for_replication {
            parameters.push(("replication", "database"));
        }
        let mut startup = BytesMut::new();
        frontend::startup_message(parameters, &mut startup)?;
        wire.socket.write_all(&startup)?;
        let is_private = source.tls.is_some() || matches!(source.host, Address::Unix(_));
        wire.log_in(Login::new(&source.user, &password, is_private))?;
        Ok(wire)
    }

    /// Uses a socket that is connected.
    pub(super) fn over(socket: Box<dyn Socket>) -> Self {
        Self { socket, input: BytesMut::new(), leave_out: 0 }
    }

    /// Answers the server's requests until it is ready for a statement.
    pub(super) fn log_in(&mut self, mut login: Login<'_>) -> Result<(), PgTrouble> {
        for _ in 0..ANSWERS_MAX {
            let frame = self.wait()?;
            match frame.tag {
                b'Z' => return Ok(()),
                b'R' => {}
                b'K' | b'S' => continue,
                _ => return Err(PgTrouble::Broken("an answer to the login".to_owned())),
            }
            let answer = login.answer(&frame.body)?;
            self.socket.write_all(&answer)?;
        }
        Err(PgTrouble::Broken("a login without end".to_owned()))
    }

    /// Returns the next frame, except the server's errors and notices. `None`: no complete frame came for [`LOOK`].
    pub(super) fn next(&mut self) -> Result<Option<Frame>, PgTrouble> {
        let mut asides = 0;
        loop {
            if let Some(frame) = self.whole_frame()? {
                match frame.tag {
                    b'E' => return Err(server_error(&frame.body)),
                    b'N' | b'A' if asides > ASIDES_MAX => {
                        return Err(PgTrouble::Broken("notices without end".to_owned()));
                    }
                    b'N' | b'A' => {
                        asides += 1;
                        continue;
                    }
                    _ => return Ok(Some(frame)),
                }
            }
            let mut chunk = [0; 1 << 14];
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(read) => self.take_in(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take_in(&mut self, chunk: &[u8]) {
        let left_out = self.leave_out.min(chunk.len());
        self.leave_out -= left_out;
        self.input.extend_from_slice(&chunk[left_out..]);
    }

    fn whole_frame(&mut self) -> Result<Option<Frame>, PgTrouble> {
        let Some((head, _)) = self.input.split_first_chunk::<5>() else { return Ok(None) };
        let [tag, length @ ..] = *head;
        let length = u32::from_be_bytes(length) as usize;
        let Some(length) = length.checked_sub(4) else {
            return Err(PgTrouble::Broken("a frame shorter than its length".to_owned()));
        };
        let is_cut = length > FRAME_MAX;
        if tag != b'd' && length > ANSWER_MAX {
            return Err(PgTrouble::Broken(format!("a frame of {length} bytes")));
        }
        let given = if is_cut { CUT_HEAD } else { length };
        if self.input.len() < 5 + given {
            return Ok(None);
        }
        self.input.advance(5);
        let body = self.input.split_to(given);
        if is_cut {
            let rest = length - given;
            let here = rest.min(self.input.len());
            self.input.advance(here);
            self.leave_out = rest - here;
        }
        Ok(Some(Frame { tag, body, is_cut }))
    }

    /// Waits for the next frame, up to [`SILENCE`].
    fn wait(&mut self) -> Result<Frame, PgTrouble> {
        let mut looks = SILENCE.as_millis() / LOOK.as_millis();
        self.wait_while(|| {
            looks -= 1;
            looks > 0
        })
    }

    /// Waits for the next frame. Fails when `goes_on` returns `false`.
    fn wait_while(&mut self, mut goes_on: impl FnMut() -> bool) -> Result<Frame, PgTrouble> {
        loop {
            if let Some(frame) = self.next()? {
                return Ok(frame);
            }
            if !goes_on() {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
        }
    }

    /// Sends a statement, and reads its whole answer.
    pub(super) fn query(&mut self, statement: &str) -> Result<Rows, PgTrouble> {
        self.query_then(statement, Self::wait)
    }

    /// Like [`Self::query`], for a statement that may take long: waits while `goes_on` returns `true`.
    pub(super) fn query_while(
        &mut self,
        statement: &str,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Rows, PgTrouble> {
        self.query_then(statement, |wire| wire.wait_while(&mut goes_on))
    }

    fn query_then(
        &mut self,
        statement: &str,
        mut wait: impl FnMut(&mut Self) -> Result<Frame, PgTrouble>,
    ) -> Result<Rows, PgTrouble> {
        let mut question = BytesMut::new();
        frontend::query(statement, &mut question)?;
        self.socket.write_all(&question)?;
        let mut rows = Vec::new();
        let mut left = ANSWER_MAX;
        loop {
            let frame = wait(self)?;
            let row = if frame.tag == b'D' { row(&frame.body)? } else { Vec::new() };
            let taken = FRAME_WEIGHT + frame.body.len() + row.len() * size_of::<Option<String>>();
            left = left.checked_sub(taken).ok_or_else(|| {
                PgTrouble::Broken(format!("an answer of more than {ANSWER_MAX} bytes"))
            })?;
            match frame.tag {
                b'D' => rows.push(row),
                b'Z' => return Ok(rows),
                b'T' | b'C' | b'I' | b'S' => {}
                _ => return Err(PgTrouble::Broken("an answer to a statement".to_owned())),
            }
        }
    }

    /// Returns the texts of the first row, with NULL as an empty text. `None` if there is no row.
    pub(super) fn row(&mut self, statement: &str) -> Result<Option<Vec<String>>, PgTrouble> {
        let first = self.query(statement)?.into_iter().next();
        Ok(first.map(|row| row.into_iter().map(Option::unwrap_or_default).collect()))
    }

    /// Sends the command that begins the stream, and waits until it has begun.
    pub(super) fn begin_stream(&mut self, command: &str) -> Result<(), PgTrouble> {
        let mut question = BytesMut::new();
        frontend::query(command, &mut question)?;
        self.socket.write_all(&question)?;
        match self.wait()?.tag {
            b'W' => Ok(()),
            _ => Err(PgTrouble::Broken("an answer to START_REPLICATION".to_owned())),
        }
    }

    /// Sends data into the stream.
    pub(super) fn send(&mut self, data: &[u8]) -> Result<(), PgTrouble> {
        let mut frame = BytesMut::new();
        frontend::CopyData::new(data)?.write(&mut frame);
        Ok(self.socket.write_all(&frame)?)
    }
}

/// Connects, and encrypts if TLS is configured.
fn open_socket(source: &SourceConfig) -> Result<Box<dyn Socket>, PgTrouble> {
    let waits = |read| Waits { read, write: SILENCE };
    let (Some(tls), Address::Tcp { host, port }) = (&source.tls, &source.host) else {
        return Ok(dial::connect(source, waits(LOOK))?);
    };
    // The handshake may take longer than a look.
    let mut socket = dial::connect_port(source, (host, *port), waits(SILENCE))?;
    let look = socket.try_clone()?;
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request)?;
    let mut answer = [0];
    socket.read_exact(&mut answer)?;
    if answer != *b"S" {
        let words = "TLS: the server has none: give it a certificate, and set ssl = on";
        return Err(PgTrouble::Refused(words.to_owned()));
    }
    let socket = dial::encrypt(source, tls, Box::new(socket))?;
    look.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

fn row(body: &[u8]) -> Result<Vec<Option<String>>, Broken> {
    let mut bytes = Bytes(body);
    let count = bytes.big(2)?;
    let mut row = Vec::new();
    for _ in 0..count {
        let length = bytes.big(4)?;
        row.push(match u32::try_from(length) {
            Ok(u32::MAX) => None,
            _ => {
                let length = usize::try_from(length).map_err(|_| Broken("a length"))?;
                Some(String::from_utf8_lossy(bytes.take(length)?).into_owned())
            }
        });
    }
    Ok(row)
}

fn server_error(body: &[u8]) -> PgTrouble {
    let (mut code, mut words) = (String::new(), String::new());
    let mut bytes = Bytes(body);
    while let Ok(kind @ 1..) = bytes.byte() {
        let Ok(text) = bytes.until_zero() else { break };
        let text = String::from_utf8_lossy(text).into_owned();
        match kind {
            b'C' => code = text,
            b'M' => words = text,
            _ => {}
        }
    }
    PgTrouble::Server { code, words }
}

/// Values have the same text whatever the database's settings are. A client that is gone frees the slot soon.
const OPTIONS: &str = "-c wal_sender_timeout=10s -c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c bytea_output=hex \
    -c extra_float_digits=1 -c statement_timeout=0";
/// How long a read waits.
const LOOK: Duration = Duration::from_millis(250);
const SILENCE: Duration = Duration::from_secs(5);
/// The most frames of a login: requests, the server's settings, notices.
const ANSWERS_MAX: u32 = 1000;
/// The most notices between two other frames.
const ASIDES_MAX: u32 = 10_000;
/// The most memory that an answer may take.
const ANSWER_MAX: usize = 2 << 20;
/// The memory of a frame in addition to its bytes.
const FRAME_WEIGHT: usize = 64;
const FRAME_MAX: usize = 64 << 20;
/// Enough for the names in a message and the number of a table.
const CUT_HEAD: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn wire() -> Wire {
        Wire::over(Box::new(io::Cursor::new(Vec::new())))
    }

    fn frame(tag: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&u32::try_from(length + 4).unwrap().to_be_bytes());
        bytes.resize(5 + length, b'x');
        bytes
    }

    #[test]
    fn a_frame_that_is_too_long_costs_no_memory_and_the_next_is_read() {
        let mut wire = wire();
        let long = [frame(b'd', FRAME_MAX + 1), frame(b'd', 3)].concat();
        let mut frames = Vec::new();
        for chunk in long.chunks(10_000) {
            wire.take_in(chunk);
            assert!(wire.input.len() < 20_000);
            while let Some(frame) = wire.whole_frame().unwrap() {
                frames.push((frame.body.len(), frame.is_cut));
            }
        }
        assert_eq!(frames, [(CUT_HEAD, true), (3, false)]);
        wire.take_in(&frame(b'T', FRAME_MAX + 1)[..5]);
        assert!(wire.whole_frame().is_err());
    }

    #[test]
    fn an_answer_or_a_login_that_would_not_end_is_refused() {
        use crate::source::dial::Script;
        use std::io::Cursor;
        let told = |frames: Vec<u8>| {
            Wire::over(Box::new(Script(Cursor::new(frames))))
                .query("SELECT 1")
                .unwrap_err()
                .to_string()
        };
        let endless = |one: Vec<u8>| one.repeat((3 << 20) / one.len());
        let null = [&b"D\0\0\x40\x06\x10\0"[..], &[0xff; 1 << 14]].concat();
        for one in [frame(b'T', 0), frame(b'C', 100), null] {
            let told = told(endless(one));
            assert!(told.contains("an answer of more than 2097152 bytes"), "{told}");
        }
        assert!(told(endless(frame(b'N', 0))).contains("notices without end"));
        assert!(told(frame(b'D', ANSWER_MAX + 1)).contains("a frame of 2097153 bytes"));
        let settings = endless(frame(b'S', 0));
        let mut wire = Wire::over(Box::new(Script(Cursor::new(settings))));
        let told = wire.log_in(Login::new("guira", "secret", false)).unwrap_err().to_string();
        assert!(told.contains("a login without end"), "{told}");
    }

    proptest::proptest! {
        #[test]
        fn no_frame_panics(chunks: Vec<Vec<u8>>) {
            let mut wire = wire();
            for chunk in chunks {
                wire.take_in(&chunk);
                while let Ok(Some(frame)) = wire.whole_frame() {
                    let _ = (row(&frame.body), server_error(&frame.body));
                }
            }
        }
    }
}
