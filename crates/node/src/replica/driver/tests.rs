//! Tests of a driver alone, over an engine that lands changes when it is told to.

use super::*;
use crate::engine::EngineError;
use crate::peers::PeerLimits;
use crate::replica::keeper::tests::{Slow, keeper};
use crate::replica::wire;
use bytes::Bytes;
use guira_chain::View;
use guira_client::{Op, Request};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const VIEW: &str = r#"{"format": 1, "cluster": "c1", "epoch": 1, "seed": "", "replicas": 1, "min_write": 1,
    "nodes": {"1": {"name": "a", "peers": "127.0.0.1:1", "weight": 1, "run": "1f"}},
    "groups": [{"slots": "0-16383", "epoch": 1, "serving": [1], "base": 1}]}"#;

/// A driver of the only node.
struct Alone {
    driver: Driver<Slow>,
    store: Arc<crate::node::Node<Slow>>,
    happening: UnboundedReceiver<Event>,
    direct: Arc<DirectReads>,
    /// Of the key.
    slot: u16,
    number: u64,
}

impl Alone {
    async fn start() -> Self {
        let (keeper, happening) = keeper(true);
        let store = keeper.store();
        let me = PeerHello {
            cluster: "c1".to_owned(),
            node: 1,
            name: "a".to_owned(),
            run: "1f".to_owned(),
            epoch: 0,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (peers, _) = Peers::start(me.clone(), listener, PeerLimits::default(), None);
        let direct = Arc::new(DirectReads::new(1));
        let shown = (watch::channel(None).0, Arc::clone(&direct));
        let readiness = Arc::new(Readiness::of(1, me.run.clone()));
        let links = tokio::runtime::Handle::current();
        let told = (None, Arc::default(), readiness);
        let mut driver = Driver::new(me, (keeper, 0), (peers, links), shown, told);
        // It holds no more after its start.
        driver.promises = Promises::new(0);
        let slot = guira_chain::SlotHash::of(&View::from_json(VIEW).unwrap()).slot(b"k");
        Self { driver, store, happening, direct, slot, number: 0 }
    }

    /// Follows the view, and looks at the key's slot.
    fn begin(&mut self) {
        self.driver.learn(View::from_json(VIEW).unwrap(), "a test");
        self.driver.step(self.slot, SlotEvent::Tick);
    }

    /// Begins to set the key. Returns what the client is told.
    fn set(&mut self) -> oneshot::Receiver<Told> {
        let request = Request { value: Bytes::from_static(b"v"), ..Request::new(Op::Set, "k") };
        let command = wire::command(&request).expect("a set is a change");
        self.number += 1;
        let (reply, told) = oneshot::channel();
        let (number, key) = (self.number, b"k".to_vec());
        let asked = Asked::Write { id: (1, number), is_repeated: false, key, command };
        let slot = self.slot;
        self.driver.take(Event::Ask(Box::new(Ask { to: 1, slot, epoch: 1, number, asked, reply })));
        told
    }

    /// Tells the driver what has happened in the store.
    fn hear(&mut self) {
        while let Ok(event) = self.happening.try_recv() {
            self.driver.take(event);
        }
    }
}

#[tokio::test]
async fn others_read_a_slot_only_while_its_changes_are_committed_and_in_the_store() {
    let mut alone = Alone::start().await;
    let (direct, slot) = (Arc::clone(&alone.direct), alone.slot);
    assert!(direct.begin(slot).is_none(), "no view");
    alone.begin();
    let read = direct.begin(slot).expect("nothing is under way");
    assert!(direct.has_lasted(&read, clock()));
    let mut told = alone.set();
    assert!(!direct.has_lasted(&read, clock()), "what it read may be the new value");
    assert!(direct.begin(slot).is_none(), "the change hasn't landed");
    alone.store.engine.land(1);
    alone.hear();
    assert!(matches!(told.try_recv(), Ok(Told::Wrote(_))));
    let read = direct.begin(slot).expect("it is committed");
    assert!(direct.has_lasted(&read, clock()));
    drop(alone);
    assert!(!direct.has_lasted(&read, clock()), "nobody owns the slot");
}

#[tokio::test]
async fn nobody_reads_directly_after_the_store_has_failed() {
    let mut alone = Alone::start().await;
    alone.begin();
    let mut told = alone.set();
    let (slot, result) = (alone.slot, Err(EngineError::ReadOnly));
    alone.driver.take(Event::Landed { slot, term: 0, seq: 1, result });
    alone.store.engine.land(1);
    alone.hear();
    assert!(told.try_recv().is_err());
    assert!(alone.direct.begin(slot).is_none());
}

/// Regression: a node that was restarted on a full disk took none of its copies, for ever. The nodes that were to be filled
/// after it waited.
#[tokio::test]
async fn a_node_that_stays_full_while_it_is_to_get_copies_ends_unless_it_may_have_the_last_ones() {
    let joins = r#""serving": [2], "syncing": [1], "attempt": 1"#;
    let last = r#""serving": [1], "base": 1"#;
    let one_of_three = r#""serving": [2, 3, 1], "base": 2"#;
    for (others, ends) in [(joins, true), (last, false), (one_of_three, true)] {
        let view = format!(
            r#"{{"format": 1, "cluster": "c1", "epoch": 1, "seed": "", "replicas": 2, "min_write": 1, "nodes": {{
            "1": {{"name": "a", "peers": "127.0.0.1:1", "weight": 1, "run": "1f"}},
            "2": {{"name": "b", "peers": "127.0.0.1:2", "weight": 1, "run": "2f"}},
            "3": {{"name": "c", "peers": "127.0.0.1:3", "weight": 1, "run": "3f"}}}},
            "groups": [{{"slots": "0-99", "epoch": 1, {joins}}}, {{"slots": "100-16383", "epoch": 1, {others}}}]}}"#
        );
        let view = if others == joins {
            view.replace(&format!(r#"0-99", "epoch": 1, {joins}}}, {{"slots": "100-"#), "0-")
        } else {
            view
        };
        let mut alone = Alone::start().await;
        alone.driver.learn(View::from_json(&view).expect("a view"), "a test");
        let mut failed_at = |is_full, now| {
            alone.store.engine.is_full.store(is_full, std::sync::atomic::Ordering::Relaxed);
            alone.driver.leave_if_full(now);
            alone.driver.keeper.failure()
        };
        assert_eq!(failed_at(true, 0), None);
        assert_eq!(failed_at(true, FULL_FOR - 1), None);
        assert_eq!(failed_at(false, FULL_FOR), None, "a merge has made room");
        assert_eq!(failed_at(true, FULL_FOR + 1), None);
        let failure = failed_at(true, 2 * FULL_FOR + 1);
        assert_eq!(failure, ends.then_some(EngineError::OutOfDisk), "{others}");
    }
}
