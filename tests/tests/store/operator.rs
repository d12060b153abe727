//! `guira store` as its operator sees it: logins, TLS, metrics, statistics, and what a sync is shared by.

use guira_tests::client::Client;
use guira_tests::metrics::{Scrape, get_http};
use guira_tests::server::{
    Address, Program, Server, eventually, free_port, guira, own_directory, within, workspace,
};
use guira_tests::tidy::check_mentions;
use guira_tests::tls::{self, Authority};
use rustix::process::Signal;
use std::fs;
use std::process::Command;

#[test]
fn logins_tls_and_http_are_those_of_the_others() {
    let dir = own_directory();
    fs::create_dir_all(&dir).expect("a directory");
    let users = dir.join("users");
    fs::write(&users, "foo:bar\n").expect("a file");
    let authority = Authority::new("nobody but us");
    let [chain, key] = authority.identity("localhost").write(&dir).map(|p| p.display().to_string());
    let http = free_port();
    let port = http.to_string();
    let flags =
        ["-Y", users.to_str().expect("text"), "-Z", "--ssl-chain-cert", &chain, "--ssl-key"];
    let flags = [&flags[..], &[&key, "--http", &port]].concat();
    let server = Server::start_tcp(Program::Store, &flags);
    let port = server.port();
    let mut client = tls::Client::new(&authority, None, true).connect(port);
    assert_eq!(client.ask("get k\r\n", "\r\n"), "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(client.ask("set any 0 0 7\r\nfoo bar\r\n", "\r\n"), "STORED\r\n");
    assert_eq!(client.ask("set k 0 0 1\r\nv\r\n", "\r\n"), "STORED\r\n");
    assert_eq!(client.ask("get k\r\n", "END\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
    let scrape = Scrape::of(http);
    assert!(scrape.value("guira_store_writes_total") >= 1.0);
    assert_eq!(scrape.value("guira_store_is_read_only"), 0.0);
    let path = "docs/reference/store-metrics.md";
    let page = fs::read_to_string(workspace().join(path)).expect("a page");
    assert_eq!(check_mentions(path, &page, scrape.names()), Vec::<String>::new());
    assert!(get_http(http, "/readyz").0.contains("200"));
    server.signal(Signal::HUP);
    eventually("it says so", || server.said().contains("the clients' logins were read again"));
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn each_statistic_is_documented_in_its_order() {
    let server = Server::start(Program::Store, &[]);
    let stats = ["stats", "stats store"].map(|group| server.connect().ask(group)).concat();
    let names: Vec<&str> = stats.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let path = "docs/reference/store-statistics.md";
    let text = fs::read_to_string(workspace().join(path)).expect("a page");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    // Only a node has the others: cluster/operator.rs.
    let rows = rows.filter(|name| !name.starts_with("cluster_"));
    assert_eq!(names, rows.collect::<Vec<_>>());
    let settings = server.connect().ask("stats settings");
    assert!(settings.contains("STAT durability always\r\n"), "{settings}");
    assert!(
        settings.contains("STAT reads_by ring\r\n")
            || settings.contains("STAT reads_by threads\r\n")
    );
}

/// 50 clients' counts of one key, at the durability that waits for the device.
#[test]
fn changes_that_wait_together_share_a_sync() {
    let server = Server::start(Program::Store, &[]);
    let mut first = server.connect();
    assert_eq!(first.set("n", b"0"), "STORED\r\n");
    let before: u64 = first.stat_word("stats store", "syncs").parse().expect("a number");
    let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for _ in 0..4 {
        clients.iter_mut().for_each(|client| client.send(b"incr n 1\r\n"));
        for client in &mut clients {
            while client.read_exact(1) != b"\n" {}
        }
    }
    assert_eq!(first.get("n").as_deref(), Some(&b"200"[..]));
    let after: u64 = first.stat_word("stats store", "syncs").parse().expect("a number");
    assert!(after > before, "they are synced");
    assert!(after - before < 100, "{} syncs of 200 changes", after - before);
}

/// Each flush is durable before it is answered. A queue of them took a sync each, for minutes after their clients had gone.
#[test]
fn flushes_that_wait_share_a_sync_and_those_of_clients_that_go_end_with_them() {
    let server = Server::start(Program::Store, &[]);
    let mut client = server.connect();
    let syncs = |client: &mut Client| -> u64 {
        client.stat_word("stats store", "syncs").parse().expect("a number")
    };
    assert_eq!(client.set("before", b"v"), "STORED\r\n");
    let before = syncs(&mut client);
    let flushes = 2000;
    client.send("flush_all\r\n".repeat(flushes).as_bytes());
    assert_eq!(client.read_exact(4 * flushes), b"OK\r\n".repeat(flushes));
    let shared = syncs(&mut client) - before;
    assert!((1..500).contains(&shared), "{shared} syncs of {flushes} flushes");
    assert_eq!(client.get("before"), None);
    // Sets between them begin after the flush before them, and before the one behind.
    client.send("flush_all\r\nset between 0 0 1\r\nv\r\n".repeat(500).as_bytes());
    assert_eq!(client.read_exact(12 * 500), b"OK\r\nSTORED\r\n".repeat(500));
    assert_eq!(client.get("between").as_deref(), Some(&b"v"[..]));
    assert_eq!(client.ask("flush_all"), "OK\r\n");
    assert_eq!(client.get("between"), None);
    for _ in 0..4 {
        server.connect().send("flush_all\r\n".repeat(flushes).as_bytes());
    }
    eventually("the last of them are over", || {
        let wanted = format!("k{}", syncs(&mut client));
        client.set(&wanted, b"v") == "STORED\r\n"
            && client.stat("curr_connections") == 1
            && client.get(&wanted).is_some()
    });
    assert_eq!(client.set("after", b"v"), "STORED\r\n");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(client.get("after").as_deref(), Some(&b"v"[..]), "nobody flushes any more");
}

/// It kept everybody else from theirs for as long as it liked.
#[test]
fn a_list_that_its_client_does_not_read_gives_way_to_another() {
    let server = Server::start(Program::Store, &["--durability", "os"]);
    let mut client = server.connect();
    for part in 0..20 {
        let sets = (0..1000).map(|n| format!("set {part:0200}{n} 0 0 1 noreply\r\nv\r\n"));
        client.exchange(sets.collect::<String>().as_bytes());
    }
    let mut lazy = server.connect();
    lazy.send(b"lru_crawler metadump all\r\n");
    // Its own is the first.
    let mut told = lazy.read_exact(1);
    let list = |client: &mut Client| client.ask("lru_crawler metadump all");
    eventually("it is being made", || list(&mut client).starts_with("BUSY"));
    within(20, "another has its turn", || list(&mut client).lines().count() == 20_001);
    while !told.ends_with(b"SERVER_ERROR the list was given up: nothing of it was read\r\n") {
        told.extend(lazy.read_exact(1));
    }
    assert!(list(&mut lazy).ends_with("END\r\n"), "its connection is used on");
}

#[test]
fn a_client_that_is_closed_is_told_why() {
    let server = Server::start_tcp(Program::Store, &[]);
    let told = |sent: &[u8]| {
        let mut client = server.connect();
        client.send(sent);
        String::from_utf8_lossy(&client.read_to_end()).into_owned()
    };
    let binary = told(b"\x80\x0b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert!(binary.starts_with("CLIENT_ERROR the binary protocol is not spoken here"), "{binary}");
    let long = [&b"mg k v"[..], &b" O1234567890".repeat(20_000)].concat();
    for sent in [&long[..], &[b'x'; 2_000_000]] {
        let said = told(sent);
        assert!(said.ends_with("\r\n") && said.contains("ERROR"), "{said:?}");
    }
}

#[test]
fn what_a_store_will_take_is_told_in_words_and_in_json() {
    let plan = |flags: &str| {
        let mut command = Command::new(guira());
        let output = command.args(["store", "plan"]).args(flags.split(' ')).output();
        let output = output.expect("it runs");
        let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
        (output.status.code(), said)
    };
    let (code, said) = plan("--keys 100000000 --value-bytes 500 --changes-per-second 2000");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("\nwrite_amplification") && said.contains("\nlifetime_days"), "{said}");
    let (code, said) = plan("--keys 100000000 --value-bytes 500 --json");
    assert!(code == Some(0) && said.starts_with("{\"memory_bytes\":"), "{said}");
    let (code, said) = plan("--keys none --value-bytes 500");
    assert!(code != Some(0) && said.contains("--keys"), "{said}");
    let (code, said) = plan("--keys 100m --value-bytes 500");
    assert!(code == Some(0) && said.contains(" GiB  disk: the sum of"), "{said}");
}

/// 192.0.2.1 is for documents.
#[test]
fn an_address_that_the_machine_does_not_have_is_told_with_its_flag() {
    let (dir, port) = (own_directory(), free_port());
    let (store, number) = (dir.join("store").display().to_string(), port.to_string());
    let flags = ["-d", &store, "-p", &number, "-l", "192.0.2.1"];
    let started = Server::start_at(Program::Store, &flags, Address::Tcp(port));
    let refused = started.expect_err("no machine has it");
    let told = "this machine has no such address: choose one that it has (-l)";
    assert!(refused.said.contains(told), "{}", refused.said);
    fs::remove_dir_all(dir).expect("it is there");
}
