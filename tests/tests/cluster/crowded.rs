//! A crowd that changes one long value through a router, and leaves: a client with other keys is served meanwhile.

use guira_tests::replicas::Replicas;
use guira_tests::server::Server;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const APPENDS: &[u8] = b"append big 0 0 0\r\n\r\n";

/// Connects, sends twenty changes and leaves, again and again.
fn come_and_go(port: u16, is_over: &AtomicBool) {
    while !is_over.load(Relaxed) {
        match TcpStream::connect(("127.0.0.1", port)) {
            // Whether they are taken is the router's business.
            Ok(mut client) => drop(client.write_all(&APPENDS.repeat(20))),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Regression: the crowd's changes stood before all others on the router's connections, and the node that had refused
/// them was asked again 400,000 times per second. Other clients' changes ended as "outcome unknown", each after nine seconds.
#[test]
fn changes_of_other_keys_land_while_a_crowd_changes_a_long_value() {
    let cluster = Replicas::start();
    let place = cluster.place();
    let config = format!("{{\"route\": {{\"type\": \"ClusterRoute\", \"etcd\": \"{place}\"}}}}");
    let router = Server::start_router(&["--config", &config]);
    let mut client = router.connect();
    assert_eq!(client.set("big", &vec![b'x'; 1_000_000]), "STORED\r\n");
    let is_over = AtomicBool::new(false);
    let said: Vec<_> = thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| come_and_go(router.port(), &is_over));
        }
        thread::sleep(Duration::from_secs(2));
        let said = (0..20).map(|n| client.set(&format!("calm{n}"), b"1")).collect();
        is_over.store(true, Relaxed);
        said
    });
    let stored = said.iter().filter(|it| *it == "STORED\r\n").count();
    assert_eq!(stored, said.len(), "{said:?}");
}
