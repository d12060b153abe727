//! Tests over an engine that lands changes when it is told to.

use super::*;
use crate::engine::{Begun, Record};
use crate::figures::Figures;
use crate::horizon::Horizon;
use guira_chain::slot::WriteVerdict;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

type Waiting = (Bytes, Option<Bytes>, Arc<dyn Landing>);

/// Lands what the test lets it land.
#[derive(Default)]
pub(crate) struct Slow {
    records: Mutex<HashMap<Bytes, Bytes>>,
    waiting: Mutex<VecDeque<Waiting>>,
    pub(crate) is_full: AtomicBool,
}

impl Slow {
    pub(crate) fn land(&self, count: usize) {
        for _ in 0..count {
            let (key, value, landing) = self.waiting.lock().pop_front().expect("one waits");
            match value {
                Some(value) => drop(self.records.lock().insert(key, value)),
                None => drop(self.records.lock().remove(&key)),
            }
            landing.landed(Ok(()));
        }
    }
}

impl Engine for Slow {
    type Lookup = ();
    fn begin(&self, key: &Bytes) -> Begun<()> {
        let value = self.records.lock().get(key).cloned();
        Begun::Known(Ok(value.map(|value| Record { seq: 1, value })))
    }
    fn finish(&self, (): (), _: &dyn Fn(usize) -> bool) -> Result<Option<Record>, EngineError> {
        Ok(None)
    }
    fn submit(
        &self,
        key: Bytes,
        value: Option<Bytes>,
        _: bool,
        landing: Arc<dyn Landing>,
    ) -> Result<u64, EngineError> {
        self.waiting.lock().push_back((key, value, landing));
        Ok(1)
    }
    fn health(&self) -> Health {
        if self.is_full.load(Relaxed) { Health::OutOfDisk } else { Health::Good }
    }
    fn visit(&self, each: &mut dyn FnMut(&[u8], &Record) -> bool) -> Result<(), EngineError> {
        for (key, value) in &*self.records.lock() {
            each(key, &Record { seq: 1, value: value.clone() });
        }
        Ok(())
    }
    fn figures(&self) -> Figures {
        let reserve = u64::from(self.is_full.load(Relaxed));
        Figures { disk_reserve_bytes: reserve, ..Figures::default() }
    }
    fn settle(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

pub(in crate::replica) fn keeper(is_new: bool) -> (Keeper<Slow>, UnboundedReceiver<Event>) {
    let node = Node::new(Slow::default(), Arc::new(Horizon::default()), (1, 100)).unwrap();
    let view = r#"{"format": 1, "cluster": "c1", "epoch": 1, "seed": "", "replicas": 1,
        "min_write": 1, "nodes": {"1": {"name": "a", "peers": "", "weight": 1, "run": "1f"}},
        "groups": [{"slots": "0-16383", "epoch": 1, "serving": [1]}]}"#;
    let hash = SlotHash::of(&View::from_json(view).unwrap());
    let (cluster, seed) = ("c1".to_owned(), String::new());
    // So many numbers are reserved that no reservation waits among the changes.
    let identity = Identity { cluster, seed, node: 1, reserved: 99 };
    let (events, happening) = unbounded_channel();
    (Keeper::new(Arc::new(node), hash, (identity, is_new), events), happening)
}

fn effect(key: &str, seq: u64, change: Option<Option<&str>>) -> Effect {
    let change = change.map(|value| value.map(|it| it.as_bytes().to_vec()));
    let (version, verdict) = (Version { epoch: 3, seq }, WriteVerdict::Missing);
    Effect { version, id: (1, seq), key: key.into(), change, verdict }
}

impl Keeper<Slow> {
    pub(in crate::replica) fn store(&self) -> Arc<Node<Slow>> {
        Arc::clone(&self.node)
    }

    /// Lands this many changes, and returns what the slot is told then.
    fn land(
        &mut self,
        (slot, count): (u16, usize),
        happening: &mut UnboundedReceiver<Event>,
    ) -> Option<u64> {
        self.node.engine.land(count);
        while let Ok(Event::Landed { slot, term, seq, result }) = happening.try_recv() {
            self.landed((slot, term, seq), result);
        }
        self.take_landed(slot)
    }

    fn value(&self, key: &str) -> Option<(Option<String>, u64)> {
        let stand = self.get(key.as_bytes())?;
        let text = stand.value.map(|it| String::from_utf8(it).unwrap());
        Some((text, stand.version.seq))
    }
}

#[test]
fn a_change_is_seen_at_once_and_a_delete_hides_nothing_before_it_is_committed() {
    let (mut keeper, mut happening) = keeper(true);
    let slot = keeper.hash.slot(b"k");
    keeper.apply(slot, effect("k", 1, Some(Some("v"))));
    assert_eq!(keeper.value("k"), Some((Some("v".to_owned()), 1)));
    keeper.apply(slot, effect("k", 2, None));
    assert_eq!(keeper.take_landed(slot), None, "the first one has not landed");
    assert_eq!(keeper.land((slot, 1), &mut happening), Some(2), "the second has no change");
    keeper.note_committed(slot, 2);
    assert!(keeper.held.is_empty());
    assert_eq!(keeper.value("k"), Some((Some("v".to_owned()), 1)), "of the engine");

    keeper.apply(slot, effect("k", 3, Some(None)));
    assert_eq!(keeper.land((slot, 1), &mut happening), Some(3));
    keeper.note_committed(slot, 2);
    assert_eq!(keeper.value("k"), Some((None, 3)), "it may not be shown yet");
    keeper.note_committed(slot, 3);
    assert_eq!(keeper.value("k"), None);
}

#[test]
fn effects_land_in_their_order() {
    let (mut keeper, mut happening) = keeper(true);
    let slot = keeper.hash.slot(b"k");
    (1..=3).for_each(|seq| keeper.apply(slot, effect("k", seq, Some(Some("v")))));
    keeper.landed((slot, 0, 2), Ok(()));
    assert_eq!(keeper.take_landed(slot), None);
    assert_eq!(keeper.land((slot, 1), &mut happening), Some(2));
    assert_eq!(keeper.land((slot, 2), &mut happening), Some(3));
    keeper.landed((slot, 0, 3), Err(EngineError::ReadOnly));
    assert_eq!(keeper.failure(), Some(EngineError::ReadOnly));
}

#[test]
fn a_copy_takes_the_place_of_all_that_the_slot_had() {
    for is_new in [true, false] {
        let (mut keeper, mut happening) = keeper(is_new);
        let slot = keeper.hash.slot(b"k");
        let beside = (0_u32..).map(|n| n.to_string());
        let other = beside.clone().find(|it| keeper.hash.slot(it.as_bytes()) != slot).unwrap();
        let same = beside.skip(1).find(|it| keeper.hash.slot(it.as_bytes()) == slot).unwrap();
        keeper.apply(slot, effect("k", 1, Some(Some("v"))));
        keeper.apply(slot + 1, effect(&other, 1, Some(Some("o"))));
        assert_eq!(keeper.land((slot, 2), &mut happening), Some(1));
        keeper.apply(slot, effect("k", 8, Some(Some("late"))));
        if !is_new {
            assert!(!keeper.can_replace(), "the keys aren't known");
            let Some(Event::Keys(found)) = happening.blocking_recv() else { panic!("a walk ends") };
            keeper.collected(found);
        }
        assert!(keeper.can_replace());
        let version = Version { epoch: 3, seq: 7 };
        let stand = Stand { value: Some(b"new".to_vec()), version };
        keeper.replace(slot, vec![(same.clone().into_bytes(), stand.clone())], 8);
        assert_eq!(keeper.land((slot, 1), &mut happening), None, "of before the copy");
        assert_eq!(keeper.land((slot, 1), &mut happening), None, "one of two");
        assert_eq!(keeper.land((slot, 1), &mut happening), Some(8));
        keeper.note_committed(slot, 8);
        assert_eq!(keeper.value("k"), None);
        assert_eq!(keeper.value(&other).map(|it| it.1), Some(1), "another slot's");
        assert_eq!(keeper.shelf(slot).all(true), Some(vec![(same.into_bytes(), stand)]));
    }
}

/// A store with records, whose keys nobody knows yet.
#[test]
fn a_copy_waits_for_the_walk_over_all_records_and_for_its_turn() {
    let (mut keeper, mut happening) = keeper(false);
    let slot = keeper.hash.slot(b"k");
    keeper.apply(slot, effect("k", 1, Some(Some("v"))));
    assert_eq!(keeper.land((slot, 1), &mut happening), Some(1));
    keeper.note_committed(slot, 1);

    let [other, urgent] = [slot + 1, slot + 2];
    let has_time = [slot, other].map(|slot| keeper.shelf(slot).all(false).is_none());
    assert_eq!(has_time, [true; 2]);
    assert!(keeper.shelf(urgent).all(true).is_none());
    keeper.look(clock());
    assert_eq!(keeper.next_copy(), None, "the keys aren't known");
    let Some(Event::Keys(found)) = happening.blocking_recv() else { panic!("a walk ends") };
    keeper.collected(found);
    keeper.look(clock() + 60_000_000);
    assert_eq!(keeper.next_copy(), Some(urgent), "changes wait for it");
    keeper.copied(urgent);
    assert_eq!(keeper.next_copy(), Some(other), "nothing has to be read of it");
    keeper.copied(other);
    assert_eq!(keeper.next_copy(), None, "the records of the first aren't read");
    assert_eq!(keeper.shelf(slot).all(false), None, "all others would wait for it");
    // It comes between the walk and the copy.
    keeper.apply(slot, effect("k", 2, Some(Some("new"))));
    let Some(Event::Ahead(found)) = happening.blocking_recv() else { panic!("they are read") };
    keeper.came(found);
    assert_eq!(keeper.next_copy(), Some(slot));
    let all = keeper.shelf(slot).all(false).expect("its turn has come");
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].1.version.seq, 2);
    keeper.copied(slot);

    keeper.look(0);
    assert_eq!(keeper.shelf(other).all(false), None, "all others would wait for it");
    assert_eq!(keeper.shelf(urgent).all(true), Some(Vec::new()));
    assert!(keeper.has_copies_due());
    assert_eq!(keeper.next_copy(), None, "its turn is over");
    keeper.look(clock() + 60_000_000);
    assert_eq!(keeper.next_copy(), Some(other));
    assert!(!keeper.has_copies_due());
    keeper.copied(other);
    assert_eq!(keeper.shelf(other).all(false), None, "it had its turn");
}

/// What is read of a key while it is written is never given, whichever of the two is first.
#[test]
fn a_copy_has_what_was_written_while_its_records_were_read() {
    let (mut keeper, mut happening) = keeper(true);
    let slot = keeper.hash.slot(b"k");
    let read = |keeper: &mut Keeper<Slow>, happening: &mut UnboundedReceiver<Event>| {
        assert_eq!(keeper.shelf(slot).all(false), None);
        keeper.look(clock() + 60_000_000);
        loop {
            match happening.blocking_recv() {
                Some(Event::Ahead(found)) => return found,
                Some(Event::Landed { slot, term, seq, result }) => {
                    keeper.landed((slot, term, seq), result);
                }
                _ => panic!("its records are read"),
            }
        }
    };
    let version = |keeper: &mut Keeper<Slow>| {
        assert_eq!(keeper.next_copy(), Some(slot));
        let all = keeper.shelf(slot).all(false).expect("its turn has come");
        keeper.copied(slot);
        all.iter().map(|it| it.1.version.seq).collect::<Vec<_>>()
    };
    keeper.apply(slot, effect("k", 1, Some(Some("a"))));
    // It is held when a reading would be ordered, so the engine isn't asked for it. It is committed before its turn.
    assert_eq!(keeper.shelf(slot).all(false), None);
    keeper.look(clock() + 60_000_000);
    assert_eq!(keeper.land((slot, 1), &mut happening), Some(1));
    keeper.note_committed(slot, 1);
    assert_eq!(version(&mut keeper), [1]);
    // It is written and committed after the reading, and before what was read comes.
    let found = read(&mut keeper, &mut happening);
    keeper.apply(slot, effect("k", 2, Some(Some("b"))));
    assert_eq!(keeper.land((slot, 1), &mut happening), Some(2));
    keeper.note_committed(slot, 2);
    keeper.came(found);
    assert_eq!(version(&mut keeper), [2]);
    // The same, after what was read has come.
    let found = read(&mut keeper, &mut happening);
    keeper.came(found);
    keeper.apply(slot, effect("k", 3, Some(None)));
    assert_eq!(keeper.land((slot, 1), &mut happening), Some(3));
    keeper.note_committed(slot, 3);
    assert_eq!(version(&mut keeper), Vec::<u64>::new());
}
