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
//!
//! # Costs
//! One system call for all frames that have arrived. Frames are borrowed from the room that they were read into.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::BytesMut;
use guira_client::Address;
use postgres_protocol::message::frontend;

use super::input::{Input, Piece};
use super::login::Login;
use super::trouble::PgTrouble;
use crate::config::{PostgresConfig, SourceConfig};
use crate::source::bytes::{Broken, Bytes};
use crate::source::dial::{self, Socket, Waits};

/// A connection that is logged in.
pub(super) struct Wire {
    socket: Box<dyn Socket>,
    input: Input,
    /// The notices since the last other frame.
    asides: u32,
}

/// A frame of the protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'w> {
    pub(super) tag: u8,
    pub(super) body: &'w [u8],
    /// The frame was too long, and the body is only its head.
    pub(super) is_cut: bool,
}

/// A frame that has arrived, and where its body is.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    tag: u8,
    body: Piece,
    is_cut: bool,
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
        Self { socket, input: Input::default(), asides: 0 }
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
            let answer = login.answer(frame.body)?;
            self.socket.write_all(&answer)?;
        }
        Err(PgTrouble::Broken("a login without end".to_owned()))
    }

    /// Returns the next frame that has arrived, except the server's errors and notices.
    pub(super) fn arrived(&mut self) -> Result<Option<Frame<'_>>, PgTrouble> {
        let arrived = self.next_arrived()?;
        Ok(arrived.map(|arrived| self.frame(arrived)))
    }

    /// Reads what comes, up to [`LOOK`]. Returns the number of bytes; 0 if nothing came.
    pub(super) fn read(&mut self) -> Result<usize, PgTrouble> {
        loop {
            match self.input.read(&mut self.socket) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(0);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn frame(&self, Arrived { tag, body, is_cut }: Arrived) -> Frame<'_> {
        Frame { tag, body: self.input.bytes(body), is_cut }
    }

    fn next_arrived(&mut self) -> Result<Option<Arrived>, PgTrouble> {
        while let Some(arrived) = self.whole_frame()? {
            match arrived.tag {
                b'E' => return Err(server_error(self.frame(arrived).body)),
                b'N' | b'A' if self.asides > ASIDES_MAX => {
                    return Err(PgTrouble::Broken("notices without end".to_owned()));
                }
                b'N' | b'A' => self.asides += 1,
                _ => {
                    self.asides = 0;
                    return Ok(Some(arrived));
                }
            }
        }
        Ok(None)
    }

    fn whole_frame(&mut self) -> Result<Option<Arrived>, PgTrouble> {
        let Some((head, _)) = self.input.rest().split_first_chunk::<5>() else { return Ok(None) };
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
        if !self.input.has(5 + given) {
            return Ok(None);
        }
        self.input.take(5);
        let body = self.input.take(given);
        self.input.leave_out(length - given);
        Ok(Some(Arrived { tag, body, is_cut }))
    }

    /// Waits for the next frame, up to [`SILENCE`].
    fn wait(&mut self) -> Result<Frame<'_>, PgTrouble> {
        let mut looks = SILENCE.as_millis() / LOOK.as_millis();
        self.wait_while(|| {
            looks -= 1;
            looks > 0
        })
    }

    /// Waits for the next frame. Fails when `goes_on` returns `false`.
    fn wait_while(&mut self, mut goes_on: impl FnMut() -> bool) -> Result<Frame<'_>, PgTrouble> {
        loop {
            if let Some(arrived) = self.next_arrived()? {
                return Ok(self.frame(arrived));
            }
            if self.read()? == 0 && !goes_on() {
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
        mut wait: impl for<'w> FnMut(&'w mut Self) -> Result<Frame<'w>, PgTrouble>,
    ) -> Result<Rows, PgTrouble> {
        let mut question = BytesMut::new();
        frontend::query(statement, &mut question)?;
        self.socket.write_all(&question)?;
        let mut rows = Vec::new();
        let mut left = ANSWER_MAX;
        loop {
            let frame = wait(self)?;
            let row = if frame.tag == b'D' { row(frame.body)? } else { Vec::new() };
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
    use crate::source::postgres::input;

    fn frame(tag: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&u32::try_from(length + 4).unwrap().to_be_bytes());
        bytes.resize(5 + length, b'x');
        bytes
    }

    /// Hands out at most so many bytes at once, and then has no more yet.
    struct Slow(io::Cursor<Vec<u8>>, usize);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = self.1.min(into.len());
            match self.0.read(&mut into[..most])? {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                read => Ok(read),
            }
        }
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow(bytes: Vec<u8>, at_once: usize) -> Wire {
        Wire::over(Box::new(Slow(io::Cursor::new(bytes), at_once)))
    }

    #[test]
    fn a_frame_that_is_too_long_costs_no_memory_and_the_next_is_read() {
        let long = [frame(b'd', FRAME_MAX + 1), frame(b'd', 3)].concat();
        let mut wire = slow(long, 10_000);
        let mut frames = Vec::new();
        while wire.read().unwrap() > 0 {
            assert!(wire.input.room() <= input::READ_BYTES);
            while let Some(frame) = wire.arrived().unwrap() {
                frames.push((frame.body.len(), frame.is_cut));
            }
        }
        assert_eq!(frames, [(CUT_HEAD, true), (3, false)]);
        let mut wire = slow(frame(b'T', FRAME_MAX + 1)[..5].to_vec(), 5);
        assert_eq!(wire.read().unwrap(), 5);
        assert!(wire.arrived().is_err());
    }

    #[test]
    fn frames_are_the_same_however_they_arrive_and_the_room_of_a_long_one_is_given_back() {
        let lengths = [3, 0, 70_000, 1, 5_000_000, 7, 8, 60_000, 60_000];
        let bytes: Vec<u8> = lengths.iter().flat_map(|length| frame(b'd', *length)).collect();
        for at_once in [1 << 20, 50_000, 7919] {
            let mut wire = slow(bytes.clone(), at_once);
            let (mut got, mut most) = (Vec::new(), 0);
            while wire.read().unwrap() > 0 {
                most = most.max(wire.input.room());
                while let Some(frame) = wire.arrived().unwrap() {
                    assert!(frame.body.iter().all(|byte| *byte == b'x'));
                    got.push(frame.body.len());
                }
            }
            assert_eq!(got, lengths, "{at_once}");
            assert!(most < 6_000_000, "{most}");
            assert_eq!(wire.input.room(), input::READ_BYTES);
        }
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
        fn no_frame_panics(bytes: Vec<u8>, at_once in 1..100_usize) {
            let mut wire = slow(bytes, at_once);
            while let Ok(1..) = wire.read() {
                while let Ok(Some(frame)) = wire.arrived() {
                    let _ = (row(frame.body), server_error(frame.body));
                }
            }
        }
    }
}
