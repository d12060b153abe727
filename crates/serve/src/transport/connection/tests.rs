//! Tests of a connection over a socket pair, served by hand: what it replies, and when it waits.

use super::Connection;
use crate::auth::Auth;
use crate::batch::Rooms;
use crate::process::roster::{Doing, Peer};
use crate::process::{Opened, Process};
use crate::settings::Flags;
use crate::settings::ServerSettings;
use crate::transport::state::{Interest, Next};
use crate::transport::stream::Stream;
use crate::turn::{PutOff, Turn};
use clap::{Args, Command, FromArgMatches};
use guira_cache::{Counter, Handle};
use guira_log::Log;
use guira_proto::binary::{Echo, HEADER_BYTES, Header, REQUEST_MAGIC, Status, opcode, reply};
use rustix::event::epoll::EventFlags;
use rustix::net::{RecvFlags, recv};
use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// The shared state of a server with these flags.
pub(crate) fn process(flags: &str) -> Process {
    let command = Flags::augment_args(Command::new("memcached"));
    let typed = std::iter::once("memcached").chain(flags.split_whitespace());
    let matches = command.try_get_matches_from(typed).unwrap();
    let flags = Flags::from_arg_matches(&matches).unwrap();
    let settings = ServerSettings::new(&flags).unwrap();
    let auth = Auth::open(&settings).unwrap();
    let opened = Opened { tls: None, log: Log::silent(0), lock_memory: false };
    Process::new(settings, auth, opened).unwrap()
}

/// A connection, its client's end, and what a worker provides.
struct Served<'s> {
    process: &'s Process,
    handle: Handle<'s>,
    rooms: Rooms,
    connection: Connection,
    client: UnixStream,
}

impl<'s> Served<'s> {
    fn new(process: &'s Process) -> Served<'s> {
        let (ours, client) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let peer = Peer::Unix { to: "unix:test".into() };
        let seat = process.roster.enter(3, peer, Doing::Reading, 2);
        let connection =
            Connection::new(Stream::Plain(ours.into()), seat, process.settings.protocol, 2);
        Served {
            process,
            handle: process.cache.handle(),
            rooms: Rooms::default(),
            connection,
            client,
        }
    }

    fn serve(&mut self, ready: Option<EventFlags>) -> Next {
        let now = self.process.time.now();
        let watched = self.process.watch.kinds();
        let (process, handle) = (self.process, &self.handle);
        let costly = &PutOff::new(1);
        let work_left = &Cell::new(4 << 20);
        let turn = Turn { process, handle, now, costly, work_left, watched, sample: None };
        let next = self.connection.serve(&turn, &mut self.rooms, ready);
        self.handle.quiesce();
        next
    }

    /// Serves until the connection waits for its client. Returns what it waits for; `None` when it has ended.
    fn settle(&mut self) -> Option<Interest> {
        let mut next = self.serve(Some(EventFlags::IN));
        loop {
            match next {
                Next::Wait(Interest::Read) if self.has_more() => {
                    next = self.serve(Some(EventFlags::IN));
                }
                Next::Wait(interest) => return Some(interest),
                Next::Again
                | Next::Later { .. }
                | Next::PutOff
                | Next::Pause { .. }
                | Next::Fed => {
                    next = self.serve(None);
                }
                Next::Nothing => panic!("a connection without a backlog has its turn"),
                Next::Parked => panic!("there is no storage to wait for"),
                Next::Close => return None,
            }
        }
    }

    /// Whether there are bytes to receive.
    fn has_more(&self) -> bool {
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.connection, &mut [0; 1], peek).is_ok_and(|(_, bytes)| bytes > 0)
    }

    /// Sends all of `requests`, serves, and returns the replies.
    fn ask(&mut self, requests: &[u8]) -> Vec<u8> {
        self.client.write_all(requests).unwrap();
        self.settle();
        self.replies()
    }

    fn replies(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        match self.client.read_to_end(&mut all) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => drop(other.unwrap()),
        }
        all
    }
}

/// Moving a megabyte takes about a millisecond, during which all other connections of the worker wait.
#[test]
fn a_long_line_is_received_and_moved_in_stretches_however_few_of_its_keys_are_answered_at_a_time() {
    let process = process("-m 8");
    let mut served = Served::new(&process);
    let line = [&b"get "[..], &[&[b'k'; 75][..], b" "].concat().repeat(100_000), b"\r\n"].concat();
    let received = || process.cache.totals().get(Counter::BytesRead);
    let (mut sent, mut received_most, mut moves) = (0, 0, Vec::new());
    while sent < line.len() || served.has_more() {
        sent += served.client.write(&line[sent..]).unwrap_or(0);
        let mut next = Next::Again;
        while matches!(next, Next::Again) {
            let has_backlog = served.connection.has_backlog;
            let input = &served.connection.input;
            let (before, bytes, received_before) = (input.as_ptr(), input.len(), received());
            next = served.serve(if has_backlog { None } else { Some(EventFlags::IN) });
            received_most = received_most.max(received() - received_before);
            let input = &served.connection.input;
            if input.as_ptr() != before || has_backlog && served.connection.done == 0 {
                moves.push(bytes.min(input.len()));
            }
        }
    }
    assert_eq!(served.replies(), b"END\r\n");
    assert!(received_most < 100 << 10, "{received_most} bytes at once");
    assert!(moves.iter().all(|&bytes| bytes < 2 << 20), "{moves:?}");
    assert!(moves.iter().sum::<usize>() <= line.len(), "{moves:?} of {}", line.len());
}

/// Requests for each state that a connection can have.
fn stream() -> Vec<u8> {
    let large = vec![b'x'; 20_000];
    let mut all = b"set a 1 0 3\r\nabc\r\nget a\r\ngets\r\nget a b a\r\nset bad 0 0 x\r\n".to_vec();
    all.extend_from_slice(b"set n 0 0 2 noreply\r\n10\r\nincr n 5\r\nmg n v t\r\nmn\r\n");
    all.extend_from_slice(b"set c 0 0 3\r\nabcdef\r\nget c\r\n");
    for size in ["20000", "2000000"] {
        all.extend_from_slice(format!("set big 0 0 {size}\r\n").as_bytes());
        all.extend_from_slice(&large);
        if size == "20000" {
            all.extend_from_slice(b"\r\nget big\r\n");
        }
    }
    all.extend_from_slice(&vec![b'y'; 2_000_000 - 20_000]);
    all.extend_from_slice(b"\r\nget big\r\nms big 20000\r\n");
    all.extend_from_slice(&large);
    all.extend_from_slice(b"\r\ndelete a\r\nflush_all\r\nget n\r\nnonsense\r\n");
    all
}

#[test]
fn a_stream_gets_the_same_replies_however_it_is_cut() {
    let stream = stream();
    let whole = {
        let process = process("");
        let mut served = Served::new(&process);
        // A socket pair's buffer doesn't hold all of it at once.
        stream.chunks(60_000).flat_map(|piece| served.ask(piece)).collect::<Vec<u8>>()
    };
    let text = String::from_utf8_lossy(&whole);
    assert!(text.starts_with("STORED\r\nVALUE a 1 3\r\nabc\r\nEND\r\nCLIENT_ERROR"), "{text}");
    assert!(
        text.contains("15\r\nVA 2 t-1\r\n15\r\nMN\r\nCLIENT_ERROR bad data chunk\r\n"),
        "{text}"
    );
    assert!(text.contains("SERVER_ERROR object too large for cache\r\nEND\r\nHD\r\n"));
    assert!(text.ends_with("DELETED\r\nOK\r\nEND\r\nERROR\r\n"), "{text}");
    for piece in [1, 7, 1000, 16_390, 20_011] {
        let process = process("");
        let mut served = Served::new(&process);
        // Byte by byte the long values would take a minute, so their middles are sent in larger pieces.
        let mut replies = Vec::new();
        let mut at = 0;
        while at < stream.len() {
            let is_dull = stream[at..].iter().take(1000).all(|&b| b == stream[at]);
            let end = (at + if is_dull { piece.max(900) } else { piece }).min(stream.len());
            replies.extend(served.ask(&stream[at..end]));
            at = end;
        }
        assert!(replies == whole, "in pieces of {piece}");
        assert!(served.connection.is_idle());
    }
}

#[test]
fn a_long_multiget_is_answered_in_pieces_and_yields() {
    let process = process("");
    let mut served = Served::new(&process);
    served.ask(b"set k 0 0 2\r\nhi\r\n");
    let line = [b"gets".as_slice(), &b"  k missing".repeat(3000), b"  \r\n"].concat();
    served.client.write_all(&line).unwrap();
    assert!(matches!(served.serve(Some(EventFlags::IN)), Next::Again));
    assert!(matches!(served.serve(Some(EventFlags::IN)), Next::Nothing), "its turn comes");
    let mut turns = 1;
    let mut replies = served.replies();
    while matches!(served.serve(None), Next::Again) {
        turns += 1;
        replies.extend(served.replies());
    }
    replies.extend(served.replies());
    assert!(turns >= 5, "{turns} turns");
    let text = String::from_utf8(replies).unwrap();
    assert_eq!(text.matches("VALUE k 0 2 ").count(), 3000);
    assert!(text.ends_with("hi\r\nEND\r\n"));
    assert_eq!(process.cache.totals().get(Counter::ConnYields), turns);
}

#[test]
fn requests_beyond_the_share_of_a_turn_wait_for_the_next() {
    let process = process("-R 2");
    let mut served = Served::new(&process);
    served.client.write_all(&b"mn\r\n".repeat(5)).unwrap();
    for (replies, more) in [(2, true), (2, true), (1, false)] {
        let ready = (replies == 2 && served.replies().is_empty()).then_some(EventFlags::IN);
        let ready = if served.connection.has_backlog { None } else { ready };
        let next = served.serve(ready);
        assert_eq!(matches!(next, Next::Again), more);
        assert_eq!(served.replies(), b"MN\r\n".repeat(replies));
    }
}

#[test]
fn changes_beyond_the_share_of_a_turn_wait_for_the_next_and_reads_go_on() {
    for (request, reply, a_turn) in [
        (&b"set k 0 0 1\r\nx\r\n"[..], &b"STORED\r\n"[..], 256),
        (b"touch k 0\r\n", b"TOUCHED\r\n", 256),
        (b"mg k\r\n", b"HD\r\n", 1000),
    ] {
        let process = process("");
        let mut served = Served::new(&process);
        served.ask(b"set k 0 0 1\r\nx\r\n");
        served.client.write_all(&request.repeat(1000)).unwrap();
        let mut got = 0;
        let mut ready = Some(EventFlags::IN);
        while got < 1000 {
            served.serve(ready);
            let replies = served.replies();
            let now = replies.len() / reply.len();
            assert_eq!(replies, reply.repeat(now));
            assert_eq!(now, a_turn.min(1000 - got), "{}", String::from_utf8_lossy(request));
            (got, ready) = (got + now, None);
        }
    }
}

#[test]
fn a_client_that_does_not_read_is_not_read_from_and_loses_nothing() {
    let process = process("");
    let mut served = Served::new(&process);
    let value = vec![b'v'; 100_000];
    served.ask(&[b"set v 0 0 100000\r\n".as_slice(), &value, b"\r\n"].concat());
    served.client.write_all(&b"get v\r\n".repeat(100)).unwrap();
    assert_eq!(served.settle(), Some(Interest::Write));
    assert!(!served.connection.is_idle());
    served.client.write_all(b"mn\r\n").unwrap();
    let mut replies = Vec::new();
    while replies.len() < 100 * (100_000 + 25) + 4 {
        let before = replies.len();
        replies.extend(served.replies());
        assert!(replies.len() > before, "it stopped after {before} bytes");
        served.settle();
    }
    assert!(replies.ends_with(b"END\r\nMN\r\n"));
    assert_eq!(replies.windows(5).filter(|w| w == b"END\r\n").count(), 100);
    assert!(served.connection.is_idle());
}

#[test]
fn a_connection_ends_after_its_last_reply() {
    let packet = |code| request(code, b"", b"", 0);
    let [quit, quietly, noop] = [opcode::QUIT, opcode::QUIT_Q, opcode::NOOP].map(packet);
    let mut goodbye = Vec::new();
    reply::done(&mut goodbye, Echo { opcode: opcode::QUIT, opaque: 9 }, 0);
    for (requests, last) in [
        (b"mn\r\nquit\r\nmn\r\n".to_vec(), b"MN\r\n".to_vec()),
        (b"mn\r\nGET / HTTP/1.1\r\n".to_vec(), b"MN\r\n".to_vec()),
        ([&quit[..], &noop].concat(), goodbye),
        ([&quietly[..], &noop].concat(), Vec::new()),
    ] {
        let process = process("");
        let mut served = Served::new(&process);
        served.client.write_all(&requests).unwrap();
        assert_eq!(served.settle(), None);
        assert_eq!(served.replies(), last);
    }
}

/// Header, extras and key of a binary request for a value of `value_bytes`.
fn request(code: u8, extras: &[u8], key: &[u8], value_bytes: usize) -> Vec<u8> {
    let header = Header {
        magic: REQUEST_MAGIC,
        opcode: code,
        key_bytes: u16::try_from(key.len()).unwrap(),
        extras_bytes: u8::try_from(extras.len()).unwrap(),
        body_bytes: u32::try_from(extras.len() + key.len() + value_bytes).unwrap(),
        opaque: 9,
        ..Header::default()
    };
    [&header.to_bytes()[..], extras, key].concat()
}

/// Binary requests for each state that a connection can have.
fn packets() -> Vec<u8> {
    let mut all = request(opcode::SET, &[0; 8], b"a", 3);
    all.extend_from_slice(b"abc");
    all.extend(request(opcode::GET_K, b"", b"a", 0));
    for bytes in [20_000, 2_000_000] {
        all.extend(request(opcode::SET, &[0; 8], b"big", bytes));
        all.extend(std::iter::repeat_n(b'x', bytes));
        all.extend(request(opcode::GET, b"", b"big", 0));
    }
    all.extend(request(opcode::APPEND, b"", b"a", 0));
    all.extend(request(0x55, b"", b"k", 100));
    all.extend_from_slice(&[0x80; 100]);
    all.extend(request(opcode::SET_Q, &[0; 8], b"b", 20_000));
    all.extend(std::iter::repeat_n(b'y', 20_000));
    all.extend(request(opcode::GET, b"", b"b", 0));
    all.extend(request(opcode::NOOP, b"", b"", 0));
    all
}

/// Removes the uniques, which differ from server to server.
fn without_uniques(mut replies: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(head) = replies[at..].first_chunk_mut::<HEADER_BYTES>() {
        let header = Header { cas: 0, ..Header::read(head) };
        *head = header.to_bytes();
        at += HEADER_BYTES + header.body_bytes as usize;
    }
    replies
}

#[test]
fn binary_requests_get_the_same_replies_however_they_are_cut() {
    let stream = packets();
    let play = |piece: usize| {
        let process = process("");
        let mut served = Served::new(&process);
        let mut replies = Vec::new();
        let mut at = 0;
        while at < stream.len() {
            let is_dull = stream[at..].iter().take(1000).all(|&b| b == stream[at]);
            let end = (at + if is_dull { piece.max(900) } else { piece }).min(stream.len());
            replies.extend(served.ask(&stream[at..end]));
            at = end;
        }
        assert!(served.connection.is_idle());
        without_uniques(replies)
    };
    let whole = play(60_000);
    for status in [Status::TooLarge, Status::NotFound, Status::UnknownCommand] {
        let text = status.text().as_bytes();
        assert_eq!(whole.windows(text.len()).filter(|w| *w == text).count(), 1, "{status:?}");
    }
    assert!(whole.len() > 2 * 20_000 && whole.ends_with(&[0; 8]));
    for piece in [1, 23, 24, 25, 16_390, 20_030] {
        let cut = play(piece);
        let first = cut.iter().zip(&whole).position(|(a, b)| a != b);
        assert!(cut == whole, "in pieces of {piece}: {first:?} of {} differs", whole.len());
    }
}
