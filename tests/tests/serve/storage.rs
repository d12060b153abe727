//! Storage below memory (`-o ext_path`): the real binary with a file under it, its answers in order, its faults as misses.

use guira_tests::client::Client;
use guira_tests::server::{OwnDirectory, Program, Server, eventually, within};
use guira_tests::tmpfs::Tmpfs;
use guira_tests::torture::{Options, run};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A folder with the file of a server's storage, gone with it.
struct Below(OwnDirectory);

impl Below {
    fn new() -> Self {
        Self(OwnDirectory::new())
    }

    fn file(&self) -> PathBuf {
        self.0.join("below")
    }

    /// `ext_path` and settings for small tests.
    fn option(&self, more: &str) -> String {
        format!("ext_path={}:64m,ext_wbuf_size=2,ext_max_sleep=50000{more}", self.file().display())
    }
}

fn value(n: usize, bytes: usize) -> String {
    let mut value = String::new();
    while value.len() < bytes {
        let _ = write!(value, "{n}.{}.", value.len());
    }
    value.truncate(bytes);
    value
}

fn set(client: &mut Client, n: usize, bytes: usize) {
    let value = value(n, bytes);
    let stored = client.ask(&format!("set k{n} {n} 0 {bytes}\r\n{value}"));
    assert_eq!(stored, "STORED\r\n", "k{n}");
}

fn hit(n: usize, bytes: usize) -> String {
    format!("VALUE k{n} {n} {bytes}\r\n{}\r\n", value(n, bytes))
}

fn get(client: &mut Client, n: usize) -> String {
    client.ask(&format!("get k{n}"))
}

/// A server with little memory, and `keys` items of which most have gone to storage; none is in a write buffer any more.
///
/// A set removes another key's entry about once in so many thousand, and says so. Here nothing may be missing: where it
/// happened, a server with another seed takes its place.
fn filled(below: &Below, more: &str, keys: usize, bytes: usize) -> (Server, Client) {
    for _ in 0..10 {
        let option = below.option(more);
        let server = Server::start(Program::Guira, &["-m", "8", "-t", "2", "-o", &option]);
        let mut client = server.connect();
        for n in 0..keys {
            set(&mut client, n, bytes);
            if n % 100 == 0 {
                // The device isn't overtaken: eight buffers would be full, and items evicted.
                let is_written = |client: &mut Client| own(client, "flash_buffers_waiting") < 3;
                within(60, "the buffers are written", || is_written(&mut client));
            }
        }
        assert_eq!(client.stat("evictions"), 0, "items went to storage instead");
        assert!(client.stat("extstore_objects_written") > 0);
        if own(&mut client, "flash_forgotten") == 0 {
            return (server, client);
        }
    }
    panic!("each of ten servers has removed entries of other keys");
}

/// A number of `stats guira`.
fn own(client: &mut Client, name: &str) -> u64 {
    client.stat_word("stats guira", name).parse().expect("a number")
}

#[test]
fn what_memory_has_no_room_for_comes_back_byte_for_byte() {
    let below = Below::new();
    let (_server, mut client) = filled(&below, "", 3000, 10_000);
    for n in 0..3000 {
        assert_eq!(get(&mut client, n), hit(n, 10_000) + "END\r\n", "k{n}");
    }
    assert!(client.stat("get_extstore") > 1000, "most of it was stored");
    assert_eq!((client.stat("miss_from_extstore"), client.stat("get_misses")), (0, 0));
}

/// The last line of the log once counted the items in memory alone, though those in the file are lost as well.
#[test]
fn the_end_tells_that_what_is_in_the_file_is_gone_too() {
    let below = Below::new();
    let (mut server, _client) = filled(&below, "", 3000, 10_000);
    server.signal(Signal::TERM);
    assert!(server.ended_within(20).is_some_and(|status| status.success()));
    let said = server.said();
    let counts = said.split(" items are gone with it, and about ").nth(1).expect(&said);
    let stored = counts.split(" in storage").next().and_then(|n| n.parse::<u64>().ok());
    assert!(stored.is_some_and(|stored| (1000..3000).contains(&stored)), "{said}");
}

/// Nothing is lost without a word: what a get doesn't find was evicted because the device was overtaken, or was removed by
/// another key's set, and is counted.
#[test]
fn what_is_lost_when_the_device_is_overtaken_is_counted() {
    const KEYS: usize = 6000;
    let below = Below::new();
    let option = below.option("");
    let server = Server::start(Program::Guira, &["-m", "8", "-t", "2", "-o", &option]);
    let mut client = server.connect();
    let mut sets = String::new();
    for n in 0..KEYS {
        let _ = write!(sets, "set k{n} {n} 0 10000 noreply\r\n{}\r\n", value(n, 10_000));
    }
    client.send(sets.as_bytes());
    assert_eq!(get(&mut client, KEYS - 1), hit(KEYS - 1, 10_000) + "END\r\n");
    let counts = |client: &mut Client| {
        let [forgotten, crowded_out, no_buffer] = ["forgotten", "crowded_out", "no_buffer"]
            .map(|name| own(client, &format!("flash_{name}")));
        let evicted = client.stat("evictions");
        let with_pages = client.stat("extstore_objects_evicted");
        assert!(no_buffer >= evicted, "{no_buffer} of {evicted} found no buffer");
        forgotten + crowded_out + evicted + with_pages
    };
    let before = counts(&mut client);
    let found = hits(&mut client, KEYS, 10_000) as u64;
    let lost = counts(&mut client);
    assert_eq!(before, lost, "gets lose nothing");
    assert_eq!(KEYS as u64 - found, lost, "lost, and counted as lost");
    println!("{lost} of {KEYS} were lost");
}

/// The gets of such a crowd once held the memory that they had got, and waited for each other forever.
#[test]
fn a_crowd_that_asks_for_many_stored_items_at_once_is_answered() {
    let below = Below::new();
    let (server, mut client) = filled(&below, ",ext_recache_rate=0", 4000, 9_000);
    let ask = |mut client: Client, n: usize| {
        for round in 0..2 {
            let first = (n * 97 + round * 31) % 1500;
            let keys: Vec<_> = (first..first + 100).map(|n| format!("k{n}")).collect();
            let mut want = String::new();
            (first..first + 100).for_each(|n| want += &hit(n, 9_000));
            let got = client.exchange(format!("get {}\r\n", keys.join(" ")).as_bytes());
            assert!(got.bytes == (want + "END\r\n").as_bytes(), "client {n}, round {round}");
        }
    };
    std::thread::scope(|scope| {
        for n in 0..200 {
            let client = server.connect();
            scope.spawn(move || ask(client, n));
        }
    });
    assert_eq!(client.stat_word("stats guira", "flash_parked"), "0");
}

/// Where the kernel refuses `io_uring`, or is told not to be asked, threads read.
#[test]
fn threads_read_where_there_is_no_ring() {
    let below = Below::new();
    let (server, mut client) = filled(&below, ",ext_reads=threads,ext_threads=2", 2000, 8_000);
    assert_eq!(client.stat_word("stats guira", "flash_reads_by"), "threads");
    let mut other = server.connect();
    let keys: Vec<_> = (0..200).map(|n| format!("k{n}")).collect();
    other.send(format!("get {}\r\n", keys.join(" ")).as_bytes());
    assert_eq!(hits(&mut client, 2000, 8_000), 2000);
    let mut want = String::new();
    (0..200).for_each(|n| want += &hit(n, 8_000));
    assert!(other.exchange(b"").bytes == (want + "END\r\n").as_bytes());
    assert_eq!(client.stat("badcrc_from_extstore"), 0);
}

#[test]
fn only_what_was_hit_is_stored_where_that_is_asked_for() {
    let below = Below::new();
    let option = below.option(",ext_admit=hit");
    let server = Server::start(Program::Guira, &["-m", "8", "-t", "2", "-o", &option]);
    let mut client = server.connect();
    for n in 0..2000 {
        set(&mut client, n, 8_000);
        if n % 2 == 0 {
            get(&mut client, n);
        }
    }
    let stored: Vec<_> = (0..1000).filter(|&n| get(&mut client, n) != "END\r\n").collect();
    assert!(stored.len() > 100, "{}", stored.len());
    let odd = stored.iter().filter(|&n| n % 2 == 1).count();
    assert!(odd * 10 < stored.len(), "{odd} of {} were never hit before", stored.len());
    assert!(client.stat("evictions") > 100);
}

#[test]
fn who_watches_evictions_is_told_what_goes_to_storage() {
    let below = Below::new();
    let option = below.option("");
    let server = Server::start(Program::Guira, &["-m", "8", "-t", "2", "-o", &option]);
    let (mut client, mut watcher) = (server.connect(), server.connect());
    watcher.send(b"watch evictions\r\n");
    assert_eq!(watcher.read_exact(4), b"OK\r\n");
    std::thread::sleep(std::time::Duration::from_millis(300));
    for n in 0..2000 {
        set(&mut client, n, 8_000);
    }
    let line = String::from_utf8_lossy(&watcher.read_exact(120)).into_owned();
    assert!(line.contains(" type=extwrite key=k"), "{line}");
    assert!(line.contains(" fetch=no ttl=-1 la=") && line.contains(" bucket=0"), "{line}");
}

/// A write fails on a full device, and succeeds when there is room again.
#[test]
fn a_full_device_costs_items_and_nothing_else() {
    // All of the file fits in, once there is room.
    let tmpfs = Tmpfs::new(80);
    let option =
        format!("ext_path={}:64m,ext_wbuf_size=2,ext_max_sleep=50000", tmpfs.path("below"));
    let mut server = tmpfs.start(&["-m", "8", "-t", "2", "-o", &option]);
    tmpfs.fill();
    let mut client = server.connect();
    for n in 0..3000 {
        set(&mut client, n, 10_000);
    }
    eventually("it says so", || server.said().contains("storage can't be written"));
    let full = format!("{}: No space left on device", tmpfs.path("below"));
    assert!(server.said().contains(&full), "{}", server.said());
    assert!(server.said().contains("Make room on its file system"), "{}", server.said());
    assert!(!server.said().contains("are to take"), "there was room at the start");
    assert!(own(&mut client, "flash_write_errors") > 0);
    let found = hits(&mut client, 3000, 10_000);
    assert!(found < 3000 && client.stat("badcrc_from_extstore") == 0, "{found}");
    assert!(!server.said().contains("storage is written again"), "{}", server.said());
    tmpfs.make_room();
    within(60, "items are stored again", || {
        (0..1500).for_each(|n| set(&mut client, n, 10_000));
        hits(&mut client, 1500, 10_000) > 1200
    });
    assert_eq!(server.said().matches("storage can't be written").count(), 1, "{}", server.said());
    within(120, "it says that too", || {
        (0..1500).for_each(|n| set(&mut client, n, 10_000));
        server.said().contains("storage is written again")
    });
    assert!(server.is_running(), "{}", server.said());
}

#[test]
fn a_file_system_without_room_for_the_file_is_told_of_at_the_start() {
    let tmpfs = Tmpfs::new(40);
    let option = format!("ext_path={}:64m,ext_wbuf_size=2", tmpfs.path("below"));
    let server = tmpfs.start(&["-m", "8", "-t", "1", "-o", &option]);
    let told = "has 40 MiB left, and the files of ext_path are to take 64 more";
    eventually("it is told", || server.said().contains(told));
}

#[test]
fn replies_of_a_pipeline_keep_their_order_around_what_is_read() {
    let below = Below::new();
    let (server, client) = filled(&below, "", 2000, 8_000);
    // Other clients are served while one waits.
    let mut other = server.connect();
    let (mut asked, mut want) = (String::new(), String::new());
    for n in 0..400 {
        match n % 5 {
            0 => {
                let _ = write!(asked, "get k{n}\r\n");
                want += &(hit(n, 8_000) + "END\r\n");
            }
            1 => {
                let _ = write!(asked, "mg k{n} s f v\r\n");
                let _ = write!(want, "VA 8000 s8000 f{n}\r\n{}\r\n", value(n, 8_000));
            }
            2 => {
                let _ = write!(asked, "get none{n}\r\nmg none{n} v\r\n");
                want += "END\r\nEN\r\n";
            }
            3 => {
                let keys: Vec<_> = (n..n + 40).map(|n| format!("k{n}")).collect();
                let _ = write!(asked, "get {}\r\n", keys.join(" "));
                (n..n + 40).for_each(|n| want += &hit(n, 8_000));
                want += "END\r\n";
            }
            _ => {
                let _ = write!(asked, "set small{n} 0 0 2\r\nab\r\nget small{n}\r\n");
                let _ = write!(want, "STORED\r\nVALUE small{n} 0 2\r\nab\r\nEND\r\n");
            }
        }
    }
    std::thread::scope(|scope| {
        let busy = scope.spawn(move || {
            let mut client = client;
            client.exchange(asked.as_bytes()).bytes
        });
        for _ in 0..100 {
            assert_eq!(other.ask("get small_none"), "END\r\n");
        }
        let got = busy.join().unwrap();
        assert!(got == want.as_bytes(), "replies are out of order, or not whole");
    });
}

/// Whether a key's item is below memory: a get reads it there, and leaves it there.
fn is_stored(client: &mut Client, n: usize) -> bool {
    let before = client.stat("get_extstore");
    assert_eq!(get(client, n), hit(n, 8_000) + "END\r\n");
    client.stat("get_extstore") > before
}

#[test]
fn changes_of_stored_items_are_made_to_what_is_stored() {
    let below = Below::new();
    let (_server, mut c) = filled(&below, "", 2000, 8_000);
    // The first ones have gone down long ago.
    let unique = |c: &mut Client, n: usize| {
        let got = c.ask(&format!("gets k{n}"));
        got.split_whitespace().nth(4).expect(&got).to_owned()
    };
    let cas = unique(&mut c, 0);
    assert_eq!(c.ask(&format!("cas k0 0 0 3 {cas}9\r\nabc")), "EXISTS\r\n");
    assert_eq!(c.ask(&format!("cas k0 0 0 3 {cas}\r\nabc")), "STORED\r\n");
    assert_eq!(get(&mut c, 0), "VALUE k0 0 3\r\nabc\r\nEND\r\n");
    assert_eq!(c.ask("add k1 0 0 3\r\nabc"), "NOT_STORED\r\n");
    assert_eq!(get(&mut c, 1), hit(1, 8_000) + "END\r\n");
    assert_eq!(c.ask("replace k2 0 0 3\r\nabc"), "STORED\r\n");
    assert_eq!(get(&mut c, 2), "VALUE k2 0 3\r\nabc\r\nEND\r\n");
    let stored = (100..2000).find(|&n| is_stored(&mut c, n)).expect("most are");
    assert_eq!(c.ask(&format!("append k{stored} 0 0 3\r\nabc")), "NOT_STORED\r\n");
    assert_eq!(get(&mut c, stored), hit(stored, 8_000) + "END\r\n");
    assert_eq!(
        c.ask("incr k4 1"),
        "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
    );
    assert_eq!(c.ask("delete k5"), "DELETED\r\n");
    assert_eq!((get(&mut c, 5), c.ask("delete k5")), ("END\r\n".into(), "NOT_FOUND\r\n".into()));
    assert_eq!(c.ask("touch k6 100"), "TOUCHED\r\n");
    assert_eq!(c.ask("mg k6 t").split_whitespace().next(), Some("HD"));
    assert!(c.ask("mg k6 t").contains(" t"), "it has an end now");
    assert_eq!(c.ask("gat -1 k7"), hit(7, 8_000) + "END\r\n");
    assert_eq!(get(&mut c, 7), "END\r\n", "it has expired");
    assert_eq!(c.ask("md k8 I"), "HD\r\n");
    assert!(c.ask("mg k8 s").contains(" X"), "it is stale");
    assert_eq!(c.ask("set k9 0 0 3\r\nabc"), "STORED\r\n");
    assert_eq!(get(&mut c, 9), "VALUE k9 0 3\r\nabc\r\nEND\r\n");
    c.send(b"delete k10 noreply\r\nmd k11 q\r\n");
    assert_eq!((get(&mut c, 10), get(&mut c, 11)), ("END\r\n".into(), "END\r\n".into()));
    assert_eq!(c.ask("flush_all"), "OK\r\n");
    for n in 12..2000 {
        assert_eq!(get(&mut c, n), "END\r\n", "k{n} has outlived a flush");
    }
}

/// Waits until nothing waits to be written.
fn settle(file: &Path, bytes: u64) {
    eventually("the writer writes", || fs::metadata(file).is_ok_and(|m| m.blocks() * 512 >= bytes));
}

/// Gets all keys, and checks each value. Returns the number of hits.
fn hits(client: &mut Client, keys: usize, bytes: usize) -> usize {
    let mut hits = 0;
    for n in 0..keys {
        let got = get(client, n);
        if got != "END\r\n" {
            assert!(got == hit(n, bytes) + "END\r\n", "a wrong value of k{n}");
            hits += 1;
        }
    }
    hits
}

#[test]
fn flipped_bits_and_a_short_file_are_misses_and_never_lies() {
    let below = Below::new();
    let (mut server, mut client) = filled(&below, ",ext_recache_rate=0", 3000, 8_000);
    settle(&below.file(), 8 << 20);
    let file = OpenOptions::new().read(true).write(true).open(below.file()).unwrap();
    // A bit in each second block of what was written.
    for block in (0..2048).step_by(2) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, block * 4096 + 777).unwrap();
        file.write_all_at(&[byte[0] ^ 4], block * 4096 + 777).unwrap();
    }
    let before = hits(&mut client, 3000, 8_000);
    assert!(before < 2700, "flipped bits were read: {before}");
    assert!(client.stat("badcrc_from_extstore") > 100);
    // What can't be read any more is a miss, too.
    file.set_len(4 << 20).unwrap();
    let after = hits(&mut client, 3000, 8_000);
    assert!(after < before, "{after} of {before}");
    assert!(client.stat("miss_from_extstore") > 0);
    for n in 0..500 {
        set(&mut client, n, 8_000);
    }
    assert!(server.is_running(), "{}", server.said());
}

#[test]
fn a_killed_server_starts_with_empty_storage() {
    let below = Below::new();
    let (server, _) = filled(&below, "", 2000, 8_000);
    settle(&below.file(), 4 << 20);
    drop(server);
    let option = below.option("");
    let again = Server::start(Program::Guira, &["-m", "8", "-o", &option]);
    let mut client = again.connect();
    assert_eq!(hits(&mut client, 2000, 8_000), 0);
    assert_eq!(client.stat("extstore_objects_used"), 0);
    set(&mut client, 1, 8_000);
    assert_eq!(get(&mut client, 1), hit(1, 8_000) + "END\r\n");
}

#[test]
fn clients_that_go_while_they_wait_leave_nothing_behind() {
    let below = Below::new();
    let (mut server, mut client) = filled(&below, "", 2000, 8_000);
    for round in 0..50 {
        let mut gone = server.connect();
        let keys: Vec<_> = (0..50).map(|n| format!("k{}", (round * 37 + n * 13) % 2000)).collect();
        gone.send(format!("get {}\r\n", keys.join(" ")).as_bytes());
    }
    within(30, "no connection waits", || {
        client.stat_word("stats guira", "flash_parked") == "0"
            && client.stat("extstore_io_queue") == 0
    });
    assert_eq!(hits(&mut client, 2000, 8_000), 2000);
    assert!(server.is_running(), "{}", server.said());
}

#[test]
fn settings_change_while_it_serves_and_wrong_ones_are_refused() {
    let below = Below::new();
    let option = below.option("");
    let server = Server::start(Program::Guira, &["-m", "8", "-o", &option]);
    let mut client = server.connect();
    for (command, line, shown) in [
        ("item_size 700", "ext_item_size", "700"),
        ("item_age 5", "ext_item_age", "5"),
        ("max_frag 0.5", "ext_max_frag", "0.50"),
        ("drop_unread 1", "ext_drop_unread", "yes"),
    ] {
        assert_eq!(client.ask(&format!("extstore {command}")), "OK\r\n");
        assert_eq!(client.stat_word("stats settings", line), shown);
    }
    assert_eq!(client.ask("extstore nothing 1"), "ERROR\r\n");
    assert_eq!(client.stat_word("stats extstore", "0:version"), "0");
    let refused = |flags: &[&str]| Server::try_start(Program::Guira, flags).unwrap_err().said;
    let path = below.file().display().to_string();
    assert!(
        refused(&["-o", &format!("ext_path={path}:64m")])
            .contains("another process uses it: stop that one, or name another file")
    );
    let other = format!("ext_path={path}2");
    for (wrong, words) in [
        (format!("{other}:0m"), "the size is 0"),
        (format!("{other}:1GB"), "units m, g, t, p"),
        (format!("{other}:1g:cold"), "bucket"),
        (format!("{other}:1m"), "less than a page"),
        (format!("{other}:64m,{other}:64m"), "is given twice"),
        ("ext_path=/dev/null:64m".to_owned(), "it is no file"),
        ("ext_path=/proc/version:64m".to_owned(), "it is no file"),
    ] {
        let said = refused(&["-o", &wrong]);
        assert!(said.contains(words), "{wrong}: {said}");
    }
    assert!(refused(&["-U", "11999", "-o", &format!("{other}:64m")]).contains("UDP"));
    assert!(refused(&["-I", "8m", "-o", &format!("{other}:64m")]).contains("ext_wbuf_size"));
}

#[test]
fn it_tells_the_truth_under_pressure() {
    let below = Below::new();
    let option =
        below.option(",ext_item_size=100,ext_item_age=0,ext_recache_rate=2,ext_compact_under=4");
    let flags = ["-m", "8", "-t", "4", "-o", &option];
    let mut server = Server::start(Program::Guira, &flags);
    let options = Options {
        time: std::time::Duration::from_secs(8),
        value_bytes_max: 20_000,
        ..Options::default()
    };
    let report = run(server.address(), options);
    assert!(server.is_running(), "it died: {}", server.said());
    assert!(report.violations.is_empty(), "{report:#?}");
    let mut client = server.connect();
    let stored = client.stat("get_extstore");
    assert!(stored > 100, "only {stored} gets were answered from storage");
    println!("{report:?}, {stored} from storage");
}

#[test]
fn without_storage_there_are_no_lines_of_it() {
    let server = Server::start(Program::Guira, &["-m", "8"]);
    let mut client = server.connect();
    assert_eq!(client.ask("extstore item_age 1"), "ERROR\r\n");
    for command in ["stats", "stats settings", "stats guira", "stats extstore"] {
        let lines = client.ask(command);
        assert!(!lines.contains("extstore_") && !lines.contains("STAT ext_"), "{lines}");
        assert!(!lines.contains("flash_"), "{lines}");
    }
}
