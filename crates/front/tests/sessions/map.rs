//! A small service: a map in memory. Keys that begin with `slow` wait until its gate opens.

use bytes::Bytes;
use guira_client::{NO_ROOM, Op, Outcome, Purse, Reply, Request, charged};
use guira_front::sessions::{
    Answer, Arrival, AsRouter, ClientLimits, ClientTap, Clients, KEY_BYTES, Logins, MemoryLimits,
    Service, Sessions, ShutdownFrom, Start, serve,
};
use rustls::ServerConfig;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, timeout};

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) items: RefCell<HashMap<Bytes, Bytes>>,
    pub(crate) is_open: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
    /// Keys that were begun, in order.
    pub(crate) begun: RefCell<Vec<Bytes>>,
    /// Clients that were let in.
    pub(crate) entered: Cell<usize>,
    /// Answers that are held.
    pub(crate) held: Cell<usize>,
    /// Replies that clients were told.
    pub(crate) replied: Cell<usize>,
    pub(crate) is_shut_down: Cell<bool>,
}

impl Map {
    /// Opens the gate: requests that wait go on.
    pub(crate) fn open(&self) {
        self.is_open.set(true);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    fn answer(&self, request: &Request, purse: &Arc<dyn Purse>) -> Reply {
        let mut items = self.items.borrow_mut();
        let key = request.key.clone();
        match request.op {
            op if op.is_get() => match items.get(&key) {
                None => Reply::new(Outcome::NotFound),
                Some(value) => match charged(value.clone(), purse) {
                    Some(value) => Reply { value, ..Reply::new(Outcome::Found) },
                    None => Reply::failure(Outcome::LocalError, NO_ROOM),
                },
            },
            Op::Set => {
                // A copy, so that the item doesn't keep the buffer that was read.
                items.insert(Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&request.value));
                Reply::new(Outcome::Stored)
            }
            Op::Delete if items.remove(&key).is_some() => Reply::new(Outcome::Deleted),
            Op::FlushAll => {
                items.clear();
                Reply::new(Outcome::Ok)
            }
            _ => Reply::new(Outcome::NotFound),
        }
    }
}

impl Service for Map {
    type Client = Arc<dyn Purse>;
    type Answer = Pending;
    type Manners = AsRouter;
    const VERSION: &'static str = "1.6.0-map";

    fn enter(&self, _: Option<IpAddr>, purse: Arc<dyn Purse>) -> Arc<dyn Purse> {
        self.entered.set(self.entered.get() + 1);
        purse
    }

    fn tap(&self, _: Option<SocketAddr>, _: Option<SocketAddr>) -> Option<Box<dyn ClientTap>> {
        None
    }

    fn begin(self: &Rc<Self>, _: &Arc<dyn Purse>, request: Request, _: Start<'_>) -> Pending {
        Pending::new(self, vec![request])
    }

    fn begin_keys(
        self: &Rc<Self>,
        _: &Arc<dyn Purse>,
        op: Op,
        exptime: i64,
        keys: impl ExactSizeIterator<Item = Bytes>,
        _: Start<'_>,
    ) -> Pending {
        let request = |key| Request { exptime, ..Request::new(op, key) };
        Pending::new(self, keys.map(request).collect())
    }

    fn replied(&self, _: &Reply) {
        self.replied.set(self.replied.get() + 1);
    }

    fn stats(&self, group: &str) -> Vec<u8> {
        format!("STAT group {group}\r\nEND\r\n").into_bytes()
    }

    fn shut_down(&self) {
        self.is_shut_down.set(true);
    }
}

/// Requests, and the replies to the first of them.
#[derive(Debug)]
pub(crate) struct Pending {
    map: Rc<Map>,
    requests: Vec<Request>,
    replies: Vec<Reply>,
}

impl Pending {
    fn new(map: &Rc<Map>, requests: Vec<Request>) -> Self {
        map.begun.borrow_mut().extend(requests.iter().map(|request| request.key.clone()));
        map.held.set(map.held.get() + 1);
        Self { map: Rc::clone(map), requests, replies: Vec::new() }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.map.held.set(self.map.held.get() - 1);
    }
}

impl Answer<Map> for Pending {
    fn poll(&mut self, purse: &Arc<dyn Purse>, cx: &mut Context<'_>) {
        while let Some(request) = self.requests.get(self.replies.len()) {
            if request.key.starts_with(b"slow") && !self.map.is_open.get() {
                self.map.waiting.borrow_mut().push(cx.waker().clone());
                return;
            }
            self.replies.push(self.map.answer(request, purse));
        }
    }

    fn reply(&self, n: usize) -> Option<&Reply> {
        self.replies.get(n)
    }

    fn under_way(&self) -> usize {
        self.requests.len() - self.replies.len()
    }

    fn held(&self, value_bytes: usize) -> usize {
        self.requests.len() * (KEY_BYTES + value_bytes)
    }
}

/// One thread of a program that serves a map.
pub(crate) struct Program {
    pub(crate) map: Rc<Map>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) sessions: Rc<Sessions<Map>>,
}

impl Program {
    pub(crate) fn new(limits: ClientLimits) -> Self {
        Self::guarded(limits, None, None)
    }

    pub(crate) fn guarded(
        limits: ClientLimits,
        logins: Option<Logins>,
        certificates: Option<ServerConfig>,
    ) -> Self {
        let clients = Arc::new(Clients::new(limits, logins, certificates));
        let map = Rc::new(Map::default());
        let sessions = Sessions::new(Rc::clone(&map), Arc::clone(&clients));
        Self { map, clients, sessions }
    }

    /// A client that is served.
    pub(crate) async fn connect(&self) -> TcpStream {
        self.connect_as(Arrival::Tcp).await
    }

    pub(crate) async fn connect_as(&self, kind: fn(std::net::TcpStream) -> Arrival) -> TcpStream {
        let (ours, theirs) = self.knock().await;
        self.let_in(kind(theirs));
        ours
    }

    /// Serves a client that has connected.
    pub(crate) fn let_in(&self, arrival: Arrival) {
        assert!(self.clients.admit(), "there is room for a client");
        spawn_local(serve(Rc::clone(&self.sessions), arrival));
    }

    /// A client that has connected.
    pub(crate) async fn knock(&self) -> (TcpStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (theirs, _) = theirs.expect("it connects");
        (ours.expect("it listens"), theirs.into_std().expect("a socket"))
    }
}

/// The limits of a program that sets none.
pub(crate) const LIMITS: ClientLimits = ClientLimits {
    connections_max: usize::MAX,
    outstanding_max: usize::MAX,
    timeout: Duration::ZERO,
    memory: MemoryLimits { all: 64 << 20, each: 32 << 20, value: 32 << 20 },
    shutdown_from: ShutdownFrom::Nobody,
};

/// Runs a test on a thread of its own event loop. Its bound is against hangs.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tasks = LocalSet::new();
    let test = tasks.run_until(async { timeout(Duration::from_secs(30), test).await });
    runtime.expect("an event queue").block_on(test).expect("no hang");
}

/// Waits until `is_so` returns true.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits long enough that what must not happen would have happened.
pub(crate) async fn while_passes() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
