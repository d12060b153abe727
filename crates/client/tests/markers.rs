//! Remote markers, in memcached and in Guira, over both protocols.

use std::time::Duration;

use guira_client::{Client, ConnectionOptions, Markers, Outcome, Protocol, Source};
use guira_tests::server::{Address, Program, Server};

fn client(server: &Server, protocol: Protocol) -> Client {
    let address = match server.address() {
        Address::Unix(path) => format!("unix:{}", path.display()),
        Address::Tcp(port) => format!("127.0.0.1:{port}"),
    };
    let options = ConnectionOptions { protocol, ..Default::default() };
    let builder = Client::builder().options(options).deadline(Duration::from_secs(30));
    builder.server(&address).expect("it is an address").build().expect("there is a server")
}

fn markers(server: &Server, protocol: Protocol, life_s: u64) -> Markers {
    let life = Duration::from_secs(life_s);
    Markers::new(client(server, protocol), "eu", life).expect("a region")
}

async fn check(program: Program, protocol: Protocol) {
    let server = Server::start(program, &[]);
    let markers = markers(&server, protocol, 60);
    assert_eq!(markers.source("k").await, Source::Replica);
    let (first, second) = tokio::join!(markers.mark(&["k", "l"]), markers.mark(&["k"]));
    let (first, second) = (first.expect("it is marked"), second.expect("it is marked"));
    assert_eq!(markers.unmark(&first).await, Ok(()));
    assert_eq!(markers.source("k").await, Source::Master, "the second one's");
    assert_eq!(markers.source("l").await, Source::Replica);
    // A second unmark removes no mark of another write.
    assert_eq!(markers.unmark(&first).await, Ok(()));
    assert_eq!(markers.source("k").await, Source::Master);
    assert_eq!(markers.unmark(&second).await, Ok(()));
    assert_eq!(markers.source("k").await, Source::Replica);
    assert_eq!(server.connect().get("r:k"), None, "nothing is left");
    let odd = markers.mark(&[&b"a,b;c%'* \xe9"[..]]).await;
    assert_eq!(odd.expect_err("it has a blank").outcome, Outcome::BadKey);
    let mark = markers.mark(&["user:1,2", "cart:9"]).await.expect("it is marked");
    let comment = mark.comment();
    let begin = format!("/* mcinv:user:1%2C2,cart:9;{} */", mark.option());
    assert!(comment == begin && mark.option().starts_with("mark=eu."), "{comment}");
    // With any other value in the marker, the master is read: a distant read is better than a wrong one.
    server.connect().set("r:x", b"nonsense");
    assert_eq!(markers.source("x").await, Source::Master);
    assert_eq!(markers.mark(&["x"]).await.expect_err("no marker").outcome, Outcome::NotStored);
    drop(server);
    assert_eq!(markers.source("k").await, Source::Master, "nobody knows");
    assert!(markers.mark(&["k"]).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marked_key_is_read_from_the_master_until_each_of_its_writers_is_done() {
    for program in [Program::Memcached, Program::Guira] {
        for protocol in [Protocol::Text, Protocol::Meta] {
            check(program, protocol).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_ends_with_its_life_though_others_mark_the_key_again_and_again() {
    let server = Server::start(Program::Guira, &[]);
    let (short, long) = (markers(&server, Protocol::Text, 1), markers(&server, Protocol::Text, 60));
    let left = short.mark(&["k"]).await.expect("it is marked");
    let mark = long.mark(&["k"]).await.expect("it is marked");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(long.unmark(&mark).await, Ok(()));
    assert_eq!(long.source("k").await, Source::Replica, "what a crashed writer left is over");
    drop(left);
    // A marker that is left alone expires.
    let _left = short.mark(&["k"]).await.expect("it is marked");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(server.connect().get("r:k"), None);
}

/// No mark is lost, and the marker stays short.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writers_of_a_key_become_one_mark_that_no_one_of_them_ends() {
    let server = Server::start(Program::Guira, &[]);
    let markers = markers(&server, Protocol::Text, 60);
    let mark = || {
        let markers = markers.clone();
        tokio::spawn(async move {
            let mut marks = Vec::new();
            for _ in 0..50 {
                marks.push(markers.mark(&["k"]).await.expect("it is marked"));
            }
            marks
        })
    };
    let mut marks = Vec::new();
    for writer in [(); 8].map(|()| mark()) {
        marks.extend(writer.await.expect("no panic"));
    }
    let value = server.connect().get("r:k").expect("it is there");
    assert!(value.contains(&b'*') && value.len() < 17 * 45, "{}", value.escape_ascii());
    for mark in &marks {
        assert_eq!(markers.unmark(mark).await, Ok(()));
    }
    assert_eq!(markers.source("k").await, Source::Master, "until the last one's life is over");
}

#[tokio::test]
async fn a_region_or_a_life_that_can_not_be_is_told() {
    let server = Server::start(Program::Guira, &[]);
    let made = |region: &str, life_s| {
        let pool = client(&server, Protocol::Text);
        Markers::new(pool, region, Duration::from_secs(life_s)).map(drop)
    };
    assert_eq!(made("eu-west_1", 60), Ok(()));
    let words = made("eu.1", 60).expect_err("it has a dot").to_string();
    assert!(words.contains("letters, digits"), "{words}");
    let words = made("eu", 0).expect_err("it is no time").to_string();
    assert!(words.contains("from a second to a day"), "{words}");
}
