//! Tests of links over loopback: order, refusals, reconnecting, a peer that doesn't read, and strangers.

use std::collections::BTreeMap;
use std::time::Duration;

use guira_chain::NodeId;
use guira_chain::frames::{FRONT_END, Framed, PeerFrame, PeerHello, parse_frame};
use guira_chain::slot::{Effect, Message, Version, WriteVerdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use super::{Arrived, LinkState, PeerLimits, Peers, Unsent, is_front};

fn hello(node: NodeId, run: &str) -> PeerHello {
    let (cluster, name) = ("c1".to_owned(), format!("store-{node}"));
    PeerHello { cluster, node, name, run: run.to_owned(), epoch: 7 }
}

/// Short pauses, and silence that isn't taken for an end unless a test says so.
fn limits() -> PeerLimits {
    let backoff = (Duration::from_millis(5), Duration::from_millis(50));
    PeerLimits { backoff, stall: Duration::from_secs(60), ..PeerLimits::default() }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

struct Node {
    peers: Peers,
    arrivals: UnboundedReceiver<Arrived>,
    address: String,
}

impl Node {
    async fn start(me: PeerHello, limits: PeerLimits) -> Self {
        let (listener, address) = listen().await;
        let (peers, arrivals) = Peers::start(me, listener, limits, None);
        Self { peers, arrivals, address }
    }

    fn dial(&self, to: &[(NodeId, &str)]) {
        let of = |(node, address): &(NodeId, &str)| (*node, (*address).to_owned());
        self.peers.set_addresses(&to.iter().map(of).collect::<BTreeMap<_, _>>());
    }

    /// Waits until the state of the link satisfies `is_so`.
    async fn until(&self, to: NodeId, is_so: impl Fn(&LinkState) -> bool) -> LinkState {
        let wait = async {
            loop {
                let state = self.peers.state(to).unwrap();
                if is_so(&state) {
                    return state;
                }
                sleep(Duration::from_millis(2)).await;
            }
        };
        let state = timeout(Duration::from_secs(60), wait).await;
        state.unwrap_or_else(|_| panic!("the link stays {:?}", self.peers.state(to)))
    }

    async fn until_up(&self, to: NodeId) -> PeerHello {
        match self.until(to, |it| matches!(it, LinkState::Up(_))).await {
            LinkState::Up(hello) => hello,
            LinkState::Down(why) => panic!("{why}"),
        }
    }

    /// Waits until the link is down for this reason.
    async fn until_down(&self, to: NodeId, why: &str) {
        self.until(to, |it| matches!(it, LinkState::Down(is) if is.contains(why))).await;
    }

    async fn next(&mut self) -> (NodeId, PeerFrame) {
        let arrived = timeout(Duration::from_secs(60), self.arrivals.recv()).await;
        let arrived = arrived.expect("something arrives within a minute").unwrap();
        (arrived.from, arrived.frame)
    }

    /// The numbers that arrive from a node, without hellos.
    async fn numbers(&mut self, from: NodeId, count: usize) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            match self.next().await {
                (of, PeerFrame::Slot { epoch, .. }) if of == from => numbers.push(epoch),
                (_, PeerFrame::Hello(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        numbers
    }
}

/// A frame with a number and a value of this many bytes.
fn effect(number: u64, bytes: usize) -> PeerFrame {
    let message = Message::Effect(Effect {
        version: Version { epoch: 1, seq: number },
        id: (1, number),
        key: b"key".to_vec(),
        change: Some(Some(vec![b'v'; bytes])),
        verdict: WriteVerdict::Done(number),
    });
    PeerFrame::Slot { slot: 3, epoch: number, message }
}

#[tokio::test]
async fn frames_of_all_sizes_arrive_in_order_both_ways() {
    let mut one = Node::start(hello(1, "a"), limits()).await;
    let mut two = Node::start(hello(2, "b"), limits()).await;
    one.dial(&[(1, "127.0.0.1:1"), (2, &two.address)]);
    two.dial(&[(1, &one.address)]);
    assert_eq!(one.until_up(2).await, hello(2, "b"));
    assert_eq!(two.until_up(1).await, hello(1, "a"));
    assert_eq!(one.peers.state(1), None, "nobody dials itself");
    assert_eq!(one.peers.send(3, &PeerFrame::AskView), Err(Unsent::Unknown));

    for number in 0..2000 {
        let bytes = if number % 500 == 499 { 3 << 20 } else { usize::try_from(number).unwrap() };
        while let Err(why) = one.peers.send(2, &effect(number, bytes)) {
            assert!(matches!(why, Unsent::Full(_)), "{why}");
            two.numbers(1, 0).await;
            sleep(Duration::from_millis(1)).await;
        }
        if number % 100 == 99 {
            let expected: Vec<u64> = (number - 99..=number).collect();
            assert_eq!(two.numbers(1, 100).await, expected);
        }
    }
    two.peers.send(1, &effect(9, 1)).unwrap();
    assert_eq!(one.numbers(2, 1).await, [9]);
}

#[tokio::test]
async fn hellos_tell_the_epoch_at_each_end() {
    let one = Node::start(hello(1, "a"), limits()).await;
    let mut two = Node::start(hello(2, "b"), limits()).await;
    one.peers.set_epoch(9);
    one.peers.set_epoch(8);
    one.dial(&[(2, &two.address)]);
    assert_eq!(one.until_up(2).await.epoch, 7);
    let (from, PeerFrame::Hello(said)) = two.next().await else { panic!("no hello") };
    assert_eq!((from, said), (1, PeerHello { epoch: 9, ..hello(1, "a") }));
}

#[tokio::test]
async fn who_is_no_peer_is_refused_and_named() {
    let other = PeerHello { cluster: "c2".to_owned(), ..hello(2, "b") };
    let one = Node::start(hello(1, "a"), limits()).await;
    let two = Node::start(other, limits()).await;
    one.dial(&[(2, &two.address)]);
    one.until_down(2, "a node of the cluster \"c2\"").await;

    let mut three = Node::start(hello(3, "c"), limits()).await;
    one.dial(&[(2, &three.address), (4, &one.address)]);
    one.until_down(2, "the address is that of node 3, \"store-3\"").await;
    one.until_down(4, "the address is that of node 1, \"store-1\"").await;
    two.dial(&[(3, &three.address)]);
    two.until_down(3, "a node of the cluster \"c1\"").await;
    assert_eq!(two.peers.send(3, &PeerFrame::AskView), Err(Unsent::Down));
    // Node 3 was reached by node 1, whose view has a wrong address, and not by the node of the other cluster.
    assert_eq!(three.next().await.0, 1);
    while let Ok(arrived) = three.arrivals.try_recv() {
        assert_eq!(arrived.from, 1);
    }

    // A server of another protocol.
    let (listener, address) = listen().await;
    let foreign = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"ERROR\r\n").await.unwrap();
        assert_ne!(stream.read(&mut [0; 999]).await.unwrap(), 0);
        sleep(Duration::from_secs(60)).await;
    });
    one.dial(&[(5, &address)]);
    one.until_down(5, "bytes, 2048 are allowed").await;
    foreign.abort();
}

#[tokio::test]
async fn strangers_cost_nothing_and_get_nothing() {
    let quick = PeerLimits { hello: Duration::from_millis(100), ..limits() };
    let mut one = Node::start(hello(1, "a"), quick).await;
    for said in [&b"get key\r\n"[..], b"\x10\0\0\0\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n", b""] {
        let mut stranger = TcpStream::connect(&one.address).await.unwrap();
        stranger.write_all(said).await.unwrap();
        let mut heard = Vec::new();
        // Closed, or reset because it wasn't read to the end.
        let end = timeout(Duration::from_secs(60), stranger.read_to_end(&mut heard)).await;
        assert!(end.is_ok(), "{said:?}: it waits for a stranger for ever");
        assert_eq!(heard, b"");
    }
    let two = Node::start(hello(2, "b"), limits()).await;
    two.dial(&[(1, &one.address)]);
    assert_eq!(one.next().await, (2, PeerFrame::Hello(hello(2, "b"))));
}

#[tokio::test]
async fn a_link_comes_back_with_the_peer() {
    let one = Node::start(hello(1, "a"), limits()).await;
    let two = Node::start(hello(2, "b"), limits()).await;
    let address = two.address.clone();
    one.dial(&[(2, &address)]);
    assert_eq!(one.until_up(2).await.run, "b");
    drop(two);
    one.until(2, |it| matches!(it, LinkState::Down(_))).await;
    one.until_down(2, "refused").await;
    assert_eq!(one.peers.send(2, &effect(0, 1)), Err(Unsent::Down));
    let is_refused = async |of: &Peers| {
        let told = timeout(Duration::from_secs(60), of.next_refusal()).await;
        assert!(told.is_ok() && of.refused() == [2].into(), "nobody listens there");
    };
    is_refused(&one.peers).await;
    // Nothing else runs on this thread between these two.
    one.peers.forget_refusal(2);
    assert!(one.peers.refused().is_empty(), "of a process before");
    is_refused(&one.peers).await;

    let listener = TcpListener::bind(&address).await.unwrap();
    let (peers, arrivals) = Peers::start(hello(2, "c"), listener, limits(), None);
    let mut two = Node { peers, arrivals, address };
    assert_eq!(one.until_up(2).await.run, "c");
    one.peers.send(2, &effect(1, 1)).unwrap();
    assert_eq!(two.numbers(1, 1).await, [1], "nothing from before");

    // When an address is removed, its link ends.
    one.dial(&[]);
    assert_eq!(one.peers.send(2, &effect(2, 1)), Err(Unsent::Unknown));
}

/// A peer that says hello and then nothing. Returns its stream.
async fn mute(listener: &TcpListener, me: PeerHello) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    PeerFrame::Hello(me).encode(&mut bytes).unwrap();
    stream.write_all(&bytes).await.unwrap();
    let (mut buffer, mut some) = (Vec::new(), [0; 256]);
    while matches!(parse_frame(&buffer, 2048), Ok(Framed::Incomplete { .. })) {
        let count = stream.read(&mut some).await.unwrap();
        buffer.extend_from_slice(&some[..count]);
    }
    stream
}

#[tokio::test]
async fn a_peer_that_does_not_read_blocks_nobody_else_and_loses_its_link() {
    let small = PeerLimits { lane_bytes: 1 << 20, stall: Duration::from_millis(300), ..limits() };
    let one = Node::start(hello(1, "a"), small).await;
    let mut two = Node::start(hello(2, "b"), limits()).await;
    let (listener, address) = listen().await;
    one.dial(&[(2, &two.address), (3, &address)]);
    let stream = mute(&listener, hello(3, "c")).await;
    one.until_up(2).await;
    one.until_up(3).await;

    // As much as the sockets and the lane take. The other peer gets everything meanwhile.
    let mut number = 0;
    let refused = loop {
        number += 1;
        let refused = one.peers.send(3, &effect(number, 100_000)).err();
        one.peers.send(2, &effect(number, 100)).unwrap();
        assert_eq!(two.numbers(1, 1).await, [number]);
        assert!(number < 1_000, "100 MB wait for a peer that reads nothing");
        if let Some(refused) = refused {
            break refused;
        }
    };
    let Unsent::Full(bytes) = refused else { panic!("{refused}") };
    assert!((1 << 20..=3 << 19).contains(&bytes), "{bytes}");
    one.until_down(3, "no byte was taken within 300ms").await;
    one.peers.send(2, &effect(0, 100)).unwrap();
    assert_eq!(two.numbers(1, 1).await, [0]);
    // It is dialled again all the same.
    drop(stream);
    let _stream = mute(&listener, hello(3, "d")).await;
    assert_eq!(one.until_up(3).await.run, "d");
}

#[tokio::test]
async fn a_node_that_takes_nothing_in_makes_its_peers_wait_and_loses_nothing() {
    let small = PeerLimits { lane_bytes: 1 << 20, arrived_bytes: 1 << 20, ..limits() };
    let one = Node::start(hello(1, "a"), small.clone()).await;
    let mut two = Node::start(hello(2, "b"), small).await;
    let three = Node::start(hello(3, "c"), limits()).await;
    one.dial(&[(2, &two.address)]);
    three.dial(&[(2, &two.address)]);
    one.until_up(2).await;
    three.until_up(2).await;
    let mut sent = 0;
    while one.peers.send(2, &effect(sent, 100_000)).is_ok() {
        sent += 1;
        sleep(Duration::from_millis(1)).await;
        assert!(sent < 1_000, "100 MB wait for a node that takes nothing in");
    }
    // Frames of one peer that wait keep out neither another peer's frames nor a frame that is longer than the room.
    three.peers.send(2, &effect(7, 2 << 20)).unwrap();
    let mut numbers = BTreeMap::<NodeId, Vec<u64>>::new();
    while numbers.values().map(Vec::len).sum::<usize>() < usize::try_from(sent).unwrap() + 1 {
        if let (from, PeerFrame::Slot { epoch, .. }) = two.next().await {
            numbers.entry(from).or_default().push(epoch);
        }
    }
    assert_eq!(numbers[&1], (0..sent).collect::<Vec<_>>());
    assert_eq!(numbers[&3], [7]);
}

/// Says hello as a node, and returns once it was answered.
async fn say_hello(address: &str, me: PeerHello) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut bytes = Vec::new();
    PeerFrame::Hello(me).encode(&mut bytes).unwrap();
    stream.write_all(&bytes).await.unwrap();
    let count = stream.read(&mut [0; 256]).await.unwrap();
    assert!(count > 24);
    stream
}

#[tokio::test]
async fn a_new_link_of_a_peer_ends_its_former_one() {
    let mut one = Node::start(hello(1, "a"), limits()).await;
    let mut old = say_hello(&one.address, hello(2, "b")).await;
    let mut frame = Vec::new();
    effect(1, 10).encode(&mut frame).unwrap();
    old.write_all(&frame).await.unwrap();
    assert_eq!(one.numbers(2, 1).await, [1]);
    let mut new = say_hello(&one.address, hello(2, "c")).await;
    // The end, or a reset: what it wrote isn't read.
    let _ = old.write_all(&frame).await;
    let end = timeout(Duration::from_secs(60), old.read(&mut [0; 9])).await;
    assert!(!matches!(end.unwrap(), Ok(1..)));
    new.write_all(&frame).await.unwrap();
    assert_eq!(one.next().await, (2, PeerFrame::Hello(hello(2, "c"))));
    assert_eq!(one.numbers(2, 1).await, [1]);
    drop(new);
    let _again = say_hello(&one.address, hello(2, "d")).await;
    assert_eq!(one.next().await, (2, PeerFrame::Hello(hello(2, "d"))));
}

#[tokio::test]
async fn damage_ends_a_link_and_what_came_before_arrives() {
    let mut one = Node::start(hello(1, "a"), limits()).await;
    let mut two = say_hello(&one.address, hello(2, "b")).await;
    let mut bytes = Vec::new();
    effect(1, 10).encode(&mut bytes).unwrap();
    let whole = bytes.len();
    effect(2, 10).encode(&mut bytes).unwrap();
    bytes[whole + 30] ^= 1;
    effect(3, 10).encode(&mut bytes).unwrap();
    // Byte by byte at first: frames don't come as they were written.
    for byte in &bytes[..whole + 10] {
        two.write_all(&[*byte]).await.unwrap();
    }
    two.write_all(&bytes[whole + 10..]).await.unwrap();
    assert_eq!(one.numbers(2, 1).await, [1]);
    let end = timeout(Duration::from_secs(60), two.read(&mut [0; 9])).await;
    assert!(!matches!(end.unwrap(), Ok(1..)));
    let _again = say_hello(&one.address, hello(2, "c")).await;
    assert_eq!(one.next().await, (2, PeerFrame::Hello(hello(2, "c"))), "not number 3");
}

/// A front-end's end of a link.
struct Front(TcpStream, Vec<u8>);

impl Front {
    async fn dial(address: &str, cluster: &str) -> Self {
        let mut link = Self(TcpStream::connect(address).await.unwrap(), Vec::new());
        let hello = PeerHello { cluster: cluster.to_owned(), ..hello(FRONT_END, "") };
        link.send(&PeerFrame::Hello(hello)).await;
        link
    }

    async fn send(&mut self, frame: &PeerFrame) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes).unwrap();
        self.0.write_all(&bytes).await.unwrap();
    }

    /// The next frame; `None` at the end of the link.
    async fn next(&mut self) -> Option<PeerFrame> {
        let read = async {
            loop {
                if let Framed::Whole { frame, used } = parse_frame(&self.1, 2048).unwrap() {
                    self.1.drain(..used);
                    return Some(*frame);
                }
                match self.0.read_buf(&mut self.1).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        timeout(Duration::from_secs(60), read).await.expect("something within a minute")
    }
}

fn hold(number: u64) -> PeerFrame {
    PeerFrame::Hold { slot: 3, epoch: 7, number, key: b"k".to_vec() }
}

#[tokio::test]
async fn a_front_end_has_a_link_of_its_own_and_may_only_ask_for_holds() {
    let mut node = Node::start(hello(1, "a"), limits()).await;
    let (mut one, mut two) =
        (Front::dial(&node.address, "c1").await, Front::dial(&node.address, "c1").await);
    let mut numbers = Vec::new();
    for (front, number) in [(&mut one, 5), (&mut two, 6)] {
        assert_eq!(front.next().await, Some(PeerFrame::Hello(hello(1, "a"))));
        front.send(&hold(number)).await;
        let (from, frame) = node.next().await;
        assert!(is_front(from) && frame == hold(number), "{from}: {frame:?}");
        numbers.push(from);
    }
    assert_ne!(numbers[0], numbers[1]);
    for (front, number) in [(&mut two, numbers[1]), (&mut one, numbers[0])] {
        let told = PeerFrame::Held { number: number.into(), term: 7 };
        node.peers.send_front(number, &told).unwrap();
        assert_eq!(front.next().await, Some(told), "each gets its own");
    }
    // A frame of a chain is none of a front-end's business.
    one.send(&PeerFrame::AskView).await;
    assert_eq!(one.next().await, None);
    let told = PeerFrame::Held { number: 1, term: 7 };
    let gone = async {
        while node.peers.send_front(numbers[0], &told) != Err(Unsent::Unknown) {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(60), gone).await.expect("its place is given back");
    two.send(&hold(8)).await;
    assert_eq!(
        node.next().await,
        (numbers[1], hold(8)),
        "nothing else came, and the other goes on"
    );
    let mut strange = Front::dial(&node.address, "c2").await;
    strange.send(&hold(9)).await;
    assert!(matches!(strange.next().await, Some(PeerFrame::Hello(_))));
    assert_eq!(strange.next().await, None, "another cluster's");
}
