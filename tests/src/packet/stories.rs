//! What is told to memcached and to Guira in binary: packets whose answers must be the same.

use super::opcode::{
    ADD, APPEND, DECREMENT, DELETE, FLUSH, GAT, GAT_K, GAT_K_Q, GAT_Q, GET, GET_K, GET_K_Q, GET_Q,
    INCREMENT, NOOP, PREPEND, QUIT, REPLACE, SET, SET_Q, TOUCH, quiet,
};
use super::{Cas, Packet};

/// The stories that both servers are told; each on a connection of its own.
#[must_use]
pub fn stories() -> Vec<(&'static str, Vec<Packet>)> {
    vec![
        ("gets", gets()),
        ("stores", stores()),
        ("quiet stores", quiet_stores()),
        ("uniques", uniques()),
        ("numbers", numbers()),
        ("times", times()),
        ("flushes", flushes()),
        ("unknown opcodes", unknown_opcodes()),
        ("values too large", values_too_large()),
        ("large values", large_values()),
        ("keys", keys()),
        ("the connection ends with quit", quit()),
        ("and quietly", quit_quietly()),
    ]
}

/// A set with flags.
fn set(key: &str, value: &str) -> Packet {
    Packet::store(SET, key, 5, 0, value.as_bytes())
}

/// A packet with nothing but a key.
fn key(opcode: u8, key: &str) -> Packet {
    Packet::key(opcode, key)
}

/// A packet with an exptime.
fn with(opcode: u8, exptime: u32, key: &str) -> Packet {
    Packet::new(opcode, &exptime.to_be_bytes(), key, b"")
}

fn gets() -> Vec<Packet> {
    vec![
        key(GET, "k"),
        key(GET_K, "k"),
        key(GET_Q, "k"),
        key(GET_K_Q, "k"),
        set("k", "value"),
        key(GET, "k"),
        key(GET_K, "k"),
        key(GET_Q, "k"),
        key(GET_K_Q, "k"),
        set("k", ""),
        key(GET, "k"),
        key(GET_K, "k"),
    ]
}

fn stores() -> Vec<Packet> {
    vec![
        Packet::store(ADD, "k", 1, 0, b"a"),
        Packet::store(ADD, "k", 1, 0, b"b"),
        Packet::store(REPLACE, "k", 2, 0, b"c"),
        Packet::store(REPLACE, "none", 2, 0, b"c"),
        Packet::store(SET, "gone", 2, 1, b"c"),
        key(GET, "k"),
        Packet::new(APPEND, b"", "k", b"behind"),
        Packet::new(PREPEND, b"", "k", b"before"),
        Packet::new(APPEND, b"", "none", b"x"),
        Packet::new(PREPEND, b"", "none", b"x"),
        key(GET_K, "k"),
        Packet::new(APPEND, b"", "k", b""),
        key(GET_K, "k"),
    ]
}

fn quiet_stores() -> Vec<Packet> {
    vec![
        Packet::store(quiet(ADD), "k", 1, 0, b"a"),
        Packet::store(quiet(ADD), "k", 1, 0, b"b"),
        Packet::store(quiet(REPLACE), "k", 1, 0, b"r"),
        Packet::store(quiet(REPLACE), "none", 1, 0, b"r"),
        Packet::new(quiet(APPEND), b"", "k", b"1"),
        Packet::new(quiet(PREPEND), b"", "k", b"2"),
        Packet::new(quiet(APPEND), b"", "none", b"1"),
        Packet::new(quiet(PREPEND), b"", "none", b"2"),
        key(quiet(DELETE), "none"),
        key(GET, "k"),
        key(quiet(DELETE), "k"),
        key(GET, "k"),
        Packet::store(SET_Q, "k", 1, 0, b"a"),
        key(GET, "k"),
    ]
}

fn uniques() -> Vec<Packet> {
    vec![
        set("k", "1"),
        set("k", "2").cas(Cas::Wrong),
        set("k", "3").cas(Cas::OfAnswer(0)),
        set("k", "4").cas(Cas::OfAnswer(0)),
        set("none", "5").cas(Cas::Wrong),
        Packet::store(ADD, "k", 0, 0, b"6").cas(Cas::OfAnswer(2)),
        Packet::store(ADD, "none", 0, 0, b"7").cas(Cas::Wrong),
        Packet::store(REPLACE, "k", 0, 0, b"8").cas(Cas::Wrong),
        Packet::store(REPLACE, "none", 0, 0, b"9").cas(Cas::Wrong),
        Packet::new(APPEND, b"", "k", b"11").cas(Cas::Wrong),
        key(GET, "k"),
        Packet::new(APPEND, b"", "k", b"12").cas(Cas::OfAnswer(10)),
        Packet::new(PREPEND, b"", "none", b"13").cas(Cas::Wrong),
        key(GET, "k"),
        key(DELETE, "k").cas(Cas::Wrong),
        key(DELETE, "none").cas(Cas::Wrong),
        key(DELETE, "k").cas(Cas::OfAnswer(13)),
        key(GET, "k"),
    ]
}

fn numbers() -> Vec<Packet> {
    vec![
        Packet::count(INCREMENT, "n", 5, 7, NEVER),
        Packet::count(DECREMENT, "n", 5, 7, NEVER),
        Packet::count(INCREMENT, "n", 5, 7, 0),
        Packet::count(INCREMENT, "n", 5, 7, 0),
        key(GET, "n"),
        Packet::count(DECREMENT, "n", 3, 7, 0),
        key(GET, "n"),
        Packet::count(DECREMENT, "n", 300, 7, NEVER),
        key(GET, "n"),
        Packet::count(quiet(INCREMENT), "n", 1, 0, 0),
        key(GET, "n"),
        Packet::count(quiet(DECREMENT), "m", 1, 9, 0),
        key(GET, "m"),
        Packet::count(quiet(DECREMENT), "none", 1, 9, NEVER),
        set("big", "18446744073709551615"),
        Packet::count(INCREMENT, "big", 2, 0, 0),
        set("word", "nine"),
        Packet::count(INCREMENT, "word", 1, 0, 0),
        Packet::count(quiet(INCREMENT), "word", 1, 0, 0),
        Packet::count(INCREMENT, "n", 1, 0, 0).cas(Cas::Wrong),
        Packet::count(INCREMENT, "n", u64::MAX, 0, 0),
        key(GET, "n"),
        Packet::count(INCREMENT, "max", 0, u64::MAX, 0),
        key(GET, "max"),
    ]
}

fn times() -> Vec<Packet> {
    vec![
        set("k", "v"),
        with(TOUCH, 100, "k"),
        with(TOUCH, 100, "none"),
        with(GAT, 100, "k"),
        with(GAT, 100, "none"),
        with(GAT_Q, 100, "k"),
        with(GAT_Q, 100, "none"),
        with(GAT_K, 100, "k"),
        with(GAT_K, 100, "none"),
        with(GAT_K_Q, 100, "k"),
        with(GAT_K_Q, 100, "none"),
        with(TOUCH, 0, "k"),
        key(GET, "k"),
        with(TOUCH, 3_000_000, "k"),
        key(GET, "k"),
        Packet::store(SET, "past", 0, 3_000_000, b"v"),
        key(GET, "past"),
        Packet::store(SET, "later", 0, 0x7fff_ffff, b"v"),
        key(GET, "later"),
    ]
}

fn flushes() -> Vec<Packet> {
    vec![
        set("k", "v"),
        key(FLUSH, ""),
        key(GET, "k"),
        set("k", "w"),
        with(FLUSH, 100, ""),
        key(GET, "k"),
        key(quiet(FLUSH), ""),
        key(GET, "k"),
        with(FLUSH, 0, ""),
    ]
}

fn unknown_opcodes() -> Vec<Packet> {
    vec![
        key(0x1b, ""),
        key(0x1f, ""),
        key(0x20, ""),
        key(0x25, ""),
        key(0xff, ""),
        key(NOOP, ""),
        Packet::new(0x30, b"", "", b"a body that nobody wants"),
        key(NOOP, ""),
        Packet::new(0x21, b"", "PLAIN", b"\0user\0word"),
        key(NOOP, ""),
        Packet::new(0x22, b"", "PLAIN", b"more"),
        key(NOOP, ""),
    ]
}

fn values_too_large() -> Vec<Packet> {
    vec![
        set("k", "old"),
        Packet::store(SET, "k", 0, 0, &vec![b'x'; 1 << 20]),
        key(GET, "k"),
        set("k", "old"),
        Packet::store(SET_Q, "k", 0, 0, &vec![b'x'; 3 << 20]),
        key(GET, "k"),
        set("k", "old"),
        Packet::store(ADD, "k", 0, 0, &vec![b'x'; 1 << 20]),
        key(GET, "k"),
        Packet::new(APPEND, b"", "k", &vec![b'x'; 1 << 20]),
        key(GET, "k"),
    ]
}

fn large_values() -> Vec<Packet> {
    vec![
        Packet::store(SET, "k", 7, 0, &vec![b'x'; 20_000]),
        key(GET, "k"),
        Packet::new(APPEND, b"", "k", &vec![b'y'; 17_000]),
        key(GET_K, "k"),
        Packet::store(SET, "k", 7, 0, &vec![b'z'; 1_000_000]),
        key(GET, "k"),
        Packet::new(PREPEND, b"", "k", &vec![b'y'; 900_000]),
        key(GET_K, "k"),
        Packet::store(ADD, "k", 7, 0, &vec![b'z'; 300_000]),
        key(GET_Q, "k"),
        Packet::store(SET, "k", 7, 0, &vec![b'z'; 300_000]).cas(Cas::Wrong),
    ]
}

fn keys() -> Vec<Packet> {
    vec![
        set(&"k".repeat(250), "v"),
        key(GET_K, &"k".repeat(250)),
        set("with spaces\r\nand ends", "v"),
        key(GET_K, "with spaces\r\nand ends"),
        key(DELETE, "with spaces\r\nand ends"),
    ]
}

fn quit() -> Vec<Packet> {
    vec![key(QUIT, "")]
}

fn quit_quietly() -> Vec<Packet> {
    vec![key(quiet(QUIT), "")]
}

/// The exptime of an increment that creates nothing.
const NEVER: u32 = u32::MAX;
