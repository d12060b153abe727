//! A wrong view that somebody puts into etcd by hand, real nodes, and a real etcd: no node follows it or builds on it, and a
//! right one of a higher epoch has all go on, also a node that started with the wrong one.

use guira_tests::replicas::{NAMES, Replicas};
use guira_tests::server::within;
use std::thread;
use std::time::Duration;

const VIEW: &str = "/guira/birds/view";

/// A view's text, in which the first number after `name`, behind `from`, is another one.
fn with(view: &str, from: &str, name: &str, number: u64) -> String {
    let at = view.find(from).expect("it is there");
    let at = at + view[at..].find(name).expect("it is there") + name.len();
    let rest = view[at..].trim_start_matches(|byte: char| byte.is_ascii_digit());
    format!("{}{number}{rest}", &view[..at])
}

fn epoch(view: &str) -> u64 {
    let (_, rest) = view.split_once("\"epoch\":").expect("it has one");
    rest.split_once(',').and_then(|it| it.0.parse().ok()).expect("a number")
}

/// The view of `epoch` whose first chain has another order than `good` says.
fn wrong(good: &str, epoch: u64) -> String {
    let view = with(&with(good, "{", "\"epoch\":", epoch), "\"groups\":", "\"epoch\":", epoch);
    let (before, chain) = view.split_once("\"serving\":[").expect("it is there");
    let (chain, after) = chain.split_once(']').expect("it is there");
    // The head stays: a base that isn't the head would be no view at all.
    let mut turned: Vec<&str> = chain.split(',').collect();
    turned.swap(1, 2);
    format!("{before}\"serving\":[{}]{after}", turned.join(","))
}

#[test]
fn a_wrong_view_is_not_built_on_and_a_right_one_of_a_higher_epoch_is_followed() {
    let mut cluster = Replicas::start();
    let good = cluster.etcd.value(VIEW);
    let last = epoch(&good);
    let bad = wrong(&good, last + 1);
    cluster.etcd.put(VIEW, &bad);
    let say = |cluster: &Replicas, names: &[&str], part: &str| {
        within(60, part, || names.iter().all(|name| cluster.nodes[name].said().contains(part)));
    };
    let refused = "in etcd is refused, and what is built on it";
    say(&cluster, &NAMES, refused);
    cluster.set("heron", "k", "1");
    // As if somebody had believed it. The leader has much to do once a node is dead, and must not do it on this view.
    let built = with(&bad, "{", "\"epoch\":", last + 2);
    cluster.etcd.put(VIEW, &built);
    cluster.kill("jay");
    thread::sleep(Duration::from_secs(8));
    assert_eq!(cluster.etcd.value(VIEW), built, "nobody built on it");
    // Its new process knows no better, and doesn't lead.
    cluster.begin("jay");
    thread::sleep(Duration::from_secs(4));
    assert_eq!(cluster.etcd.value(VIEW), built, "nobody built on it");
    let right = with(&with(&good, "{", "\"epoch\":", last + 3), "{", "\"min_write\":", 1);
    cluster.etcd.put(VIEW, &right);
    let again = format!("etcd has a good view again, of epoch {}", last + 3);
    say(&cluster, &["heron", "ibis"], &again);
    say(&cluster, &["jay"], "with which this process began");
    cluster.set("ibis", "k", "2");
    cluster.until_whole();
    assert_eq!(cluster.get("jay", "k").as_deref(), Some("2"));
    for (name, node) in &cluster.nodes {
        let said = node.said();
        // A line for each of the two reasons, and one of the thread that leads.
        for part in [refused, "isn't followed", "a view that may not follow"] {
            assert!(said.matches(part).count() <= 3, "{name}: {part}: {said}");
        }
    }
}
