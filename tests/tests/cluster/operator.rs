//! What an operator does with a cluster of stores: `guira cluster plan`, `check`, `drain` and `set` with real nodes and a real
//! etcd, and what the nodes say of themselves in `stats cluster`.

use guira_tests::client::try_ask;
use guira_tests::replicas::{NAMES, Replicas, told};
use guira_tests::server::{Address, Program, Server, own_directory, within, workspace};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

/// The lines of `stats cluster` of a node.
fn stats(cluster: &Replicas, name: &str) -> BTreeMap<String, f64> {
    let told = try_ask(cluster.nodes[name].address(), "stats cluster\r\n").expect("it answers");
    let lines = told.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    // Who it is are texts.
    lines.map(|(name, value)| (name.to_owned(), value.parse().unwrap_or(f64::NAN))).collect()
}

/// The sum of a line over these nodes.
fn sum(cluster: &Replicas, names: &[&str], line: &str) -> f64 {
    names.iter().map(|name| stats(cluster, name)[line]).sum()
}

/// By how many hundredths of an equal share each node's heads and readers differ at most.
fn uneven(cluster: &Replicas, names: &[&str]) -> f64 {
    let share = 16_384.0 / f64::from(u32::try_from(names.len()).expect("few"));
    let lines = ["cluster_slots_head", "cluster_slots_reader"];
    let all = names.iter().flat_map(|name| lines.map(|line| stats(cluster, name)[line]));
    all.map(|slots| (slots - share).abs() / share * 100.0).fold(0.0, f64::max)
}

#[test]
fn heads_and_readers_are_spread_and_the_nodes_say_so() {
    let mut cluster = Replicas::start();
    for n in 0..300 {
        cluster.set(NAMES[n % 3], &format!("key-{n}"), &n.to_string());
    }
    cluster.until_spread();
    let path = workspace().join("docs/reference/store-statistics.md");
    let page = fs::read_to_string(path).expect("a page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: BTreeSet<&str> = rows.filter(|name| name.starts_with("cluster_")).collect();
    let told = stats(&cluster, "heron");
    assert_eq!(told.keys().map(String::as_str).collect::<BTreeSet<_>>(), rows);
    // The figures are a second old at most.
    let is_told = || {
        sum(&cluster, &NAMES, "cluster_slots_reader") == 16_384.0 && uneven(&cluster, &NAMES) < 8.0
    };
    within(20, "each node heads and reads a third", is_told);
    for n in 0..300 {
        assert_eq!(cluster.get(NAMES[(n + 1) % 3], &format!("key-{n}")), Some(n.to_string()));
    }
    let all = |line: &str| sum(&cluster, &NAMES, line);
    assert_eq!(all("cluster_slots_head"), 16_384.0);
    assert_eq!(all("cluster_slots_middle"), 16_384.0);
    assert_eq!(all("cluster_slots_syncing") + all("cluster_slots_joining"), 0.0);
    assert_eq!(all("cluster_copies_under_way_in") + all("cluster_copies_under_way_out"), 0.0);
    assert_eq!(all("cluster_is_leader"), 1.0);
    assert_eq!(all("cluster_is_member"), 3.0);
    within(20, "all promises are there", || sum(&cluster, &NAMES, "cluster_promises") == 6.0);
    // Each of the 300 changes went from the head to the next, and from there to the reader. The figures are a second old.
    within(20, "the changes are counted", || all("cluster_updates_sent") >= 600.0);
    within(20, "their arrival too", || all("cluster_updates_received") >= 600.0);
    assert!(all("cluster_acks_received") > 0.0);
    // Two copies of all, and what the turns copied.
    assert!(all("cluster_copied_slots_in") >= 32_768.0);

    let (code, said) = cluster.command("check", &[]);
    assert_eq!((code, said.contains("nothing was found")), (Some(0), true), "{said}");
    let (code, said) = cluster.command("check", &["--json"]);
    assert_eq!((code, said.contains("\"findings\": []")), (Some(0), true), "{said}");
    cluster.kill("ibis");
    let is_found = || {
        let (code, said) = cluster.command("check", &[]);
        let finds = |part: &str| said.contains(part);
        code == Some(3)
            && finds("2 nodes may have copies, and 3 copies are wanted")
            && finds("16384 slots have fewer than 3 living copies")
    };
    within(60, "the loss is found", is_found);
    let (code, said) = cluster.command("plan", &[]);
    assert_eq!(code, Some(0));
    assert!(
        said.contains("ibis") && said.contains("after 10 minutes other nodes get its copies"),
        "{said}"
    );
    cluster.begin("ibis");
    cluster.until_whole();
    cluster.until_spread();
    within(20, "heads and readers are even again", || uneven(&cluster, &NAMES) < 10.0);
    let copied = || stats(&cluster, "ibis")["cluster_copied_bytes_in"];
    // It was filled with all keys, of at least six bytes with their values.
    within(20, "copied bytes are counted", || copied() >= 300.0 * 6.0);
    let sent = || sum(&cluster, &["heron", "jay"], "cluster_copied_bytes_out");
    assert!(sent() >= copied(), "{} {}", sent(), copied());
}

/// Changes and reads keys until it is over. Returns the answers that were wrong or errors.
fn ask_on(
    address: &Address,
    (worker, is_over): (usize, &AtomicBool),
    done: &AtomicUsize,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for round in 0.. {
        if is_over.load(SeqCst) {
            break;
        }
        let key = round % 50;
        let value = round.to_string();
        let set = format!("set w{worker}-{key} 0 0 {}\r\n{value}\r\n", value.len());
        let told = try_ask(address, &set).unwrap_or_else(|| "no answer".to_owned());
        if told.trim() == "STORED" {
            last.insert(key, round);
        } else {
            wrong.push(format!("set: {told}"));
        }
        let read = (round * 7) % 50;
        let Some(value) = last.get(&read) else { continue };
        let told = try_ask(address, &format!("mg w{worker}-{read} v\r\n"));
        let told = told.unwrap_or_else(|| "no answer".to_owned());
        if told.lines().nth(1) != Some(&value.to_string()) {
            wrong.push(format!("get: {told}, and {value} was stored"));
        }
        done.fetch_add(1, SeqCst);
    }
    wrong
}

/// Ends the clients, also when the test fails: otherwise it would wait for them forever.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_node_comes_in_after_a_pause_and_another_is_drained_and_no_client_sees_an_error() {
    let mut cluster = Replicas::start();
    let (code, said) = cluster.command("drain", &["ibis"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("2 other nodes live that may have copies, and 3 copies are wanted"),
        "{said}"
    );
    a_pause_keeps_copies_where_they_are(&mut cluster);
    let (is_over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    let addresses = ["heron", "kite"].map(|name| cluster.nodes[name].address().clone());
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        for (worker, address) in addresses.iter().enumerate() {
            let (is_over, done, wrong) = (&is_over, &done, &wrong);
            scope.spawn(move || {
                let found = ask_on(address, (worker, is_over), done);
                wrong.lock().expect("no panic").extend(found);
            });
        }
        within(60, "clients are served", || done.load(SeqCst) > 50);
        let (code, said) = cluster.command("drain", &["ibis", "--wait", "0"]);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("still has copies of"), "{said}");
        let (_, said) = cluster.command("plan", &[]);
        assert!(said.contains("ibis"), "{said}");
        let (code, said) = cluster.command("drain", &["ibis", "--wait", "180"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(cluster.status().contains("\"is_drained\": true,\n      \"serving\": 0"));
        let before = done.load(SeqCst);
        within(60, "clients are served on", || done.load(SeqCst) > before + 50);
        let (code, said) = cluster.command("drain", &["ibis", "--undo"]);
        assert_eq!((code, said.contains("is not drained")), (Some(0), true), "{said}");
        within(60, "it gets slots", || {
            !cluster.status().contains("\"is_drained\": false,\n      \"serving\": 0")
        });
        cluster.until_spread();
        drop(ends);
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(
        wrong.is_empty(),
        "{} of {}: {:?}",
        wrong.len(),
        done.load(SeqCst),
        &wrong[..wrong.len().min(5)]
    );
    let names = ["heron", "ibis", "jay", "kite"];
    within(20, "all have their share", || uneven(&cluster, &names) < 12.0);
    a_change_that_waits_holds_up_no_other(&cluster);
    other_copies_are_wanted_at_once(&cluster);
}

fn a_pause_keeps_copies_where_they_are(cluster: &mut Replicas) {
    let (code, said) = cluster.command("set", &["--pause"]);
    assert_eq!((code, said.contains("paused: no copy is begun")), (Some(0), true), "{said}");
    cluster.add("kite");
    within(60, "kite is known", || cluster.status().contains("\"kite\""));
    let before = cluster.status().matches("\"syncing\": 0").count();
    assert_eq!(before, 4, "nothing is filled");
    let (_, said) = cluster.command("plan", &[]);
    assert!(said.contains("the operator paused it"), "{said}");
    assert_eq!(cluster.command("check", &[]).0, Some(3), "a pause is a finding");
    let (code, said) = cluster.command("set", &["--resume"]);
    assert_eq!((code, said.contains("3 copies of each slot\n")), (Some(0), true), "{said}");
    cluster.until_spread();
    assert!(cluster.slots_of("kite") > 0);
}

/// A router asks one node for both, on one thread: what waits for a node that hangs is passed by what doesn't.
fn a_change_that_waits_holds_up_no_other(cluster: &Replicas) {
    let place = cluster.place().replace("etcd:", "");
    // Who isn't answered within this time asks another node, on another connection.
    let route = format!(r#"{{"type": "ClusterRoute", "etcd": "{place}", "timeout_ms": 9000}}"#);
    let config = format!(r#"{{"route": {route}}}"#);
    let router = Server::start_router(&["--num-proxies", "1", "--config", &config]);
    let mut client = router.connect();
    assert_eq!(told(&mut client, "set probe 0 0 1\r\n1"), "STORED\r\n");
    let mut keys = |has_kite: bool, count: usize| -> Vec<String> {
        let of =
            |n: usize| (n, client.ask(&format!("get __mcrouter__.route_handles(set,key-{n})")));
        let is_it = |it: &(usize, String)| {
            let chain = it.1.split_once("|chain=").expect("a chain").1;
            let chain = chain.split('|').next().expect("names");
            chain.starts_with("heron>") && chain.contains(">kite") == has_kite
        };
        (0..300).map(of).filter(is_it).take(count).map(|it| format!("key-{}", it.0)).collect()
    };
    let (wait, passes) = (keys(true, 5), keys(false, 1));
    assert_eq!((wait.len(), passes.len()), (5, 1), "a hundred chains begin with heron");
    // Nobody is put out meanwhile.
    cluster.etcd.signal(Signal::STOP);
    cluster.nodes["kite"].signal(Signal::STOP);
    thread::scope(|scope| {
        let set = |key: &String| {
            let mut other = router.connect();
            let request = format!("set {key} 0 0 1\r\n1");
            scope.spawn(move || other.ask(&request))
        };
        let waiting: Vec<_> = wait.iter().map(set).collect();
        within(8, "they wait at heron", || stats(cluster, "heron")["cluster_lag_updates"] >= 5.0);
        assert_eq!(client.ask(&format!("set {} 0 0 1\r\n2", passes[0])), "STORED\r\n");
        assert!(!waiting.iter().any(|it| it.is_finished()), "kite has them not");
        cluster.nodes["kite"].signal(Signal::CONT);
        for it in waiting {
            assert_eq!(it.join().expect("an answer"), "STORED\r\n");
        }
    });
    cluster.etcd.signal(Signal::CONT);
    cluster.until_whole();
}

fn other_copies_are_wanted_at_once(cluster: &Replicas) {
    let epoch = |cluster: &Replicas| stats(cluster, "heron")["cluster_epoch"];
    let old = epoch(cluster);
    let (code, said) = cluster.command("set", &["--replicas", "2"]);
    assert_eq!((code, said.contains("2 copies of each slot\n")), (Some(0), true), "{said}");
    cluster.until_spread();
    assert!(cluster.status().contains("\"replicas\": 2"));
    let names = ["heron", "ibis", "jay", "kite"];
    within(20, "two copies of all", || {
        let served = ["head", "middle", "reader"]
            .map(|role| sum(cluster, &names, &format!("cluster_slots_{role}")));
        served == [16_384.0, 0.0, 16_384.0]
    });
    assert!(epoch(cluster) > old);
}

#[test]
fn who_else_answers_at_a_dead_nodes_address_is_not_taken_for_the_node() {
    let mut cluster = Replicas::start();
    let (port, directory) = (cluster.ports("jay")[0], own_directory());
    cluster.kill("jay");
    let (text, store) = (port.to_string(), directory.display().to_string());
    let alone = Server::start_at(Program::Store, &["-p", &text, "-d", &store], Address::Tcp(port));
    let alone = alone.expect("the port is free");
    let who = format!("is gone, and at 127.0.0.1:{port} answers no node of a cluster");
    for command in ["check", "status", "plan"] {
        within(60, command, || cluster.command(command, &[]).1.contains(&who));
    }
    drop(alone);
    cluster.begin("jay");
    cluster.until_whole();
    assert!(!cluster.command("check", &[]).1.contains("answers no node"));
    fs::remove_dir_all(directory).ok();
}
