//! Deletes that hold off adds, as clients see them. The clock is moved by `debugtime`.

use guira_tests::server::{Program, Server};

fn play(steps: &[(&str, &str)]) {
    let server = Server::start(Program::Guira, &["-o", "relaxed_privileges"]);
    let mut client = server.connect();
    for (send, expect) in steps {
        let reply = client.ask(&send.replace('\n', "\r\n"));
        assert_eq!(reply, expect.replace('\n', "\r\n") + "\r\n", "{send}");
    }
}

#[test]
fn a_delete_with_a_time_refuses_adds_and_nothing_else_until_then() {
    play(&[
        ("set k 0 0 3\nold", "STORED"),
        ("delete k 2", "DELETED"),
        ("add k 0 0 3\nold", "NOT_STORED"),
        ("ms k 3 ME\nold", "NS"),
        ("get k", "END"),
        ("ma k N0 J5", "HD"),
        ("delete k", "DELETED"),
        ("mg k N0", "HD W"),
        ("delete k", "DELETED"),
        ("add k 0 0 3\nold", "NOT_STORED"),
        ("debugtime 3", "OK"),
        ("add k 0 0 3\nnew", "STORED"),
        ("get k", "VALUE k 0 3\nnew\nEND"),
    ]);
}

#[test]
fn a_set_ends_it() {
    play(&[
        ("delete k 10", "NOT_FOUND"),
        ("replace k 0 0 3\nold", "NOT_STORED"),
        ("add k 0 0 3\nold", "NOT_STORED"),
        ("set k 0 0 3\nnew", "STORED"),
        ("delete k", "DELETED"),
        ("add k 0 0 3\nnew", "STORED"),
        ("delete k 10", "DELETED"),
        ("add k 0 0 3\nold", "NOT_STORED"),
    ]);
}

#[test]
fn an_absent_key_is_held_off_too() {
    play(&[
        ("delete k 5", "NOT_FOUND"),
        ("add k 0 0 1\nx", "NOT_STORED"),
        ("add other 0 0 1\nx", "STORED"),
        ("flush_all", "OK"),
        ("add k 0 0 1\nx", "NOT_STORED"),
        ("debugtime 6", "OK"),
        ("add k 0 0 1\nx", "STORED"),
    ]);
}

#[test]
fn a_lease_set_passes() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    assert_eq!(client.ask("delete k 5"), "NOT_FOUND\r\n");
    let told = client.ask("lease-get k");
    let token = told.split(' ').nth(2).expect("a token");
    assert_eq!(client.ask(&format!("lease-set k {token} 0 0 1\r\nx")), "STORED\r\n");
    assert_eq!(client.ask("delete k"), "DELETED\r\n");
    assert_eq!(client.ask("add k 0 0 1\r\nx"), "NOT_STORED\r\n");
}

#[test]
fn a_time_is_a_number_up_to_sixty() {
    play(&[
        ("delete k 0", "NOT_FOUND"),
        ("add k 0 0 1\nx", "STORED"),
        ("delete k -5", "DELETED"),
        ("add k 0 0 1\nx", "STORED"),
        ("delete k soon", "DELETED"),
        ("add k 0 0 1\nx", "STORED"),
        ("delete k 60", "DELETED"),
        ("add k 0 0 1\nx", "NOT_STORED"),
        ("set k 0 0 1\nx", "STORED"),
        ("delete k 61", "CLIENT_ERROR a delete holds off adds for 60 seconds at most"),
        ("delete k 99999999999", "CLIENT_ERROR a delete holds off adds for 60 seconds at most"),
        ("get k", "VALUE k 0 1\nx\nEND"),
    ]);
}

#[test]
fn a_binary_add_is_refused_too() {
    let server = Server::start(Program::Guira, &[]);
    let mut text = server.connect();
    assert_eq!(text.ask("delete k 9"), "NOT_FOUND\r\n");
    // Opcode add, key of 1, extras of 8, value of 1.
    let mut add =
        vec![0x80, 0x02, 0, 1, 8, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0];
    add.extend_from_slice(&[0; 8]);
    add.extend_from_slice(b"kx");
    let mut binary = server.connect();
    binary.send(&add);
    let head = binary.read_exact(24);
    assert_eq!(head[6..8], [0, 2], "exists, as far as an add goes");
    assert_eq!(text.get("k"), None);
}

#[test]
fn tombstones_have_a_budget_and_the_lost_are_counted() {
    let server = Server::start(Program::Guira, &["-o", "holdoff_keys=8"]);
    let mut client = server.connect();
    for n in 0..9 {
        assert_eq!(client.ask(&format!("delete key{n} {}", 20 + n)), "NOT_FOUND\r\n");
    }
    assert_eq!(client.ask("add key0 0 0 1\r\nx"), "STORED\r\n", "its tombstone had to go");
    assert_eq!(client.ask("add key1 0 0 1\r\nx"), "NOT_STORED\r\n");
    for (name, count) in
        [("holdoff_deletes", "9"), ("holdoff_refusals", "1"), ("holdoff_dropped", "1")]
    {
        assert_eq!(client.stat_word("stats guira", name), count, "{name}");
    }
}
