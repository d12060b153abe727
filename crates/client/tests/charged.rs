//! Long values on their way: charged to the caller's purse as they come, and read away if they find no room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use guira_client::{
    Address, Ask, Caller, Connection, ConnectionOptions, NO_ROOM, Op, Outcome, Purse, Request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A purse with room for `most` bytes, of which `taken` are taken.
#[derive(Debug)]
struct Room {
    most: usize,
    taken: AtomicUsize,
}

impl Purse for Room {
    fn charge(&self, bytes: usize) -> bool {
        let has_room = self.has_room(bytes);
        self.taken.fetch_add(if has_room { bytes } else { 0 }, Relaxed);
        has_room
    }

    fn refund(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Relaxed);
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.taken.load(Relaxed) + bytes <= self.most
    }
}

fn room(most: usize) -> (Arc<Room>, Arc<dyn Purse>) {
    let room = Arc::new(Room { most, taken: AtomicUsize::new(0) });
    (Arc::clone(&room), room)
}

/// Creates a connection to a server that the test plays, and that server's listener.
async fn played() -> (Connection, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let address = Address::Tcp { host: "127.0.0.1".into(), port };
    (Connection::new(address, ConnectionOptions::default()), listener)
}

fn ask_paid(c: &Connection, key: &'static str, purse: &Arc<dyn Purse>, until: Instant) -> Ask {
    let caller = Caller { purse: Some(purse), ..Caller::default() };
    c.ask_for(caller, Request::new(Op::Get, key), until)
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let patience = soon();
    while !is_so() {
        assert!(Instant::now() < patience, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const LONG: usize = 10_000_000;

/// Charging must not wait until the whole value is there.
#[tokio::test]
async fn a_long_value_is_charged_as_it_comes_and_no_more_of_it() {
    let (c, listener) = played().await;
    let (room, purse) = room(2 * LONG);
    let ask = tokio::spawn(ask_paid(&c, "k", &purse, soon()));
    let (mut server, _) = listener.accept().await.expect("a client");
    server.read_exact(&mut [0; "get k\r\n".len()]).await.expect("a get");
    server.write_all(format!("VALUE k 0 {LONG}\r\n").as_bytes()).await.expect("it reads");
    server.write_all(&vec![b'x'; LONG / 2]).await.expect("it reads");
    until("half of it is charged", || room.taken.load(Relaxed) >= LONG / 2 - (128 << 10)).await;
    assert!(room.taken.load(Relaxed) <= LONG / 2, "{room:?}");
    server.write_all(&vec![b'x'; LONG / 2]).await.expect("it reads");
    server.write_all(b"\r\nEND\r\n").await.expect("it reads");
    let reply = ask.await.expect("no panic");
    assert_eq!((reply.value.len(), room.taken.load(Relaxed)), (LONG, LONG));
    drop(reply);
    assert_eq!(room.taken.load(Relaxed), 0);
}

/// The first keys of a line are misses when the value of a later one arrives. The rest of the value comes after the
/// client has its answer.
#[tokio::test]
async fn a_value_that_finds_no_room_is_read_away_and_the_connection_goes_on() {
    let (c, listener) = played().await;
    let (room, purse) = room(LONG / 2);
    let [before, k] = ["before", "k"].map(|key| ask_paid(&c, key, &purse, soon()));
    let lines = tokio::spawn(async { tokio::join!(before, k) });
    let (mut server, _) = listener.accept().await.expect("a client");
    server.read_exact(&mut [0; "get before k\r\n".len()]).await.expect("a get");
    server.write_all(format!("VALUE k 0 {LONG}\r\nxx").as_bytes()).await.expect("it reads");
    let (before, k) = lines.await.expect("no panic");
    assert_eq!(before.outcome, Outcome::NotFound);
    assert_eq!((k.outcome, &k.message[..]), (Outcome::LocalError, NO_ROOM));
    assert_eq!(room.taken.load(Relaxed), 0);
    let next = tokio::spawn(ask_paid(&c, "next", &purse, soon()));
    for part in vec![b'x'; LONG - 2].chunks(99_999) {
        server.write_all(part).await.expect("it reads");
    }
    for byte in b"\r\nEND\r\n" {
        server.write_all(&[*byte]).await.expect("it reads");
    }
    server.read_exact(&mut [0; "get next\r\n".len()]).await.expect("a get");
    server.write_all(b"VALUE next 0 2\r\nok\r\nEND\r\n").await.expect("it reads");
    assert_eq!(next.await.expect("no panic").value, "ok");
}

/// Half of a value must not stay in memory until the connection is given up.
#[tokio::test]
async fn a_value_whose_request_was_too_late_is_given_up_with_what_came_of_it() {
    let (c, listener) = played().await;
    let (room, purse) = room(2 * LONG);
    let late = Instant::now() + Duration::from_millis(300);
    let ask = tokio::spawn(ask_paid(&c, "k", &purse, late));
    let (mut server, _) = listener.accept().await.expect("a client");
    server.read_exact(&mut [0; "get k\r\n".len()]).await.expect("a get");
    server.write_all(format!("VALUE k 0 {LONG}\r\n").as_bytes()).await.expect("it reads");
    server.write_all(&vec![b'x'; LONG / 2]).await.expect("it reads");
    assert_eq!(ask.await.expect("no panic").outcome, Outcome::Timeout);
    until("nothing is charged", || room.taken.load(Relaxed) == 0).await;
    let next = tokio::spawn(ask_paid(&c, "next", &purse, soon()));
    server.write_all(&vec![b'x'; LONG / 2]).await.expect("it reads");
    server.write_all(b"\r\nEND\r\n").await.expect("it reads");
    server.read_exact(&mut [0; "get next\r\n".len()]).await.expect("a get");
    server.write_all(b"VALUE next 0 2\r\nok\r\nEND\r\n").await.expect("it reads");
    assert_eq!(next.await.expect("no panic").value, "ok");
}

#[tokio::test]
async fn a_long_value_that_nobody_asked_for_ends_the_connection_before_it_is_read() {
    let (c, listener) = played().await;
    let ask = tokio::spawn(c.ask(Request::new(Op::Get, "k"), soon()));
    let (mut server, _) = listener.accept().await.expect("a client");
    server.read_exact(&mut [0; "get k\r\n".len()]).await.expect("a get");
    server.write_all(format!("VALUE other 0 {LONG}\r\n").as_bytes()).await.expect("it reads");
    assert_eq!(ask.await.expect("no panic").outcome, Outcome::RemoteError);
}
