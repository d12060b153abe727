//! A small server that speaks the protocol and tells one kind of lie, which `--verify` must detect.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use guira_proto::{Command, Limits, Parsed, parse};

/// A fault that occurs in every seventh read, or once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Another item's value.
    OtherKey,
    /// The first half of one write, and the second half of the write before.
    Torn,
    /// The value without its last byte.
    Short,
    /// No reply for 300 ms at the thousandth read.
    Stall,
}

/// The server; it lives as long as the test process.
pub(crate) struct Liar {
    address: String,
}

/// The last two values of each key.
#[derive(Default)]
struct Store {
    values: HashMap<Vec<u8>, [Vec<u8>; 2]>,
    reads: u64,
}

impl Liar {
    pub(crate) fn start(lie: Option<Lie>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let store = Arc::new(Mutex::new(Store::default()));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let store = store.clone();
                thread::spawn(move || serve(socket.unwrap(), lie, &store));
            }
        });
        Self { address }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

fn serve(mut socket: TcpStream, lie: Option<Lie>, store: &Mutex<Store>) {
    let (mut input, mut chunk) = (Vec::new(), [0; 16 * 1024]);
    loop {
        match socket.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(n) => input.extend_from_slice(&chunk[..n]),
        }
        let (mut at, mut out) = (0, Vec::new());
        while let Some(used) = answer(&input[at..], &mut out, lie, store) {
            at += used;
        }
        input.drain(..at);
        if socket.write_all(&out).is_err() {
            return;
        }
    }
}

/// Answers the first request. Returns `None` if it is incomplete.
fn answer(
    input: &[u8],
    out: &mut Vec<u8>,
    lie: Option<Lie>,
    store: &Mutex<Store>,
) -> Option<usize> {
    let parsed = parse(input, &Limits::DEFAULT).expect("the load generator sends good requests");
    let Parsed::Request { request, used } = parsed else { return None };
    let mut body = 0;
    match request {
        Command::Get(get) => {
            for key in get.keys {
                if let Some(value) = read(key, lie, store) {
                    write!(out, "VALUE {} 0 {}\r\n", key.escape_ascii(), value.len()).unwrap();
                    out.extend_from_slice(&value);
                    out.extend_from_slice(b"\r\n");
                }
            }
            out.extend_from_slice(b"END\r\n");
        }
        Command::MetaGet(get) => match read(get.key(), lie, store) {
            Some(value) => {
                write!(out, "VA {}\r\n", value.len()).unwrap();
                out.extend_from_slice(&value);
                out.extend_from_slice(b"\r\n");
            }
            None => out.extend_from_slice(b"EN\r\n"),
        },
        Command::Store(set) => {
            body = set.value_bytes as usize + 2;
            let value = input.get(used..used + body)?;
            write(set.key, &value[..body - 2], store);
            out.extend_from_slice(if set.quiet { b"" } else { b"STORED\r\n" });
        }
        Command::MetaSet(set) => {
            body = set.value_bytes() as usize + 2;
            let value = input.get(used..used + body)?;
            write(set.key(), &value[..body - 2], store);
            out.extend_from_slice(if set.quiet() { b"" } else { b"HD\r\n" });
        }
        other => panic!("the load generator never sends {other:?}"),
    }
    Some(used + body)
}

fn write(key: &[u8], value: &[u8], store: &Mutex<Store>) {
    let mut store = store.lock().unwrap();
    let [last, before] = store.values.entry(key.to_vec()).or_default();
    std::mem::swap(last, before);
    *last = value.to_vec();
}

fn read(key: &[u8], lie: Option<Lie>, store: &Mutex<Store>) -> Option<Vec<u8>> {
    let mut store = store.lock().unwrap();
    store.reads += 1;
    if lie == Some(Lie::Stall) && store.reads == 1000 {
        thread::sleep(Duration::from_millis(300));
    }
    let [last, before] = store.values.get(key)?;
    let mut value = last.clone();
    if !store.reads.is_multiple_of(7) {
        return Some(value);
    }
    match lie {
        Some(Lie::OtherKey) => {
            value = store.values.iter().find(|(other, _)| *other != key)?.1[0].clone();
        }
        Some(Lie::Torn) if before.len() == value.len() => {
            let half = value.len() / 2;
            value[half..].copy_from_slice(&before[half..]);
        }
        Some(Lie::Short) => {
            value.pop();
        }
        _ => {}
    }
    Some(value)
}
