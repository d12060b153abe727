//! Keys of nodes that are gone from etcd though the nodes live, real nodes, and a real etcd: nobody is put out of a chain.

use guira_tests::replicas::{NAMES, Replicas};
use guira_tests::server::{within, within_seldom};
use rustix::process::Signal;
use std::thread;
use std::time::Duration;

const VIEW: &str = "/guira/birds/view";

/// Waits until etcd has the keys of all nodes again and one leads, and for a while more, in which a leader would decide.
fn until_together(cluster: &Replicas) {
    within_seldom(60, "etcd has all keys again", || {
        let status = cluster.status();
        let has_leader = NAMES.iter().any(|it| status.contains(&format!("\"controller\": \"{it}")));
        has_leader && !status.contains("keyless") && status.contains("\"whole\": 16384")
    });
    thread::sleep(Duration::from_secs(5));
}

/// Has etcd hang for longer than leases last.
fn hang(cluster: &Replicas, meanwhile: impl FnOnce()) {
    cluster.etcd.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(8));
    meanwhile();
    late(cluster, || cluster.etcd.signal(Signal::CONT));
}

/// Has this happen, and one of the nodes hear of it later than the others.
fn late(cluster: &Replicas, happens: impl FnOnce()) {
    cluster.relays["jay"].cut(true);
    happens();
    thread::sleep(Duration::from_millis(1200));
    cluster.relays["jay"].cut(false);
}

#[test]
fn while_keys_of_nodes_that_live_are_gone_no_chain_changes() {
    let mut cluster = Replicas::start_relayed();
    cluster.set("heron", "k", "1");
    let view = cluster.etcd.value(VIEW);
    let changes = |cluster: &Replicas, what: &str| {
        until_together(cluster);
        let said: String = cluster.nodes.values().map(|node| node.said()).collect();
        assert_eq!(cluster.etcd.value(VIEW), view, "{what}: {said}");
        assert!(!said.contains("is put out of the chains"), "{what}: {said}");
    };
    hang(&cluster, || cluster.set("ibis", "k", "2"));
    let ended = "the node's lease in etcd has ended";
    within(60, ended, || cluster.nodes.values().all(|node| node.said().contains(ended)));
    changes(&cluster, "etcd hung");
    late(&cluster, || {
        assert!(cluster.etcd.ctl(&["del", "--prefix", "/guira/birds/nodes/"]));
    });
    changes(&cluster, "the nodes' keys were deleted");
    let ids = cluster.etcd.value("/guira/birds/ids");
    assert!(cluster.etcd.ctl(&["del", "--prefix", "/guira/birds/"]));
    let lost = "etcd has lost the cluster birds";
    within(60, lost, || cluster.nodes.values().all(|node| node.said().contains(lost)));
    cluster.etcd.put(VIEW, &view);
    cluster.etcd.put("/guira/birds/ids", &ids);
    changes(&cluster, "all keys were deleted, and the view was put back");
    // One that dies while etcd hangs is put out.
    cluster.etcd.signal(Signal::STOP);
    cluster.kill("jay");
    thread::sleep(Duration::from_secs(8));
    cluster.etcd.signal(Signal::CONT);
    cluster.until("\"degraded\": 16384,\n    \"read_only\": 0");
    cluster.set("heron", "k", "3");
    assert_eq!(cluster.get("ibis", "k").as_deref(), Some("3"));
}
