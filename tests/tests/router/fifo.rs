//! `guira route --debug-fifo-root`: what goes through, as mcrouter's `mcpiper` reads it.

use guira_tests::client::Client;
use guira_tests::server::{
    Address, Program, Server, eventually, free_port, one_pool, own_directory,
};
use rustix::fs::OFlags;
use rustix::process::Signal;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A router of one thread with pipes in `dir`, and its server.
fn router(dir: &Path) -> (Server, Server) {
    let memcached = Server::start_tcp(Program::Memcached, &[]);
    let config = one_pool(&[memcached.port()]);
    let port = free_port();
    let (text, root) = (port.to_string(), dir.display().to_string());
    let flags = ["-p", &text, "--listen-addresses", "127.0.0.1", "--num-proxies", "1"];
    let all = [&flags[..], &["--config", &config, "--debug-fifo-root", &root]].concat();
    let router = Server::start_at(Program::Router, &all, Address::Tcp(port)).expect("it comes up");
    (router, memcached)
}

fn fifos(dir: &Path) -> Vec<PathBuf> {
    let mut fifos: Vec<_> =
        dir.read_dir().expect("a directory").flatten().map(|entry| entry.path()).collect();
    fifos.sort();
    fifos
}

/// Reads without waiting for the router.
fn open(fifo: &Path) -> File {
    let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag");
    OpenOptions::new().read(true).custom_flags(nonblock).open(fifo).expect("a pipe")
}

/// A message: whether it was received, its type, its bytes.
type Message = (bool, u32, Vec<u8>);

/// The messages that are in a pipe.
fn messages(pipe: &mut File) -> Vec<Message> {
    let mut bytes = Vec::new();
    match pipe.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
    }
    let mut messages: Vec<Message> = Vec::new();
    let mut rest = &bytes[..];
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    while !rest.is_empty() {
        if rest.starts_with(&0xface_b00c_u32.to_le_bytes()) {
            let (header, after) = rest.split_at(100);
            assert_eq!((header[4], &header[5..15]), (4, &b"127.0.0.1\0"[..]));
            assert_eq!(header[70..79], *b"Memcache\0");
            messages.push((header[57] == 1, number(&header[58..62]), Vec::new()));
            rest = after;
        }
        let (header, after) = rest.split_at(16);
        let (body, after) = after.split_at(number(&header[8..12]) as usize);
        messages.last_mut().expect("a message's header comes first").2.extend_from_slice(body);
        rest = after;
    }
    messages
}

/// Gets `key` until a reader of `pipe` sees it. The command that marks the end of the reply doesn't count.
fn seen(client: &mut Client, key: &str, pipe: &mut File) -> Vec<Message> {
    let mut found = Vec::new();
    eventually("the router sees that somebody reads", || {
        client.get(key);
        found = messages(pipe);
        found.retain(|message| message.1 != 0);
        found.len() >= 2
    });
    found
}

#[test]
fn who_reads_a_pipe_sees_requests_and_replies_of_clients_or_of_servers() {
    let dir = own_directory();
    let (mut router, _memcached) = router(&dir);
    let mut client = router.connect();
    client.set("k", b"value");
    eventually("both pipes are there", || fifos(&dir).len() == 2);
    let paths = fifos(&dir);
    for (path, side, is_request_received) in
        [(&paths[0], ".client.", false), (&paths[1], ".server.", true)]
    {
        assert!(path.display().to_string().contains(side), "{}", path.display());
        let metadata = path.metadata().unwrap();
        assert!(metadata.file_type().is_fifo() && metadata.permissions().mode() & 0o77 == 0);
        let mut pipe = open(path);
        let found = seen(&mut client, "k", &mut pipe);
        let request = (is_request_received, 1, b"get k\r\n".to_vec());
        let reply = (!is_request_received, 2, b"VALUE k 0 5\r\nvalue\r\nEND\r\n".to_vec());
        assert_eq!(found[..2], [request, reply]);
        client.exchange(b"incr none 1\r\ndelete none\r\nget k none\r\n");
        let types: Vec<_> = messages(&mut pipe).into_iter().map(|message| message.1).collect();
        for kind in [19, 20, 5, 6, 1, 2] {
            assert!(types.contains(&kind), "{kind} in {types:?}");
        }
    }
    router.signal(Signal::TERM);
    assert!(router.ended_within(30).is_some_and(|status| status.success()));
    assert!(fifos(&dir).is_empty());
    std::fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn a_reader_that_stops_reading_holds_nobody_up() {
    let dir = own_directory();
    let (router, _memcached) = router(&dir);
    let mut client = router.connect();
    let long = vec![b'x'; 100_000];
    client.set("long", &long);
    eventually("both pipes are there", || fifos(&dir).len() == 2);
    let mut pipes: Vec<File> = fifos(&dir).iter().map(|path| open(path)).collect();
    seen(&mut client, "none", &mut pipes[0]);
    seen(&mut client, "none", &mut pipes[1]);
    for _ in 0..50 {
        assert_eq!(client.get("long").as_deref(), Some(&long[..]));
    }
    // Whole packets to the last, and after the reader has caught up there are new ones.
    for pipe in &mut pipes {
        assert!(!messages(pipe).is_empty());
        assert!(seen(&mut client, "none", pipe).len() >= 2);
    }
    drop(pipes);
    for _ in 0..50 {
        assert_eq!(client.get("long").as_deref(), Some(&long[..]));
    }
    std::fs::remove_dir_all(dir).expect("the directory is there");
}
