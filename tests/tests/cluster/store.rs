//! Three nodes of `guira store --view` with one view: any node answers, a dead one loses nothing, a returned one is filled.

use guira_tests::client::try_ask;
use guira_tests::server::{Address, Program, Server, eventually, free_port, own_directory};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Nodes of one view file. Their directories outlive them.
struct Cluster {
    directory: PathBuf,
    ports: [u16; 3],
    nodes: BTreeMap<usize, Server>,
    runs: [String; 3],
    /// One cluster at a time: three nodes at once are enough for a machine with two processors.
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Cluster {
    /// Three nodes that serve in the order of their numbers.
    fn start() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = own_directory();
        let (ports, runs) = ([0; 3].map(|_| free_port()), Default::default());
        let mut cluster = Self { directory, ports, nodes: BTreeMap::new(), runs, _turn: turn };
        cluster.write(1, r#""serving":[1,2,3],"base":1"#);
        (1..=3).for_each(|node| cluster.begin(node));
        cluster.write(2, r#""serving":[1,2,3],"base":1"#);
        cluster.until_said(3, "epoch 2: node 3 is filled");
        cluster
    }

    fn view(&self) -> PathBuf {
        self.directory.join("view.json")
    }

    fn store(&self, node: usize) -> PathBuf {
        self.directory.join(format!("store-{node}"))
    }

    fn flags(&self, node: usize, directory: &Path) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let node = node.to_string();
        ["--view", &text(&self.view()), "--node", &node, "-d", &text(directory)]
            .map(str::to_owned)
            .to_vec()
    }

    /// Starts a node, which is a new process in the view's eyes.
    fn begin(&mut self, node: usize) {
        let (flags, socket) = (self.flags(node, &self.store(node)), format!("socket-{node}"));
        let socket = self.directory.join(socket);
        fs::remove_file(&socket).ok();
        let path = socket.display().to_string();
        let mut all = vec!["-s", &*path];
        all.extend(flags.iter().map(String::as_str));
        let server = Server::start_at(Program::Store, &all, Address::Unix(socket));
        let server = server.unwrap_or_else(|refused| panic!("{refused:?}"));
        eventually("its run", || server.said().contains("this process is run "));
        let said = server.said();
        let run = said.split("this process is run ").nth(1).expect("it says it");
        self.runs[node - 1] = run[..16].to_owned();
        self.nodes.insert(node, server);
    }

    /// Writes the view of an epoch, in which all slots have one chain.
    fn write(&self, epoch: u32, chain: &str) {
        self.put(&self.view_text(epoch, chain));
    }

    fn put(&self, view: &str) {
        let other = self.directory.join("view.new");
        fs::write(&other, view).expect("a file");
        fs::rename(other, self.view()).expect("it takes the place");
    }

    fn view_text(&self, epoch: u32, chain: &str) -> String {
        let mut nodes = String::new();
        for node in 1..=3 {
            let (port, run) = (self.ports[node - 1], &self.runs[node - 1]);
            let comma = if node == 1 { "" } else { "," };
            write!(
                nodes,
                r#"{comma}"{node}":{{"name":"store-{node}","peers":"127.0.0.1:{port}","weight":1,"run":"{run}"}}"#
            )
            .expect("a string");
        }
        format!(
            r#"{{"format":1,"cluster":"birds","epoch":{epoch},"seed":"c2VlZA==","replicas":3,"min_write":2,
               "nodes":{{{nodes}}},"groups":[{{"slots":"0-16383","epoch":{epoch},{chain}}}]}}"#
        )
    }

    fn until_said(&self, node: usize, words: &str) {
        eventually(words, || self.nodes[&node].said().contains(words));
    }

    fn ask(&self, node: usize, line: &str) -> String {
        self.nodes[&node].connect().ask(line)
    }

    fn set(&self, node: usize, key: &str, value: &str) -> String {
        self.nodes[&node].connect().set(key, value.as_bytes())
    }

    fn get(&self, node: usize, key: &str) -> Option<String> {
        let value = self.nodes[&node].connect().get(key)?;
        Some(String::from_utf8(value).expect("text"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        fs::remove_dir_all(&self.directory).ok();
    }
}

#[test]
fn any_node_answers_any_client() {
    let cluster = Cluster::start();
    for writer in 1..=3 {
        let key = format!("of {writer}").replace(' ', "-");
        assert_eq!(cluster.set(writer, &key, "new"), "STORED\r\n");
        for reader in 1..=3 {
            assert_eq!(cluster.get(reader, &key).as_deref(), Some("new"), "{writer} {reader}");
        }
    }
    let ask = |node, line: &str| cluster.ask(node, line);
    let exchange = |node: usize, bytes: &str| {
        let reply = cluster.nodes[&node].connect().exchange(bytes.as_bytes());
        String::from_utf8_lossy(&reply.bytes).into_owned()
    };
    assert_eq!(exchange(1, "add n 7 0 1\r\n5\r\n"), "STORED\r\n");
    assert_eq!(exchange(2, "add n 7 0 1\r\n5\r\n"), "NOT_STORED\r\n");
    assert_eq!(exchange(3, "replace none 0 0 1\r\n5\r\n"), "NOT_STORED\r\n");
    assert_eq!(ask(3, "incr n 10"), "15\r\n");
    assert_eq!(ask(1, "decr n 1"), "14\r\n");
    assert_eq!(exchange(2, "append n 0 0 1\r\n0\r\n"), "STORED\r\n");
    assert_eq!(exchange(2, "prepend n 0 0 1\r\n1\r\n"), "STORED\r\n");
    let seen = exchange(3, "gets n\r\n");
    let unique = seen.split_whitespace().nth(4).expect("a unique").to_owned();
    assert_eq!(seen, format!("VALUE n 7 4 {unique}\r\n1140\r\nEND\r\n"));
    let cas = format!("cas n 0 0 1 {unique}\r\nx\r\n");
    assert_eq!(exchange(1, &cas), "STORED\r\n");
    assert_eq!(exchange(2, &cas), "EXISTS\r\n");
    assert_eq!(ask(3, "touch n 900"), "TOUCHED\r\n");
    assert_eq!(exchange(1, "mg n v t f\r\n").lines().nth(1), Some("x"));
    assert_eq!(ask(2, "delete n"), "DELETED\r\n");
    assert_eq!(ask(3, "delete n"), "NOT_FOUND\r\n");
    assert_eq!(cluster.get(1, "n"), None);
    assert_eq!(exchange(1, "set gone 0 -1 1\r\n1\r\n"), "STORED\r\n");
    assert_eq!(cluster.get(2, "gone"), None);
    for unknown in ["flush_all", "gat 0 n", "mg n v T5", "md n I"] {
        let answer = ask(1, unknown);
        assert!(answer.starts_with("SERVER_ERROR a replicated store "), "{unknown}: {answer}");
    }
    // One client's requests for a key keep their order, whoever carries them out.
    let mut many = String::new();
    for n in 0..50 {
        write!(many, "set k 0 0 2\r\n{n:02}\r\nget k\r\n").expect("a string");
    }
    let expected: String =
        (0..50).map(|n| format!("STORED\r\nVALUE k 0 2\r\n{n:02}\r\nEND\r\n")).collect();
    assert_eq!(exchange(2, &many), expected);
}

/// The reader's clients don't wait for the thread of its slots, as `get_direct` shows. They see each change that was answered,
/// and a client's own requests keep their order.
#[test]
fn the_reader_answers_gets_at_once_and_each_shows_the_last_change() {
    let cluster = Cluster::start();
    let direct = |node: usize| cluster.nodes[&node].connect().stat("get_direct");
    let (mut writer, mut reader) = (cluster.nodes[&1].connect(), cluster.nodes[&3].connect());
    for n in 0..200 {
        let value = n.to_string();
        assert_eq!(writer.set("k", value.as_bytes()), "STORED\r\n");
        assert_eq!(reader.get("k"), Some(value.into_bytes()));
    }
    assert_eq!(writer.ask("delete k"), "DELETED\r\n");
    assert_eq!(reader.get("k"), None);
    // The reader may not have opened the slot yet when the head answers.
    assert_eq!(writer.set("k", b"left"), "STORED\r\n");
    let before = direct(3);
    eventually("answers at once", || {
        assert_eq!(reader.get("k").as_deref(), Some(&b"left"[..]));
        direct(3) > before
    });
    let before = direct(3);
    for _ in 0..100 {
        assert_eq!(reader.get("k").as_deref(), Some(&b"left"[..]));
    }
    let at_once = direct(3) - before;
    assert!(at_once > 50, "{at_once} of 100: the thread of the slots was asked for the others");
    assert_eq!(writer.get("k").as_deref(), Some(&b"left"[..]));
    assert_eq!(direct(1), 0, "the head asks the reader");
    for node in [1, 3] {
        let (mut asked, mut expected) = (String::new(), String::new());
        for n in 0..100 {
            write!(asked, "get k\r\nset k 0 0 2\r\n{n:02}\r\nget k\r\nmg k v q\r\n").expect("text");
            let old = if n == 0 { "left".to_owned() } else { format!("{:02}", n - 1) };
            let hit = |value: &str| format!("VALUE k 0 {}\r\n{value}\r\nEND\r\n", value.len());
            let new = format!("{n:02}");
            write!(expected, "{}STORED\r\n{}VA 2\r\n{new}\r\n", hit(&old), hit(&new))
                .expect("text");
        }
        let mut client = cluster.nodes[&node].connect();
        assert_eq!(String::from_utf8_lossy(&client.exchange(asked.as_bytes()).bytes), expected);
        assert_eq!(client.set("k", b"left"), "STORED\r\n");
    }
}

#[test]
fn a_dead_node_stops_its_chains_until_a_view_goes_on_without_it_and_nothing_is_lost() {
    let mut cluster = Cluster::start();
    let key = |n: usize| format!("key-{n}");
    for n in 0..100 {
        assert_eq!(cluster.set(1 + n % 3, &key(n), "1"), "STORED\r\n");
    }
    cluster.nodes[&3].signal(Signal::KILL);
    cluster.nodes.remove(&3);
    // The others may not know that it is dead: it is not theirs to say so.
    let refused = cluster.set(1, "late", "1");
    assert!(
        refused.starts_with("SERVER_ERROR slot ") && refused.ends_with("unknown\r\n"),
        "{refused}"
    );
    let refused = cluster.ask(2, "get key-1");
    assert!(refused.starts_with("SERVER_ERROR slot "), "{refused}");

    cluster.write(3, r#""serving":[1,2],"base":1,"past":[3]"#);
    cluster.until_said(2, "epoch 3: node 2 is the head of 0 slots, the reader of 16384");
    for n in 0..100 {
        assert_eq!(cluster.get(1 + n % 2, &key(n)).as_deref(), Some("1"), "{n}");
        assert_eq!(cluster.set(2 - n % 2, &key(n), "2"), "STORED\r\n", "{n}");
    }
    assert_eq!(cluster.ask(1, "delete key-0"), "DELETED\r\n");

    // It comes back with old data. No view names the new process: it has others answer.
    cluster.begin(3);
    assert_eq!(cluster.get(3, &key(1)).as_deref(), Some("2"));
    cluster.write(4, r#""serving":[1,2],"base":1,"past":[3],"syncing":[3],"attempt":4"#);
    cluster.until_said(3, "epoch 4: node 3 is filled");
    cluster.write(5, r#""serving":[1,2],"base":1,"past":[3],"joining":[3],"attempt":4"#);
    cluster.until_said(2, "epoch 5: those that join have all that node 2 has");
    cluster.write(6, r#""serving":[1,2,3],"base":1,"past":[2],"attempt":4"#);
    cluster.until_said(3, "epoch 6: node 3 is the head of 0 slots, the reader of 16384");
    // An older view, of a chain that is no more, changes nothing.
    cluster.write(3, r#""serving":[1,2],"base":1,"past":[3]"#);
    cluster.until_said(1, "the view of epoch 3 from the file isn't followed");
    cluster.nodes.remove(&1);
    cluster.write(7, r#""serving":[2,3],"past":[2],"attempt":4"#);
    cluster.until_said(2, "epoch 7: node 2 is the head of 16384 slots");
    assert_eq!(cluster.get(3, &key(0)), None, "it was deleted");
    for n in 1..100 {
        assert_eq!(cluster.get(2 + n % 2, &key(n)).as_deref(), Some("2"), "{n}");
    }
    assert_eq!(cluster.set(3, "late", "3"), "STORED\r\n");
}

/// Increments have one order: each answer is a number that no other has, and no read goes back.
#[test]
fn counts_through_all_nodes_have_one_order_while_the_reader_and_then_the_head_are_killed() {
    let cluster = Cluster::start();
    assert_eq!(cluster.set(1, "count", "0"), "STORED\r\n");
    let addresses: Vec<Address> = (1..=3).map(|n| cluster.nodes[&n].address().clone()).collect();
    let (is_over, high) = (AtomicBool::new(false), AtomicU64::new(0));
    let (told, unknown) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let client = |number: usize| {
        let mut turn = number;
        while !is_over.load(SeqCst) {
            turn += 1;
            let floor = high.load(SeqCst);
            let is_read = turn.is_multiple_of(2);
            let line = if is_read { "get count\r\n" } else { "incr count 1\r\n" };
            let Some(answer) = try_ask(&addresses[turn % 3], line) else { continue };
            let value = answer.lines().find_map(|line| line.parse::<u64>().ok());
            match value {
                Some(value) => {
                    assert!(!is_read || value >= floor, "{value} was read after {floor}");
                    high.fetch_max(value, SeqCst);
                    if !is_read {
                        told.lock().expect("no panic").push(value);
                    }
                }
                None if is_read => {}
                None => drop(unknown.fetch_add(1, SeqCst)),
            }
        }
    };
    let answered = |more: usize| {
        let before = told.lock().expect("no panic").len();
        eventually("increments", || told.lock().expect("no panic").len() > before + more);
    };
    thread::scope(|scope| {
        (0..4).for_each(|number| drop(scope.spawn(move || client(number))));
        answered(100);
        cluster.nodes[&3].signal(Signal::KILL);
        cluster.write(3, r#""serving":[1,2],"base":1,"past":[3]"#);
        answered(100);
        cluster.nodes[&1].signal(Signal::KILL);
        let alone = cluster.view_text(4, r#""serving":[2],"past":[3]"#);
        cluster.put(&alone.replace(r#""min_write":2"#, r#""min_write":1"#));
        answered(100);
        is_over.store(true, SeqCst);
    });
    let mut told = told.into_inner().expect("no panic");
    let (count, most) = (told.len() as u64, unknown.into_inner());
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len() as u64, count, "one number was told twice");
    let last: u64 = cluster.get(2, "count").expect("it is there").parse().expect("a number");
    assert!((count..=count + most).contains(&last), "{count} were told, {most} not: {last}");
}

#[test]
fn a_store_is_one_nodes_of_one_cluster() {
    let mut cluster = Cluster::start();
    cluster.nodes.clear();
    let refused = |flags: &[String]| {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Server::try_start(Program::Store, &flags).expect_err("it is refused").said
    };
    let directory = cluster.store(1);
    let plain = ["-d".to_owned(), directory.display().to_string()];
    assert!(refused(&plain).contains("the store is node 1's of the cluster \"birds\""));
    let other = refused(&cluster.flags(2, &directory));
    assert!(other.contains("the store is node 1's of the cluster \"birds\""), "{other}");
    let unknown = refused(&cluster.flags(4, &cluster.store(4)));
    assert!(unknown.contains("names no such node"), "{unknown}");
    let single = cluster.directory.join("single");
    let text = single.display().to_string();
    let mut server = Server::start(Program::Store, &["-d", &text]);
    assert_eq!(server.connect().set("a", b"1"), "STORED\r\n");
    server.signal(Signal::TERM);
    assert!(server.ended_within(30).is_some());
    let mixed = refused(&cluster.flags(3, &single));
    assert!(mixed.contains("isn't replicated"), "{mixed}");
}
