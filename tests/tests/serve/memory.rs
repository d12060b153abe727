//! What a server takes of the machine's memory, idle and full, with the flags that users start it with.
//!
//! The bounds are those of a release build; a debug build's code is several times as large, and part of what is resident.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, eventually};

const MIB: u64 = 1 << 20;
/// How much larger a debug build's resident code is.
const DEBUG: u64 = if cfg!(debug_assertions) { 8 * MIB } else { 0 };
/// How much larger its tables of functions and its stacks are, which no file backs.
const DEBUG_BESIDE_FILES: u64 = if cfg!(debug_assertions) { 1700 << 10 } else { 0 };

#[test]
fn an_idle_server_takes_five_megabytes_whatever_it_may_come_to_hold() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024"], &["-m", "16384"]] {
        let server = Server::start(Program::Guira, flags);
        eventually(&format!("{flags:?}: idle in 5 MB, not {}", server.resident_bytes()), || {
            server.resident_bytes() <= 5 * MIB + DEBUG
        });
    }
}

/// Stores items of 16 + 32 bytes until the server evicts. Returns how many it then holds.
fn fill(client: &mut Client) -> u64 {
    let mut batch = Vec::new();
    for n in 0.. {
        batch.extend_from_slice(format!("set key-{n:012} 0 0 32 noreply\r\n").as_bytes());
        batch.extend_from_slice(&[b'v'; 32]);
        batch.extend_from_slice(b"\r\n");
        if n % 10_000 == 0 {
            client.send(&batch);
            batch.clear();
            if client.stat("evictions") > 0 {
                break;
            }
        }
    }
    client.stat("curr_items")
}

/// What of an item of 48 bytes is where: docs/explained/memory.md. A quarter of a byte, 315 KiB, is for the machine's
/// chances. A queue of probation of 2.5 bytes per entry is too much.
#[test]
fn an_item_of_48_bytes_takes_64_of_the_whole_process_and_61_and_a_quarter_of_it_beside_code() {
    for flags in [&[][..], &["-m", "64"]] {
        let server = Server::start(Program::Guira, flags);
        let items = fill(&mut server.connect());
        // Some things come in the background.
        eventually("the whole process", || server.resident_bytes() - DEBUG <= 64 * items);
        let bytes = server.resident_bytes_beside_files() - DEBUG_BESIDE_FILES;
        assert!(4 * bytes <= 245 * items, "{flags:?}: {bytes} bytes for {items} items");
    }
}

#[test]
fn memcacheds_classes_are_there_for_who_asks_for_them() {
    let server = Server::start(Program::Guira, &["--slabs", "memcached"]);
    let mut client = server.connect();
    client.set("key", b"v");
    assert_eq!(client.stat_word("stats slabs", "1:chunk_size"), "96");
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    client.set("key", b"v");
    let shown = client.ask("stats slabs");
    assert!(shown.contains(":chunk_size 32\r\n"), "{shown}");
}

/// Small caches have small pages, so that items of all sizes find room in them.
#[test]
fn the_smallest_caches_hold_and_evict_items_of_every_size() {
    for megabytes in ["1", "2", "8"] {
        let flags = ["-m", megabytes, "-I", "256k"];
        let server = Server::start(Program::Guira, &flags);
        let mut client = server.connect();
        for n in 0..2_000_u32 {
            let bytes = [10, 60, 300, 1_500, 8_000, 30_000, 100_000][n as usize % 7];
            let stored = client.set(&format!("key{n}"), &vec![b'v'; bytes]);
            assert_eq!(stored, "STORED\r\n", "-m {megabytes}: {bytes} bytes, item {n}");
        }
        assert!(client.stat("evictions") > 0, "-m {megabytes}");
        let (held, limit) = (client.stat("bytes"), client.stat("limit_maxbytes"));
        assert!(held <= limit, "-m {megabytes}: {held} of {limit} bytes");
        assert!(held * 10 >= limit * 3, "-m {megabytes}: {held} of {limit} bytes");
    }
}
