//! Logins: over text as memcached's `-Y` has them, over binary by SASL; who hasn't one does nothing else.
//!
//! Before the login there is no no-op to ask for, so each story is sent whole, with the stream's end
//! behind it, and all that comes back is compared.

use guira_tests::client::Client;
use guira_tests::packet::Packet;
use guira_tests::packet::opcode::{GET, NOOP, SET, STAT, VERSION};
use guira_tests::server::{Address, Program, Server, eventually, free_port, own_directory, within};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use rustix::process::Signal;
use std::fs;
use std::path::Path;

const USERS: &str = "foo:bar\nbaaaz:quux";

fn write_users(dir: &Path, text: &str) -> String {
    let path = dir.join("users");
    fs::write(&path, text).expect("a file of users");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// All that comes back for `bytes` and the end of the stream.
fn answer(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut client = server.connect();
    client.send(bytes);
    client.finish();
    client.read_to_end()
}

/// A connection that is logged in over text.
fn logged_in(server: &Server) -> Client {
    let mut client = server.connect();
    client.send(b"set any 0 0 7\r\nfoo bar\r\n");
    assert_eq!(client.read_exact(8), b"STORED\r\n");
    client
}

#[test]
fn text_logins_are_answered_as_memcached_answers_them() {
    let dir = own_directory();
    let users = write_users(&dir, USERS);
    let [theirs, ours] =
        [Program::Memcached, Program::Guira].map(|program| Server::start(program, &["-Y", &users]));
    for (server, name) in [(&theirs, "memcached"), (&ours, "guira")] {
        for story in [
            &[
                ("get foo\r\n", UNAUTHENTICATED),
                ("set foo 0 0 2\r\nhi\r\n", BAD_TOKEN),
                ("set foo 0 0 7\r\nfoo bab\r\n", FAILED),
                ("set foo 0 0 8\r\nfoo bar!\r\n", FAILED),
                ("set foo 0 0 7\r\nfoo bar..", "CLIENT_ERROR bad command line termination\r\n"),
                ("set foo 0 0 6\r\nfoobar\r\n", BAD_TOKEN),
                ("flush_all\r\n", UNAUTHENTICATED),
                ("shutdown\r\n", UNAUTHENTICATED),
                ("mg foo v\r\n", UNAUTHENTICATED),
                ("set any 0 0 7\r\nfoo bar\r\n", "STORED\r\n"),
                ("set toast 0 0 2\r\nhi\r\n", "STORED\r\n"),
                ("get toast\r\n", "VALUE toast 0 2\r\nhi\r\nEND\r\n"),
            ][..],
            &[("set foo 0 0 10\r\nbaaaz quux\r\n", "STORED\r\n"), ("get k\r\n", "END\r\n")],
        ] {
            let mut client = server.connect();
            for (line, reply) in story {
                client.send(line.as_bytes());
                let got = client.try_read_exact(reply.len()).unwrap_or_default();
                assert_eq!(
                    got.escape_ascii().to_string(),
                    reply.as_bytes().escape_ascii().to_string(),
                    "{name}: {line:.40}"
                );
            }
        }
    }
    assert_eq!(answer(&ours, b"quit\r\nget foo\r\n"), b"", "too short for a login");
    // As 1.6.45 does; 1.6.18 closes.
    let too_long = answer(&ours, b"set foo 0 0 2147483646\r\nget foo\r\n");
    let said = ["CLIENT_ERROR auth token too long\r\n", UNAUTHENTICATED].concat();
    assert_eq!(String::from_utf8_lossy(&too_long), said);
    let mut client = logged_in(&ours);
    assert_eq!(client.stat("auth_cmds"), 5);
    assert_eq!(client.stat("auth_errors"), 2);
    assert_eq!(client.stat_word("stats settings", "auth_enabled_ascii"), users);
}

#[test]
fn a_login_may_arrive_byte_by_byte() {
    let dir = own_directory();
    let ours = Server::start(Program::Guira, &["-Y", &write_users(&dir, USERS)]);
    let mut client = ours.connect();
    for byte in b"set any 0 0 7\r\nfoo bar\r\n" {
        client.send(&[*byte]);
    }
    assert_eq!(client.read_exact(8), b"STORED\r\n");
    assert_eq!(client.ask("get k"), "END\r\n");
}

#[test]
fn sighup_reads_the_users_again_and_keeps_them_if_the_file_is_spoilt() {
    let dir = own_directory();
    let users = write_users(&dir, USERS);
    let ours = Server::start(Program::Guira, &["-Y", &users, "-v"]);
    let mut old = logged_in(&ours);
    let login = b"set any 0 0 7\r\nnew one\r\n";
    let reload = |text: &str, sign: &str| {
        write_users(&dir, text);
        let before = ours.said().matches(sign).count();
        ours.signal(Signal::HUP);
        // Each attempt gives the server's main thread time to take the signal.
        while ours.said().matches(sign).count() == before {
            answer(&ours, b"version\r\n");
        }
    };
    reload("spoilt\n", "users stay as they were");
    assert_eq!(answer(&ours, login), b"CLIENT_ERROR authentication failure\r\n");
    logged_in(&ours);
    reload("new:one\n", "were read again");
    assert_eq!(answer(&ours, login), b"STORED\r\n");
    assert_eq!(old.ask("get k"), "END\r\n", "who is logged in stays so");
}

#[test]
fn what_cannot_protect_does_not_start() {
    let dir = own_directory();
    let spoilt = write_users(&dir, "no colon\n");
    for flags in [["-Y", "/nowhere/users"], ["-Y", &spoilt]] {
        let refused = Server::try_start(Program::Guira, &flags).expect_err("no users");
        assert_eq!(refused.status.and_then(|s| s.code()), Some(1), "{flags:?} {refused:?}");
    }
}

/// Status and value of each answer to `packets`, until the server has answered all or closes.
fn statuses(server: &Server, packets: &[Packet]) -> Vec<(u16, String)> {
    let bytes: Vec<u8> = packets.iter().flat_map(|packet| packet.to_bytes(7, 0)).collect();
    let mut rest = &answer(server, &bytes)[..];
    let mut all = Vec::new();
    while let [0x81, _, _, _, _, _, s0, s1, b0, b1, b2, b3, ..] = *rest {
        let body = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
        let text = String::from_utf8_lossy(&rest[24..24 + body]).into_owned();
        all.push((u16::from_be_bytes([s0, s1]), text));
        rest = &rest[24 + body..];
    }
    assert!(rest.is_empty(), "{}", rest.escape_ascii());
    all
}

fn plain(token: &str) -> Packet {
    Packet::new(SASL_AUTH, b"", "PLAIN", token.as_bytes())
}

fn failed() -> (u16, String) {
    (AUTH, "Auth failure.".to_owned())
}

fn admitted() -> (u16, String) {
    (0, "Authenticated".to_owned())
}

#[test]
fn before_a_binary_login_only_logging_in_and_version_work() {
    let dir = own_directory();
    let ours = Server::start(Program::Guira, &["-S", "-Y", &write_users(&dir, USERS)]);
    let mechanisms = statuses(&ours, &[Packet::key(SASL_MECHANISMS, "")]);
    assert_eq!(mechanisms, [(0, "CRAM-MD5 PLAIN".to_owned())]);
    assert_eq!(statuses(&ours, &[Packet::key(VERSION, "")])[0].0, 0);
    for opcode in (0..=u8::MAX).filter(|o| !(SASL_MECHANISMS..=SASL_STEP).contains(o)) {
        if opcode != VERSION {
            let packets = [Packet::key(opcode, "k"), Packet::key(VERSION, "")];
            assert_eq!(
                statuses(&ours, &packets),
                [failed()],
                "{opcode:#x} is answered, then closed"
            );
        }
    }
    assert_eq!(answer(&ours, b"get foo\r\n"), b"CLIENT_ERROR unauthenticated\r\n");
}

#[test]
fn a_binary_login_opens_what_a_failed_one_closes_again() {
    let dir = own_directory();
    let ours = Server::start(Program::Guira, &["-S", "-Y", &write_users(&dir, USERS)]);
    let set = Packet::store(SET, "k", 0, 0, b"v");
    let done = (0, String::new());
    let story = [plain("\0foo\0bar"), set.clone(), plain("\0foo\0bab"), set.clone()];
    assert_eq!(statuses(&ours, &story), [admitted(), done.clone(), failed(), failed()]);
    let story = [plain("foo\0foo\0bar"), plain("baaaz\0foo\0bar"), Packet::key(GET, "k")];
    assert_eq!(statuses(&ours, &story), [admitted(), failed(), failed()]);
    for token in ["", "\0foo\0bar\0", "\0foo", "foo\0bar", "\0\0", "\0fo\0bar"] {
        let answers = statuses(&ours, &[plain(token), Packet::key(NOOP, "")]);
        assert!(answers[0] != admitted() && answers[1..] == [failed()], "{token:?} {answers:?}");
    }
    let in_steps = [plain(""), Packet::new(SASL_STEP, b"", "PLAIN", b"\0foo\0bar"), set];
    assert_eq!(statuses(&ours, &in_steps), [(CONTINUE, String::new()), admitted(), done]);
    let step = Packet::new(SASL_STEP, b"", "PLAIN", b"\0foo\0bar");
    assert_eq!(statuses(&ours, &[step]), [failed()], "a step before the first");
}

#[test]
fn a_refused_body_is_swallowed_and_logs_nobody_in() {
    let dir = own_directory();
    let ours = Server::start(Program::Guira, &["-S", "-Y", &write_users(&dir, USERS)]);
    let hidden = Packet::store(SET, "k", 0, 0, b"v").to_bytes(9, 0);
    let story = [
        Packet::new(SASL_AUTH, b"", &"X".repeat(40), &hidden),
        Packet::new(SASL_AUTH, b"", "PLAIN", &hidden.repeat(200)),
        Packet::key(GET, "k"),
    ];
    let codes: Vec<u16> = statuses(&ours, &story).iter().map(|(status, _)| *status).collect();
    assert_eq!(codes, [0x04, 0x82, AUTH]);
}

#[test]
fn cram_md5_proves_the_password_without_sending_it() {
    let dir = own_directory();
    let ours = Server::start(Program::Guira, &["-S", "-Y", &write_users(&dir, USERS)]);
    let log_in = |password: &[u8]| {
        let mut client = ours.connect();
        client.send(&Packet::key(SASL_AUTH, "CRAM-MD5").to_bytes(1, 0));
        let challenge_bytes = usize::from(client.read_exact(24)[11]);
        let challenge = client.read_exact(challenge_bytes);
        let mut mac = Hmac::<Md5>::new_from_slice(password).expect("any length");
        mac.update(&challenge);
        let digest: String =
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let response = format!("foo {digest}");
        client.send(&Packet::new(SASL_STEP, b"", "CRAM-MD5", response.as_bytes()).to_bytes(2, 0));
        let answer = client.read_exact(8);
        u16::from_be_bytes([answer[6], answer[7]])
    };
    assert_eq!((log_in(b"bar"), log_in(b"bab")), (0, AUTH));
}

#[test]
fn memcacheds_own_database_of_users_is_read_as_it_is_at_the_login() {
    let dir = own_directory();
    let users = write_users(&dir, "# who may\nfoo:bar:rest\n");
    let environment = [("MEMCACHED_SASL_PWDB", users.as_str())];
    let ours = Server::start_with(Program::Guira, &["-S"], &environment);
    let logs_in = |token: &str| statuses(&ours, &[plain(token)]) == [admitted()];
    assert!(logs_in("\0foo\0bar") && !logs_in("\0new\0one"));
    write_users(&dir, "new:one\n");
    assert!(!logs_in("\0foo\0bar") && logs_in("\0new\0one"));
    fs::remove_file(users).expect("it is there");
    assert!(!logs_in("\0new\0one"));
    let stats = statuses(&ours, &[Packet::key(STAT, "")]);
    assert_eq!(stats, [failed()], "the numbers are for users too");
}

#[test]
fn without_logins_sasl_is_unknown_and_an_open_address_is_told() {
    let ours = Server::start(Program::Guira, &[]);
    let answers = statuses(&ours, &[plain("\0foo\0bar"), Packet::key(NOOP, "")]);
    assert_eq!(answers, [(0x81, "Unknown command".to_owned()), (0, String::new())]);
    let dir = own_directory();
    let users = write_users(&dir, USERS);
    for (flags, is_told) in [(&[][..], true), (&["-Y", &users], false)] {
        let port = free_port();
        let number = port.to_string();
        let flags = [&["-l", "0.0.0.0", "-p", &number], flags].concat();
        let ours = Server::start_at(Program::Guira, &flags, Address::Tcp(port)).expect("it starts");
        answer(&ours, b"version\r\n");
        let said = || ours.said().contains("open to whoever reaches");
        if is_told {
            // A thread of its own writes the log.
            within(10, "it is told", said);
        }
        assert_eq!(said(), is_told, "{flags:?}");
    }
}

const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated\r\n";
const BAD_TOKEN: &str = "CLIENT_ERROR bad authentication token format\r\n";
const FAILED: &str = "CLIENT_ERROR authentication failure\r\n";
const SASL_MECHANISMS: u8 = 0x20;
const SASL_AUTH: u8 = 0x21;
const SASL_STEP: u8 = 0x22;
const AUTH: u16 = 0x20;
const CONTINUE: u16 = 0x21;

#[test]
fn after_a_failed_login_the_next_from_there_waits_and_others_are_served() {
    let dir = own_directory();
    let users = write_users(&dir, USERS);
    for flags in [&["-Y", &users][..], &["-m", "64", "-Y", &users], &["-m", "1024", "-Y", &users]] {
        let server = Server::start(Program::Guira, flags);
        let mut inside = logged_in(&server);
        // The second attempt must come within a second of the first: on a busy machine not every pair does.
        for _ in 0..30 {
            let mut guesser = server.connect();
            guesser.send(b"set any 0 0 7\r\nfoo bat\r\n");
            assert_eq!(guesser.read_exact(FAILED.len()), FAILED.as_bytes());
            guesser.finish();
            let mut next = server.connect();
            next.send(b"set any 0 0 7\r\nfoo bar\r\n");
            assert_eq!(inside.get("k"), None, "who is logged in does not wait");
            assert_eq!(next.read_exact(8), b"STORED\r\n", "who is right gets in, if late");
            if inside.stat_word("stats guira", "auth_waits") != "0" {
                break;
            }
        }
        let waits: u64 = inside.stat_word("stats guira", "auth_waits").parse().expect("a number");
        assert!(waits >= 1, "no attempt of thirty waited");
        assert!(inside.stat("auth_errors") >= 1);
    }
    fs::remove_dir_all(&dir).ok();
}

#[test]
fn the_log_has_the_address_of_a_failed_login() {
    let dir = own_directory();
    let users = write_users(&dir, USERS);
    for size in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let server = Server::start_tcp(Program::Guira, &[&["-v", "-Y", &users], size].concat());
        for _ in 0..2 {
            let reply = answer(&server, b"set foo 0 0 7\r\nfoo bab\r\n");
            assert_eq!(reply, FAILED.as_bytes());
        }
        eventually("each is logged", || {
            let said = server.said();
            let lines = said.lines().filter(|line| line.contains("failed to log in"));
            lines.filter(|line| line.contains(" tcp:127.0.0.1:")).count() == 2
        });
    }
    // Without -v there is a line all the same, and not one for each.
    let server = Server::start_tcp(Program::Guira, &["-Y", &users]);
    for _ in 0..3 {
        assert_eq!(answer(&server, b"set foo 0 0 7\r\nfoo bab\r\n"), FAILED.as_bytes());
    }
    eventually("it is logged", || server.said().contains("WARN tcp:127.0.0.1:"));
    let said = server.said();
    assert_eq!(said.matches("failed to log in").count(), 1, "{said}");
    fs::remove_dir_all(dir).expect("it is there");
}
