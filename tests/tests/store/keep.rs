//! What `guira store` keeps: over stops and kills, on a full disk, beside others' files.

use guira_tests::client::Client;
use guira_tests::metrics::get_http;
use guira_tests::server::{
    Address, OwnDirectory, Program, Server, command, eventually, free_port, guira, within,
};
use rustix::process::Signal;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A directory that outlives its servers.
struct Folder(OwnDirectory);

impl Folder {
    fn new() -> Self {
        Self(OwnDirectory::new())
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    fn start(&self, flags: &[&str]) -> Server {
        let directory = self.store().display().to_string();
        Server::start(Program::Store, &[&["-d", &directory], flags].concat())
    }

    /// Runs a subcommand on the store.
    fn tool(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(guira());
        command.args(["store", name]).args(arguments).arg("-d").arg(self.store());
        command.output().expect("it runs")
    }
}

fn end(server: &mut Server, signal: Signal) {
    server.signal(signal);
    assert!(server.ended_within(30).is_some(), "{signal:?} ends it: {}", server.said());
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

#[test]
fn items_are_there_again_after_each_way_to_stop_and_after_a_kill() {
    let folder = Folder::new();
    let large = vec![b'x'; 300_000];
    let mut server = folder.start(&["--durability", "interval:1000"]);
    let mut client = server.connect();
    client.set("large", &large);
    client
        .exchange(b"set marked 7 900 1\r\nm\r\nset touched 0 0 1\r\nt\r\nset short 0 1 1\r\ns\r\n");
    let unique = client.ask("gets touched");
    assert_eq!(client.ask("touch touched 500"), "TOUCHED\r\n");
    for (number, signal) in (1_u32..).zip([Signal::TERM, Signal::INT, Signal::USR1, Signal::KILL]) {
        assert_eq!(server.connect().set(&format!("k{number}"), b"v"), "STORED\r\n");
        end(&mut server, signal);
        server = folder
            .start(&[["--durability", "always"], ["--durability", "os"]][number as usize % 2]);
        let mut client = server.connect();
        assert_eq!(client.get("large"), Some(large.clone()), "{signal:?}");
        for n in 1..=number {
            assert_eq!(client.get(&format!("k{n}")).as_deref(), Some(&b"v"[..]), "{signal:?}: {n}");
        }
        assert_eq!(client.ask("get marked"), "VALUE marked 7 1\r\nm\r\nEND\r\n");
        assert_eq!(client.ask("gets touched"), unique, "a touch and a restart keep the unique");
        let left = |line: String| line.trim_start_matches("HD t").trim_end().parse::<u32>();
        assert!(left(client.ask("mg marked t")).is_ok_and(|s| (700..=900).contains(&s)));
        assert!(left(client.ask("mg touched t")).is_ok_and(|s| (300..=500).contains(&s)));
    }
    eventually("what expires is gone", || server.connect().get("short").is_none());
    assert_eq!(server.connect().ask("flush_all"), "OK\r\n");
    server.connect().set("after", b"a");
    end(&mut server, Signal::KILL);
    server = folder.start(&[]);
    assert_eq!(server.connect().get("large"), None, "it was flushed");
    assert_eq!(server.connect().get("after").as_deref(), Some(&b"a"[..]));
}

/// What a client wrote, as far as it was answered.
#[derive(Default)]
struct Written {
    /// `None`: deleted.
    values: HashMap<String, Option<String>>,
    /// Sent, and not answered.
    in_flight: Option<(String, Option<String>)>,
    answered: u64,
}

const WRITERS: u64 = 4;
const KEYS: u64 = 40;

/// Writes, deletes and counts until the server is gone.
fn write(socket: &Path, writer: u64, cycle: u64, written: &mut Written, counted: &AtomicU64) {
    let mut stream = BufReader::new(UnixStream::connect(socket).expect("it listens"));
    for n in 0.. {
        let key = format!("w{writer}k{}", (n * 7 + cycle) % KEYS);
        let value = (n % 5 != 4).then(|| {
            let long = if n % 31 == 0 { 20_000 } else { (n % 13) * 40 };
            format!("{cycle}.{n}.{}", "v".repeat(usize::try_from(long).expect("small")))
        });
        let request = match &value {
            Some(value) => format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()),
            None => format!("delete {key}\r\n"),
        };
        written.in_flight = Some((key.clone(), value.clone()));
        let Some(reply) = ask(&mut stream, &request) else { return };
        assert!(["STORED", "DELETED", "NOT_FOUND"].contains(&reply.trim()), "{reply}");
        written.in_flight = None;
        written.values.insert(key, value);
        written.answered += 1;
        let Some(reply) = ask(&mut stream, "incr counter 1\r\n") else { return };
        assert!(reply.trim().parse::<u64>().is_ok(), "{reply}");
        counted.fetch_add(1, Relaxed);
    }
}

fn ask(stream: &mut BufReader<UnixStream>, request: &str) -> Option<String> {
    stream.get_mut().write_all(request.as_bytes()).ok()?;
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    line.ends_with('\n').then_some(line)
}

/// Each key is what was answered last, or what was sent after that.
fn check(client: &mut Client, writer: u64, written: &mut Written) {
    for n in 0..KEYS {
        let key = format!("w{writer}k{n}");
        let found = client.get(&key).map(|value| String::from_utf8(value).expect("text"));
        let answered = written.values.get(&key).cloned().flatten();
        let sent = written.in_flight.clone().filter(|(sent, _)| *sent == key).map(|sent| sent.1);
        let is_right = found == answered || sent.as_ref() == Some(&found);
        assert!(
            is_right,
            "{key} is {found:.30?}, {answered:.30?} was answered and {sent:.30?} sent"
        );
        written.values.insert(key, found);
    }
}

/// `GUIRA_CRASHES` says how many: 4 take about two seconds.
#[test]
fn a_kill_under_load_loses_nothing_that_was_answered() {
    let crashes = std::env::var("GUIRA_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let folder = Folder::new();
    let mut written: Vec<Written> = (0..WRITERS).map(|_| Written::default()).collect();
    let mut total = 0;
    for cycle in 0..crashes {
        let durability = match cycle % 4 {
            2 => "interval:50",
            3 => "os",
            _ => "always",
        };
        let mut server = folder.start(&["--durability", durability]);
        let mut client = server.connect();
        for (writer, written) in (0..).zip(&mut written) {
            check(&mut client, writer, written);
        }
        client.ask("add counter 0 0 1\r\n0");
        let before: u64 = count(&mut client);
        // One of each writer may have been counted and not answered.
        assert!((total..=total + WRITERS * cycle).contains(&before), "{before}, not {total}");
        let counted = AtomicU64::new(0);
        let Address::Unix(socket) = server.address().clone() else { panic!("a socket") };
        thread::scope(|scope| {
            for (writer, written) in (0..).zip(&mut written) {
                let (socket, counted) = (&socket, &counted);
                scope.spawn(move || write(socket, writer, cycle, written, counted));
            }
            thread::sleep(Duration::from_millis(150 + 97 * (cycle % 5)));
            server.signal(Signal::KILL);
        });
        assert!(server.ended_within(10).is_some());
        total += counted.load(Relaxed);
    }
    let answered: u64 = written.iter().map(|it| it.answered).sum();
    assert!(answered > 10 * crashes, "{answered} changes in {crashes} cycles: nothing was tried");
    println!("{crashes} kills, {answered} changes and {total} increments were answered");
    let verified = folder.tool("verify", &[]);
    assert!(verified.status.success(), "{}", text(&verified));
}

fn count(client: &mut Client) -> u64 {
    let value = client.get("counter").expect("it was added");
    String::from_utf8(value).expect("text").parse().expect("a number")
}

#[test]
fn a_store_has_one_process_and_its_files_are_its_owners_alone() {
    let folder = Folder::new();
    drop(folder.start(&[]));
    let fresh = folder.tool("verify", &[]);
    assert_eq!(text(&fresh), "nothing is stored yet: sound\n");
    let server = folder.start(&[]);
    server.connect().set("k", b"v");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder.store()), 0o700);
    for file in fs::read_dir(folder.store()).expect("a directory") {
        let path = file.expect("a file").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    let directory = folder.store().display().to_string();
    let refused = Server::try_start(Program::Store, &["-d", &directory]).expect_err("it is in use");
    assert_eq!(refused.status.and_then(|it| it.code()), Some(2), "{}", refused.said);
    let told = format!("guira store: {directory} is open in another process: stop that one first");
    assert!(refused.said.contains(&told), "{}", refused.said);
    for name in ["compact", "checkpoint"] {
        let to = folder.0.join("copy").display().to_string();
        let to = [to.as_str()];
        let output = folder.tool(name, if name == "checkpoint" { &to } else { &[] });
        assert_eq!(output.status.code(), Some(2), "{name}: {}", text(&output));
        assert!(text(&output).contains("is open in another process"), "{}", text(&output));
    }
    assert_eq!(server.connect().get("k").as_deref(), Some(&b"v"[..]), "the first one goes on");
}

#[test]
fn what_is_no_store_is_refused_and_left_as_it_was() {
    let refused = |directory: &Path| {
        let mut command = command(Program::Store);
        let output = command.arg("-d").arg(directory).args(["-p", "0"]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        text(&output)
    };
    let folder = Folder::new();
    fs::write(folder.0.join("thesis.tex"), "mine").expect("a file");
    let said = refused(folder.0.path());
    assert!(said.contains("has other files, such as thesis.tex, and no store"), "{said}");
    assert_eq!(
        fs::read_dir(folder.0.path()).expect("a directory").count(),
        1,
        "nothing was made there"
    );
    let said = refused(&folder.0.join("thesis.tex"));
    assert!(said.contains("can't read the directory") && said.contains("thesis.tex"), "{said}");
    let said = refused(Path::new("/proc/nothing/here"));
    assert!(
        said.contains("/proc/nothing/here can't be made, as there is no /proc/nothing"),
        "{said}"
    );
    for name in ["verify", "stats", "compact"] {
        let output = folder.tool(name, &[]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", text(&output));
        assert!(!folder.store().exists(), "{name} makes none: {}", text(&output));
    }
}

/// Flips a byte in the middle of each file, and one in its header, one after the other.
#[test]
fn damage_is_told_with_its_file_and_never_served() {
    let folder = Folder::new();
    let mut server = folder.start(&["--durability", "os"]);
    let value = |n: u32| format!("value {n} {}", "x".repeat(900)).into_bytes();
    let mut client = server.connect();
    (0..300).for_each(|n| drop(client.set(&format!("k{n}"), &value(n))));
    end(&mut server, Signal::TERM);
    let compacted = folder.tool("compact", &[]);
    assert!(compacted.status.success(), "{}", text(&compacted));
    let sound = folder.tool("verify", &[]);
    assert!(text(&sound).contains("bytes: sound"), "{}", text(&sound));
    let (mut told, mut named) = (0, 0);
    let files: Vec<_> = fs::read_dir(folder.store()).expect("a directory").flatten().collect();
    let names = files.iter().map(fs::DirEntry::file_name);
    // Logs and runs: those that hold values.
    let names = names.filter(|it| {
        it.as_encoded_bytes().starts_with(b"L-") || it.as_encoded_bytes().starts_with(b"R-")
    });
    for (file, is_header) in names.flat_map(|it| [(it.clone(), false), (it, true)]) {
        // A start removes files and makes others: each damage has a store of its own.
        let other = Folder::new();
        let copied = Command::new("cp").arg("-r").arg(folder.store()).arg(other.store()).status();
        assert!(copied.is_ok_and(|status| status.success()));
        let path = other.store().join(file);
        let mut bytes = fs::read(&path).expect("a file");
        let Some(at) = bytes.iter().rposition(|&byte| byte == b'x') else { continue };
        bytes[if is_header { 100 } else { at / 2 }] ^= 0x20;
        fs::write(&path, bytes).expect("a file");
        let output = other.tool("verify", &[]);
        // A log that was merged may still be there, and counts no more.
        let is_told = !output.status.success();
        if is_told {
            assert_eq!(output.status.code(), Some(2), "{}", text(&output));
            assert!(text(&output).contains(&path.display().to_string()), "{}", text(&output));
        }
        let directory = other.store().display().to_string();
        let started = Server::try_start(Program::Store, &["-d", &directory]);
        if let Err(refused) = &started {
            // A header, or by chance of the hash: the mark of the last flush_all would be in that block.
            let named_file = format!("damaged data: {} is corrupt at byte ", path.display());
            assert!(is_told && refused.said.contains(&named_file), "{}", refused.said);
            assert!(refused.said.contains("restore a copy"), "{}", refused.said);
            named += 1;
        }
        if let Ok(server) = started {
            let mut client = server.connect();
            let is_wrong = (0..300).filter(|&n| {
                let reply = client.ask(&format!("get k{n}"));
                let right = format!("VALUE k{n} 0 {}\r\n", value(n).len());
                let is_damaged = reply.starts_with("SERVER_ERROR damaged data: ");
                !(reply.starts_with(&right) || is_told && is_damaged)
            });
            assert_eq!(is_wrong.count(), 0, "{}", path.display());
            if client.stat_word("stats store", "corrupt") != "0" {
                // One place, whoever meets it.
                let told = format!("ERROR damaged data: {} is corrupt at byte ", path.display());
                let count = || server.said().matches(&told).count();
                // Nobody who is answered waits for the log.
                eventually("the log has it", || count() > 0);
                assert!(count() <= 1, "{}", server.said());
                named += 1;
            }
        }
        told += usize::from(is_told);
    }
    assert!(told > 0 && named > 0, "{told} damages were told, {named} with their file");
}

#[test]
fn a_full_disk_takes_deletes_and_says_so_and_goes_on_with_room() {
    let folder = Folder::new();
    let directory = folder.store().display().to_string();
    // 304 MiB stay free for merges, and a log takes 16.
    let flags = ["-d", &directory, "--disk-max", "480m", "--durability", "os"];
    let http = free_port();
    let port = http.to_string();
    let with_http = [&flags[..], &["--http", &port]].concat();
    let server = Server::start(Program::Store, &with_http);
    let mut client = server.connect();
    let value = vec![b'x'; 1 << 20];
    let refused = (0..400).find(|n| {
        let reply = client.set(&format!("k{n}"), &value);
        assert!(reply == "STORED\r\n" || reply == "SERVER_ERROR out of disk\r\n", "{reply}");
        reply != "STORED\r\n"
    });
    let refused = refused.expect("no store has room for 400 MB there");
    assert!(refused > 16, "{refused} values");
    assert_eq!(client.get("k0").as_deref(), Some(&value[..]), "reads go on");
    assert!(client.stat_word("stats", "store_no_disk") != "0");
    eventually("the log has it", || server.said().contains("WARN out of disk: "));
    let free = client.stat_word("stats store", "disk_free_bytes").parse::<u64>().expect("bytes");
    assert!(free < 480 << 20, "{free} bytes are free, below the limit");
    assert!(server.said().contains("left below --disk-max, and "), "{}", server.said());
    assert!(get_http(http, "/readyz").0.contains("200"), "reads and deletes go on");
    for n in 0..refused {
        assert_eq!(client.ask(&format!("delete k{n}")), "DELETED\r\n", "{n}");
    }
    within(40, "there is room again, unasked", || client.set("k", &value) == "STORED\r\n");
    drop(server);
    let small = Server::start(Program::Store, &["-d", &directory, "--disk-max", "321m"]);
    eventually("the start says so", || small.said().contains("WARN out of disk: "));
    drop(small);
    for too_small in ["0", "320m"] {
        let flags = ["-d", &directory, "--disk-max", too_small];
        let refused = Server::try_start(Program::Store, &flags).expect_err("it takes no value");
        assert!(refused.said.contains("321m is the least"), "{}", refused.said);
    }
    let server = Server::start(Program::Store, &flags);
    let mut client = server.connect();
    assert_eq!(client.get("k").as_deref(), Some(&value[..]));
}

/// Directories have the names of the next runs.
#[test]
fn a_conversion_that_fails_is_told_in_the_log_and_tried_again() {
    let folder = Folder::new();
    let server = folder.start(&["--durability", "os"]);
    let mut client = server.connect();
    let in_the_way = (0..64).map(|n| folder.store().join(format!("R-{n:016x}")));
    let in_the_way: Vec<_> = in_the_way.filter(|path| fs::create_dir(path).is_ok()).collect();
    (0..40).for_each(|n| drop(client.set(&format!("k{n}"), &vec![b'x'; 1_000_000])));
    let told = "WARN sorting or merging failed, and is tried again: can't create ";
    eventually("the log has it", || server.said().contains(told));
    assert!(client.stat_word("stats store", "background_failures") != "0");
    in_the_way.iter().for_each(|path| fs::remove_dir(path).expect("it is empty"));
    eventually("it goes on", || client.stat_word("stats store", "conversions") != "0");
    assert_eq!(client.get("k0").map(|value| value.len()), Some(1_000_000));
}

#[test]
fn a_checkpoint_is_a_store_of_its_own_and_compaction_drops_what_is_dead() {
    let folder = Folder::new();
    let mut server = folder.start(&["--durability", "os"]);
    let mut client = server.connect();
    (0..200).for_each(|n| drop(client.set(&format!("k{n}"), &[b'v'; 1000])));
    (0..150).for_each(|n| drop(client.ask(&format!("delete k{n}"))));
    end(&mut server, Signal::TERM);
    let copy = folder.0.join("copy");
    let copied = folder.tool("checkpoint", &[copy.to_str().expect("text")]);
    assert!(copied.status.success(), "{}", text(&copied));
    let again = folder.tool("checkpoint", &[copy.to_str().expect("text")]);
    assert_eq!(again.status.code(), Some(2), "no copy is overwritten: {}", text(&again));
    assert!(text(&again).contains("copy has a store already: name a dir"), "{}", text(&again));
    let compacted = folder.tool("compact", &[]);
    assert!(text(&compacted).contains("50 now\n"), "{}", text(&compacted));
    assert!(text(&folder.tool("stats", &[])).contains("entries 50\n"));
    server = folder.start(&[]);
    server.connect().ask("flush_all");
    let of_copy = Server::start(Program::Store, &["-d", copy.to_str().expect("text")]);
    let mut client = of_copy.connect();
    assert_eq!((client.get("k149"), client.get("k150")), (None, Some(vec![b'v'; 1000])));
    assert_eq!(server.connect().get("k150"), None, "the other one was flushed");
}

/// A change that reads the device before it begins is overtaken neither by the client's gets nor by its later changes.
#[test]
fn a_get_sees_the_changes_that_its_client_sent_before_it() {
    let folder = Folder::new();
    let mut server = folder.start(&["--durability", "os"]);
    let fill: String = (0..300).map(|n| format!("set k{n} 0 0 3\r\n100\r\n")).collect();
    server.connect().exchange(fill.as_bytes());
    end(&mut server, Signal::TERM);
    let server = folder.start(&["--durability", "os"]);
    let mut client = server.connect();
    let cases = [
        ("delete K\r\nget K", "DELETED\r\nEND\r\n"),
        ("incr K 1\r\nget K", "101\r\nVALUE K 0 3\r\n101\r\nEND\r\n"),
        ("append K 0 0 1\r\n7\r\nmg K v", "STORED\r\nVA 4\r\n1007\r\n"),
        ("md K\r\nmg K v", "HD\r\nEN\r\n"),
        (
            "delete K\r\nset K 0 0 1\r\n5\r\nget K",
            "DELETED\r\nSTORED\r\nVALUE K 0 1\r\n5\r\nEND\r\n",
        ),
        (
            "delete nK\r\nset nK 0 0 1\r\n5\r\nget nK",
            "NOT_FOUND\r\nSTORED\r\nVALUE nK 0 1\r\n5\r\nEND\r\n",
        ),
    ];
    let mut wrong = Vec::new();
    for n in 0..300 {
        let (asked, wanted) = cases[n % cases.len()];
        let key = format!("k{n}");
        let told = client.ask(&asked.replace('K', &key));
        if told != wanted.replace('K', &key) {
            wrong.push(format!("{asked:?} of {key}: {told:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of 300, such as {}", wrong.len(), wrong[0]);
}
