//! Three nodes of `guira store --cluster` and a real etcd: they find each other, one that is killed is left out and filled again
//! once it is back, and nothing that was answered is lost. Nobody writes a view by hand.

use guira_tests::client::try_ask;
use guira_tests::etcd::Etcd;
use guira_tests::replicas::{NAMES, Replicas};
use guira_tests::server::{Address, free_port, guira, own_directory, within, within_seldom};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

#[test]
fn nodes_find_each_other_and_one_that_is_killed_is_filled_again() {
    let mut cluster = Replicas::start();
    let key = |n: usize| format!("key-{n}");
    for (n, name) in (0..100).zip(NAMES.iter().cycle()) {
        cluster.set(name, &key(n), "0");
    }
    cluster.kill("ibis");
    // A request waits for the next view, ten seconds at most.
    for (n, name) in (0..100).zip(["heron", "jay"].iter().cycle()) {
        assert_eq!(cluster.get(name, &key(n)).as_deref(), Some("0"), "{n} without it");
        cluster.set(name, &key(n), "1");
    }
    cluster.begin("ibis");
    cluster.until_whole();
    for n in 0..100 {
        assert_eq!(cluster.get("ibis", &key(n)).as_deref(), Some("1"), "{n} with it");
    }
    let put_out = "ibis (2) is put out of the chains of 16384 slots: ";
    let told: String = cluster.nodes.values().map(|node| node.said()).collect();
    assert!(told.contains(put_out), "the leader tells: {told}");
    let refused = |line: &&str| line.contains("ibis (2) is put out") && line.contains("refuses");
    assert!(told.lines().filter(refused).count() <= 1, "what its first process did: {told}");
    let said = cluster.nodes["jay"].said();
    assert!(said.contains("of the cluster \"birds\": this process is run "), "{said}");
    assert!(said.contains("the store was empty, and is node 3's of the cluster"), "{said}");
}

/// The nodes know what they had, so they neither serve another cluster's view nor write it.
#[test]
fn a_cluster_that_etcd_has_lost_serves_on_and_goes_on_once_its_view_is_put_back() {
    let mut cluster = Replicas::start();
    cluster.set("heron", "k", "1");
    cluster.etcd.lose_all();
    let all_say = |cluster: &Replicas, part: &str| {
        within(60, part, || cluster.nodes.values().all(|node| node.said().contains(part)));
    };
    all_say(&cluster, "etcd has lost the cluster birds: make no new one over it");
    cluster.set("ibis", "k", "2");
    let made = Command::new(guira()).args(["cluster", "init", &cluster.place()]).output();
    assert!(made.expect("guira runs").status.success());
    all_say(&cluster, "the cluster birds in etcd was made anew");
    assert_eq!(cluster.get("jay", "k").as_deref(), Some("2"));
    cluster.kill("jay");
    let refused = cluster.try_begin("jay").expect_err("it knows another cluster");
    assert!(refused.said.contains("docs/how-to/lost-etcd.md"), "{}", refused.said);
    // Time for a log that is flooded.
    thread::sleep(Duration::from_secs(4));
    assert!(cluster.status().contains("\"lost\": 16384"), "nobody has entered the new cluster");
    let (code, said) = rescue(&cluster);
    assert!(code == Some(2) && said.contains("another cluster of this name, made anew"), "{said}");
    assert!(cluster.etcd.ctl(&["del", "/guira/birds/view"]));
    let (code, said) = rescue(&cluster);
    assert!(code == Some(0) && said.contains("the newest of 3 copies"), "{said}");
    cluster.begin("jay");
    cluster.until_whole();
    let (code, said) = rescue(&cluster);
    assert!(code == Some(0) && said.contains("nothing is to be done"), "{said}");
    assert_eq!(cluster.get("jay", "k").as_deref(), Some("2"));
    for (name, node) in &cluster.nodes {
        let said = node.said();
        for part in ["this node leads", "etcd has lost", "was made anew"] {
            // One line of each thread that asks etcd.
            assert!(said.matches(part).count() <= 3, "{name}: {part}: {said}");
        }
    }
}

/// Puts the view back from the copies in the nodes' directories.
fn rescue(cluster: &Replicas) -> (Option<i32>, String) {
    let stores = NAMES.map(|name| cluster.store_of(name).display().to_string());
    cluster.command("rescue", &stores.each_ref().map(|it| &**it))
}

#[test]
fn a_cluster_without_etcds_data_and_without_a_process_goes_on_from_its_directories() {
    let mut cluster = Replicas::start();
    let key = |n: usize| format!("key-{n}");
    for (n, name) in (0..100).zip(NAMES.iter().cycle()) {
        cluster.set(name, &key(n), &n.to_string());
    }
    // So the copies differ: heron's is older than the others'.
    cluster.kill("heron");
    within(60, "others serve without it", || {
        cluster.nodes.values().any(|node| node.said().contains("heron (1) is put out"))
    });
    cluster.set("jay", "key-0", "newer");
    NAMES[1..].iter().for_each(|name| cluster.kill(name));
    cluster.etcd.lose_all();
    let refused = cluster.try_begin("jay").expect_err("etcd has no cluster");
    assert!(refused.said.contains("docs/how-to/lost-etcd.md"), "{}", refused.said);
    // Of the copy of one that died before, nobody who knows better believes anything.
    let older = cluster.store_of("heron").display().to_string();
    let (code, said) = cluster.command("rescue", &[&older]);
    assert_eq!(code, Some(0), "{said}");
    let refused = cluster.try_begin("jay").expect_err("its directory has a newer view");
    assert!(refused.said.contains("and this process knows epoch"), "{}", refused.said);
    let (code, said) = rescue(&cluster);
    assert!(code == Some(2) && said.contains("nothing was written"), "{said}");
    assert!(cluster.etcd.ctl(&["del", "/guira/birds/view"]));
    cluster.etcd.put("/guira/birds/wish", r#"{"replicas":3,"drain":[],"is_paused":true}"#);
    let (code, said) = rescue(&cluster);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("/store-heron/") && !said.contains("is lost"), "{said}");
    assert!(cluster.etcd.value("/guira/birds/wish").contains("true"), "what was wanted stays");
    assert_eq!(cluster.command("set", &["--resume"]).0, Some(0));
    let (code, said) = cluster.command("rescue", &[&older]);
    assert!(code == Some(2) && said.contains("there is nothing to put back"), "{said}");
    NAMES.iter().for_each(|name| cluster.begin(name));
    cluster.until_whole();
    assert_eq!(cluster.get("heron", "key-0").as_deref(), Some("newer"));
    for (n, name) in (1..100).zip(NAMES.iter().cycle()) {
        assert_eq!(cluster.get(name, &key(n)), Some(n.to_string()));
    }
}

#[test]
fn a_node_with_the_name_or_the_directory_of_one_that_lives_is_refused() {
    let cluster = Replicas::start();
    let directory = own_directory();
    let store = directory.join("store").display().to_string();
    let (place, peers) = (cluster.place(), format!("127.0.0.1:{}", free_port()));
    let flags = ["-d", &store, "-p", "0", "--cluster", &place, "--peers", &peers];
    let refused = |name: &str| {
        let mut command = Command::new(guira());
        let told = command.arg("store").args(flags).args(["--name", name]).output();
        let told = told.expect("guira runs");
        (told.status.code(), String::from_utf8_lossy(&told.stderr).into_owned())
    };
    let (code, said) = refused("jay 2");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a name has letters, digits") && !directory.join("store").exists());
    let ids = || cluster.etcd.value("/guira/birds/ids");
    let before = ids();
    let (code, said) = refused("jay");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("which lives, has the name jay"), "{said}");
    assert_eq!(ids(), before, "no number is used up");
    // What the refused process left is no store of any node.
    fs::remove_dir_all(directory.join("store")).expect("a directory");
    fs::create_dir(directory.join("store")).expect("a directory");
    for entry in fs::read_dir(cluster.store_of("jay")).expect("jay's directory") {
        let from = entry.expect("an entry").path();
        fs::copy(&from, directory.join("store").join(from.file_name().expect("a name")))
            .expect("a copy");
    }
    for name in ["jay", "owl"] {
        let (code, said) = refused(name);
        assert_eq!(code, Some(2), "{said}");
        let part = format!(
            "node 3 lives, and its process listens for other nodes at 127.0.0.1:{}",
            cluster.ports("jay")[1]
        );
        assert!(said.contains(&part), "{said}");
    }
    cluster.set("jay", "k", "serves");
    fs::remove_dir_all(directory).ok();
    nodes_whose_keys_are_gone_are_told_from_those_that_are(&cluster);
}

#[test]
fn a_node_that_finds_no_etcd_says_what_to_start_or_to_correct() {
    let directory = own_directory();
    let (store, peers) = (directory.join("store"), format!("127.0.0.1:{}", free_port()));
    let flags = ["-p", "0", "--cluster", "etcd:127.0.0.1:1/birds", "--peers", &peers];
    let mut command = Command::new(guira());
    let told = command.args(["store", "--name", "a", "-d"]).arg(&store).args(flags).output();
    let told = told.expect("guira runs");
    let said = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(2), "{said}");
    assert!(said.contains("doesn't answer") && said.contains("start etcd, or correct --cluster"));
    fs::remove_dir_all(directory).ok();
}

/// The nodes serve on without their keys, and write them again, whether or not their leases last.
fn nodes_whose_keys_are_gone_are_told_from_those_that_are(cluster: &Replicas) {
    for (command, code, parts) in [
        ("check", 3, ["heron (1) serves, but etcd has no key of it", "jay (3) serves, but"]),
        ("status", 0, ["keyless     node 2 (ibis) serves", "(of these 0 read-only, 0 without"]),
        (
            "plan",
            0,
            ["no change until etcd has keys of", "they serve, but etcd has no key of them"],
        ),
    ] {
        // The nodes write their keys again within a second or two, perhaps before the command looks.
        within_seldom(60, command, || {
            cluster.until_whole();
            assert!(cluster.etcd.ctl(&["del", "--prefix", "/guira/birds/nodes/"]));
            let (told, said) = cluster.command(command, &[]);
            let has_all = parts.iter().all(|part| said.contains(part));
            let calls_gone = said.contains("is gone") || said.contains("no living copy");
            told == Some(code) && has_all && !calls_gone
        });
    }
    within(60, "etcd has their keys", || !cluster.status().contains("keyless"));
    for (name, node) in &cluster.nodes {
        let said = node.said();
        assert!(said.contains("was deleted, or put without a lease"), "{name}: {said}");
    }
    cluster.etcd.revoke_leases();
    within(60, "the nodes tell", || {
        let tells = |said: &str| said.contains("the node's lease in etcd has ended: it lasts 3 s");
        cluster.nodes.values().all(|node| tells(&node.said()))
    });
    within(60, "etcd has their keys", || !cluster.status().contains("keyless"));
}

#[test]
fn a_cluster_whose_nodes_all_die_at_once_has_all_that_was_answered_once_they_are_back() {
    let mut cluster = Replicas::start();
    let key = |n: usize| format!("key-{n}");
    for (n, name) in (0..300).zip(NAMES.iter().cycle()) {
        cluster.set(name, &key(n), &n.to_string());
    }
    NAMES.iter().for_each(|name| cluster.kill(name));
    NAMES.iter().rev().for_each(|name| cluster.begin(name));
    cluster.until_whole();
    for (n, name) in (0..300).zip(NAMES.iter().cycle()) {
        assert_eq!(cluster.get(name, &key(n)), Some(n.to_string()));
    }
}

/// Each answer of an increment is a number that no other has, and none is lost, whoever dies.
#[test]
fn counts_have_one_order_while_two_nodes_are_killed_in_turn_and_come_back() {
    let mut cluster = Replicas::start();
    cluster.set("heron", "count", "0");
    let (is_over, high) = (AtomicBool::new(false), AtomicU64::new(0));
    let addresses: BTreeMap<_, _> =
        cluster.nodes.iter().map(|(name, node)| (*name, node.address().clone())).collect();
    let answered = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for address in addresses.values() {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    let before = high.load(SeqCst);
                    if let Some(number) = try_count(address) {
                        assert!(number > before, "{number}, after {before} was answered");
                        high.fetch_max(number, SeqCst);
                        answered.lock().expect("no panic").push(number);
                    }
                }
            });
        }
        let count_on = || {
            let before = answered.lock().expect("no panic").len();
            within(60, "counts", || answered.lock().expect("no panic").len() > before + 10);
        };
        for dead in ["jay", "heron"] {
            count_on();
            cluster.kill(dead);
            cluster.until("\"degraded\": 16384,\n    \"read_only\": 0");
            count_on();
            cluster.begin(dead);
            cluster.until_whole();
        }
        count_on();
        is_over.store(true, SeqCst);
    });
    let mut answered = answered.into_inner().expect("no panic");
    answered.sort_unstable();
    assert!(answered.windows(2).all(|two| two[0] < two[1]), "a number was answered twice");
    let last = cluster.get("ibis", "count").expect("it is there");
    assert!(last.parse::<u64>().expect("a number") >= answered[answered.len() - 1]);
}

/// The number that is answered, if the node is there and knows it.
fn try_count(address: &Address) -> Option<u64> {
    try_ask(address, "incr count 1\r\n")?.trim().parse().ok()
}

#[test]
fn what_cannot_join_says_what_to_do() {
    let etcd = Etcd::start();
    let directory = own_directory();
    let store = directory.join("store").display().to_string();
    let [place, birds] =
        ["none", "birds"].map(|name| format!("etcd:127.0.0.1:{}/{name}", etcd.port()));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = listener.local_addr().expect("a port").to_string();
    let free = format!("127.0.0.1:{}", free_port());
    let port = free.rsplit_once(':').expect("a port").1;
    let made = Command::new(guira()).args(["cluster", "init", &birds]).output();
    assert!(made.expect("guira runs").status.success());
    let cases: [(&[&str], &str); 11] = [
        (&["--cluster", &place, "--peers", &free], "If there was none: guira cluster init"),
        (&["--cluster", "etcd:127.0.0.1:1/x", "--peers", &free], "Connection refused"),
        (&["--cluster", "etcd:h/x", "--peers", &free], "write etcd:HOST:PORT/NAME"),
        (&["--cluster", &place], "--peers"),
        (&["--cluster", &place, "--peers", "0.0.0.0:11312"], "that other nodes reach"),
        (&["--cluster", &place, "--peers", "127.0.0.1:0"], "the port that other nodes reach"),
        (&["--cluster", &birds, "--peers", &taken], "name a free port of this machine"),
        (&["--cluster", &birds, "--peers", &free, "--name", "3"], "take it for a node's number"),
        (&["--cluster", &birds, "--peers", &free, "-p", port], "clients have this port"),
        (&["--peers", &free], "name the --cluster"),
        (&["--cluster", &birds, "--peers", &free, "--node", "4"], "cannot be used with"),
    ];
    for (flags, part) in cases {
        let mut command = Command::new(guira());
        command.args(["store", "-d", &store]).args(flags);
        if !flags.contains(&"-p") {
            command.args(["-p", "0"]);
        }
        let told = command.output();
        let told = told.expect("guira runs");
        let said = String::from_utf8_lossy(&told.stderr);
        assert!(!told.status.success() && said.contains(part), "{flags:?}: {said}");
    }
    fs::remove_dir_all(directory).ok();
}
