//! Tests of which requests wait for which, over an engine that lands what the test lets it land.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};

use super::*;
use crate::counts::Counts;
use crate::customer::LOOKS_MAX;
use crate::engine::{Health, Landing};
use crate::figures::Figures;
use crate::item::Item;

#[derive(Default)]
struct Held {
    state: Mutex<State>,
    /// Whether the device sleeps, so that lookups wait for it; `None`: there is no device.
    is_asleep: Option<AtomicBool>,
}

#[derive(Default)]
struct State {
    records: HashMap<Bytes, Record>,
    /// Changes that were submitted and haven't landed.
    waiting: VecDeque<(usize, Arc<dyn Landing>)>,
    seq: u64,
    values_read: usize,
}

impl Held {
    fn waiting_bytes(&self) -> usize {
        self.state.lock().waiting.iter().map(|(bytes, _)| bytes).sum()
    }

    /// Lands all changes that wait, and returns how many there were.
    fn land_all(&self) -> usize {
        let landing = std::mem::take(&mut self.state.lock().waiting);
        landing.iter().for_each(|(_, landing)| landing.landed(Ok(())));
        landing.len()
    }
}

impl Engine for Held {
    type Lookup = Bytes;

    fn begin(&self, key: &Bytes) -> Begun<Bytes> {
        match self.is_asleep {
            None => Begun::Known(self.finish(key.clone(), &|_| true)),
            Some(_) => Begun::Unknown(key.clone()),
        }
    }

    fn finish(
        &self,
        key: Bytes,
        has_room: &dyn Fn(usize) -> bool,
    ) -> Result<Option<Record>, EngineError> {
        while self.is_asleep.as_ref().is_some_and(|it| it.load(Relaxed)) {
            std::thread::yield_now();
        }
        let mut state = self.state.lock();
        let found = state.records.get(&key).cloned();
        if found.as_ref().is_some_and(|record| !has_room(record.value.len())) {
            return Err(EngineError::NoRoom);
        }
        state.values_read += usize::from(found.is_some());
        Ok(found)
    }

    fn submit(
        &self,
        key: Bytes,
        value: Option<Bytes>,
        _: bool,
        landing: Arc<dyn Landing>,
    ) -> Result<u64, EngineError> {
        let mut state = self.state.lock();
        state.seq += 1;
        let seq = state.seq;
        state.waiting.push_back((value.as_ref().map_or(0, Bytes::len), landing));
        match value {
            // The device has a copy of its own, which isn't charged.
            Some(value) => {
                state.records.insert(key, Record { seq, value: Bytes::copy_from_slice(&value) })
            }
            None => state.records.remove(&key),
        };
        Ok(seq)
    }

    fn health(&self) -> Health {
        Health::Good
    }

    fn visit(&self, _: &mut dyn FnMut(&[u8], &Record) -> bool) -> Result<(), EngineError> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }

    fn settle(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// The purse of one client.
#[derive(Debug)]
struct Pocket {
    left: AtomicUsize,
    least: AtomicUsize,
}

impl Pocket {
    fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(bytes), least: AtomicUsize::new(bytes) })
    }
}

impl Purse for Pocket {
    fn charge(&self, bytes: usize) -> bool {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
        self.least.fetch_min(self.left.load(Relaxed), Relaxed);
        taken.is_ok()
    }

    fn refund(&self, bytes: usize) {
        self.left.fetch_add(bytes, Relaxed);
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.left.load(Relaxed) >= bytes
    }
}

fn customer(pocket: &Arc<Pocket>) -> Arc<Customer> {
    let purse = Arc::clone(pocket) as Arc<dyn Purse>;
    Arc::new(Customer::new(purse, Arc::new(Counts::default())))
}

fn node(engine: Held) -> Arc<Node<Held>> {
    Arc::new(Node::new(engine, Arc::default(), (1, 1 << 20)).expect("threads"))
}

fn request(op: Op, key: String) -> Request {
    Request::new(op, key)
}

type Answering = JoinHandle<Reply>;

fn begin(node: &Arc<Node<Held>>, request: Request, customer: &Arc<Customer>) -> Answering {
    let line = node.line_up(&request.key, customer);
    spawn_local(Arc::clone(node).change(line, (request, false), Arc::clone(customer)))
}

/// Waits until nothing goes on unless something lands.
async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

async fn outcomes(changes: impl IntoIterator<Item = Answering>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for change in changes {
        outcomes.push(change.await.expect("no panic").outcome);
    }
    outcomes
}

const BIG: usize = 900_000;

fn put(node: &Arc<Node<Held>>, key: &str, value: Bytes, customer: &Customer) {
    let request = Request { value, ..request(Op::Set, key.to_owned()) };
    let begun = node.begin_blind(&request, &Terms::of(&request), customer);
    assert!(begun.is_some_and(|begun| begun.is_ok()), "{key}");
}

/// Regression: four clients appended nothing to a value of 900 kB, a thousand times at once. That put 250 MB before another
/// client's change, and part of their own requests were refused for lack of memory.
#[tokio::test]
async fn long_values_that_are_written_again_are_few_at_once_and_keep_no_small_change() {
    let run = async {
        let node = node(Held::default());
        let engine = || &node.engine;
        let pocket = Pocket::new(8 << 20);
        let calm = customer(&pocket);
        for n in 0..10 {
            put(&node, &format!("big{n}"), vec![b'x'; BIG].into(), &calm);
            engine().land_all();
        }
        put(&node, "n", "1".into(), &calm);
        engine().land_all();
        let pockets: Vec<_> = (0..4).map(|_| Pocket::new(8 << 20)).collect();
        let greedy: Vec<_> = pockets.iter().map(customer).collect();
        // Changes of one key as well as of several: the turns of all are taken.
        let changes = (0..400).map(|n| {
            let key = format!("big{}", if n % 2 == 0 { 0 } else { n % 10 });
            begin(&node, request(Op::Append, key), &greedy[n % 4])
        });
        let changes: Vec<_> = changes.collect();
        let (mut rounds, mut counted) = (0, Vec::new());
        while !changes.iter().all(JoinHandle::is_finished) {
            settle().await;
            let before = engine().waiting_bytes();
            assert!(before <= 1 << 20, "{before} bytes are before what others change");
            if rounds < 50 {
                put(&node, &format!("small{rounds}"), "v".into(), &calm);
                counted.push(begin(
                    &node,
                    Request { delta: 1, ..request(Op::Incr, "n".into()) },
                    &calm,
                ));
                settle().await;
                assert!(engine().waiting_bytes() > before, "they wait for nobody");
            }
            assert!(engine().land_all() > 0, "somebody goes on");
            rounds += 1;
            settle().await;
        }
        assert!(outcomes(changes).await.iter().all(|outcome| *outcome == Outcome::Stored));
        assert!(outcomes(counted).await.iter().all(|outcome| *outcome == Outcome::Found));
        for pocket in &pockets {
            let most = (8 << 20) - pocket.least.load(Relaxed);
            assert!(most <= 4 << 20, "one client held {most} bytes");
            assert_eq!(pocket.left.load(Relaxed), 8 << 20, "all came back");
        }
        assert!(greedy.iter().all(|greedy| greedy.take_spent() >= 50 * BIG), "it is paid for");
        assert_eq!(calm.take_spent(), 0);
    };
    LocalSet::new().run_until(run).await;
}

#[tokio::test]
async fn a_client_with_one_long_change_waits_for_one_of_each_other_client() {
    let run = async {
        let node = node(Held::default());
        let pocket = Pocket::new(1 << 30);
        let (greedy, calm) = (customer(&pocket), customer(&pocket));
        for n in 0..60 {
            put(&node, &format!("big{n}"), vec![b'x'; BIG].into(), &calm);
        }
        node.engine.land_all();
        let touch = |n| request(Op::Touch, format!("big{n}"));
        let many: Vec<_> = (0..50).map(|n| begin(&node, touch(n), &greedy)).collect();
        settle().await;
        let one = begin(&node, touch(55), &calm);
        let mut landed = 0;
        while !one.is_finished() {
            settle().await;
            landed += node.engine.land_all();
            settle().await;
        }
        assert!(landed <= 4, "{landed} came before it");
        while !many.iter().all(JoinHandle::is_finished) {
            settle().await;
            node.engine.land_all();
        }
        assert!(outcomes(many).await.iter().all(|outcome| *outcome == Outcome::Touched));
    };
    LocalSet::new().run_until(run).await;
}

/// How long a value is shows only once it was read. So a client's changes read few values at once.
#[tokio::test]
async fn a_clients_changes_read_few_values_at_once() {
    let run = async {
        let one =
            || Record { seq: 1, value: Item { value: "1".into(), ..Item::default() }.encode() };
        let records = (0..100).map(|n| (Bytes::from(format!("k{n}")), one())).collect();
        let state = Mutex::new(State { records, ..State::default() });
        let node = node(Held { state, is_asleep: Some(AtomicBool::new(false)) });
        let customer = customer(&Pocket::new(1 << 20));
        let is_asleep = node.engine.is_asleep.as_ref().expect("there is a device");
        is_asleep.store(true, Relaxed);
        let incr = |n| Request { delta: 1, ..request(Op::Incr, format!("k{n}")) };
        let changes: Vec<_> = (0..100).map(|n| begin(&node, incr(n), &customer)).collect();
        settle().await;
        let waiting = node.readers.waiting();
        assert!((LOOKS_MAX - 1..=LOOKS_MAX).contains(&waiting), "{waiting}");
        is_asleep.store(false, Relaxed);
        while !changes.iter().all(JoinHandle::is_finished) {
            yield_now().await;
            node.engine.land_all();
        }
        assert!(outcomes(changes).await.iter().all(|outcome| *outcome == Outcome::Found));
    };
    LocalSet::new().run_until(run).await;
}

/// Regression: 300 clients asked for 300 values each, and read few replies. The device read a gigabyte per second for
/// nothing.
#[tokio::test]
async fn a_value_that_finds_no_room_is_not_read() {
    let record = Record {
        seq: 1,
        value: Item { value: vec![b'x'; BIG].into(), ..Item::default() }.encode(),
    };
    let state = State { records: [(Bytes::from("big"), record)].into(), ..State::default() };
    let node = node(Held { state: Mutex::new(state), is_asleep: Some(AtomicBool::new(false)) });
    let pocket = Pocket::new(2 * BIG);
    let customer = customer(&pocket);
    let (get, mut held) = (request(Op::Get, "big".into()), Vec::new());
    for n in 0..9 {
        let Fetched::Coming(coming) = node.fetch(&get.key, &customer) else { panic!("it is read") };
        let found = coming.await.expect("no panic");
        assert_eq!(found.is_ok(), n == 0, "{n}: it has its own mark too");
        if let Err(reply) = &found {
            assert_eq!((reply.outcome, &reply.message[..]), (Outcome::LocalError, NO_ROOM));
        }
        held.push(found);
    }
    assert_eq!(node.engine.state.lock().values_read, 1);
    drop(held);
    assert_eq!(pocket.left.load(Relaxed), 2 * BIG);
}
