//! The crawler's commands over sockets: listings in memcached's format, walks that take out the dead, and who waits
//! for whom.

use guira_tests::client::Client;
use guira_tests::packet::opcode::SET;
use guira_tests::packet::{Packet, Packets};
use guira_tests::server::{Program, Server};
use std::collections::BTreeMap;

fn serve(flags: &[&str]) -> Server {
    Server::start(Program::Guira, flags)
}

/// A listing, from its `OK` to its `end`, as lines.
fn dump(client: &mut Client, command: &str, end: &str) -> Vec<String> {
    client.send(format!("{command}\r\n").as_bytes());
    let mut text = String::from_utf8(client.read_exact(4)).expect("ASCII");
    assert_eq!(text, "OK\r\n", "{command}");
    while !text.ends_with(end) {
        text.push(char::from(client.read_exact(1)[0]));
    }
    text[4..text.len() - end.len()].lines().map(str::to_owned).collect()
}

fn metadump(client: &mut Client, what: &str) -> Vec<String> {
    dump(client, &format!("lru_crawler metadump {what}"), "END\r\n")
}

/// The words of a metadump's line by name.
fn words(line: &str) -> BTreeMap<&str, &str> {
    line.split_whitespace().map(|word| word.split_once('=').expect("name=value")).collect()
}

fn wait_for_the_crawler(client: &mut Client) {
    while client.stat("lru_crawler_running") == 1 {
        std::thread::yield_now();
    }
}

#[test]
fn a_metadump_lists_every_live_item_once_and_the_connection_goes_on() {
    let server = serve(&["-o", "relaxed_privileges"]);
    let mut client = server.connect();
    for n in 0..3000 {
        client.send(
            format!("set key{n} 5 0 {} noreply\r\n{}\r\n", n % 50, "v".repeat(n % 50)).as_bytes(),
        );
    }
    assert_eq!(client.set("large", &vec![b'x'; 300_000]), "STORED\r\n");
    client.exchange(b"set short 0 10 1\r\nx\r\n");
    client.exchange(b"set dead 0 -1 1\r\nx\r\n");
    for what in ["all", "hash"] {
        let lines = metadump(&mut client, what);
        assert_eq!(lines.len(), 3002, "{what}");
        let mut keys: Vec<_> = lines.iter().map(|line| words(line)["key"].to_owned()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 3002, "{what}: none twice");
    }
    assert_eq!(client.get("key7").unwrap(), b"vvvvvvv");
    client.ask("debugtime 20");
    assert_eq!(metadump(&mut client, "all").len(), 3001, "short has expired");
}

#[test]
fn a_metadump_line_has_memcacheds_words_in_its_order() {
    let server = serve(&[]);
    let mut client = server.connect();
    client.exchange(b"ms c3BhY2UgYQ== 2 b F7 T100 E99\r\nhi\r\n");
    client.exchange(b"set plain 0 0 2\r\nhi\r\n");
    client.get("plain");
    let mut lines = metadump(&mut client, "all");
    lines.sort_unstable();
    let names: Vec<_> = lines[0].split(' ').map(|word| word.split('=').next().unwrap()).collect();
    assert_eq!(names, ["key", "exp", "la", "cas", "fetch", "cls", "size", "flags", ""]);
    let (plain, binary) = (words(&lines[0]), words(&lines[1]));
    assert_eq!(
        (plain["key"], plain["exp"], plain["fetch"], plain["flags"]),
        ("plain", "-1", "yes", "0")
    );
    assert_eq!((binary["key"], binary["fetch"], binary["flags"]), ("space%20a", "no", "7"));
    assert_eq!(binary["cas"], "99");
    let number = |word: &str| word.parse::<u64>().unwrap();
    let (exp, la, now) = (number(binary["exp"]), number(binary["la"]), client.stat("time"));
    assert!((now + 90..=now + 101).contains(&exp) && (now - 10..=now).contains(&la), "{lines:?}");
    assert_eq!(dump(&mut client, "lru_crawler mgdump all", "EN\r\n").len(), 2);
    let gets = dump(&mut client, "lru_crawler mgdump hash", "EN\r\n");
    assert!(
        gets.contains(&"mg plain".to_owned()) && gets.contains(&"mg c3BhY2UgYQ== b".to_owned())
    );
}

#[test]
fn a_walk_takes_out_the_dead_of_the_classes_named_and_leaves_the_living() {
    let server = serve(&["-o", "relaxed_privileges,transient=0"]);
    let mut client = server.connect();
    for n in 0..100 {
        let exptime = if n % 4 == 0 { 5 } else { 0 };
        client.send(format!("set k{n} 0 {exptime} 2 noreply\r\nhi\r\n").as_bytes());
    }
    client.exchange(format!("set other 0 5 500\r\n{}\r\n", "x".repeat(500)).as_bytes());
    client.ask("debugtime 10");
    assert_eq!(client.stat("curr_items"), 101);
    let class =
        client.ask("me k1").split("cls=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(client.ask(&format!("lru_crawler crawl {class}")), "OK\r\n");
    wait_for_the_crawler(&mut client);
    assert_eq!((client.stat("curr_items"), client.stat("crawler_reclaimed")), (76, 25));
    assert_eq!(client.ask("lru_crawler crawl all"), "OK\r\n");
    wait_for_the_crawler(&mut client);
    assert_eq!((client.stat("curr_items"), client.stat("crawler_reclaimed")), (75, 26));
    assert_eq!(client.stat_word("stats items", &format!("items:{class}:crawler_reclaimed")), "25");
    assert_eq!(client.stat("lru_crawler_starts"), 2);
    assert_eq!(client.get("k1").unwrap(), b"hi");
}

#[test]
fn the_crawler_can_be_switched_and_tuned() {
    let server = serve(&["-o", "no_lru_crawler"]);
    let mut client = server.connect();
    for (command, answer) in [
        ("lru_crawler crawl 1", "CLIENT_ERROR lru crawler disabled\r\n"),
        ("lru_crawler metadump all", "CLIENT_ERROR lru crawler disabled\r\n"),
        ("lru_crawler enable", "OK\r\n"),
        ("lru_crawler enable", "ERROR failed to start lru crawler thread\r\n"),
        ("lru_crawler crawl hash", "ERROR an unknown error happened\r\n"),
        ("lru_crawler crawl 99", "BADCLASS invalid class id\r\n"),
        ("lru_crawler sleep 7", "OK\r\n"),
        ("lru_crawler tocrawl 9", "OK\r\n"),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
    }
    let setting = |client: &mut Client, name: &str| client.stat_word("stats settings", name);
    assert_eq!(setting(&mut client, "lru_crawler"), "yes");
    assert_eq!(setting(&mut client, "lru_crawler_sleep"), "7");
    assert_eq!(setting(&mut client, "lru_crawler_tocrawl"), "9");
    assert_eq!(client.ask("lru_crawler disable"), "OK\r\n");
    assert_eq!(setting(&mut client, "lru_crawler"), "no");
    assert!(!client.ask("stats").contains("lru_crawler_running"));
}

#[test]
fn a_listing_is_refused_behind_other_replies_and_where_dumps_are_off() {
    let server = serve(&[]);
    let mut client = server.connect();
    let reply =
        client.exchange(b"mg a v\r\nlru_crawler metadump all\r\nlru_crawler mgdump all\r\n");
    let refused = "EN\r\nERROR cannot pipeline other commands before metadump\r\n\
                   ERROR cannot pipeline other commands before mgdump\r\n";
    assert_eq!(String::from_utf8(reply.bytes).unwrap(), refused);
    // A request behind a listing is answered after it.
    client.exchange(b"set a 0 0 1\r\nx\r\n");
    client.send(b"lru_crawler mgdump all\r\nget a\r\n");
    assert_eq!(client.read_exact(35), b"OK\r\nmg a\r\nEN\r\nVALUE a 0 1\r\nx\r\nEND\r\n"[..35]);
    let server = serve(&["-X"]);
    let mut client = server.connect();
    assert_eq!(client.ask("lru_crawler metadump all"), "ERROR metadump not allowed\r\n");
    assert_eq!(client.ask("lru_crawler mgdump all"), "ERROR key dump not allowed\r\n");
}

#[test]
fn a_client_that_does_not_read_its_listing_holds_up_nobody_else() {
    let server = serve(&["-t", "1"]);
    let mut client = server.connect();
    let key = "k".repeat(200);
    for n in 0..40_000 {
        client.send(format!("set {key}{n} 0 0 1 noreply\r\nx\r\n").as_bytes());
    }
    assert_eq!(client.stat("curr_items"), 40_000);
    let mut lazy = server.connect();
    lazy.send(b"lru_crawler metadump all\r\n");
    while !client.ask("stats conns").contains("conn_mwrite") {
        std::thread::yield_now();
    }
    assert_eq!(
        client.ask("lru_crawler crawl all"),
        "BUSY currently processing crawler request\r\n"
    );
    assert!(client.get("other").is_none());
    // 10 MB of listing, of which some sit in the sockets' buffers.
    assert!(server.resident_bytes() < 200 << 20);
    drop(lazy);
    wait_for_the_crawler(&mut client);
    assert_eq!(client.ask("lru_crawler crawl all"), "OK\r\n");
}

#[test]
fn a_cachedump_lists_items_of_a_class_up_to_its_limit() {
    let server = serve(&[]);
    let mut client = server.connect();
    client.exchange(
        b"set foo 0 0 3\r\nbar\r\nset later 0 3600 3\r\nbar\r\nms c3BhY2UgYQ== 3 b\r\nbar\r\n",
    );
    let time = client.stat("time");
    let class =
        client.ask("me foo").split("cls=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(client.ask(&format!("stats cachedump {class} 100")).matches("ITEM ").count(), 2);
    let listed = client.ask(&format!("stats cachedump {class} 0"));
    assert!(listed.contains("ITEM foo [3 b; 0 s]\r\n") && listed.ends_with("END\r\n"), "{listed}");
    let later = listed.lines().find(|line| line.starts_with("ITEM later [3 b; ")).unwrap();
    let expiry: u64 = later["ITEM later [3 b; ".len()..].trim_end_matches(" s]").parse().unwrap();
    assert!((time + 3598..time + 3603).contains(&expiry), "{later}");
    assert_eq!(client.ask(&format!("stats cachedump {class} 1")).matches("ITEM ").count(), 1);
    assert_eq!(client.ask("stats cachedump 255 1"), "CLIENT_ERROR Illegal slab id\r\n");
}

#[test]
fn a_key_with_line_ends_passes_for_nothing_else_in_a_listing() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let server = Server::start(Program::Guira, flags);
        let mut client = server.connect();
        assert_eq!(client.ask("stats detail on"), "OK\r\n");
        client.set("plain", b"x");
        let mut binary = Packets::new(server.connect());
        let key = "a b\r\nEN\r\nmg forged\r\nEND\r\n:1";
        binary.ask(&Packet::store(SET, key, 0, 0, b"x"));
        let mut lines = dump(&mut client, "lru_crawler mgdump all", "EN\r\n");
        lines.sort_unstable();
        let base64 = "mg YSBiDQpFTg0KbWcgZm9yZ2VkDQpFTkQNCjox b";
        assert_eq!(lines, [base64, "mg plain"]);
        // A get with the listed key finds the item.
        assert!(client.ask(&format!("{base64} v")).starts_with("VA 1"), "the item");
        let metadump = metadump(&mut client, "all").join("\n");
        assert!(metadump.contains("key=a%20b%0D%0AEN"), "{metadump}");
        let classes = client.ask("stats items");
        let class = classes.split(':').nth(1).expect("a class").to_owned();
        let cachedump = client.ask(&format!("stats cachedump {class} 0"));
        assert!(cachedump.contains("ITEM plain [1 b; 0 s]\r\n"), "{cachedump}");
        assert!(!cachedump.contains("forged"), "{cachedump}");
        let detail = client.ask("stats detail dump");
        assert!(detail.contains("PREFIX a%20b%0D%0AEN"), "{detail}");
        assert!(!detail.contains("mg forged"), "{detail}");
    }
}
