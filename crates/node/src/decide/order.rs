//! The types of a decision: the request, the current item, the effect and the answer.

use guira_client::{Outcome, Request};

use crate::engine::Record;
use crate::horizon::Horizon;
use crate::item::Item;
use crate::terms::Terms;

/// The current item: it has neither expired nor been flushed.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) item: Item,
    /// Its cas unique.
    pub(crate) unique: u64,
}

impl Current {
    /// The item that a record holds, if it counts; otherwise why there is none.
    pub(crate) fn of(record: Option<&Record>, horizon: &Horizon, now: u32) -> Result<Self, Gone> {
        let record = record.ok_or(Gone::Absent)?;
        if horizon.is_flushed(record.seq) {
            return Err(Gone::Flushed);
        }
        let item = Item::parse(record).ok_or(Gone::Absent)?;
        if item.is_expired(now) {
            return Err(Gone::Expired);
        }
        let unique = item.unique.unwrap_or(record.seq);
        Ok(Self { item, unique })
    }

    /// Whether commands besides a meta get see the item.
    pub(crate) fn is_seen(&self) -> bool {
        !self.item.marks.is_unfilled
    }
}

/// Why there is no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Absent,
    Expired,
    Flushed,
}

/// A request, its terms, and the second in which it is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'r> {
    pub(crate) request: &'r Request,
    pub(crate) terms: &'r Terms,
    pub(crate) now: u32,
    /// The longest value.
    pub(crate) value_max: usize,
}

/// What a request does to the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    Put(Item),
    Delete,
}

/// What a request answers. The unique of a written item isn't known yet.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// Only the outcome.
    Plain(Outcome),
    /// The outcome of a store, and the bytes of the value.
    Store(Outcome, usize),
    /// The new number of a counter, and when the item ends.
    Number(u64, u32),
    /// A get that found something.
    Hit(Hit),
    /// An error of the client.
    Fault(&'static str),
}

/// An item as a get found it, and what the get made of it.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) item: Item,
    /// The cas unique; `None`: the number of the change that the get makes.
    pub(crate) unique: Option<u64>,
    /// The expiry before the get, and after it.
    pub(crate) expiry: [u32; 2],
    pub(crate) was_won: bool,
    pub(crate) has_won: bool,
}
