//! Accounting of the memory that is held for clients: requests that aren't answered, and replies that clients haven't
//! taken.
//!
//! There is one budget for the process ([`Bank`]), and an [`Account`] for each client. A client may hold at most its own
//! limit, and no more than is still free. So n clients that take all they can get leave one part in n + 1 to the others
//! (Choudhury and Hahne, "Dynamic queue length thresholds", 1998). The budget needs no reserve, and a client that holds
//! little is served while others are refused. If there is no room for a request or a value, another client's unfinished
//! request [gives way](Yielding) before this one is refused.
//!
//! A client that holds more than [`LITTLE_BYTES`], and moves next to nothing, gives way while the budget is nearly used up
//! or others are refused (`session/patience.rs`).
//!
//! # Invariants
//! 1. Charged bytes exceed the budget by no more than the promised bytes (an eighth of it, within [`PROMISED_BYTES`]), and
//!    by a value for each thread that finds the same room as another. Bytes that are [held](Account::hold) may exceed it by
//!    what each client holds before it is checked again: a read, a line, a part of a get, a long value that is copied on
//!    its way out.
//! 2. A dropped account gives back what it held. A value gives back its charge when its last copy is dropped. That may be
//!    long after its request was answered: a server may refuse a value that is still being sent to it.
//!
//! # Costs
//! A client below [`FREE_BYTES`] costs one comparison per turn; above, two shared additions for each [`STEP_BYTES`]. The
//! bytes of clients below [`FREE_BYTES`] come on top of the budget: with 8,000 clients 16 MB.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use bytes::{Bytes, BytesMut};
use guira_client::Purse;

use crate::sessions::yielding::{Place, Yielding};

/// The budget of what the process may hold for its clients.
#[derive(Debug)]
pub struct Bank {
    limits: MemoryLimits,
    held: AtomicUsize,
    refused: AtomicU64,
    /// How often a client was refused because others held too much.
    wanted: AtomicU64,
    /// The clients whose unfinished requests give way.
    pub(crate) yielding: Arc<Yielding>,
}

/// Limits in bytes; `usize::MAX`: no limit.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// For all clients together.
    pub all: usize,
    /// For one client.
    pub each: usize,
    /// The longest value that a server stores; a router leaves that to its servers.
    pub value: usize,
}

impl MemoryLimits {
    /// The longest value that a client can be given.
    pub fn longest_value(self) -> usize {
        self.each.min(self.all)
    }
}

impl Bank {
    pub(crate) fn new(limits: MemoryLimits) -> Self {
        let (refused, wanted) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { limits, held: AtomicUsize::new(0), refused, wanted, yielding: Arc::default() }
    }

    /// Bytes held now.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Bytes that may still be held, including those that other clients have promised to free.
    fn free(&self) -> usize {
        let promised = self.yielding.promised().min(self.promised_max());
        self.limits.all.saturating_add(promised).saturating_sub(self.held())
    }

    fn promised_max(&self) -> usize {
        (self.limits.all / PROMISED_PART)
            .clamp(PROMISED_BYTES.0, PROMISED_BYTES.1)
            .min(self.limits.all)
    }

    /// Whether so much is held that clients shouldn't keep rooms that they don't use.
    fn is_scarce(&self) -> bool {
        self.held() > self.limits.all / KEPT_PART
    }

    fn note_wanted(&self) {
        self.wanted.fetch_add(1, Relaxed);
    }

    /// How many requests and values were refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}

/// Whether there is room, after others were told to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Free,
    /// There will be room: enough clients were told to give way, and have yet to.
    Later,
    /// Others hold less than their share, or not enough.
    Closed,
}

/// The bytes that are held for one client.
#[derive(Debug)]
pub(crate) struct Account {
    bank: Arc<Bank>,
    held: AtomicUsize,
    /// The part of `held` that the session reported last.
    told: AtomicUsize,
}

impl Account {
    pub(crate) fn new(bank: &Arc<Bank>) -> Arc<Self> {
        let (held, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { bank: Arc::clone(bank), held, told })
    }

    /// How many bytes more the client may hold.
    pub(crate) fn room(&self) -> usize {
        self.bank.limits.each.min(self.bank.free()).saturating_sub(self.held.load(Relaxed))
    }

    /// Tells others' unfinished requests to give way until there is room for this many bytes more.
    #[cold]
    pub(crate) fn make_way(&self, bytes: usize, place: Option<&Place>) -> Way {
        let Bank { limits, yielding, .. } = &*self.bank;
        while self.room() < bytes {
            let is_mine = bytes.saturating_add(self.held()) > limits.each;
            if is_mine {
                return Way::Closed;
            }
            if yielding.promised() >= self.bank.promised_max() || !yielding.tell_one(place) {
                return if yielding.promised() > 0 { Way::Later } else { Way::Closed };
            }
        }
        Way::Free
    }

    /// Bytes that are held for the client, including its long values.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// How often a client was refused because others held too much.
    pub(crate) fn wanted(&self) -> u64 {
        self.bank.wanted.load(Relaxed)
    }

    /// Whether others need the memory: more than three quarters of the budget are held, or a client was refused since
    /// [`wanted`](Self::wanted) returned `wanted_before`.
    pub(crate) fn is_needed(&self, wanted_before: u64) -> bool {
        let is_short = self.bank.held() > self.bank.limits.all / 4 * 3;
        is_short || self.wanted() != wanted_before
    }

    /// Whether the client shouldn't keep rooms that it doesn't use.
    pub(crate) fn is_scarce(&self) -> bool {
        self.bank.is_scarce()
    }

    /// The longest value that the client may send.
    pub(crate) fn longest_value(&self) -> usize {
        self.bank.limits.longest_value()
    }

    /// Reports how many bytes the client holds now, without its long values. Only its session calls this.
    pub(crate) fn hold(&self, bytes: usize) {
        let told = self.told.load(Relaxed);
        let is_free = bytes <= FREE_BYTES;
        if is_free && told == 0 || !is_free && bytes <= told && told - bytes < STEP_BYTES {
            return;
        }
        let due = if is_free { 0 } else { bytes.next_multiple_of(STEP_BYTES) };
        self.told.store(due, Relaxed);
        if due >= told {
            self.held.fetch_add(due - told, Relaxed);
            self.bank.held.fetch_add(due - told, Relaxed);
        } else {
            self.refund(told - due);
        }
    }

    /// Turns bytes that were read into a buffer that carries its own charge, for as long as a part of it is in use.
    ///
    /// If they were long, the session has [reported](Self::hold) them before; from now on it doesn't.
    pub(crate) fn carry(self: &Arc<Self>, bytes: BytesMut) -> Bytes {
        let (told, taken) = (self.told.load(Relaxed), bytes.capacity());
        let known = told.min(taken);
        self.told.store(told - known, Relaxed);
        self.held.fetch_add(taken - known, Relaxed);
        self.bank.held.fetch_add(taken - known, Relaxed);
        Bytes::from_owner(Carried { bytes, account: Arc::clone(self) })
    }

    /// The longest value that a server stores.
    pub(crate) fn value_max(&self) -> usize {
        self.bank.limits.value
    }

    /// Notes that something was refused.
    pub(crate) fn refuse(&self) {
        self.bank.refused.fetch_add(1, Relaxed);
    }

    /// Notes a refusal because there was no room for this many bytes more.
    pub(crate) fn refuse_bytes(&self, bytes: usize) {
        self.refuse();
        if bytes.saturating_add(self.held()) <= self.bank.limits.each {
            self.bank.note_wanted();
        }
    }
}

impl Purse for Account {
    fn charge(&self, bytes: usize) -> bool {
        if !self.has_room(bytes) {
            return false;
        }
        self.held.fetch_add(bytes, Relaxed);
        self.bank.held.fetch_add(bytes, Relaxed);
        true
    }

    fn has_room(&self, bytes: usize) -> bool {
        let has_room = bytes <= self.room() || self.make_way(bytes, None) == Way::Free;
        if !has_room {
            self.refuse_bytes(bytes);
        }
        has_room
    }

    fn refund(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
        self.bank.held.fetch_sub(bytes, Relaxed);
    }
}

/// Bytes of a client. Dropping them gives back their charge.
struct Carried {
    bytes: BytesMut,
    account: Arc<Account>,
}

impl AsRef<[u8]> for Carried {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.account.refund(self.bytes.capacity());
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.bank.held.fetch_sub(*self.held.get_mut(), Relaxed);
    }
}

/// A client that holds at most this many bytes counts as holding none.
pub(crate) const FREE_BYTES: usize = 2 << 10;
/// If a client holds more, its bytes are counted in steps of this size.
const STEP_BYTES: usize = 4 << 10;
/// A client that holds no more than this never gives way to others.
pub(crate) const LITTLE_BYTES: usize = 64 << 10;
/// One part in this many of the budget may be held beyond it by clients that were told to give way and have yet to.
const PROMISED_PART: usize = 8;
/// The bounds of that part, in bytes.
const PROMISED_BYTES: (usize, usize) = (4 << 20, 32 << 20);
/// Clients keep rooms that they don't use until one part in this many of the budget is held.
const KEPT_PART: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn bank(all: usize, each: usize) -> Arc<Bank> {
        Arc::new(Bank::new(MemoryLimits { all, each, value: all }))
    }

    #[test]
    fn clients_that_take_all_they_get_leave_an_equal_part_to_others() {
        let bank = bank(100_000, 60_000);
        let greedy: Vec<_> = (0..9).map(|_| Account::new(&bank)).collect();
        for _ in 0..1000 {
            for account in &greedy {
                let _ = account.charge(100);
            }
        }
        assert!((88_000..=90_000).contains(&bank.held()), "{}", bank.held());
        assert!(greedy.iter().all(|account| account.room() < 1000));
        let modest = Account::new(&bank);
        assert!(modest.charge(9_000), "a tenth is left");
        modest.refund(9_000);
        drop(greedy);
        assert_eq!(bank.held(), 0);
        assert!(bank.refused() > 0);
    }

    #[test]
    fn what_is_carried_is_charged_once_until_its_last_part_goes() {
        let bank = bank(1 << 30, 1 << 30);
        let account = Account::new(&bank);
        account.hold(1_000_000);
        let whole = account.carry(BytesMut::zeroed(1_000_100));
        assert_eq!(bank.held(), 1_000_100 + account.told.load(Relaxed));
        account.hold(0);
        assert_eq!(bank.held(), 1_000_100);
        let value = whole.slice(100..);
        drop((whole, account));
        assert_eq!(bank.held(), 1_000_100);
        drop(value);
        assert_eq!(bank.held(), 0);
    }

    #[test]
    fn one_client_has_its_own_limit_and_gives_back_what_it_held() {
        let bank = bank(100_000, 30_000);
        let account = Account::new(&bank);
        assert!(account.charge(30_000) && !account.charge(1));
        account.refund(30_000);
        account.hold(FREE_BYTES);
        assert_eq!(bank.held(), 0);
        account.hold(FREE_BYTES + 1);
        assert_eq!(bank.held(), STEP_BYTES);
        account.hold(FREE_BYTES + 2);
        assert_eq!(bank.held(), STEP_BYTES, "steps");
        account.hold(0);
        assert_eq!(bank.held(), 0);
        account.hold(64 << 10);
        drop(account);
        assert_eq!(bank.held(), 0);
    }
}
