//! Which connections are accepted, with which options, and which are never dealt to a thread.

use std::net::TcpStream;

use socket2::SockRef;
use tokio::sync::mpsc::unbounded_channel;

use super::*;
use crate::sessions::clients::ClientLimits;
use crate::sessions::memory::MemoryLimits;
use crate::sessions::owner::ShutdownFrom;

fn clients() -> Arc<Clients> {
    let limits = ClientLimits {
        connections_max: 100,
        outstanding_max: 1,
        timeout: Duration::ZERO,
        memory: MemoryLimits { all: 1 << 20, each: 1 << 20, value: 1 << 20 },
        shutdown_from: ShutdownFrom::Nobody,
    };
    Arc::new(Clients::new(limits, None, None))
}

/// A socket as the flags open it, and its address.
fn opened() -> (Listening, SocketAddr) {
    let options = ListenOptions {
        ports: vec![0],
        addresses: vec!["127.0.0.1".to_owned()],
        inherited: None,
        unix: None,
        backlog: 100,
        keepalive: Some(TcpKeepalive::new().with_time(Duration::from_secs(77))),
    };
    let socket = open(&options, &[]).expect("a port").pop().expect("one socket");
    let Listening::Tcp(listener) = &socket else { panic!("TCP") };
    let place = listener.local_addr().expect("an address");
    (socket, place)
}

/// Regression: a storm of such clients kept the threads busy, and filled all places.
#[tokio::test]
async fn clients_that_were_reset_before_they_are_accepted_take_no_place_and_no_threads_time() {
    let (socket, place) = opened();
    for _ in 0..50 {
        let gone = TcpStream::connect(place).expect("it listens");
        SockRef::from(&gone).set_linger(Some(Duration::ZERO)).expect("a socket");
    }
    let here = TcpStream::connect(place).expect("it listens");
    let (clients, (send, mut dealt)) = (clients(), unbounded_channel::<Arrival>());
    let dealer = Arc::new(Dealer::new(Arc::clone(&clients), vec![send]));
    let accepting = tokio::spawn(accept(socket, dealer));
    let first = dealt.recv().await.expect("somebody comes");
    assert_eq!(first.to_string(), here.local_addr().expect("an address").to_string());
    assert_eq!(clients.connected(), 1);
    accepting.abort();
}

#[tokio::test]
async fn what_is_accepted_is_prompt_and_probed_without_being_told() {
    let (socket, place) = opened();
    let _here = TcpStream::connect(place).expect("it listens");
    let (send, mut dealt) = unbounded_channel::<Arrival>();
    let accepting = tokio::spawn(accept(socket, Arc::new(Dealer::new(clients(), vec![send]))));
    let Some(Arrival::Tcp(stream)) = dealt.recv().await else { panic!("over TCP") };
    let stream = SockRef::from(&stream);
    assert!(stream.tcp_nodelay().expect("a socket") && stream.keepalive().expect("a socket"));
    assert_eq!(stream.tcp_keepalive_time().expect("a socket"), Duration::from_secs(77));
    assert!(stream.nonblocking().expect("a socket"));
    accepting.abort();
}
