//! The events that a connection's observer gets, with a server that the test plays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use guira_client::{Address, Connection, ConnectionOptions, Event, Op, Outcome, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

/// For each lost connection, whether the server had answered.
type Lost = Arc<Mutex<Vec<bool>>>;

async fn observed() -> (Connection, TcpListener, Lost) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let lost = Lost::default();
    let told = Arc::clone(&lost);
    let observer = move |event: &Event| {
        if let Event::Down { has_answered, .. } = event {
            told.lock().expect("no panic").push(*has_answered);
        }
    };
    let options = ConnectionOptions { observer: Some(Arc::new(observer)), ..Default::default() };
    let address = Address::Tcp { host: "127.0.0.1".into(), port };
    (Connection::new(address, options), listener, lost)
}

/// A router marks a server at once if it closes connections without any answer, but not if it answered before.
#[tokio::test]
async fn a_connection_that_brought_an_answer_says_so_when_it_ends_and_another_does_not() {
    let (c, listener, lost) = observed().await;
    let answer = "VALUE k 0 2\r\nok\r\nEND\r\n";
    // The server sends the answer to the get; that and a part of the answer to the delete; nothing; a part; and an
    // answer again. Each connection counts by itself.
    let second = [answer, "DELET"].concat();
    let played = [answer, &second, "", "VALUE k 0 2\r\no", answer];
    for sent in played {
        let asked = [Op::Get, Op::Delete].map(|op| {
            let deadline = Instant::now() + Duration::from_secs(30);
            tokio::spawn(c.ask(Request::new(op, "k"), deadline))
        });
        let (mut server, _) = listener.accept().await.expect("a client");
        server.read_exact(&mut [0; "get k\r\ndelete k\r\n".len()]).await.expect("both");
        server.write_all(sent.as_bytes()).await.expect("it reads");
        drop(server);
        let mut outcomes = Vec::new();
        for ask in asked {
            outcomes.push(ask.await.expect("no panic").outcome);
        }
        let first = if sent.starts_with(answer) { Outcome::Found } else { Outcome::RemoteError };
        assert_eq!(outcomes, [first, Outcome::RemoteError], "{sent:?}");
    }
    // The observer is called after the waiting requests are answered.
    let patience = Instant::now() + Duration::from_secs(30);
    while lost.lock().expect("no panic").len() < played.len() {
        assert!(Instant::now() < patience, "it isn't told of each");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(*lost.lock().expect("no panic"), [true, true, false, false, true]);
}
