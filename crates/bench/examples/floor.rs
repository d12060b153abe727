//! A server that replies without a lookup: it shows what the kernel and the protocol cost any cache.
//! `floor ADDRESS VALUE_BYTES`.
//!
//! It has one thread and one `epoll` queue; per turn, each readable connection costs one receive and one
//! send. A get is answered with a constant value for each key, a set with `STORED`. There is no index, no
//! item and no memory for values, so a cache that takes as much time as this server can't be improved.
//! `tests/performance` compares it with the others.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// A client, and the incomplete end of its input.
struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    filled: usize,
    /// Bytes of a set's value that haven't arrived.
    skip: usize,
}

/// The bytes after the key of a get, and the reply to an `mg`.
struct Replies {
    text: Vec<u8>,
    meta: Vec<u8>,
}

impl Replies {
    fn of(value_bytes: usize) -> Self {
        let value = "v".repeat(value_bytes);
        Self {
            text: format!(" 0 {value_bytes}\r\n{value}\r\n").into_bytes(),
            meta: format!("VA {value_bytes}\r\n{value}\r\n").into_bytes(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, value_bytes] = &words[..] else { return Err("floor ADDRESS VALUE_BYTES".into()) };
    let replies = Replies::of(value_bytes.parse()?);
    let listener = TcpListener::bind(address)?;
    let queue = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&queue, &listener, EventData::new_u64(0), EventFlags::IN)?;
    let mut clients: HashMap<u64, Client> = HashMap::new();
    let mut output = Vec::new();
    let mut events = Vec::with_capacity(64);
    loop {
        epoll::wait(&queue, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let place = event.data.u64();
            let Some(client) = clients.get_mut(&place) else {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let place = u64::try_from(stream.as_raw_fd())?;
                epoll::add(&queue, &stream, EventData::new_u64(place), EventFlags::IN)?;
                let client = Client { stream, input: vec![0; 64 << 10], filled: 0, skip: 0 };
                clients.insert(place, client);
                continue;
            };
            if !serve(client, &replies, &mut output).unwrap_or(false) {
                clients.remove(&place);
            }
        }
    }
}

/// Receives once, answers the complete requests, sends once. Returns false at the end of the client's input.
fn serve(client: &mut Client, replies: &Replies, output: &mut Vec<u8>) -> std::io::Result<bool> {
    let received = client.stream.read(&mut client.input[client.filled..])?;
    client.filled += received;
    let mut rest = &client.input[..client.filled];
    output.clear();
    loop {
        let skipped = client.skip.min(rest.len());
        client.skip -= skipped;
        rest = &rest[skipped..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
        client.skip = answer(rest[..end].trim_ascii_end(), replies, output);
        rest = &rest[end + 1..];
    }
    let kept = client.filled - rest.len();
    client.input.copy_within(kept..client.filled, 0);
    client.filled -= kept;
    client.stream.write_all(output)?;
    Ok(received > 0 && client.filled < client.input.len())
}

/// Answers a line. Returns how many bytes of value follow it.
fn answer(line: &[u8], replies: &Replies, output: &mut Vec<u8>) -> usize {
    let mut words = line.split(|byte| *byte == b' ');
    let number = |word: Option<&[u8]>| std::str::from_utf8(word?).ok()?.parse::<usize>().ok();
    match words.next() {
        Some(b"get") => {
            for key in words {
                output.extend_from_slice(b"VALUE ");
                output.extend_from_slice(key);
                output.extend_from_slice(&replies.text);
            }
            output.extend_from_slice(b"END\r\n");
            0
        }
        Some(b"mg") => {
            output.extend_from_slice(&replies.meta);
            0
        }
        Some(verb @ (b"set" | b"ms")) => {
            let is_quiet = line.ends_with(b"noreply") || line.ends_with(b" q");
            if !is_quiet {
                output.extend_from_slice(if verb == b"ms" { b"HD\r\n" } else { b"STORED\r\n" });
            }
            let bytes = if verb == b"ms" { words.nth(1) } else { words.nth(3) };
            number(bytes).map_or(0, |bytes| bytes + 2)
        }
        Some(b"mn") => {
            output.extend_from_slice(b"MN\r\n");
            0
        }
        _ => {
            output.extend_from_slice(b"ERROR\r\n");
            0
        }
    }
}
