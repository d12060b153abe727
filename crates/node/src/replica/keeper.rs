//! A node's slots in its engine: the record of a key, changes on their way, and which keys a slot has.
//!
//! # Invariants
//! 1. A change can be read as soon as it is applied. It stays here until the engine has it and the slot has committed it.
//!    So a delete, for which the engine keeps no version, hides nothing before it is committed.
//! 2. A slot's effects land in their order: [`Keeper::take_landed`] returns an effect once all before it have landed too.
//! 3. A read after a failure finds nothing, and [`Keeper::failure`] returns the failure: the node then has to end.
//!
//! 4. After each look, copies of slots are given for [`COPIES_FOR`], and at most of [`COPIES_KEYS`]: requests would wait for more,
//!    here and at the node that gets them. Where changes wait for a copy, it is given at once.
//!
//! # Costs
//! A read that memory doesn't answer waits for the device. A copy of a slot has all its records, once its keys are known: see
//! [`super::keys`]. Another thread walks over the records for that. Others read the records: see [`super::ahead`]. If changes
//! wait for the copy, this thread reads them itself. A node can't take a copy before it knows the keys of what it has.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::AcqRel;
use std::thread;

use bytes::Bytes;
use guira_chain::slot::{Contents, Decision, Effect, Stand, Version};
use guira_chain::{SLOTS, SlotHash, View};
use guira_proto::KEY_BYTES_MAX;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use super::ahead::{self, Ahead, Found, ORDER_KEYS, ORDER_SLOTS, Order};
use super::clock::clock;
use super::event::Event;
use super::identity::{self, Identity};
use super::keys::{self, Collected, SlotKeys};
use super::{record, wire};
use crate::engine::{Engine, EngineError, Health, Landing};
use crate::node::{Node, now};

/// See the module's head.
pub(super) struct Keeper<E> {
    node: Arc<Node<E>>,
    hash: SlotHash,
    identity: Identity,
    events: UnboundedSender<Event>,
    /// Changes that the engine doesn't have yet, or that aren't committed.
    held: HashMap<Bytes, Held>,
    tracks: HashMap<u16, Track>,
    writes: u64,
    /// The keys of each slot, while copies are needed.
    keys: RefCell<SlotKeys>,
    /// The slots of which a copy is wanted, each after whether it has time. And until when copies are given.
    wanted: RefCell<BTreeSet<(bool, u16)>>,
    copies_until: Cell<u64>,
    /// Of so many keys copies may be given until the next look.
    copies_left: Cell<usize>,
    ahead: RefCell<Ahead>,
    failed: RefCell<Option<EngineError>>,
}

struct Held {
    version: Version,
    /// The record's value; `None`: a delete.
    value: Option<Bytes>,
    write: u64,
}

/// A slot's changes on their way.
#[derive(Default)]
struct Track {
    /// The number of replacements of the content: changes that began before the last one no longer count.
    term: u64,
    /// Effects in their order, each with whether its changes have landed.
    under_way: VecDeque<(u64, bool)>,
    landed: u64,
    is_news: bool,
    /// Changes that are held: each with the effect after which it needn't be, its write, and its key.
    held: VecDeque<(u64, u64, Bytes)>,
}

/// What waits for the changes of an effect, or of a copy, to land.
struct Lands {
    slot: u16,
    term: u64,
    seq: u64,
    /// The changes that haven't landed.
    left: AtomicUsize,
    events: UnboundedSender<Event>,
}

impl Landing for Lands {
    fn landed(&self, result: Result<(), EngineError>) {
        let Self { slot, term, seq, .. } = *self;
        // A copy has many changes, and one event for all.
        if self.left.fetch_sub(1, AcqRel) > 1 && result.is_ok() {
            return;
        }
        // While the node ends, the event is lost.
        let _ = self.events.send(Event::Landed { slot, term, seq, result });
    }
}

impl<E: Engine> Keeper<E> {
    /// Creates the keeper of a store with this identity. `is_new`: the store has no records.
    pub(super) fn new(
        node: Arc<Node<E>>,
        hash: SlotHash,
        (identity, is_new): (Identity, bool),
        events: UnboundedSender<Event>,
    ) -> Self {
        Self {
            node,
            hash,
            identity,
            events,
            held: HashMap::new(),
            tracks: HashMap::new(),
            writes: 0,
            keys: RefCell::new(SlotKeys::of(is_new)),
            wanted: RefCell::default(),
            copies_until: Cell::new(0),
            copies_left: Cell::new(0),
            ahead: RefCell::default(),
            failed: RefCell::default(),
        }
    }

    /// Whether a view is of the cluster that the store belongs to.
    pub(super) fn is_of(&self, view: &View) -> bool {
        (&self.identity.cluster, &self.identity.seed) == (&view.cluster, &view.seed)
    }

    /// The failure because of which the node has to end.
    pub(super) fn failure(&self) -> Option<EngineError> {
        self.failed.borrow().clone()
    }

    /// Whether the device has no room for values.
    pub(super) fn is_full(&self) -> bool {
        self.node.engine.health() == Health::OutOfDisk
    }

    /// Ends the node, because it can take no copies.
    pub(super) fn give_up_full(&self) {
        self.fail(EngineError::OutOfDisk);
    }

    /// Whether the store should take no more for now: the device is full or has failed, or merges are far behind.
    pub(super) fn is_burdened(&self) -> bool {
        let is_behind = matches!(self.node.engine.delay(), Some(crate::engine::Delay::Until(_)));
        is_behind || self.node.engine.health() != Health::Good
    }

    /// The content of a slot.
    pub(super) fn shelf(&self, slot: u16) -> Shelf<'_, E> {
        Shelf { keeper: self, slot }
    }

    /// Applies an effect: passes its change to the engine.
    pub(super) fn apply(&mut self, slot: u16, effect: Effect) {
        let seq = effect.version.seq;
        self.reserve(seq);
        self.track(slot).under_way.push_back((seq, effect.change.is_none()));
        match effect.change {
            Some(value) => {
                let value = value.map(|item| record::encode(effect.version, &item));
                let landing = self.landing(slot, seq, 1);
                self.put(slot, (seq, effect.version), (effect.key.into(), value), landing);
            }
            None => self.track(slot).note(),
        }
    }

    /// Whether the content of slots can be replaced now: that takes their keys. If they aren't known, a walk is on its way.
    pub(super) fn can_replace(&mut self) -> bool {
        let are_known = self.keys.get_mut().get(0).is_some();
        if !are_known {
            self.walk_aside(&mut self.keys.borrow_mut());
        }
        are_known
    }

    /// Replaces what the slot has by a whole content, up to the effect `last`, which [`Keeper::can_replace`] allowed.
    pub(super) fn replace(&mut self, slot: u16, items: Vec<(Vec<u8>, Stand)>, last: u64) {
        self.reserve(last);
        let Some(mut gone) = self.keys.get_mut().get(slot).cloned() else {
            let words = "a slot was to be replaced, whose keys aren't known".to_owned();
            self.fail(EngineError::Other(words));
            return;
        };
        for (key, _) in &items {
            gone.remove(&key[..]);
        }
        let track = self.track(slot);
        track.term += 1;
        track.under_way.clear();
        // All that was held is overwritten below.
        track.held.clear();
        (track.landed, track.is_news) = (0, false);
        let changes = gone.len() + items.len();
        track.under_way.push_back((last, changes == 0));
        let landing = self.landing(slot, last, changes);
        for key in gone {
            self.put(slot, (last, Version::default()), (key, None), Arc::clone(&landing));
        }
        for (key, stand) in items {
            let value = stand.value.map(|item| record::encode(stand.version, &item));
            self.put(slot, (last, stand.version), (key.into(), value), Arc::clone(&landing));
        }
        if changes == 0 {
            self.track(slot).note();
        }
    }

    /// What waits for so many changes of a slot, which are one effect or one copy.
    fn landing(&mut self, slot: u16, seq: u64, changes: usize) -> Arc<dyn Landing> {
        let (events, term) = (self.events.clone(), self.track(slot).term);
        Arc::new(Lands { slot, term, seq, left: AtomicUsize::new(changes), events })
    }

    fn put(
        &mut self,
        slot: u16,
        (seq, version): (u64, Version),
        (key, value): (Bytes, Option<Bytes>),
        landing: Arc<dyn Landing>,
    ) {
        self.writes += 1;
        let write = self.writes;
        self.keys.get_mut().note(slot, &key);
        self.ahead.get_mut().note(slot, &key);
        self.track(slot).held.push_back((seq, write, key.clone()));
        self.held.insert(key.clone(), Held { version, value: value.clone(), write });
        if let Err(failure) = self.node.engine.submit(key, value, false, landing) {
            self.fail(failure);
        }
    }

    /// Ensures that no number up to this is given again by a later process.
    fn reserve(&mut self, seq: u64) {
        if !self.identity.reserve(seq) {
            return;
        }
        let value = Some(self.identity.encode());
        let (events, left) = (self.events.clone(), AtomicUsize::new(1));
        let landing = Arc::new(Lands { slot: SLOTS, term: 0, seq: 0, left, events });
        // The engine orders this before the effect, so there is no need to wait.
        if let Err(failure) = self.node.engine.submit(identity::key(), value, false, landing) {
            self.fail(failure);
        }
    }

    /// Records that a change landed, or failed.
    pub(super) fn landed(
        &mut self,
        (slot, term, seq): (u16, u64, u64),
        result: Result<(), EngineError>,
    ) {
        if let Err(failure) = result {
            self.fail(failure);
            return;
        }
        let Some(track) = self.tracks.get_mut(&slot).filter(|it| it.term == term) else { return };
        if let Ok(at) = track.under_way.binary_search_by_key(&seq, |it| it.0) {
            track.under_way[at].1 = true;
            track.note();
        }
    }

    /// Returns up to which effect all of a slot have landed, if that has changed since the last call.
    pub(super) fn take_landed(&mut self, slot: u16) -> Option<u64> {
        let track = self.tracks.get_mut(&slot)?;
        std::mem::take(&mut track.is_news).then_some(track.landed)
    }

    /// Records up to which effect the slot has committed.
    pub(super) fn note_committed(&mut self, slot: u16, committed: u64) {
        let Some(track) = self.tracks.get_mut(&slot) else { return };
        let done = committed.min(track.landed);
        while let Some((_, write, key)) = track.held.pop_front_if(|it| it.0 <= done) {
            if self.held.get(&key).is_some_and(|it| it.write == write) {
                self.held.remove(&key);
            }
        }
    }

    /// Whether a change of this slot isn't committed, or the engine doesn't have it yet. Then the engine may show what clients
    /// must not see.
    pub(super) fn holds_any(&self, slot: u16) -> bool {
        self.tracks.get(&slot).is_some_and(|it| !it.held.is_empty() || !it.under_way.is_empty())
    }

    /// Forgets the keys of slots if no copy was needed for long, and allows some copies more; `now` in microseconds.
    pub(super) fn look(&mut self, now: u64) {
        if let Some(keys) = self.keys.get_mut().look(now) {
            // If no thread can be started, they are freed here.
            let _ = thread::Builder::new().name("keys".to_owned()).spawn(move || drop(keys));
        }
        self.copies_until.set(now + COPIES_FOR);
        self.copies_left.set(COPIES_KEYS);
        self.read_ahead();
    }

    /// Whether a slot waits until it may be copied.
    pub(super) fn has_copies_due(&self) -> bool {
        !self.wanted.borrow().is_empty() && !self.keys.borrow().are_ordered()
    }

    /// A slot of which a copy is wanted, and may be given now. [`Keeper::copied`] has to follow.
    pub(super) fn next_copy(&mut self) -> Option<u16> {
        if !self.has_copies_due() || !self.may_copy() {
            return None;
        }
        let wanted = self.wanted.get_mut();
        if wanted.first().is_some_and(|it| !it.0) {
            return wanted.pop_first().map(|it| it.1);
        }
        let slot = self.ahead.get_mut().next_turn()?;
        wanted.remove(&(true, slot));
        Some(slot)
    }

    /// Whether copies are given for which no change waits.
    fn may_copy(&self) -> bool {
        self.copies_left.get() > 0 && clock() < self.copies_until.get()
    }

    /// Notes that a slot had its turn.
    pub(super) fn copied(&mut self, slot: u16) {
        self.ahead.get_mut().hand_out(slot);
    }

    /// Takes the keys that a walk found.
    pub(super) fn collected(&mut self, found: Result<Collected, EngineError>) {
        match found {
            Ok(found) => self.keys.get_mut().take(found),
            Err(failure) => self.fail(failure),
        }
        self.read_ahead();
    }

    /// Takes records that were read ahead.
    pub(super) fn came(&mut self, found: Result<Vec<(u16, Found)>, EngineError>) {
        match found {
            Ok(found) => self.ahead.get_mut().take(found),
            Err(failure) => self.fail(failure),
        }
        self.read_ahead();
    }

    /// Has the records of slots read that wait for their copies.
    fn read_ahead(&mut self) {
        while self.has_copies_due() && self.ahead.get_mut().has_room() {
            let order = self.next_order();
            if order.is_empty() {
                return;
            }
            self.ahead.get_mut().give(&order);
            let node = Arc::clone(&self.node);
            self.aside("copies", Event::Ahead, move || ahead::read(&node.engine, order));
        }
    }

    fn next_order(&mut self) -> Order {
        let (ahead, keys) = (self.ahead.get_mut(), self.keys.get_mut());
        let (mut order, mut count, mut empty) = (Order::new(), 0, 0);
        for (_, slot) in self.wanted.get_mut().iter().filter(|it| it.0) {
            if order.len() >= ORDER_SLOTS || count >= ORDER_KEYS || empty >= EMPTY_AT_ONCE {
                break;
            }
            let Some(keys) = keys.get(*slot).filter(|_| !ahead.knows(*slot)) else { continue };
            // The engine may not have what is held, and it may be committed soon.
            let keys: Vec<_> = keys.iter().filter(|it| !self.held.contains_key(*it)).collect();
            if keys.is_empty() {
                ahead.need_nothing(*slot);
                empty += 1;
                continue;
            }
            count += keys.len();
            order.push((*slot, keys.into_iter().cloned().collect()));
        }
        order
    }

    /// Has another thread do something that waits for the device.
    fn aside<T: Send + 'static>(
        &self,
        name: &str,
        event: fn(Result<T, EngineError>) -> Event,
        work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
    ) {
        let events = self.events.clone();
        let work = Arc::new(Mutex::new(Some(work)));
        let works = move |work: &Mutex<Option<_>>| {
            let Some(work) = work.lock().take() else { return };
            let done = catch_unwind(AssertUnwindSafe(work));
            let died = |_| Err(EngineError::Other("a thread that reads records died".to_owned()));
            // While the node ends, the event is lost.
            let _ = events.send(event(done.unwrap_or_else(died)));
        };
        let (there, here) = (Arc::clone(&work), works.clone());
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || works(&there));
        if thread.is_err() {
            // The system has no thread for it: requests wait meanwhile, and nothing is lost.
            here(&work);
        }
    }

    fn track(&mut self, slot: u16) -> &mut Track {
        self.tracks.entry(slot).or_default()
    }

    fn fail(&self, failure: EngineError) {
        self.failed.borrow_mut().get_or_insert(failure);
    }

    fn get(&self, key: &[u8]) -> Option<Stand> {
        if let Some(held) = self.held.get(key) {
            return Some(stand(held.version, held.value.as_deref()));
        }
        // The node ends after a failure, and its last line names the damage.
        let found = ahead::stand_of(&self.node.engine, &Bytes::copy_from_slice(key));
        found.unwrap_or_else(|failure| {
            self.fail(failure);
            None
        })
    }

    /// Has another thread walk over all records for their keys, unless one does. It may miss what the engine doesn't have yet.
    fn walk_aside(&self, keys: &mut SlotKeys) {
        if keys.order() {
            self.held.keys().for_each(|key| keys.note(self.hash.slot(key), key));
            let (node, hash) = (Arc::clone(&self.node), self.hash.clone());
            self.aside("keys", Event::Keys, move || walk(&*node, &hash));
        }
    }

    /// The keys of a slot, with what was read ahead of them, if a copy of it may be given now. Otherwise its turn comes.
    fn keys_for_copy(&self, slot: u16, is_urgent: bool) -> Option<(HashSet<Bytes>, Found)> {
        let mut keys = self.keys.borrow_mut();
        let mut ahead = self.ahead.borrow_mut();
        let may = is_urgent || (self.may_copy() && ahead.is_ready(slot));
        if let Some(keys) = keys.get(slot).filter(|_| may) {
            self.copies_left.set(self.copies_left.get().saturating_sub(keys.len()));
            return Some((keys.clone(), ahead.hand_out(slot)));
        }
        self.wanted.borrow_mut().insert((!is_urgent, slot));
        self.walk_aside(&mut keys);
        None
    }
}

/// The keys of all slots. It waits for the device.
fn walk<E: Engine>(node: &Node<E>, hash: &SlotHash) -> Result<Collected, EngineError> {
    let mut found = keys::none();
    node.engine.visit(&mut |key, _| {
        if key.len() <= KEY_BYTES_MAX {
            found[usize::from(hash.slot(key))].insert(Bytes::copy_from_slice(key));
        }
        true
    })?;
    Ok(found)
}

impl Track {
    /// Notes that the first effects have landed, if all their changes have.
    fn note(&mut self) {
        while let Some((seq, _)) = self.under_way.pop_front_if(|it| it.1) {
            (self.landed, self.is_news) = (seq, true);
        }
    }
}

/// One slot's content.
pub(super) struct Shelf<'k, E> {
    keeper: &'k Keeper<E>,
    slot: u16,
}

impl<E: Engine> Contents for Shelf<'_, E> {
    fn get(&self, key: &[u8]) -> Option<Stand> {
        self.keeper.get(key)
    }

    fn all(&self, is_urgent: bool) -> Option<Vec<(Vec<u8>, Stand)>> {
        let (keys, mut ahead) = self.keeper.keys_for_copy(self.slot, is_urgent)?;
        let found = |key: &Bytes| {
            let stand = ahead.remove(key).unwrap_or_else(|| self.keeper.get(key))?;
            Some((key.to_vec(), stand))
        };
        Some(keys.iter().filter_map(found).collect())
    }

    fn decide(&self, there: Option<&Stand>, command: &[u8], seq: u64) -> Decision {
        wire::decided(there, (command, seq), (now(), self.keeper.node.value_max))
    }
}

fn stand(version: Version, value: Option<&[u8]>) -> Stand {
    let item = value.and_then(|value| Some(record::decode(value)?.1.to_vec()));
    Stand { value: item, version }
}

/// How long copies are given after a look. Microseconds: a sixth of the time from one look to the next. A copy that began takes
/// as long as it does.
const COPIES_FOR: u64 = 4_000;
/// The keys of which copies are given after a look: about 10,000 a second. The last slot may bring more.
const COPIES_KEYS: usize = 256;
/// Slots without keys that get their turn together.
const EMPTY_AT_ONCE: usize = 512;

#[cfg(test)]
pub(super) mod tests;
