//! What a server says of signals, and of its end.

use guira_tests::client::{Client, PATIENCE};
use guira_tests::server::{Address, Program, Server, eventually, free_port, own_directory};
use guira_tests::tls::Authority;
use rustix::process::Signal;
use std::fs;
use std::net::UdpSocket;

fn says(server: &Server, what: &str) {
    eventually(what, || server.said().contains(what));
}

#[test]
fn a_hangup_says_what_was_read_again_and_only_that() {
    let server = Server::start(Program::Guira, &[]);
    server.signal(Signal::HUP);
    says(&server, "INFO SIGHUP: there is nothing to read again, without -Y and -Z");

    let dir = own_directory();
    Authority::new("the test's authority").identity("server").write(&dir);
    let users = dir.join("users").display().to_string();
    let write = |text: &str| fs::write(&users, text).expect("a file");
    write("user:password\n");
    let server = Server::start(Program::Guira, &["-Y", &users]);
    server.signal(Signal::HUP);
    says(&server, &format!("INFO SIGHUP: the users of {users} were read again"));
    for (text, why) in [("no colon", "line 1 is malformed"), ("", "the file is empty")] {
        write(text);
        server.signal(Signal::HUP);
        says(&server, &format!("WARN SIGHUP: users stay as they were: {users}: {why}"));
    }
    assert!(!server.said().contains("certificate"), "{}", server.said());

    let [chain, key] = ["chain.pem", "key.pem"].map(|name| dir.join(name).display().to_string());
    let files = format!("ssl_chain_cert={chain},ssl_key={key}");
    let server = Server::start_tcp(Program::Guira, &["-Z", "-o", &files]);
    server.signal(Signal::HUP);
    says(&server, "INFO SIGHUP: certificate and key were read again");
    assert!(!server.said().contains("users"), "{}", server.said());
    fs::remove_dir_all(dir).expect("it is there");
}

/// The signal once ended the process, as it does by default. Its name differs by a letter from that of a graceful end.
#[test]
fn the_second_user_signal_is_ignored() {
    let mut server = Server::start(Program::Guira, &[]);
    server.signal(Signal::USR2);
    says(&server, "INFO SIGUSR2 is ignored");
    assert!(server.is_running());
}

#[test]
fn the_end_is_told_with_what_ended_it_and_what_becomes_of_the_items() {
    let dir = own_directory();
    let memory = dir.join("memory").display().to_string();
    let kept = format!("1 item is kept in {memory}");
    for size in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        for (flags, items) in
            [(&["-A"][..], "1 item is gone with it"), (&["-A", "-e", &memory], &kept)]
        {
            for (signal, name) in [
                (Some(Signal::TERM), "SIGTERM"),
                (Some(Signal::USR1), "SIGUSR1"),
                (None, "a client's shutdown"),
            ] {
                let mut server = Server::start(Program::Guira, &[flags, size].concat());
                let mut client = server.connect();
                assert_eq!(client.set("k", b"v"), "STORED\r\n");
                match signal {
                    Some(signal) => server.signal(signal),
                    None => client.send(b"shutdown\r\n"),
                }
                assert!(server.ended_within(20).is_some_and(|status| status.success()));
                let said = server.said();
                assert!(said.contains(&format!("INFO stopped by {name}, in ")), "{said}");
                assert!(said.contains(items), "{said}");
                assert_eq!(
                    said.contains("INFO a client sent shutdown"),
                    signal.is_none(),
                    "{said}"
                );
            }
        }
        fs::remove_file(&memory).expect("it is there");
    }
    fs::remove_dir_all(dir).expect("it is there");
}

/// Clients that had connected, and that the server had yet to accept, were once reset.
#[test]
fn clients_that_wait_to_be_accepted_at_a_graceful_end_are_answered_first() {
    let dir = own_directory();
    let memory = dir.join("memory").display().to_string();
    let file = ["-e", &memory];
    for (flags, signal) in [(&file[..], Signal::TERM), (&[], Signal::USR1)] {
        let mut server = Server::start(Program::Guira, flags);
        assert_eq!(server.connect().set("k", b"v"), "STORED\r\n");
        server.signal(Signal::STOP);
        let mut clients: Vec<_> = (0..100).map(|_| Client::connect(server.address())).collect();
        clients.iter_mut().for_each(|client| client.send(b"get k\r\n"));
        server.signal(signal);
        server.signal(Signal::CONT);
        for client in &mut clients {
            let reply = client.read_to_end();
            assert_eq!(reply.escape_ascii().to_string(), r"VALUE k 0 1\r\nv\r\nEND\r\n");
        }
        assert!(server.ended_within(20).is_some_and(|status| status.success()));
    }
    fs::remove_dir_all(dir).expect("it is there");
}

/// memcached refuses to start without its database. Guira once started, and nobody could see why no login worked.
#[test]
fn binary_logins_without_users_are_warned_of() {
    let dir = own_directory();
    let users = dir.join("users").display().to_string();
    let start = || {
        let environment = [("MEMCACHED_SASL_PWDB", &*users), ("SASL_CONF_PATH", "/no/such/file")];
        Server::start_with(Program::Guira, &["-S"], &environment)
    };
    let warning = format!("WARN -S: nobody can log in: there are no users in {users}");
    says(&start(), &warning);
    fs::write(&users, "").expect("a file");
    says(&start(), &warning);
    fs::write(&users, "user:password\n").expect("a file");
    let server = start();
    server.signal(Signal::HUP);
    says(&server, "SIGHUP");
    assert!(!server.said().contains("nobody can log in"), "{}", server.said());
    fs::remove_dir_all(dir).expect("it is there");
}

/// `-p 0` once turned UDP off too; memcached serves it.
#[test]
fn without_tcp_udp_is_served_and_without_both_it_is_said_that_nobody_can_come() {
    let start = |udp: &str| {
        let http = free_port();
        let text = http.to_string();
        let flags = ["-l", "127.0.0.1", "-p", "0", "-U", udp, "--http", &text];
        let started = Server::start_at(Program::Guira, &flags, Address::Tcp(http));
        started.unwrap_or_else(|refused| panic!("it did not start: {refused:?}"))
    };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let udp = free_port();
    let server = start(&udp.to_string());
    // The port that it was seen by, that of HTTP, is open before the one for datagrams.
    says(&server, " ready: ");
    socket.set_read_timeout(Some(PATIENCE)).expect("an option of sockets");
    socket.send_to(b"\0\x01\0\0\0\x01\0\0get k\r\n", ("127.0.0.1", udp)).expect("it goes out");
    let mut room = [0; 100];
    let read = socket.recv(&mut room).expect("an answer");
    assert_eq!(&room[8..read], b"END\r\n");
    assert!(!server.said().contains("no client can reach"), "{}", server.said());
    drop(server);
    says(&start("0"), "WARN no client can reach this server: -p 0 turns TCP off");
}
