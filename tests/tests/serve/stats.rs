//! What operators read: counters, settings, connections, prefixes.

use guira_tests::server::{Program, Server, eventually};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn gets_are_counted_by_key_hit_and_miss() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    client.ask("get a b c");
    client.set("a", b"x");
    client.ask("get a b");
    client.ask("gets a");
    assert_eq!(client.stat("cmd_get"), 6);
    assert_eq!(client.stat("get_hits"), 2);
    assert_eq!(client.stat("get_misses"), 4);
    assert_eq!(client.stat("cmd_set"), 1);
    assert_eq!(client.stat("curr_items"), 1);
    assert_eq!(client.stat("total_items"), 1);
}

#[test]
fn each_command_counts_its_hits_and_misses() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    for command in ["delete n", "incr n 1", "decr n 1", "touch n 0"] {
        client.ask(command);
    }
    client.exchange(b"cas n 0 0 1 5\r\n1\r\n");
    client.set("n", b"5");
    client.exchange(b"cas n 0 0 1 1\r\n1\r\n");
    for command in ["incr n 1", "decr n 1", "touch n 0", "gat 0 n", "delete n"] {
        client.ask(command);
    }
    for name in ["delete_misses", "incr_misses", "decr_misses", "cas_misses", "touch_misses"] {
        assert_eq!(client.stat(name), 1, "{name}");
    }
    for name in ["delete_hits", "incr_hits", "decr_hits", "cas_badval"] {
        assert_eq!(client.stat(name), 1, "{name}");
    }
    assert_eq!(client.stat("touch_hits"), 2);
    assert_eq!(client.stat("cmd_touch"), 3);
}

#[test]
fn reset_zeroes_counters_and_keeps_gauges() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    client.set("a", b"x");
    client.ask("get a b");
    assert_eq!(client.ask("stats reset"), "RESET\r\n");
    for name in ["get_hits", "get_misses", "cmd_get", "cmd_set", "total_items"] {
        assert_eq!(client.stat(name), 0, "{name}");
    }
    assert_eq!(client.stat("curr_items"), 1);
    assert!(client.stat("bytes") > 0);
}

#[test]
fn what_monitoring_reads_is_there_and_is_a_number() {
    let server = Server::start(Program::Guira, &["-m", "100", "-t", "2", "-c", "500"]);
    let mut client = server.connect();
    for name in [
        "pid",
        "uptime",
        "time",
        "pointer_size",
        "curr_connections",
        "total_connections",
        "max_connections",
        "rejected_connections",
        "connection_structures",
        "cmd_get",
        "cmd_set",
        "cmd_flush",
        "cmd_touch",
        "cmd_meta",
        "get_hits",
        "get_misses",
        "get_expired",
        "get_flushed",
        "delete_misses",
        "delete_hits",
        "incr_misses",
        "incr_hits",
        "decr_misses",
        "decr_hits",
        "cas_misses",
        "cas_hits",
        "cas_badval",
        "touch_hits",
        "touch_misses",
        "store_too_large",
        "store_no_memory",
        "auth_cmds",
        "auth_errors",
        "bytes_read",
        "bytes_written",
        "limit_maxbytes",
        "accepting_conns",
        "listen_disabled_num",
        "threads",
        "conn_yields",
        "hash_power_level",
        "hash_bytes",
        "hash_is_expanding",
        "bytes",
        "curr_items",
        "total_items",
        "expired_unfetched",
        "evicted_unfetched",
        "evictions",
        "reclaimed",
    ] {
        client.stat(name);
    }
    assert_eq!(client.stat("pid"), u64::from(server.pid()));
    assert_eq!(client.stat("limit_maxbytes"), 100 << 20);
    assert_eq!(client.stat("threads"), 2);
    for name in ["rusage_user", "rusage_system"] {
        let word = client.stat_word("stats", name);
        let micros = word.split_once('.').map(|(_, micros)| micros.len());
        assert_eq!(micros, Some(6), "{name} {word}");
    }
    assert!(client.stat_word("stats", "version").contains('.'));
}

#[test]
fn settings_tell_what_the_flags_said() {
    let flags = ["-m", "100", "-c", "333", "-t", "3", "-f", "1.5", "-n", "64", "-R", "7", "-C"];
    let more = ["-b", "77", "-M", "-F", "-A", "-a", "755"];
    let server = Server::start(Program::Guira, &[&flags[..], &more[..]].concat());
    let mut client = server.connect();
    for (name, want) in [
        ("maxbytes", "104857600"),
        ("maxconns", "333"),
        ("num_threads", "3"),
        ("growth_factor", "1.50"),
        ("chunk_size", "64"),
        ("reqs_per_event", "7"),
        ("cas_enabled", "no"),
        ("tcp_backlog", "77"),
        ("evictions", "off"),
        ("flush_enabled", "no"),
        ("shutdown_command", "yes"),
        ("umask", "755"),
        ("verbosity", "0"),
        ("binding_protocol", "auto-negotiate"),
        ("item_size_max", "1048576"),
        ("detail_enabled", "no"),
    ] {
        assert_eq!(client.stat_word("stats settings", name), want, "{name}");
    }
}

#[test]
fn settings_of_o_are_shown_as_they_were_typed_and_with_units() {
    let given = "lease_interval=3,lease_stale=4,lease_stale_size=2m,lease_keys=64,holdoff_keys=128,udp_budget=1m,\
                 transient=5,udp_writes,slab_automove_ratio=0.7,slab_automove_window=20,idle_timeout=7";
    let server = Server::start(Program::Guira, &["-m", "0.25g", "-o", given]);
    let mut client = server.connect();
    for (name, want) in [
        ("maxbytes", "268435456"),
        ("lease_interval", "3"),
        ("lease_stale", "4"),
        ("lease_stale_size", "2097152"),
        ("lease_keys", "64"),
        ("holdoff_keys", "128"),
        ("udp_budget", "1048576"),
        ("udp_writes", "yes"),
        ("transient", "5"),
        ("slab_automove_ratio", "0.70"),
        ("slab_automove_window", "20"),
        ("idle_timeout", "7"),
    ] {
        assert_eq!(client.stat_word("stats settings", name), want, "{name}");
    }
}

#[test]
fn prefixes_are_counted_while_detail_is_on() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    client.set("off:a", b"x");
    assert_eq!(client.ask("stats detail dump"), "END\r\n");
    assert_eq!(client.ask("stats detail on"), "OK\r\n");
    client.set("foo:123", b"x");
    client.ask("get foo:123");
    client.ask("get foo:124");
    client.ask("delete foo:125");
    assert_eq!(client.ask("stats detail dump"), "PREFIX foo get 2 hit 1 set 1 del 1\r\nEND\r\n");
    client.ask("get foo:123 bar:124 foo:123");
    let dump = client.ask("stats detail dump");
    assert!(dump.contains("PREFIX foo get 4 hit 3 set 1 del 1\r\n"), "{dump}");
    assert!(dump.contains("PREFIX bar get 1 hit 0 set 0 del 0\r\n"), "{dump}");
    // A storage command counts whatever becomes of it; the meta commands don't, as in memcached.
    let large = "x".repeat(2_000_000);
    let stores = format!(
        "set bad:a 0 0 1\r\nxx\r\nadd bad:b 0 0 2000000\r\n{large}\r\nms meta:a 1\r\nx\r\n"
    );
    client.exchange(stores.as_bytes());
    client.ask("mg meta:a v");
    let dump = client.ask("stats detail dump");
    assert!(dump.contains("PREFIX bad get 0 hit 0 set 2 del 0\r\n"), "{dump}");
    assert!(!dump.contains("PREFIX meta"), "{dump}");
    assert_eq!(client.ask("stats detail off"), "OK\r\n");
    client.ask("get foo:123");
    assert!(client.ask("stats detail dump").contains("PREFIX foo get 4 hit 3"));
}

/// A dump has each prefix once, in order. While another client's gets are counted, the counts only grow.
#[test]
fn a_dump_of_prefixes_is_whole_while_they_are_counted() {
    const PREFIXES: usize = 10_000;
    for flags in [&["-D", ":"][..], &["-D", ":", "-m", "1024"]] {
        let server = Server::start(Program::Guira, flags);
        let mut client = server.connect();
        let sets: String =
            (0..PREFIXES).map(|n| format!("set p{n:05}:x 0 0 1 noreply\r\nx\r\n")).collect();
        client.exchange(sets.as_bytes());
        let is_over = AtomicBool::new(false);
        let dumps: Vec<Vec<u64>> = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut counting = server.connect();
                // The number is bounded in case that the dumps never end.
                for round in 0..100_000 {
                    let from = round * 100 % PREFIXES;
                    let gets: String =
                        (from..from + 100).map(|n| format!("get p{n:05}:x\r\n")).collect();
                    counting.exchange(gets.as_bytes());
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let dumps = (0..10).map(|_| gets_by_prefix(&client.ask("stats detail dump"))).collect();
            is_over.store(true, Ordering::Relaxed);
            dumps
        });
        for (before, after) in dumps.iter().zip(&dumps[1..]) {
            assert_eq!(before.len(), PREFIXES);
            assert!(before.iter().zip(after).all(|(before, after)| before <= after));
        }
        let sums = dumps.iter().map(|gets| gets.iter().sum()).collect::<Vec<u64>>();
        assert!(sums[0] < sums[9], "nothing was counted meanwhile: {sums:?}");
    }
}

/// The gets of a dump of prefixes `p00000`, `p00001` …, each of which was set once and never missed.
fn gets_by_prefix(dump: &str) -> Vec<u64> {
    let lines = dump.strip_suffix("END\r\n").expect("a dump").lines().enumerate();
    let gets = lines.map(|(n, line)| {
        let gets = line.split(' ').nth(3).and_then(|gets| gets.parse().ok()).expect("a number");
        assert_eq!(line, format!("PREFIX p{n:05} get {gets} hit {gets} set 1 del 0"));
        gets
    });
    gets.collect()
}

#[test]
fn connections_are_listed_with_address_and_state() {
    let server = Server::start_tcp(Program::Guira, &[]);
    let mut client = server.connect();
    let mut waiting = server.connect();
    waiting.exchange(b"");
    waiting.send(b"set k 0 0 10\r\nabc");
    let mut listed = String::new();
    eventually("the value is waited for", || {
        listed = client.ask("stats conns");
        listed.contains(":state conn_nread\r\n")
    });
    assert!(listed.contains(":state conn_listening\r\n"), "{listed}");
    assert!(listed.contains(":state conn_parse_cmd\r\n"), "{listed}");
    assert!(listed.contains(":addr tcp:127.0.0.1:"), "{listed}");
    assert!(listed.contains(":listen_addr tcp:127.0.0.1:"), "{listed}");
    assert!(listed.contains(":secs_since_last_cmd 0\r\n"), "{listed}");
}

const HELD: [&str; 3] = ["unfinished_bytes", "unsent_bytes", "backlog_bytes"];

/// The value of one field of `stats conns`, for each client.
fn of_each(listed: &str, name: &str) -> Vec<usize> {
    let words = listed.lines().filter_map(|line| line.split_once(&format!(":{name} ")));
    words.map(|(_, number)| number.parse().expect(listed)).collect()
}

/// The sums are in `stats guira`: what one client holds must be found beside it.
#[test]
fn a_connection_is_listed_with_the_bytes_that_it_holds_of_each_budget() {
    for flags in [&[][..], &["-m", "64"], &["-m", "1024"]] {
        let server = Server::start(Program::Guira, flags);
        let (mut asking, mut idle) = (server.connect(), server.connect());
        let (mut slow, mut deaf) = (server.connect(), server.connect());
        idle.exchange(b"");
        assert_eq!(asking.set("large", &vec![b'l'; 900_000]), "STORED\r\n");
        slow.send(&[b"set k 0 0 500000\r\n", &[b'x'; 300_000][..]].concat());
        // More gets than are executed at once, whose replies it doesn't read.
        deaf.send(&b"get large\r\n".repeat(2000));
        for name in HELD {
            eventually(name, || {
                let sum: usize = asking.stat_word("stats guira", name).parse().unwrap();
                let held = of_each(&asking.ask("stats conns"), name);
                // One line for each client, and the first two hold nothing.
                let free = held.iter().filter(|&&bytes| bytes == 0).count();
                sum > 0 && held.len() == 4 && held.iter().sum::<usize>() == sum && free >= 2
            });
        }
        drop((slow, deaf));
        eventually("nobody holds anything", || {
            let listed = asking.ask("stats conns");
            HELD.iter().all(|name| of_each(&listed, name) == [0, 0])
        });
    }
}

#[test]
fn a_unix_socket_is_listed_by_its_path() {
    let server = Server::start(Program::Guira, &[]);
    let listed = server.connect().ask("stats conns");
    let path = server.dir().join("socket");
    assert!(listed.contains(&format!(":addr unix:{}\r\n", path.display())), "{listed}");
}

#[test]
fn connections_count_up_and_down() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    let mut others: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for other in &mut others {
        other.exchange(b"");
    }
    let with_others = client.stat("curr_connections");
    assert!(with_others >= 21);
    assert!(client.stat("total_connections") >= 21);
    drop(others);
    eventually("closed connections are counted no more", || {
        client.stat("curr_connections") <= with_others - 20
    });
}

#[test]
fn a_batch_longer_than_the_limit_yields() {
    let server = Server::start(Program::Guira, &["-R", "1"]);
    let mut client = server.connect();
    let line = "set foobar 0 0 5\r\nBubba\r\n".repeat(6);
    assert_eq!(client.exchange(line.as_bytes()).bytes, "STORED\r\n".repeat(6).as_bytes());
    assert!(client.stat("conn_yields") >= 5);
}

#[test]
fn slab_and_item_statistics_survive_values_of_all_sizes() {
    let server = Server::start(Program::Guira, &[]);
    let mut client = server.connect();
    for bits in 0..20 {
        client.set(&format!("k{bits}"), &vec![b'x'; 1 << bits]);
    }
    let slabs = client.ask("stats slabs");
    assert!(slabs.contains(":chunk_size ") && slabs.contains("STAT active_slabs "), "{slabs}");
    assert!(slabs.contains("STAT total_malloced "), "{slabs}");
    let items = client.ask("stats items");
    let counted: u64 = items
        .lines()
        .filter_map(|line| line.split_once(":number "))
        .map(|(_, n)| n.parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, 20, "{items}");
    assert_eq!(client.ask("stats sizes"), "STAT sizes_status disabled\r\nEND\r\n");
}
