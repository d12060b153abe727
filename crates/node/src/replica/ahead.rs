//! Records read ahead for copies of slots: other threads wait for the device, and the slots' thread goes on.
//!
//! # Invariants
//! 1. What was read of a key counts only if nothing was written to it since the reading was ordered.
//! 2. A slot that was read has one turn. What it doesn't take then is forgotten.
//!
//! # Costs
//! At most [`ORDERS_MAX`] threads read at a time. They keep up to [`BYTES_MAX`] of values, and of each order [`ORDER_BYTES`] and
//! one value more. What doesn't fit is read when the copy is made.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use guira_chain::slot::Stand;

use super::record;
use crate::engine::{Begun, Engine, EngineError};

/// What was found of keys; `None`: there is no record.
pub(super) type Found = HashMap<Bytes, Option<Stand>>;
/// Slots, each with keys that are to be read.
pub(super) type Order = Vec<(u16, Vec<Bytes>)>;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Slots that are being read, each with the keys that were written since.
    reading: HashMap<u16, HashSet<Bytes>>,
    ready: HashMap<u16, Found>,
    turns: VecDeque<u16>,
    /// Of the values that are ready.
    bytes: usize,
    orders: usize,
}

impl Ahead {
    /// Whether another order may be given.
    pub(super) fn has_room(&self) -> bool {
        let slots = self.reading.len() + self.ready.len();
        self.orders < ORDERS_MAX && slots < SLOTS_MAX && self.bytes < BYTES_MAX
    }

    pub(super) fn knows(&self, slot: u16) -> bool {
        self.reading.contains_key(&slot) || self.ready.contains_key(&slot)
    }

    /// Notes that an order was given, which the caller has to carry out.
    pub(super) fn give(&mut self, order: &Order) {
        self.orders += 1;
        self.reading.extend(order.iter().map(|it| (it.0, HashSet::new())));
    }

    /// Notes that nothing has to be read of a slot.
    pub(super) fn need_nothing(&mut self, slot: u16) {
        self.ready.insert(slot, Found::new());
        self.turns.push_back(slot);
    }

    /// Notes that a key was written.
    pub(super) fn note(&mut self, slot: u16, key: &Bytes) {
        if let Some(written) = self.reading.get_mut(&slot) {
            written.insert(key.clone());
        } else if let Some(found) = self.ready.get_mut(&slot) {
            let stand = found.remove(key);
            self.bytes -= stand.as_ref().map_or(0, bytes_of);
        }
    }

    /// Takes what an order found.
    pub(super) fn take(&mut self, found: Vec<(u16, Found)>) {
        self.orders = self.orders.saturating_sub(1);
        for (slot, mut found) in found {
            let written = self.reading.remove(&slot).unwrap_or_default();
            found.retain(|key, _| !written.contains(key));
            self.bytes += found.values().map(bytes_of).sum::<usize>();
            self.ready.insert(slot, found);
            self.turns.push_back(slot);
        }
    }

    /// The slot whose turn is next.
    pub(super) fn next_turn(&mut self) -> Option<u16> {
        self.turns.pop_front()
    }

    pub(super) fn is_ready(&self, slot: u16) -> bool {
        self.ready.contains_key(&slot)
    }

    /// Hands out what was read of a slot, and forgets it.
    pub(super) fn hand_out(&mut self, slot: u16) -> Found {
        let found = self.ready.remove(&slot).unwrap_or_default();
        self.bytes -= found.values().map(bytes_of).sum::<usize>();
        found
    }
}

/// Reads keys. It waits for the device.
pub(super) fn read<E: Engine>(engine: &E, order: Order) -> Result<Vec<(u16, Found)>, EngineError> {
    let mut bytes = 0;
    let mut all = Vec::with_capacity(order.len());
    for (slot, keys) in order {
        let mut found = Found::with_capacity(keys.len());
        for key in keys {
            if bytes >= ORDER_BYTES {
                break;
            }
            let stand = stand_of(engine, &key)?;
            bytes += bytes_of(&stand);
            found.insert(key, stand);
        }
        all.push((slot, found));
    }
    Ok(all)
}

/// What the engine has of a key. It may wait for the device.
pub(super) fn stand_of<E: Engine>(engine: &E, key: &Bytes) -> Result<Option<Stand>, EngineError> {
    let found = match engine.begin(key) {
        Begun::Known(found) => found,
        Begun::Unknown(lookup) => engine.finish(lookup, &|_| true),
    };
    Ok(found?.and_then(|found| {
        let (version, item) = record::decode(&found.value)?;
        Some(Stand { value: Some(item.to_vec()), version })
    }))
}

fn bytes_of(stand: &Option<Stand>) -> usize {
    stand.as_ref().and_then(|it| it.value.as_ref()).map_or(0, Vec::len)
}

/// Threads that read at a time.
const ORDERS_MAX: usize = 2;
/// Keys of an order: its last slot may bring more.
pub(super) const ORDER_KEYS: usize = 256;
/// Slots of an order, most of which are small.
pub(super) const ORDER_SLOTS: usize = 64;
/// Bytes after which an order reads no further value.
const ORDER_BYTES: usize = 1 << 20;
/// Slots that were read, or are being read: while there are fewer, another order may be given.
const SLOTS_MAX: usize = 256;
/// Bytes that are ready: while there are fewer, another order may be given.
const BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use guira_chain::slot::Version;

    use super::*;
    use crate::engine::Landing;

    struct Nobody;

    impl Landing for Nobody {
        fn landed(&self, _: Result<(), EngineError>) {}
    }

    fn found(key: &'static str) -> Found {
        let stand = Stand { value: Some(vec![0; 10]), version: Version::default() };
        [(Bytes::from_static(key.as_bytes()), Some(stand))].into()
    }

    #[test]
    fn what_was_written_meanwhile_is_forgotten() {
        let mut ahead = Ahead::default();
        ahead.give(&vec![(1, Vec::new()), (2, Vec::new()), (3, Vec::new())]);
        ahead.note(1, &Bytes::from_static(b"k"));
        ahead.take(vec![(1, found("k")), (2, found("k")), (3, found("k"))]);
        ahead.note(2, &Bytes::from_static(b"k"));
        assert_eq!(ahead.bytes, 10);
        assert_eq!([1, 2].map(|slot| ahead.hand_out(slot)), [Found::new(), Found::new()]);
        assert_eq!(ahead.hand_out(3), found("k"));
        assert_eq!((ahead.bytes, ahead.is_ready(3)), (0, false));
        assert_eq!([(); 4].map(|()| ahead.next_turn()), [Some(1), Some(2), Some(3), None]);
    }

    #[test]
    fn what_an_order_has_no_room_for_is_left_to_the_copy() {
        let (keeper, _) = super::super::keeper::tests::keeper(true);
        let store = keeper.store();
        let keys: Vec<_> = (0..6).map(|n| Bytes::from(format!("k{n}"))).collect();
        for key in &keys {
            let item = vec![0; ORDER_BYTES / 3];
            let value = Some(record::encode(Version::default(), &item));
            store.engine.submit(key.clone(), value, false, Arc::new(Nobody)).expect("it is taken");
        }
        store.engine.land(keys.len());
        let found = read(&store.engine, vec![(1, keys)]).expect("it reads");
        // What is missing there is read when the copy is made.
        assert_eq!(found[0].1.len(), 4, "{:?}", found[0].1.keys());
        assert!(found[0].1.values().all(Option::is_some));
    }

    #[test]
    fn only_so_much_is_read_ahead() {
        let mut ahead = Ahead::default();
        for slot in 0..2 {
            assert!(ahead.has_room());
            ahead.give(&vec![(slot, Vec::new())]);
        }
        assert!(!ahead.has_room(), "two read");
        ahead.take(vec![(0, Found::new())]);
        assert!(ahead.has_room() && ahead.knows(0) && ahead.knows(1) && !ahead.knows(2));
        let stand = Stand { value: Some(vec![0; BYTES_MAX]), version: Version::default() };
        ahead.take(vec![(1, [(Bytes::from_static(b"k"), Some(stand))].into())]);
        assert!(!ahead.has_room(), "a long value waits");
        ahead.hand_out(1);
        assert!(ahead.has_room());
    }
}
