//! A client of a fleet of real servers: rings, multigets, failures that must not be filled, leases, windows.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use guira_client::{
    BuildError, Builder, Cas, Client, ConnectionOptions, Expiry, Got, Item, Lease, Outcome,
    Protocol, RingKind, Window,
};
use guira_tests::server::{Address, Program, Server};

const PROGRAMS: [Program; 2] = [Program::Memcached, Program::Guira];
const PROTOCOLS: [Protocol; 2] = [Protocol::Text, Protocol::Meta];

fn address(server: &Server) -> String {
    match server.address() {
        Address::Unix(path) => format!("unix:{}", path.display()),
        Address::Tcp(port) => format!("127.0.0.1:{port}"),
    }
}

fn builder(servers: &[Server], protocol: Protocol) -> Builder {
    let options = ConnectionOptions { protocol, ..Default::default() };
    let builder = Client::builder().options(options).deadline(Duration::from_secs(30));
    servers.iter().fold(builder, |builder, server| {
        builder.server(&address(server)).expect("it is an address")
    })
}

fn client(servers: &[Server], protocol: Protocol) -> Client {
    builder(servers, protocol).build().expect("there are servers")
}

fn fleet(program: Program, servers: usize) -> Vec<Server> {
    (0..servers).map(|_| Server::start(program, &[])).collect()
}

async fn value(client: &Client, key: &str) -> Option<String> {
    let item = client.get(key).await.hit()?;
    Some(String::from_utf8_lossy(&item.value).into_owned())
}

async fn check_operations(c: &Client) {
    let never = Expiry::Never;
    assert_eq!(c.get("k").await, Got::Miss);
    assert_eq!(c.replace("k", "x", never).await, Ok(false));
    let item = Item { value: "5".into(), flags: 77, cas: 0 };
    assert_eq!(c.add("k", item.clone(), never).await, Ok(true));
    assert_eq!(c.add("k", "x", never).await, Ok(false));
    assert_eq!(c.get("k").await.hit().map(|item| item.flags), Some(77));
    let token = c.gets("k").await.hit().expect("it is there").cas;
    assert_eq!(c.cas("k", item.clone(), never, token).await, Ok(Cas::Stored));
    assert_eq!(c.cas("k", item.clone(), never, token).await, Ok(Cas::Exists));
    assert_eq!(c.cas("absent", item, never, token).await, Ok(Cas::NotFound));
    assert_eq!(c.incr("k", 7).await, Ok(Some(12)));
    assert_eq!(c.decr("k", 2).await, Ok(Some(10)));
    assert_eq!(c.incr("absent", 1).await, Ok(None));
    assert_eq!(c.append("k", "<").await, Ok(true));
    assert_eq!(c.prepend("k", ">").await, Ok(true));
    assert_eq!(value(c, "k").await.as_deref(), Some(">10<"));
    let failure = c.incr("k", 1).await.expect_err("it is no number");
    assert_eq!(failure.outcome, Outcome::ClientError);
    assert_eq!(c.touch("k", Duration::from_secs(100)).await, Ok(true));
    assert_eq!(c.touch("absent", Duration::from_secs(100)).await, Ok(false));
    assert!(c.gat("k", Duration::from_secs(100)).await.hit().is_some());
    assert_eq!(c.delete("k").await, Ok(true));
    assert_eq!(c.delete("k").await, Ok(false));
    assert_eq!(c.set("k", "x", never).await, Ok(()));
    assert_eq!(c.set("gone", "x", Duration::ZERO).await, Ok(()));
    assert_eq!(c.get("gone").await, Got::Miss);
    let long = vec![b'l'; 300_000];
    assert_eq!(c.set("long", long.clone(), never).await, Ok(()));
    assert_eq!(c.get("long").await.hit().map(|item| item.value.to_vec()), Some(long));
    assert_eq!(c.flush_all().await, Ok(()));
    assert_eq!(c.get("k").await, Got::Miss);
}

#[tokio::test]
async fn every_operation_says_the_same_over_either_protocol() {
    for program in PROGRAMS {
        for protocol in PROTOCOLS {
            let servers = fleet(program, 3);
            let c = client(&servers, protocol);
            check_operations(&c).await;
            for (_, version) in c.version().await {
                assert!(!version.expect("it answers").is_empty());
            }
            for (_, stats) in c.stats("").await {
                let stats = stats.expect("it answers");
                assert!(stats.iter().any(|(name, _)| name == "curr_items"), "{stats:?}");
            }
        }
    }
}

#[tokio::test]
async fn every_ring_spreads_keys_and_a_multiget_finds_them_in_its_order() {
    let servers = fleet(Program::Memcached, 3);
    let kinds = [
        RingKind::Ketama,
        RingKind::Rendezvous,
        RingKind::Ch3,
        RingKind::Jump,
        RingKind::Crc32,
        RingKind::Modula(guira_client::ring::KeyHash::OneAtATime),
    ];
    for ring in kinds {
        let c = builder(&servers, Protocol::Text).ring(ring).connections(2).build().expect("ok");
        let keys: Vec<String> = (0..300).map(|n| format!("{ring:?}{n}")).collect();
        let mut used = HashSet::new();
        for key in keys.iter().step_by(2) {
            used.insert(c.server_of(key.as_bytes()).to_string());
            assert_eq!(c.set(key, key.clone(), Expiry::Never).await, Ok(()));
        }
        assert_eq!(used.len(), 3, "{ring:?}");
        for (n, got) in c.get_many(&keys).await.into_iter().enumerate() {
            let expected = (n % 2 == 0).then(|| keys[n].clone().into());
            assert_eq!(got.hit().map(|item| item.value), expected, "{ring:?} {n}");
        }
    }
}

#[tokio::test]
async fn a_get_that_fails_is_a_miss_that_must_not_be_filled() {
    let mut servers = fleet(Program::Memcached, 2);
    let c = client(&servers, Protocol::Text);
    let keys: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
    for key in &keys {
        assert_eq!(c.set(key, "v", Expiry::Never).await, Ok(()));
    }
    let dead = address(&servers.remove(0));
    for (key, got) in keys.iter().zip(c.get_many(&keys).await) {
        if c.server_of(key.as_bytes()).to_string() == dead {
            assert!(matches!(&got, Got::Failed(_)) && !got.may_fill(), "{got:?}");
        } else {
            assert!(got.hit().is_some());
        }
    }
    assert!(!c.get("bad key").await.may_fill());
}

#[test]
fn a_client_that_cannot_be_is_refused_with_a_reason() {
    let refused = |builder: Builder| builder.build().expect_err("it cannot be");
    assert_eq!(refused(Client::builder()), BuildError::NoServer);
    let weighted = || Client::builder().weighted_server("a", 2).expect("an address");
    assert_eq!(refused(weighted().ring(RingKind::Ch3)), BuildError::Weights(RingKind::Ch3));
    let none = Client::builder().weighted_server("a", 0).expect("an address");
    assert_eq!(refused(none), BuildError::NoWeight);
    assert!(Client::builder().server("a:b").is_err());
}

/// Servers that give leases, each with a client.
fn leasing() -> Vec<(Server, Client)> {
    [
        (Program::Guira, Protocol::Text),
        (Program::Guira, Protocol::Meta),
        (Program::Memcached, Protocol::Meta),
    ]
    .map(|(program, protocol)| {
        let server = Server::start(program, &[]);
        let client = client(std::slice::from_ref(&server), protocol);
        (server, client)
    })
    .into()
}

#[tokio::test]
async fn one_of_many_who_miss_fills_and_the_others_wait_for_it() {
    for (_server, c) in leasing() {
        let loads = std::cell::Cell::new(0);
        let read = async || {
            let loaded = c.get_or_load("k", Expiry::Never, async || {
                loads.set(loads.get() + 1);
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok::<_, ()>(Item::from("from the database"))
            });
            assert_eq!(loaded.await.expect("it loads").value, "from the database");
        };
        tokio::join!(read(), read(), read(), read(), read(), read(), read(), read());
        assert_eq!(loads.get(), 1);
        read().await;
        assert_eq!(loads.get(), 1, "it was stored");
    }
}

#[tokio::test]
async fn a_delete_voids_a_lease() {
    for (_server, c) in leasing() {
        let Lease::Fill(old, None) = c.lease_get("k").await else { panic!("the first to miss") };
        assert_eq!(c.lease_get("k").await, Lease::Wait(None));
        assert_eq!(c.get("k").await, Got::Miss, "a lease is no item");
        c.delete("k").await.expect("it is answered");
        assert_eq!(c.lease_set("k", old, "stale", Expiry::Never).await, Ok(false));
        assert_eq!(c.get("k").await, Got::Miss);
        assert_eq!(c.set("k", "new", Expiry::Never).await, Ok(()));
        // A server may answer "stored", because a valid value is there. But this value must not be stored.
        c.lease_set("k", old, "stale", Expiry::Never).await.expect("it is answered");
        assert_eq!(value(&c, "k").await.as_deref(), Some("new"));
    }
}

#[tokio::test]
async fn who_waits_in_vain_reads_the_database_and_stores_nothing() {
    for (_server, c) in leasing() {
        let Lease::Fill(..) = c.lease_get("k").await else { panic!("the first to miss") };
        let loaded = c.get_or_load("k", Expiry::Never, async || Ok::<_, ()>(Item::from("mine")));
        assert_eq!(loaded.await.expect("it loads").value, "mine");
        assert_eq!(c.get("k").await, Got::Miss);
    }
}

#[tokio::test]
async fn a_server_without_leases_is_filled_and_the_caller_is_told_once() {
    let servers = [Server::start(Program::Memcached, &[])];
    let told = Arc::new(Mutex::new(Vec::new()));
    let (telling, expected) = (Arc::clone(&told), address(&servers[0]));
    let c = builder(&servers, Protocol::Text);
    let c = c.on_no_leases(move |at| telling.lock().expect("no panic").push(at.to_string()));
    let c = c.build().expect("there are servers");
    let loads = std::cell::Cell::new(0);
    let read = async |key: &str, from: &'static str| {
        let loaded = c.get_or_load(key, Expiry::Never, async || {
            loads.set(loads.get() + 1);
            Ok::<_, ()>(Item::from(from))
        });
        loaded.await.expect("it loads").value
    };
    assert_eq!((read("k", "first").await, loads.get()), ("first".into(), 1));
    assert_eq!((read("k", "second").await, loads.get()), ("first".into(), 1), "it was stored");
    assert_eq!(value(&c, "k").await.as_deref(), Some("first"));
    assert_eq!(c.delete("k").await, Ok(true));
    assert_eq!((read("k", "third").await, loads.get()), ("third".into(), 2));
    assert_eq!((read("other", "fourth").await, loads.get()), ("fourth".into(), 3));
    assert_eq!(*told.lock().expect("no panic"), [expected]);
    // If loading fails, nothing is stored. An item that was stored meanwhile is not overwritten.
    let failed = c.get_or_load("none", Expiry::Never, async || Err::<Item, _>("no such row"));
    assert_eq!((failed.await, c.get("none").await), (Err("no such row"), Got::Miss));
    let slow = c.get_or_load("raced", Expiry::Never, async || {
        assert_eq!(c.set("raced", "newer", Expiry::Never).await, Ok(()));
        Ok::<_, ()>(Item::from("older"))
    });
    assert_eq!(slow.await.expect("it loads").value, "older");
    assert_eq!(value(&c, "raced").await.as_deref(), Some("newer"));
}

#[tokio::test]
async fn a_window_holds_a_multiget_back_and_lets_all_of_it_through() {
    let servers = fleet(Program::Memcached, 5);
    let window = Window::new(1, 3);
    let c = builder(&servers, Protocol::Text).window(window.clone()).build().expect("ok");
    let keys: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    for key in &keys {
        assert_eq!(c.set(key, "v", Expiry::Never).await, Ok(()));
    }
    assert_eq!(window.size(), 3.0);
    let all = async || {
        for got in c.get_many(&keys).await {
            assert!(got.hit().is_some());
        }
    };
    tokio::join!(all(), all(), all());
    assert_eq!(window.out(), 0);
}

#[tokio::test]
async fn gets_over_udp_find_what_was_set_over_tcp() {
    for program in PROGRAMS {
        let servers: Vec<Server> = (0..2)
            .map(|_| {
                let port = guira_tests::server::free_port();
                let word = port.to_string();
                let flags = ["-l", "127.0.0.1", "-p", &word, "-U", &word];
                Server::start_at(program, &flags, Address::Tcp(port)).expect("it starts")
            })
            .collect();
        let window = Window::new(2, 10);
        let c = builder(&servers, Protocol::Text).udp(true).window(window.clone());
        let c = c.build().expect("there are servers");
        let long = "l".repeat(5000);
        let keys: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
        for (n, key) in keys.iter().enumerate() {
            if n % 4 != 0 {
                let value = if n % 4 == 1 { long.clone() } else { format!("value {n}") };
                assert_eq!(c.set(key, value, Expiry::Never).await, Ok(()));
            }
        }
        assert_eq!(value(&c, "k1").await.as_deref(), Some(&long[..]));
        assert_eq!(value(&c, "k2").await.as_deref(), Some("value 2"));
        assert_eq!(c.get("k4").await, Got::Miss);
        for (n, got) in c.get_many(&keys).await.into_iter().enumerate() {
            match n % 4 {
                0 => assert_eq!(got, Got::Miss),
                1 => assert_eq!(got.hit().map(|item| item.value), Some(long.clone().into())),
                _ => assert_eq!(got.hit().map(|i| i.value), Some(format!("value {n}").into())),
            }
        }
        assert!(!c.get("a b").await.may_fill());
        assert_eq!(window.out(), 0);
    }
}

#[tokio::test]
async fn a_get_over_udp_that_nobody_answers_must_not_be_filled() {
    let nobody = format!("127.0.0.1:{}", guira_tests::server::free_port());
    let c = Client::builder().server(&nobody).expect("an address").udp(true);
    let c = c.deadline(Duration::from_millis(20)).build().expect("a server");
    assert!(!c.get("k").await.may_fill());
}
