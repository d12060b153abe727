//! Leases as clients see them: mcrouter's `lease-get` and `lease-set`, the meta flags, and that nobody else notices.
//!
//! The clock is moved by `debugtime`. Expected replies are written `LVALUE k $a …`: the first `$a` takes the token that
//! came, later ones stand for it.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server};
use std::collections::{HashMap, HashSet};

/// A client and the tokens that it was given, by name.
struct Talk {
    client: Client,
    tokens: HashMap<String, String>,
}

impl Talk {
    fn with(server: &Server) -> Talk {
        Talk { client: server.connect(), tokens: HashMap::new() }
    }

    /// Sends lines, and expects lines.
    fn tell(&mut self, send: &str, expect: &str) {
        let mut line = send.replace('\n', "\r\n") + "\r\n";
        for (name, token) in &self.tokens {
            line = line.replace(name, token);
        }
        let reply = self.client.exchange(line.as_bytes()).bytes;
        let reply = String::from_utf8(reply).expect("text").replace("\r\n", "\n");
        let expect = expect.to_owned() + "\n";
        assert_eq!(reply.lines().count(), expect.lines().count(), "{send}: {reply}");
        for (told, wanted) in reply.lines().zip(expect.lines()) {
            self.compare(send, told, wanted);
        }
    }

    fn compare(&mut self, send: &str, told: &str, wanted: &str) {
        let words: Vec<_> = told.split(' ').zip(wanted.split(' ')).collect();
        assert_eq!(
            told.split(' ').count(),
            wanted.split(' ').count(),
            "{send}: {told} for {wanted}"
        );
        for (word, wanted) in words {
            match wanted.find('$') {
                Some(at) => {
                    assert_eq!(word.get(..at), Some(&wanted[..at]), "{send}: {told}");
                    let token = self.tokens.entry(wanted[at..].into()).or_insert(word[at..].into());
                    assert_eq!(*token, word[at..], "{send}: {told} for {wanted}");
                    assert!(token.parse::<u64>().is_ok_and(|token| token > 1), "{token} is none");
                }
                None => assert_eq!(word, wanted, "{send}: {told}"),
            }
        }
    }
}

fn server() -> Server {
    Server::start(Program::Guira, &["-o", "relaxed_privileges"])
}

fn play(steps: &[(&str, &str)]) {
    let server = server();
    let mut talk = Talk::with(&server);
    for (send, expect) in steps {
        talk.tell(send, expect);
    }
}

const EMPTY: &str = "";

#[test]
fn who_misses_first_gets_a_token_the_others_wait_and_the_token_stores() {
    play(&[
        ("lease-get k", "LVALUE k $a 0 0\n\nEND"),
        ("lease-get k", "LVALUE k 1 0 0\n\nEND"),
        ("get k", "END"),
        ("lease-set k $a 5 0 3\nnew", "STORED"),
        ("lease-get k", "VALUE k 5 3\nnew\nEND"),
        ("get k", "VALUE k 5 3\nnew\nEND"),
    ]);
}

#[test]
fn several_keys_are_asked_for_at_once() {
    play(&[
        ("set b 7 0 1\nx", "STORED"),
        ("lease-get a b a", "LVALUE a $a 0 0\n\nVALUE b 7 1\nx\nLVALUE a 1 0 0\n\nEND"),
    ]);
}

#[test]
fn a_delete_voids_the_token_and_its_value_is_stale_at_most() {
    play(&[
        ("lease-get k", "LVALUE k $a 0 0\n\nEND"),
        ("delete k", "NOT_FOUND"),
        ("lease-set k $a 5 0 3\nold", "STALE_STORED"),
        ("get k", "END"),
        ("gets k", "END"),
        ("mg k v", "EN"),
        ("lease-get k", "LVALUE k 1 5 3\nold\nEND"),
        ("add k 0 0 3\nnew", "STORED"),
        ("lease-set k $a 0 0 3\nold", "STORED"),
        ("get k", "VALUE k 0 3\nnew\nEND"),
    ]);
}

#[test]
fn sets_arithmetic_and_flushes_void_the_token_too() {
    play(&[
        ("lease-get a", "LVALUE a $a 0 0\n\nEND"),
        ("set a 0 0 3\nnew", "STORED"),
        ("lease-set a $a 0 0 3\nold", "STORED"),
        ("get a", "VALUE a 0 3\nnew\nEND"),
        ("lease-get b", "LVALUE b $b 0 0\n\nEND"),
        ("ma b N0 J5", "HD"),
        ("lease-set b $b 0 0 3\nold", "STORED"),
        ("get b", "VALUE b 0 1\n5\nEND"),
        ("lease-get c", "LVALUE c $c 0 0\n\nEND"),
        ("flush_all", "OK"),
        ("lease-set c $c 0 0 3\nold", "STALE_STORED"),
        ("get c", "END"),
    ]);
}

#[test]
fn a_token_comes_at_most_once_in_ten_seconds_whatever_is_deleted() {
    play(&[
        ("lease-get k", "LVALUE k $a 0 0\n\nEND"),
        ("debugtime 9", "OK"),
        ("delete k", "NOT_FOUND"),
        ("lease-get k", "LVALUE k 1 0 0\n\nEND"),
        ("debugtime 2", "OK"),
        ("lease-get k", "LVALUE k $b 0 0\n\nEND"),
        ("lease-set k $a 0 0 3\nold", "STALE_STORED"),
        ("lease-set k $b 0 0 3\nnew", "STORED"),
        ("lease-get k", "VALUE k 0 3\nnew\nEND"),
    ]);
}

#[test]
fn a_younger_token_voids_the_older() {
    play(&[
        ("lease-get k", "LVALUE k $a 0 0\n\nEND"),
        ("debugtime 11", "OK"),
        ("lease-get k", "LVALUE k $b 0 0\n\nEND"),
        ("lease-set k $a 0 0 1\na", "STALE_STORED"),
        ("lease-set k $b 0 0 1\nb", "STORED"),
    ]);
}

#[test]
fn a_token_of_nobody_stores_nothing() {
    play(&[
        ("lease-set k 12345 0 0 1\nx", "NOT_STORED"),
        ("lease-get k", "LVALUE k $a 0 0\n\nEND"),
        ("lease-set k 1 0 0 1\nx", "STALE_STORED"),
        ("lease-set k 0 0 0 1\nx", "STALE_STORED"),
        ("get k", "END"),
        ("lease-set k x 0 0 1\nx", "CLIENT_ERROR bad command line format"),
        ("lease-set k 5 0 0", "CLIENT_ERROR bad command line format"),
        ("lease-get", "CLIENT_ERROR bad command line format"),
    ]);
}

#[test]
fn a_deleted_value_is_stale_for_twenty_seconds_and_only_for_those_who_ask_for_leases() {
    play(&[
        ("lease-get other", "LVALUE other $o 0 0\n\nEND"),
        ("set k 9 0 3\nold", "STORED"),
        ("delete k", "DELETED"),
        ("get k", "END"),
        ("gat 0 k", "END"),
        ("touch k 0", "NOT_FOUND"),
        ("append k 0 0 1\nx", "NOT_STORED"),
        ("mg k v", "EN"),
        ("delete k", "NOT_FOUND"),
        ("lease-get k", "LVALUE k $a 9 3\nold\nEND"),
        ("lease-get k", "LVALUE k 1 9 3\nold\nEND"),
        ("debugtime 21", "OK"),
        ("lease-get k", "LVALUE k $b 0 0\n\nEND"),
    ]);
}

#[test]
fn meta_and_text_respect_each_others_promises() {
    play(&[
        ("mg k N30 v t", &format!("VA 0 t30 W\n{EMPTY}")),
        ("get k", "END"),
        ("lease-get k", "LVALUE k 1 0 0\n\nEND"),
        ("ms k 3\nnew", "HD"),
        ("lease-get k", "VALUE k 0 3\nnew\nEND"),
        ("lease-get j", "LVALUE j $j 0 0\n\nEND"),
        ("mg j N30 v", &format!("VA 0 Z\n{EMPTY}")),
        ("lease-set j $j 0 0 3\nnew", "STORED"),
        ("mg j N30 v", "VA 3\nnew"),
    ]);
}

#[test]
fn a_meta_token_is_void_after_a_delete() {
    play(&[
        ("mg k N30 c", "HD c$a W"),
        ("delete k", "DELETED"),
        ("ms k 3 C$a\nold", "NF"),
        ("mg k N30 c", "HD c$b W"),
        ("md k I", "HD"),
        ("ms k 3 C$b\nold", "EX"),
        // No value came yet, so none is stale.
        ("mg k N30 v", &format!("VA 0 W\n{EMPTY}")),
    ]);
}

#[test]
fn what_waits_for_its_value_or_is_stale_is_absent_to_everybody_else() {
    play(&[
        ("mg k N30", "HD W"),
        ("get k", "END"),
        ("gats 0 k", "END"),
        ("touch k 5", "NOT_FOUND"),
        ("incr k 1", "NOT_FOUND"),
        ("replace k 0 0 1\nx", "NOT_STORED"),
        ("prepend k 0 0 1\nx", "NOT_STORED"),
        ("add k 0 0 1\n5", "STORED"),
        ("md k I T60", "HD"),
        ("get k", "END"),
        ("incr k 1", "NOT_FOUND"),
        ("mg k v", "VA 1 X W\n5"),
        ("mg k v", "VA 1 Z X\n5"),
        ("add k 0 0 1\n6", "STORED"),
        ("mg k v", "VA 1\n6"),
    ]);
}

#[test]
fn a_stale_mark_gives_its_value_to_lease_gets() {
    play(&[
        ("set k 3 0 3\nold", "STORED"),
        ("md k I", "HD"),
        ("lease-get k", "LVALUE k $a 3 3\nold\nEND"),
        ("mg k v", "VA 3 Z X\nold"),
        ("lease-set k $a 0 0 3\nnew", "STORED"),
        ("mg k v", "VA 3\nnew"),
        ("delete k", "DELETED"),
        ("mg k N30 v f", "VA 3 f0 Z X\nnew"),
        ("get k", "END"),
    ]);
}

#[test]
fn terms_are_options() {
    let flags = ["-o", "relaxed_privileges,lease_interval=0,lease_stale=0"];
    let server = Server::start(Program::Guira, &flags);
    let mut talk = Talk::with(&server);
    talk.tell("lease-get k", "LVALUE k $a 0 0\n\nEND");
    talk.tell("lease-get k", "LVALUE k $b 0 0\n\nEND");
    talk.tell("set k 0 0 1\nx", "STORED");
    talk.tell("delete k", "DELETED");
    talk.tell("lease-get k", "LVALUE k $c 0 0\n\nEND");
    assert_ne!(talk.tokens["$a"], talk.tokens["$b"]);
}

#[test]
fn large_values_are_stored_under_a_token_as_they_arrive() {
    let server = server();
    let mut client = server.connect();
    let asked = client.exchange(b"lease-get k\r\n").bytes;
    let asked = String::from_utf8(asked).expect("text");
    let token = asked.split(' ').nth(2).expect("a token");
    let value = vec![b'v'; 600_000];
    let mut request = format!("lease-set k {token} 0 0 {}\r\n", value.len()).into_bytes();
    request.extend_from_slice(&value);
    request.extend_from_slice(b"\r\n");
    assert_eq!(client.exchange(&request).bytes, b"STORED\r\n");
    assert_eq!(client.get("k"), Some(value));
    // A second time under the same token: the key has a value, which stays.
    assert_eq!(client.exchange(&request).bytes, b"STORED\r\n");
}

#[test]
fn of_many_connections_one_gets_the_token_and_another_run_gives_others() {
    let mut tokens = HashSet::new();
    for _ in 0..2 {
        let server = server();
        let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| client.send(b"lease-get k\r\n"));
        let replies = clients.iter_mut().map(|client| client.exchange(b"").bytes);
        let told: Vec<_> = replies.map(|r| String::from_utf8(r).expect("text")).collect();
        let granted: Vec<_> = told.iter().filter(|reply| !reply.contains(" 1 0 0")).collect();
        assert_eq!(granted.len(), 1, "{told:?}");
        tokens.insert(granted[0].clone());
        let mut client = server.connect();
        assert_eq!(client.stat_word("stats guira", "lease_tokens"), "1");
        assert_eq!(client.stat_word("stats guira", "lease_waits"), "49");
    }
    assert_eq!(tokens.len(), 2);
}

#[test]
fn a_command_that_is_refused_leaves_the_token_good() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let server = Server::start(Program::Guira, flags);
        let mut talk = Talk::with(&server);
        for (send, expect) in [
            ("lease-get k", "LVALUE k $a 0 0\n\nEND"),
            ("cas k 0 0 1 99\n1", "NOT_FOUND"),
            ("replace k 0 0 1\n1", "NOT_STORED"),
            ("append k 0 0 1\n1", "NOT_STORED"),
            ("incr k 1", "NOT_FOUND"),
            ("ma k", "NF"),
            ("ms k 1 MR\n1", "NS"),
            ("touch k 100", "NOT_FOUND"),
            ("lease-set k $a 5 0 3\nnew", "STORED"),
            ("lease-get j", "LVALUE j $b 0 0\n\nEND"),
            ("delete j", "NOT_FOUND"),
            ("lease-set j $b 5 0 3\nold", "STALE_STORED"),
        ] {
            talk.tell(send, expect);
        }
    }
}
