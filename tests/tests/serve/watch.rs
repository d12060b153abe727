//! Watchers over sockets: the lines that they get, in memcached's format, and what happens to watchers that don't read.

use guira_tests::client::Client;
use guira_tests::server::{Program, Server};

/// A connection that watches, after its `OK`.
fn watcher(server: &Server, kinds: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("watch {kinds}\n").as_bytes());
    assert_eq!(client.read_exact(4), b"OK\r\n", "watch {kinds}");
    client
}

/// Reads the next line, and checks its time and its number. Returns the rest, from its type on.
fn next(watcher: &mut Client) -> String {
    let line = line(watcher);
    let (ts, rest) =
        line.strip_prefix("ts=").expect("a time").split_once(" gid=").expect("a number");
    let (gid, event) = rest.split_once(' ').expect("a type");
    let (seconds, micros) = ts.split_once('.').expect("microseconds");
    assert!(
        seconds.parse::<u64>().is_ok() && micros.len() == 6 && gid.parse::<u64>().is_ok(),
        "{line}"
    );
    event.to_owned()
}

fn line(watcher: &mut Client) -> String {
    let mut text = String::new();
    loop {
        match watcher.read_exact(1)[0] {
            b'\n' => return text,
            byte => text.push(char::from(byte)),
        }
    }
}

/// The line with the numbers of connection and class, which vary, as `N`.
fn masked(line: &str) -> String {
    let mask = |word: &str| match word.split_once('=') {
        Some((name @ ("cfd" | "clsid" | "rport"), number)) if number != "0" => {
            assert!(number.parse::<u32>().is_ok(), "{line}");
            format!("{name}=N")
        }
        _ => word.to_owned(),
    };
    line.split(' ').map(mask).collect::<Vec<_>>().join(" ")
}

#[test]
fn watchers_see_look_ups_stores_and_deletes_as_memcached_tells_them() {
    let server = Server::start(Program::Guira, &["-I", "2k"]);
    let mut client = server.connect();
    let mut all = watcher(&server, "fetchers mutations deletions");
    let mut deletions = watcher(&server, "deletions");
    let large = format!("set large 0 0 3000\r\n{}\r\n", "x".repeat(3000));
    for (request, want) in [
        ("get none\r\n", &["item_get key=none status=not_found clsid=0 cfd=N size=0"][..]),
        (
            "set k 0 0 4\r\nabcd\r\n",
            &[
                "item_get key=k status=not_found clsid=0 cfd=N size=0",
                "item_store key=k status=stored cmd=set ttl=0 clsid=N cfd=N size=4",
            ],
        ),
        (
            "add k 0 100 2\r\nxx\r\n",
            &[
                "item_get key=k status=found clsid=N cfd=N size=4",
                "item_store key=k status=not_stored cmd=add ttl=100 clsid=0 cfd=N size=2",
            ],
        ),
        (
            "cas k 0 0 2 999999\r\nxx\r\n",
            &[
                "item_get key=k status=found clsid=N cfd=N size=4",
                "item_store key=k status=exists cmd=cas ttl=0 clsid=0 cfd=N size=2",
            ],
        ),
        (
            "get k a%b\r\n",
            &[
                "item_get key=k status=found clsid=N cfd=N size=4",
                "item_get key=a%25b status=not_found clsid=0 cfd=N size=0",
            ],
        ),
        (&large, &["item_store key=large status=too_large cmd=set ttl=0 clsid=0 cfd=N size=3000"]),
        ("mg k v\r\n", &["item_get key=k status=found clsid=N cfd=N size=4"]),
        ("touch k 0\r\n", &["item_get key=k status=found clsid=N cfd=N size=4"]),
        (
            "md k\r\n",
            &[
                "item_get key=k status=found clsid=N cfd=N size=4",
                "deleted key=k cmd=md clsid=N size=4",
            ],
        ),
        ("delete k\r\n", &["item_get key=k status=not_found clsid=0 cfd=N size=0"]),
        (
            "ms c3BhY2UgYQ== 2 b\r\nhi\r\n",
            &[
                "item_get key=space%20a status=not_found clsid=0 cfd=N size=0",
                "item_store key=space%20a status=stored cmd=set ttl=0 clsid=N cfd=N size=2",
            ],
        ),
        (
            "md c3BhY2UgYQ== b\r\n",
            &[
                "item_get key=space%20a status=found clsid=N cfd=N size=2",
                "deleted key=space%20a cmd=md clsid=N size=2",
            ],
        ),
    ] {
        client.exchange(request.as_bytes());
        for want in want {
            assert_eq!(masked(&next(&mut all)), format!("type={want}"), "{request:?}");
        }
    }
    assert_eq!(masked(&next(&mut deletions)), "type=deleted key=k cmd=md clsid=N size=4");
    assert_eq!(masked(&next(&mut deletions)), "type=deleted key=space%20a cmd=md clsid=N size=2");
}

#[test]
fn a_bare_watch_is_for_fetchers_and_a_kind_may_be_cut_short() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    let (mut bare, mut short) = (watcher(&server, ""), watcher(&server, "mut"));
    client.exchange(b"set k 0 0 1\r\nx\r\n");
    assert!(next(&mut bare).starts_with("type=item_get key=k "));
    assert!(next(&mut short).starts_with("type=item_store key=k "));
    // The connection's number is that of stats conns.
    client.exchange(b"get k\r\n");
    let cfd = next(&mut bare).split("cfd=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(client.stat_word("stats conns", &format!("{cfd}:state")), "conn_parse_cmd");
    assert_eq!(client.ask("stats conns").matches("conn_watch").count(), 2);
}

#[test]
fn evictions_are_told_with_what_the_item_was() {
    let server = Server::start(Program::Guira, &["-m", "8", "-t", "2"]);
    let mut client = server.connect();
    let mut evictions = watcher(&server, "evictions");
    let value = "x".repeat(8000);
    for n in 0..2000 {
        client.send(format!("set key{n} 0 1000 8000 noreply\r\n{value}\r\n").as_bytes());
    }
    let line = next(&mut evictions);
    let words: Vec<_> = line.split(' ').map(|w| w.split_once('=').unwrap()).collect();
    let names: Vec<_> = words.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["type", "key", "fetch", "ttl", "la", "clsid", "size"]);
    let ttl: i64 = words[3].1.parse().unwrap();
    assert!(words[1].1.starts_with("key") && words[2].1 == "no" && words[6].1 == "8000", "{line}");
    assert!((900..=1000).contains(&ttl), "{line}");
    assert!(client.stat("evictions") > 0);
}

#[test]
fn connections_are_told_with_the_reason_of_their_end() {
    let server = Server::start_tcp(Program::Guira, &["-o", "idle_timeout=1"]);
    let mut watcher = watcher(&server, "connevents");
    // The end of the connection by which the start was seen may be told late.
    let mut event = |whose: &str| loop {
        let line = next(&mut watcher);
        if line.contains(whose) {
            assert!(
                line.contains(" rip=127.0.0.1 rport=") && line.contains(" transport=tcp "),
                "{line}"
            );
            return line;
        }
    };
    for (request, reason) in [
        (&b"quit\r\n"[..], "reason=normal"),
        (b"GET / HTTP/1.1\r\n", "reason=error"),
        (b"version\r\n", "reason=idle_timeout"),
    ] {
        let mut client = server.connect();
        client.send(request);
        let begun = event("type=conn_new ");
        let port = begun.split(' ').find(|word| word.starts_with("rport=")).expect("a port");
        client.read_to_end();
        let ended = event(&format!(" {port} "));
        assert!(ended.starts_with("type=conn_close ") && ended.contains(reason), "{ended}");
    }
}

#[test]
fn a_watcher_that_does_not_read_loses_lines_and_slows_nobody() {
    let server = Server::start(Program::Guira, &["-t", "1", "-o", "watcher_logbuf_size=8"]);
    let mut client = server.connect();
    let mut lazy = watcher(&server, "fetchers");
    let gets = format!("get {}\r\n", "k".repeat(240)).repeat(1000);
    while client.stat("log_watcher_skipped") == 0 {
        client.exchange(gets.as_bytes());
    }
    let (sent, skipped) = (client.stat("log_watcher_sent"), client.stat("log_watcher_skipped"));
    assert_eq!(client.stat("log_worker_written"), sent + skipped);
    let (mut seen, mut lost) = (0, 0);
    let mut read = |lazy: &mut Client| {
        let line = line(lazy);
        match line.strip_prefix("skipped=") {
            Some(number) => lost += number.parse::<u64>().unwrap(),
            None => seen += 1,
        }
        (seen, lost, line)
    };
    while read(&mut lazy).0 < sent {}
    client.exchange(b"get after\r\n");
    let (seen, lost, line) = loop {
        let (seen, lost, line) = read(&mut lazy);
        if line.contains("key=after ") {
            break (seen, lost, line);
        }
    };
    assert!(line.contains("type=item_get"));
    assert_eq!((seen, lost), (sent + 1, skipped));
}

#[test]
fn watchers_are_counted_limited_and_forgotten_when_they_go() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    let watchers: Vec<_> = (0..20).map(|_| watcher(&server, "evictions")).collect();
    assert_eq!(client.stat("log_watchers"), 20);
    assert_eq!(client.ask("watch fetchers"), "WATCHER_TOO_MANY log watcher limit reached\r\n");
    drop(watchers);
    while client.stat("log_watchers") > 0 {
        std::thread::yield_now();
    }
    let refused = client.exchange(b"mg k v\r\nwatch\r\n").bytes;
    assert_eq!(refused, b"EN\r\nERROR cannot pipeline other commands before watch\r\n");
    let deaf = Server::start(Program::Guira, &["-W"]);
    let answer = deaf.connect().ask("watch");
    assert_eq!(answer, "CLIENT_ERROR watch commands not allowed\r\n");
}

#[test]
fn what_a_watcher_says_is_ignored_and_a_stop_does_not_wait_for_it() {
    let mut server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    let mut watcher = watcher(&server, "fetchers");
    watcher.send(b"version\r\nquit\r\n");
    client.exchange(b"get k\r\n");
    assert!(next(&mut watcher).starts_with("type=item_get key=k "));
    drop(client);
    server.signal(rustix::process::Signal::USR1);
    assert!(server.ended_within(30).is_some_and(|status| status.success()));
}
