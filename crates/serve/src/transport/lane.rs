//! A worker's reads of storage, and the connections that wait for them; `worker/reads.rs` uses both.

use crate::fetched::HeldSum;
use crate::process::storage::Storage;
use guira_disk::{Buffer, Buffers, Reads};
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A worker's access to storage.
pub(super) struct Lane<'s> {
    pub(super) storage: &'s Arc<Storage>,
    pub(super) reads: Reads,
    pub(super) buffers: Buffers,
    /// What each read is for, indexed by its tag.
    pub(super) slots: Vec<Slot>,
    pub(super) free: Vec<usize>,
    /// Connections whose reads have to begin: places and tickets.
    pub(super) waiting: VecDeque<(usize, u64)>,
    pub(super) ticket: u64,
    /// Bytes of reads under way.
    pub(super) bytes: usize,
    /// The bytes of reads under way, and of ended reads whose connections have others under way.
    pub(super) held: HeldSum,
    pub(super) ended: Vec<(u64, io::Result<Buffer>)>,
}

/// What a read is for.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) place: usize,
    pub(super) ticket: u64,
    /// The answer's number.
    pub(super) at: usize,
    pub(super) bytes: usize,
}

impl<'s> Lane<'s> {
    pub(super) fn open(storage: &'s Arc<Storage>) -> io::Result<Lane<'s>> {
        Ok(Lane {
            storage,
            reads: storage.reads()?,
            buffers: Buffers::new(BUFFERS_KEPT),
            slots: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            ticket: 0,
            bytes: 0,
            held: HeldSum::default(),
            ended: Vec::new(),
        })
    }

    pub(super) fn event_fd(&self) -> BorrowedFd<'_> {
        self.reads.event_fd()
    }

    /// Whether a read may begin. If none is under way, one always may: otherwise connections that hold
    /// bytes and wait for more could wait for each other.
    pub(super) fn has_room(&self) -> bool {
        let (under_way, bytes) = (self.reads.under_way(), self.bytes.max(self.held.bytes()));
        under_way == 0 || under_way < self.storage.inflight && bytes < BYTES_MAX
    }

    pub(super) fn slot(&mut self, slot: Slot) -> u64 {
        let tag = self.free.pop().unwrap_or(self.slots.len());
        match self.slots.get_mut(tag) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        tag as u64
    }
}

/// How many buffers of each size are kept.
const BUFFERS_KEPT: usize = 64;
/// The limit of bytes of reads under way, not counting the last read.
const BYTES_MAX: usize = 32 << 20;
