//! Meta commands through `guira route`, and leases on stock memcached behind it.

use guira_tests::client::Client;
use guira_tests::server::{Address, Program, Server, free_port};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A router in front of one memcached, and that memcached.
fn router(protocol: &str) -> (Server, Server) {
    in_front_of(Program::Memcached, &format!("\"protocol\": \"{protocol}\""))
}

/// A router in front of another server, with these fields in its pool.
fn in_front_of(program: Program, fields: &str) -> (Server, Server) {
    let server = Server::start_tcp(program, &[]);
    let port = server.port();
    (in_front_of_port(port, fields), server)
}

fn in_front_of_port(port: u16, fields: &str) -> Server {
    let config = format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{port}\"], {fields}}}}}, \
         \"route\": \"PoolRoute|A\"}}"
    );
    Server::start_router(&["--config", &config])
}

fn talk(client: &mut Client, send: &str) -> String {
    let reply = client.exchange(send.replace('\n', "\r\n").as_bytes());
    String::from_utf8_lossy(&reply.bytes).replace("\r\n", "\n")
}

/// The token of a lease-get, which found nothing.
fn lease(client: &mut Client, key: &str) -> u64 {
    let reply = talk(client, &format!("lease-get {key}\n"));
    let words: Vec<&str> = reply.split_ascii_whitespace().collect();
    let ["LVALUE", found, token, "0", "0", "END"] = words[..] else { panic!("{reply}") };
    assert_eq!(found, key);
    token.parse().expect("a number")
}

#[test]
fn one_of_all_who_miss_has_the_lease_on_stock_memcached_and_a_delete_takes_it_away() {
    let (router, memcached) = router("meta");
    let mut client = router.connect();
    let token = lease(&mut client, "k");
    assert!(token > 1, "{token}");
    for _ in 0..3 {
        assert_eq!(lease(&mut router.connect(), "k"), 1, "wait");
    }
    assert_eq!(talk(&mut client, "get k\ngets k\n"), "END\nEND\n", "nobody sees the empty item");
    let filled = talk(&mut client, &format!("lease-set k {token} 5 0 2\nv1\nlease-get k\n"));
    assert_eq!(filled, "STORED\nVALUE k 5 2\nv1\nEND\n");
    assert_eq!(talk(&mut client, "delete k\n"), "DELETED\n");
    let stale = lease(&mut client, "k");
    assert_eq!(talk(&mut client, "delete k\n"), "DELETED\n");
    let fresh = lease(&mut client, "k");
    assert_ne!(stale, fresh);
    let late = talk(&mut client, &format!("lease-set k {stale} 0 0 3\nold\n"));
    assert_eq!(late, "NOT_STORED\n", "what was read before the delete");
    let good = talk(&mut client, &format!("lease-set k {fresh} 0 0 3\nnew\nget k\n"));
    assert_eq!(good, "STORED\nVALUE k 0 3\nnew\nEND\n");
    let over = talk(&mut client, &format!("set k 0 0 5\nnewer\nlease-set k {fresh} 0 0 3\nold\n"));
    assert_eq!(over, "STORED\nNOT_STORED\n");
    assert_eq!(memcached.connect().get("k").as_deref(), Some(&b"newer"[..]));
}

/// A server that doesn't know the line of a lease-set takes its value for commands.
#[test]
fn no_lease_set_travels_to_a_server_without_leases() {
    let (router, memcached) = router("ascii");
    let mut behind = memcached.connect();
    assert_eq!(behind.set("k", b"kept"), "STORED\r\n");
    for send in [
        "lease-set a 1 0 0 9\nflush_all\n",
        "lease-set a 0 0 0 15\ndelete k\ndelet\n",
        "lease-get a\nlease-set a 1 0 0 9\nflush_all\n",
    ] {
        let reply = talk(&mut router.connect(), send);
        assert!(reply.starts_with("CLIENT_ERROR bad command\n"), "{send:?}: {reply:?}");
        assert!(!reply.contains("OK") && !reply.contains("STORED"), "{send:?}: {reply:?}");
        let others = talk(&mut router.connect(), "get k\n");
        assert_eq!(others, "VALUE k 0 4\nkept\nEND\n", "after {send:?}");
    }
}

/// A server from before meta commands; what it is asked beside that and `version` it notes.
fn old_server() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let noted = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let noted = Arc::clone(&noted);
            thread::spawn(move || answer_as_old(&stream, &noted));
        }
    });
    (port, asked)
}

fn answer_as_old(mut stream: &TcpStream, asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    while let Some(Ok(line)) = lines.next() {
        let mut reply = match line.split(' ').next() {
            Some("version") => "VERSION 1.4.15\r\n",
            Some("get" | "gets") => "END\r\n",
            Some("delete") if line.ends_with(" noreply") => "",
            Some("flush_all") => "OK\r\n",
            _ => "ERROR\r\n",
        };
        let is_text_set = line.starts_with("set ");
        asked.lock().expect("sound").push(line);
        if is_text_set {
            lines.next();
            reply = "STORED\r\n";
        }
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn no_meta_set_travels_to_a_server_from_before_meta_commands() {
    for protocol in ["ascii", "meta"] {
        let (port, asked) = old_server();
        let router = in_front_of_port(port, &format!("\"protocol\": \"{protocol}\""));
        for send in ["ms k 9 T0 c\nflush_all\n", "ms k 9 I MA N0\nflush_all\n"] {
            let reply = talk(&mut router.connect(), send);
            assert_eq!(reply, "CLIENT_ERROR bad command\n", "{protocol}: {send:?}");
            // It doesn't know `mg` either, and isn't marked for that.
            let expected = if protocol == "meta" { reply.as_str() } else { "END\n" };
            assert_eq!(talk(&mut router.connect(), "gets k\n"), expected, "{protocol}");
        }
        let reply = talk(&mut router.connect(), "set k 0 0 9\nflush_all\n");
        assert_eq!(reply, "STORED\n", "{protocol}");
        let asked = asked.lock().expect("sound");
        assert!(asked.iter().any(|line| line.starts_with("ms k ")), "{asked:?}");
        assert!(!asked.iter().any(|line| line.starts_with("flush_all")), "{asked:?}");
    }
}

/// The router once asked for each request separately, and all other requests to that server waited for the answers.
#[test]
fn a_server_that_lacks_what_was_asked_is_asked_once_however_many_try() {
    for (send, question) in
        [("lease-set k 7 0 0 1\nv\n", "lease-get "), ("ms k 1 T0 c\nv\n", "ms k ")]
    {
        let (port, asked) = old_server();
        let router = in_front_of_port(port, "\"protocol\": \"ascii\"");
        for _ in 0..3 {
            let reply = talk(&mut router.connect(), &(send.repeat(200) + "get k\n"));
            assert_eq!(reply, "CLIENT_ERROR bad command\n".repeat(200) + "END\n", "{send:?}");
        }
        let asked = asked.lock().expect("sound");
        let questions = asked.iter().filter(|line| line.starts_with(question)).count();
        // Each thread of the router asks.
        assert!((1..=8).contains(&questions), "{questions} of {send:?}");
    }
}

/// While a server is first asked what it knows, what a client sends behind waits.
#[test]
fn requests_of_a_client_are_carried_out_in_their_order_also_behind_its_first_meta_set() {
    for program in [Program::Memcached, Program::Guira] {
        let (router, server) = in_front_of(program, "\"protocol\": \"ascii\"");
        assert_eq!(server.connect().set("k", b"old"), "STORED\r\n");
        let reply = talk(&mut router.connect(), "ms k 3 T90 c\nnew\nget k\nget k none\ndelete k\n");
        let (first, rest) = reply.split_once('\n').expect("a line");
        assert!(first.starts_with("HD c"), "{reply}");
        assert_eq!(rest, "VALUE k 0 3\nnew\nEND\nVALUE k 0 3\nnew\nEND\nDELETED\n");
    }
}

#[test]
fn a_lease_of_another_connection_may_be_the_first_that_the_router_hears_of_leases() {
    let (router, server) = in_front_of(Program::Guira, "\"protocol\": \"ascii\"");
    let token = lease(&mut server.connect(), "k");
    let filled = talk(&mut router.connect(), &format!("lease-set k {token} 0 0 2\nv1\n"));
    assert_eq!(filled, "STORED\n");
    assert_eq!(server.connect().get("k").as_deref(), Some(&b"v1"[..]));
}

/// Whoever counts the leases that a server gives finds those of clients only.
#[test]
fn a_server_that_gave_a_lease_is_not_asked_whether_it_knows_leases() {
    let (router, server) = in_front_of(Program::Guira, "\"protocol\": \"ascii\"");
    let mut client = router.connect();
    let token = lease(&mut client, "k");
    let filled = talk(&mut client, &format!("lease-set k {token} 0 0 2\nv1\n"));
    assert_eq!(filled, "STORED\n");
    assert_eq!(server.connect().stat_word("stats guira", "lease_tokens"), "1");
}

/// A line of more than 2 KiB makes memcached close a connection that others share.
#[test]
fn meta_flags_without_end_are_refused_before_they_reach_a_server() {
    let (router, memcached) = router("ascii");
    assert_eq!(memcached.connect().set("k", b"kept"), "STORED\r\n");
    for length in [900, 100_000] {
        let reply = talk(&mut router.connect(), &format!("mg k v{}\n", "v".repeat(length)));
        assert_eq!(
            reply.starts_with("CLIENT_ERROR options flags are too long"),
            length > 900,
            "{reply}"
        );
        let others = talk(&mut router.connect(), "get k\n");
        assert_eq!(others, "VALUE k 0 4\nkept\nEND\n", "after {length}");
    }
}

#[test]
fn a_lease_that_nobody_used_goes_to_another_after_ten_seconds() {
    let (router, _memcached) = router("meta");
    let mut client = router.connect();
    let first = lease(&mut client, "k");
    let second = (0..1000).find_map(|_| {
        thread::sleep(Duration::from_millis(20));
        Some(lease(&mut client, "k")).filter(|&token| token != 1)
    });
    let second = second.expect("a token within 20 seconds");
    assert_ne!(first, second);
    let late = talk(&mut client, &format!("lease-set k {first} 0 0 1\nx\n"));
    assert_eq!(late, "NOT_STORED\n");
}

#[test]
fn each_text_command_is_answered_as_before_where_the_server_is_asked_in_meta() {
    let (router, _memcached) = router("meta");
    let mut client = router.connect();
    for (send, expect) in [
        ("set k 5 0 3\nabc\n", "STORED\n"),
        ("add k 0 0 1\nx\n", "NOT_STORED\n"),
        ("replace none 0 0 1\nx\n", "NOT_STORED\n"),
        ("append k 0 0 1\nd\n", "STORED\n"),
        ("prepend k 0 0 1\n_\n", "STORED\n"),
        ("get none k\n", "VALUE k 5 5\n_abcd\nEND\n"),
        ("gat 100 k none\n", "VALUE k 5 5\n_abcd\nEND\n"),
        ("touch k 100\n", "TOUCHED\n"),
        ("touch none 100\n", "NOT_FOUND\n"),
        ("cas none 0 0 1 5\nx\n", "NOT_FOUND\n"),
        ("set n 0 0 2\n10\n", "STORED\n"),
        ("incr n 5\n", "15\n"),
        ("decr n 20\n", "0\n"),
        ("incr none 1\n", "NOT_FOUND\n"),
        ("delete k\n", "DELETED\n"),
        ("delete k\n", "NOT_FOUND\n"),
    ] {
        assert_eq!(talk(&mut client, send), expect, "{send}");
    }
    let reply = talk(&mut client, "set w 0 0 1\nx\nincr w 1\n");
    assert!(reply.contains("CLIENT_ERROR"), "{reply}");
    let reply = talk(&mut client, "gets w\n");
    let cas = reply.split_ascii_whitespace().nth(4).expect("a unique").to_owned();
    let swaps = format!("cas w 0 0 1 {cas}\ny\ncas w 0 0 1 {cas}\nz\n");
    assert_eq!(talk(&mut client, &swaps), "STORED\nEXISTS\n");
}

#[test]
fn meta_flags_reach_the_server_whatever_the_pool_speaks() {
    for protocol in ["ascii", "meta"] {
        let (router, memcached) = router(protocol);
        let mut client = router.connect();
        for (send, expect) in [
            ("mg k s v N30 Oa\n", "VA 0 s0 Oa W\n\n"),
            ("mg k s v N30\n", "VA 0 s0 Z\n\n"),
            ("mg k v N30 q\nmn\n", "VA 0 Z\n\nMN\n"),
            ("ms k 3 T100 F7 c\nabc\n", "HD c"),
            ("mg k f h l t v k\n", "VA 3 f7 h"),
            ("md k I T30\n", "HD\n"),
            ("mg k v s\n", "VA 3 s3 X W\nabc\n"),
            ("mg k v R30\n", "VA 3 Z X\n"),
            ("md k q\nmg k v t\n", "EN\n"),
            ("ma n N60 J13 v t\n", "VA 2 t60\n13\n"),
            ("ma n D5 N60 J13 v\n", "VA 2\n18\n"),
            ("ms n 1 MA N60 T0 I\nx\n", "HD\n"),
            ("ms a2F5IMO8IGI= 2 b T100\nhi\n", "HD\n"),
            ("mg a2F5IMO8IGI= b v k\n", "VA 2 ka2F5IMO8IGI= b\nhi\n"),
            ("md a2F5IMO8IGI= b q\nmg a2F5IMO8IGI= b v\n", "EN\n"),
            ("mg none v t q\nmg none k v t Oz\n", "EN knone Oz\n"),
            ("mg none v N30 N30\n", "CLIENT_ERROR duplicate flag\n"),
        ] {
            let reply = client
                .exchange_past(send.replace('\n', "\r\n").as_bytes(), send.matches("mn").count());
            let reply = String::from_utf8_lossy(&reply.bytes).replace("\r\n", "\n");
            assert!(reply.starts_with(expect), "{protocol}: {send}: {reply}");
        }
        assert_eq!(talk(&mut client, "verbosity 0 noreply\n"), "");
        // The router answers in the server's words.
        let ask = "ms w 2 T90 F3\nhi\nmg w s f v k Oq l\nmg w\nmg none t\nmd w I T30\nmg w s v\nmg w s v\nms w 2 s f T60 k\nhi\n\
                   mg w t R30 T90 v\nmg w T10 R30 t v\nma n N0 J5\nma n s f t v\nma n s f k\n";
        let routed = talk(&mut client, ask);
        assert_eq!(routed, talk(&mut memcached.connect(), ask), "{protocol}");
    }
}

#[test]
fn a_deleted_value_is_kept_as_stale_for_those_who_ask_for_leases() {
    let (router, memcached) =
        in_front_of(Program::Memcached, "\"protocol\": \"meta\", \"stale_on_delete\": 30");
    let mut client = router.connect();
    assert_eq!(talk(&mut client, "delete k\n"), "NOT_FOUND\n");
    talk(&mut client, "set k 5 0 3\nold\n");
    assert_eq!(talk(&mut client, "delete k\n"), "DELETED\n");
    let reply = talk(&mut client, "lease-get k\n");
    let words: Vec<&str> = reply.split_ascii_whitespace().collect();
    let ["LVALUE", "k", token, "5", "3", "old", "END"] = words[..] else { panic!("{reply}") };
    let waiting = talk(&mut client, "lease-get k\n");
    assert_eq!(waiting, "LVALUE k 1 5 3\nold\nEND\n", "the token is somebody's");
    assert_eq!(talk(&mut client, "get k\ngets k\ntouch k 30\n"), "END\nEND\nNOT_FOUND\n");
    let add = talk(&mut client, "add k 0 0 1\nx\n");
    assert_eq!(add, "NOT_STORED\n", "until it is filled");
    let filled = talk(&mut client, &format!("lease-set k {token} 0 0 3\nnew\nget k\n"));
    assert_eq!(filled, "STORED\nVALUE k 0 3\nnew\nEND\n");
    assert_eq!(
        talk(&mut client, "md k\nset k 0 0 1\ny\nget k\n"),
        "HD\nSTORED\nVALUE k 0 1\ny\nEND\n"
    );
    talk(&mut client, "delete k\n");
    let left = talk(&mut memcached.connect(), "mg k t\n");
    assert!(left.starts_with("HD t30 ") || left.starts_with("HD t29 "), "{left}");
}

#[test]
fn a_pool_that_is_to_keep_stale_values_has_to_speak_meta() {
    let config = "{\"pools\": {\"A\": {\"servers\": [\"h:1\"], \"stale_on_delete\": 30}}, \"route\": \"Pool|A\"}";
    let flags = ["-p", "0", "--config", config, "--config-dump-root", ""];
    let refused = Server::start_at(Program::Router, &flags, Address::Tcp(free_port()));
    let said = refused.expect_err("the configuration is bad").said;
    assert!(said.contains("stale_on_delete needs \"protocol\": \"meta\" at 'h:1'"), "{said}");
}
