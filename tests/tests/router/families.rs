//! `guira route --sample-families` and `guira plan regional`: what routers sample, and what is advised by it.

use std::process::Command;

use guira_tests::client::Client;
use guira_tests::server::{Program, Server, guira, one_pool};

/// A cluster of a server and two routers.
struct Sampling {
    _server: Server,
    routers: Vec<Server>,
}

impl Sampling {
    fn start(share: &str) -> Self {
        let server = Server::start_tcp(Program::Guira, &["-m", "64"]);
        let config = one_pool(&[server.port()]);
        let flags = ["--config", &config, "--sample-families", share];
        let routers = (0..2).map(|_| Server::start_router(&flags)).collect();
        Self { _server: server, routers }
    }

    fn client(&self, router: usize) -> Client {
        self.routers[router].connect()
    }

    fn argument(&self, name: &str) -> String {
        let ports: Vec<String> =
            self.routers.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
        format!("{name}={}", ports.join(","))
    }
}

fn plan(words: &[&str]) -> (bool, String) {
    let done = Command::new(guira()).args(["plan", "regional"]).args(words).output();
    let done = done.expect("a test can have it");
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// All of them, each family on its own line of the answer.
fn sampled(client: &mut Client, window: &str) -> Vec<String> {
    let text = client.get(&format!("__mcrouter__.families({window})")).expect("an answer");
    let text = String::from_utf8(text).expect("an answer");
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn what_two_clusters_hold_twice_is_advised_for_a_regional_pool() {
    let clusters = [Sampling::start("1"), Sampling::start("1")];
    for (number, cluster) in clusters.iter().enumerate() {
        let (mut first, mut second) = (cluster.client(0), cluster.client(1));
        for n in 0..50 {
            // 1,000 bytes with its key, of 9 bytes.
            first.set(&format!("common:{n:02}"), &[b'v'; 991]);
            // Each router sees a part of what is asked.
            assert!(second.get(&format!("common:{n:02}")).is_some());
            first.set(&format!("own:{number}:{n}"), b"v");
        }
        second.get("miss:1");
        // What a get of several keys finds is noted as well.
        assert_eq!(second.ask("get own:0:1 own:1:1 common:01").matches("VALUE ").count(), 2);
        let lines = sampled(&mut second, "day");
        assert_eq!(lines.len(), 51, "{lines:?}");
        assert!(lines.iter().all(|line| !line.ends_with("miss")), "{lines:?}");
        assert_eq!(sampled(&mut first, "week").len(), 100);
    }
    let [one, two] = [clusters[0].argument("one"), clusters[1].argument("two")];
    let (is_good, text) = plan(&["--network", "1G", &one, &two]);
    assert!(is_good, "{text}");
    let line = |family: &str| text.lines().find(|line| line.contains(family)).expect("a line");
    for part in ["50.0 kB", "1.00 kB", "in a regional pool"] {
        assert!(line("common").contains(part), "{text}");
    }
    assert!(line("own").contains("in each cluster"), "{text}");
    let (is_good, text) = plan(&["--network", "0", &one, &two]);
    assert!(is_good && !text.contains("in a regional pool"), "{text}");
}

#[test]
fn a_share_that_is_none_and_a_router_that_samples_nothing_are_told() {
    let router = Server::start_router(&["--config", r#"{"route": "NullRoute"}"#]);
    let answer = router.connect().get("__mcrouter__.families(day)").expect("an answer");
    let words = "ERROR: families: nothing is sampled (--sample-families)";
    assert_eq!(String::from_utf8_lossy(&answer), words);
    let router = format!("a=127.0.0.1:{}", router.port());
    let (is_good, text) = plan(&["--network", "1G", "--clusters", "2", &router]);
    assert!(!is_good && text.contains("nothing is sampled"), "{text}");
    for share in ["0", "2", "much"] {
        let flags = ["route", "--config", r#"{"route": "NullRoute"}"#, "--sample-families", share];
        let refused = Command::new(guira()).args(flags).output().expect("a test can have it");
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && words.contains("--sample-families"), "{words}");
    }
}
