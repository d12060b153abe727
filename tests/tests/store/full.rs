//! `guira store` on a file system that is full: the real one's `ENOSPC`, not a limit of the store's own.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, eventually, guira, own_directory, within};
use guira_tests::tmpfs::Tmpfs;
use rustix::process::Signal;
use std::fs;
use std::process::Command;

const REFUSED: &str = "SERVER_ERROR out of disk\r\n";

/// Sets values until one is refused; returns how many were stored.
fn set_until_refused(client: &mut Client, from: usize) -> usize {
    let value = vec![b'x'; 1 << 20];
    // A log has 16 MiB, which it took before.
    let refused = (from..from + 100).find(|n| {
        let reply = client.set(&format!("k{n}"), &value);
        assert!(reply == "STORED\r\n" || reply == REFUSED, "{n}: {reply}");
        reply == REFUSED
    });
    refused.expect("a full disk has no room for 100 MB")
}

/// The directory that was made for the copy goes with it.
#[test]
fn a_copy_on_another_file_system_is_refused_with_what_helps() {
    let tmpfs = Tmpfs::new(400);
    let store = own_directory();
    let directory = store.display().to_string();
    let server = Server::start(Program::Store, &["-d", &directory]);
    assert_eq!(server.connect().set("k", b"v"), "STORED\r\n");
    drop(server);
    let copy = tmpfs.here("copy");
    let mut command = Command::new(guira());
    let told = command.args(["store", "checkpoint"]).arg(&copy).args(["-d", &directory]).output();
    let told = told.expect("guira runs");
    let said = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(2), "{said}");
    assert!(said.contains("name a directory on the same file system as the store"), "{said}");
    assert!(!copy.exists(), "nothing is left of it");
    fs::remove_dir_all(store).expect("it is there");
}

#[test]
fn a_full_file_system_refuses_values_and_takes_them_once_there_is_room() {
    let tmpfs = Tmpfs::new(480);
    let directory = tmpfs.path("store");
    let flags = ["store", "-d", &directory];
    let mut server = tmpfs.start(&flags);
    let mut client = server.connect();
    let value = vec![b'x'; 1 << 20];
    assert_eq!(client.set("k0", &value), "STORED\r\n");
    tmpfs.fill();
    let end = set_until_refused(&mut client, 1);
    eventually("the log has it", || server.said().contains("WARN out of disk: "));
    let there = |client: &mut Client, n: usize| client.get(&format!("k{n}")).is_some();
    assert!((0..end).all(|n| there(&mut client, n)), "reads go on");
    assert!(!there(&mut client, end), "what was refused is not there");
    assert_eq!(client.ask("delete k0"), "DELETED\r\n");
    assert_eq!(client.get("k0"), None);
    tmpfs.make_room();
    within(40, "there is room again, unasked", || client.set("again", &value) == "STORED\r\n");
    server.signal(Signal::KILL);
    assert!(server.ended_within(30).is_some());
    tmpfs.fill();
    let server = tmpfs.start(&flags);
    let mut client = server.connect();
    assert!((1..end).all(|n| there(&mut client, n)), "nothing that was answered is lost");
    assert_eq!(client.get("again").as_deref(), Some(&value[..]));
    assert_eq!(client.get("k0"), None);
    set_until_refused(&mut client, 1000);
    tmpfs.make_room();
    within(40, "there is room again, unasked", || client.set("more", &value) == "STORED\r\n");
}
