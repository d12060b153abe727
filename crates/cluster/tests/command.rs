//! Tests of `guira cluster` as a program, with a real etcd.

use guira_chain::{Member, NodeId, View};
use guira_cluster::{Present, Register, first_view};
use guira_etcd::{Etcd, EtcdAccess, EtcdPlace};
use guira_tests::etcd::Etcd as Server;
use guira_tests::server::guira;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs `guira cluster`. Returns the exit code, standard output and standard error.
fn cluster(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(guira()).arg("cluster").args(words).output().expect("guira runs");
    let [out, err] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    (output.status.code(), out, err)
}

#[test]
fn a_cluster_is_made_and_told_of() {
    let server = Server::start();
    let place = format!("etcd:127.0.0.1:{}/c1", server.port());
    let (code, _, said) = cluster(&["status", &place]);
    assert_eq!(code, Some(2));
    assert!(said.contains("there is no cluster c1. If there was one, make no new one"), "{said}");
    let (code, told, said) = cluster(&["init", &place, "--replicas", "2"]);
    assert_eq!((code, &*said), (Some(0), ""));
    assert!(told.contains("2 copies of each slot, 2 needed for a write"), "{told}");
    let (code, _, said) = cluster(&["init", &place]);
    assert_eq!(code, Some(2));
    assert!(said.contains("there is a cluster c1 already"), "{said}");

    let (_, told, _) = cluster(&["status", &place]);
    assert!(told.contains("no node yet: start one with guira store --cluster"), "{told}");
    assert!(!told.contains("gone") && !told.contains("degraded"), "nothing is broken: {told}");
    // As a controller writes it; nobody lives yet.
    server.put("/guira/c1/away/1", "{\"since\":1795894269}");
    let (_, told, _) = cluster(&["status", &place]);
    let away =
        "away        node 1 since 2026-11-28 19:31:09 UTC; given up at 2026-11-28 19:41:09 UTC";
    assert!(told.contains(away), "{told}");
    let (_, json, _) = cluster(&["status", &place, "--json"]);
    assert!(json.contains("\"given_up_at\": 1795894869"), "{json}");

    let register = Arc::new(Register::open(&place, EtcdAccess::default()).expect("a place"));
    let member = Member {
        name: "store-1".to_owned(),
        peers: "10.0.0.1:11312".to_owned(),
        clients: "10.0.0.1:11311".to_owned(),
        zone: "a".to_owned(),
        weight: 1,
        run: "9f3c".to_owned(),
    };
    let _present = Present::begin(register, 1, &member, 60).expect("etcd answers");
    let (code, told, _) = cluster(&["status", &place]);
    assert_eq!(code, Some(0));
    for line in [
        "cluster     c1, epoch 1",
        "controller  none: no node stands for election",
        "slots       0 whole, 16384 degraded (of these 0 read-only, 16384 without a living copy)",
        "1   store-1  10.0.0.1:11312  a     waiting  16384    16384  16384   0",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    assert!(!told.contains("away"), "{told}");
    let (code, json, _) = cluster(&["status", &place, "--json"]);
    assert_eq!(code, Some(0));
    for part in [r#""lost": 16384"#, r#""state": "waiting""#, r#""controller": null"#] {
        assert!(json.contains(part), "{part}\n{json}");
    }
}

fn raw(server: &Server) -> Etcd {
    let place = format!("etcd:127.0.0.1:{}/k", server.port());
    Etcd::new(&EtcdPlace::parse(&place).expect("a place"), EtcdAccess::default())
}

/// A node that lives, and does nothing.
fn present(register: &Arc<Register>, id: u32, name: &str) -> Present {
    let member = Member {
        name: name.to_owned(),
        peers: format!("10.0.0.{id}:11312"),
        clients: String::new(),
        zone: String::new(),
        weight: 1,
        run: format!("run-{id}"),
    };
    Present::begin(Arc::clone(register), id, &member, 60).expect("etcd answers")
}

/// What `words` say of the cluster at `place` has each of `parts`.
fn says(place: &str, words: &[&str], expected: i32, parts: &[&str]) {
    let words: Vec<&str> = [words[0], place].iter().chain(&words[1..]).copied().collect();
    let (code, told, said) = cluster(&words);
    assert_eq!(code, Some(expected), "{words:?}: {told}{said}");
    for part in parts {
        assert!(told.contains(part) || said.contains(part), "{words:?}: {part}\n{told}{said}");
    }
}

#[test]
fn a_plan_tells_what_the_next_view_does_and_what_is_waited_for() {
    let server = Server::start();
    let place = format!("etcd:127.0.0.1:{}/c1", server.port());
    says(&place, &["init"], 0, &[]);
    let register = Arc::new(Register::open(&place, EtcdAccess::default()).expect("a place"));
    let first = "the first node is waited for\n      because no node has ever entered";
    says(&place, &["plan"], 0, &["left        nothing is to be done", first]);
    let _first = present(&register, 1, "heron");
    let begins = "heron (1) begins anew with what its disk has: 16384 slots";
    says(&place, &["plan"], 0, &["next", begins, "1 copy of each slot at most"]);
    let _second = present(&register, 2, "ibis");
    let _third = present(&register, 3, "jay");
    // Two copies of all, and a third of them twice for heads and readers.
    says(&place, &["plan"], 0, &[begins, "ibis (2) becomes a member", "views, which begin 4"]);
    says(&place, &["set", "--pause"], 0, &["paused: no copy is begun"]);
    says(&place, &["plan"], 0, &["left        1 view, which begins 0", "set --resume goes on"]);
    says(
        &place,
        &["plan", "--json"],
        0,
        &["\"epoch\": 1", "\"copies\": 0", "\"slots\": \"0-16383\""],
    );
}

#[test]
fn wishes_are_written_if_they_can_be_granted() {
    let server = Server::start();
    let place = format!("etcd:127.0.0.1:{}/c1", server.port());
    says(&place, &["init", "--replicas", "2"], 0, &[]);
    let register = Arc::new(Register::open(&place, EtcdAccess::default()).expect("a place"));
    let wish = || register.snapshot().expect("etcd answers").wish;
    let _nodes = [(1, "heron"), (2, "ibis")].map(|(id, name)| present(&register, id, name));
    says(&place, &["drain", "kite"], 2, &["has no node kite: guira cluster status shows"]);
    says(&place, &["drain", "ibis"], 2, &["1 other node lives", "2 copies are wanted"]);
    assert!(wish().drain.is_empty());
    let _more = present(&register, 3, "jay");
    // Two nodes that start at the same moment may have one name. This one doesn't live, so nobody corrects its key.
    let second = r#"{"name": "jay", "peers": "10.0.0.4:11312", "weight": 1, "run": "run-4"}"#;
    server.put("/guira/c1/nodes/4", second);
    says(&place, &["drain", "jay"], 2, &["name one by its number, 3 (it lives) or 4 (it lives)"]);
    says(&place, &["drain", "1", "--wait", "0"], 3, &["copies of 16384 slots after 0 s"]);
    assert_eq!(wish().drain, [1].into());
    says(&place, &["drain", "3"], 0, &["jay (3) is drained: the copies of its 0 slots move"]);
    says(&place, &["drain", "4"], 2, &["1 other node lives"]);
    says(&place, &["drain", "heron", "--undo"], 0, &["heron (1) is not drained: it gets its"]);
    server.put("/guira/c1/restart", r#"{"1": "run-1"}"#);
    let other = format!("take that back: guira cluster restart {place} heron --undo");
    says(&place, &["drain", "heron", "--undo"], 1, &["it is to be restarted", &other]);
    says(&place, &["restart", "heron", "--undo"], 0, &["heron (1) stays"]);
    says(&place, &["drain", "heron", "--undo"], 0, &["heron (1) is not drained: it gets its"]);
    assert_eq!(wish().drain, [3].into());
    says(&place, &["set"], 1, &["--replicas"]);
    says(&place, &["set", "--replicas", "1"], 1, &["less than the 2 copies that a write needs"]);
    let few = "--replicas 9: only 4 nodes live, so a slot can have at most 4 copies";
    says(&place, &["set", "--replicas", "9"], 2, &[few, "start more nodes first"]);
    says(&place, &["set", "--replicas", "4", "--pause"], 0, &["4 copies of each slot; paused"]);
    says(&place, &["set", "--resume"], 0, &["4 copies of each slot\n"]);
    assert_eq!((wish().replicas, wish().is_paused), (4, false));
    assert_eq!(wish().drain, [3].into(), "the other wishes stay");
}

#[test]
fn a_check_names_what_is_wrong_and_what_helps() {
    let server = Server::start();
    let place = format!("etcd:127.0.0.1:{},127.0.0.1:1/c1", server.port());
    says(&place, &["init", "--replicas", "2"], 0, &[]);
    let register = Arc::new(Register::open(&place, EtcdAccess::default()).expect("a place"));
    let etcd = "problem     etcd at http://127.0.0.1:1 doesn't answer (Connection refused";
    let none = "no node has ever entered this cluster\n            start one: guira store";
    says(&place, &["check"], 3, &[etcd, "start that etcd", none]);
    let first = present(&register, 1, "heron");
    register.change_wish(|wish| wish.is_paused = true).expect("etcd answers");
    server.put("/guira/c1/nodes/x", "");
    server.put("/guira/c1/suspect/1/2", "run-1");
    let _second = present(&register, 2, "ibis");
    let paused = "no copy is begun: it is paused";
    let refuses =
        "nobody listens at 10.0.0.1:11312, where ibis (2) looked for heron (1): its process has";
    let all = ["no node leads", "a write needs all 2", "16384 slots have no living copy"];
    says(&place, &["check"], 3, &all);
    says(&place, &["check"], 3, &["the key nodes/x can't be read", paused, refuses]);
    drop(first);
    says(
        &place,
        &["check", "--json"],
        3,
        &["1 node may have copies, and 2", "\"grade\": \"problem\""],
    );
    // A leader that nobody can follow, since its key stays.
    server.put("/guira/c1/controller", "ibis");
    let unleased = "the key controller, of ibis, has no lease: once ibis doesn't lead, nobody does";
    let delete = format!("etcdctl --endpoints http://127.0.0.1:{}", server.port());
    says(&place, &["check"], 3, &[unleased, &delete, " del /guira/c1/controller: "]);
    // One that names nobody.
    server.put("/guira/c1/controller", "swift");
    let stray = "no node leads: the key controller names swift, which is no node, and has no lease; no view changes until it is deleted\n            etcdctl ";
    says(&place, &["check"], 3, &[stray, " del /guira/c1/controller: "]);
    says(&place, &["status"], 0, &["controller  none (the key names swift, which is no node)"]);
    says(&place, &["status", "--json"], 0, &["\"controller\": null"]);
    let undecided = "nothing is decided\n      because no node leads: the key controller names swift, which is no node, and has no lease";
    says(&place, &["plan"], 0, &["next, once a node leads", undecided]);
    assert!(server.ctl(&["del", "/guira/c1/controller"]));
    let lease = raw(&server).grant(60).expect("etcd answers").id;
    register.campaign("kite", lease).expect("etcd answers").expect("nobody leads");
    says(
        &place,
        &["check"],
        3,
        &["kite leads, and etcd has no key of a node of that name", &delete],
    );
}

/// A node's clients' port that says who it is and gives these answers, one to each connection, and the last one again and
/// again. An answer is the epoch that the node follows, and how many promises it lacks.
fn mouth(who: String, answers: &'static [(u64, u64)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("a port").to_string();
    thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a client");
            let lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
            let _ = lines.map_while(Result::ok).find(|line| line == "quit");
            let (epoch, missing) = answers[at.min(answers.len() - 1)];
            let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
            let numbers = [
                ("time", time),
                ("cluster_is_member", 1),
                ("cluster_epoch", epoch),
                ("cluster_promises_missing", missing),
            ];
            let said = numbers.map(|(name, number)| format!("STAT {name} {number}\r\n")).concat();
            stream.write_all((who.clone() + &said).as_bytes()).expect("it reads");
        }
    });
    address
}

/// What a node says of itself.
fn who(cluster: &str, id: &str, node: NodeId) -> String {
    format!(
        "STAT cluster_name {cluster}\r\nSTAT cluster_id {id}\r\nSTAT cluster_node {node}\r\nSTAT cluster_node_name kite\r\n"
    )
}

fn heron(clients: String) -> Member {
    let (name, peers) = ("heron".to_owned(), "127.0.0.1:1".to_owned());
    Member { name, peers, clients, zone: String::new(), weight: 1, run: "r".to_owned() }
}

#[test]
fn who_else_answers_at_a_nodes_address_is_told_and_not_taken_for_the_node() {
    let server = Server::start();
    let place = format!("etcd:127.0.0.1:{}/c1", server.port());
    let register = Arc::new(Register::open(&place, EtcdAccess::default()).expect("a place"));
    let first = first_view("c1", 1, 1).expect("a seed");
    let (id, other) = (first.id(), first_view("c1", 1, 1).expect("a seed").id());
    assert_ne!(id, other, "two clusters of one name");
    register.create(&first).expect("nobody has");
    let cases = [
        (who("c1", &id, 1), None),
        (who("c1", &id, 4), Some("node 4 (kite) of the cluster c1")),
        (who("c1", &other, 1), Some("node 1 (kite) of another cluster c1")),
        (who("c2", &other, 1), Some("node 1 (kite) of the cluster c2")),
        (String::new(), Some("no node of a cluster")),
    ];
    for (said, told) in cases {
        let clients = mouth(said, &[(2, 0)]);
        let told = told.map(|who| format!("at {clients} answers {who}"));
        let mut view = View { epoch: 2, ..first.clone() };
        view.nodes.insert(1, heron(clients.clone()));
        let put = raw(&server).put(b"/guira/c1/view", view.to_json().as_bytes(), None);
        put.expect("etcd answers");
        let all = |part: &str| {
            let said = ["check", "status", "plan"].map(|command| cluster(&[command, &place]).1);
            said.map(|said| said.contains(part))
        };
        match &told {
            None => {
                assert_eq!(all("serves, but etcd has no key of it"), [true; 3]);
                assert_eq!(all(" answers "), [false; 3]);
            }
            Some(who) => {
                assert_eq!(all("serves, but etcd has no key"), [false; 3], "{who}");
                assert_eq!(all(&format!("is gone, and {who}")), [true; 3], "{who}");
            }
        }
        // The same of a node that has a key.
        let present = Present::begin(Arc::clone(&register), 1, &heron(clients), 60);
        let present = present.expect("etcd answers");
        let (_, said, _) = cluster(&["check", &place]);
        let told = told.map(|who| format!("heron (1) has a key in etcd, and {who}"));
        assert_eq!(said.contains(" answers "), told.is_some(), "{said}");
        assert!(told.is_none_or(|told| said.contains(&told)), "{said}");
        drop(present);
    }
}

#[test]
fn a_check_tells_of_a_view_on_its_way_only_if_it_does_not_arrive() {
    let server = Server::start();
    let place = format!("etcd:127.0.0.1:{}/c1", server.port());
    let register = Arc::new(Register::open(&place, EtcdAccess::default()).expect("a place"));
    let mut view = View { epoch: 9, ..first_view("c1", 1, 1).expect("a seed") };
    let without_slots = Member {
        name: "jay".to_owned(),
        peers: "127.0.0.1:2".to_owned(),
        clients: mouth(who("c1", &view.id(), 2), &[(9, 0)]),
        zone: String::new(),
        weight: 1,
        run: "r".to_owned(),
    };
    view.nodes.insert(2, without_slots);
    register.create(&view).expect("nobody has");
    let lease = raw(&server).grant(60).expect("etcd answers").id;
    register.campaign("heron", lease).expect("etcd answers").expect("nobody leads");
    type Answers = &'static [(u64, u64)];
    let cases: [(Answers, [bool; 2]); 4] = [
        (&[(2, 3), (9, 0)], [false, false]),
        (&[(2, 0), (9, 3)], [false, false]),
        (&[(2, 3), (2, 0)], [true, false]),
        (&[(9, 3)], [false, true]),
    ];
    for (answers, expected) in cases {
        let member = heron(mouth(who("c1", &view.id(), 1), answers));
        let _node = Present::begin(Arc::clone(&register), 1, &member, 60).expect("etcd answers");
        let (_, told, _) = cluster(&["check", &place]);
        assert!(told.contains("; 1 node answered"), "{told}");
        assert!(told.contains("jay (2) has left all slots, but etcd has no key of it"), "{told}");
        let parts =
            ["heron (1) follows the view of epoch 2, not 9", "it lacks promises of 3 nodes"];
        assert_eq!(parts.map(|it| told.contains(it)), expected, "{answers:?}: {told}");
    }
}

/// Nodes that refuse what etcd has elect no leader. One epoch is enough, as nobody writes views meanwhile.
#[test]
fn without_a_leader_a_check_tells_which_view_nodes_follow() {
    let server = Server::start();
    let place = format!("etcd:127.0.0.1:{}/c1", server.port());
    let register = Arc::new(Register::open(&place, EtcdAccess::default()).expect("a place"));
    let view = View { epoch: 9, ..first_view("c1", 1, 1).expect("a seed") };
    register.create(&view).expect("nobody has");
    let member = heron(mouth(who("c1", &view.id(), 1), &[(8, 0)]));
    let _node = Present::begin(Arc::clone(&register), 1, &member, 60).expect("etcd answers");
    let follows = "no node leads: heron (1) follows the view of epoch 8, and not the one of epoch 9 that etcd has";
    says(&place, &["check"], 3, &[follows, "put the one of epoch 8 back"]);
}

/// What etcd's absence means for nodes stands in the answer, and no word of a library does.
#[test]
fn without_etcd_each_command_says_that_nodes_serve_on_and_what_helps() {
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mute = format!("127.0.0.1:{}", mute.local_addr().expect("a port").port());
    let serve_on = "is this etcd's address? If it is, nodes and routers go on by the view that they have, and no chain changes; start etcd, and don't restart nodes";
    let dead = "etcd at http://127.0.0.1:1 doesn't answer (Connection refused";
    let away = "etcd:127.0.0.1:1/c1";
    for command in ["status", "plan", "check"] {
        says(away, &[command], 2, &[dead, serve_on]);
    }
    says(away, &["check", "--json"], 2, &["\"epoch\": null", dead]);
    let (_, _, said) = cluster(&["init", away]);
    assert!(said.contains(dead) && !said.contains(serve_on), "{said}");
    assert!(said.contains("start etcd, or correct its address"), "{said}");
    let late = format!("etcd at http://{mute} doesn't answer (no answer came in time)");
    says(&format!("etcd:{mute}/c1"), &["status"], 2, &[&late, serve_on]);
    let both = [format!("problem     {late}"), format!("problem     {dead}")];
    let place = format!("etcd:{mute},127.0.0.1:1/c1");
    says(&place, &["check"], 2, &[&both[0], &both[1], "only etcd was asked"]);
}

#[test]
fn a_mistake_is_told_with_what_to_do() {
    let cases: [(&[&str], &str); 5] = [
        (&["status", "etcd:h/c1"], "write etcd:HOST:PORT/NAME"),
        (&["status", "etcd:h:1/a/b"], "a name has letters, digits"),
        (&["init", "etcds:h:1/c1"], "give --etcd-cacert FILE"),
        (&["init", "etcd:h:1/c1", "--replicas", "1", "--min-write", "2"], "no write would ever"),
        (&["init", "etcd:h:1/c1", "--replicas", "0"], "0 is not in 1..=16"),
    ];
    for (words, part) in cases {
        let (code, _, said) = cluster(words);
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(said.contains(part), "{words:?}: {said}");
    }
}
