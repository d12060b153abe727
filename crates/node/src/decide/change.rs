//! Changes: conditional stores, `append` and `prepend`, arithmetic, touches, deletes.

use bytes::Bytes;
use guira_client::{Op, Outcome};

use super::order::{Current, Effect, Order, Said};
use crate::item::{Item, Marks, expiry};

/// The item that a request brings.
pub(crate) fn brought(order: Order<'_>) -> Item {
    let (request, terms) = (order.request, order.terms);
    Item {
        marks: Marks { has_binary_key: terms.has_binary_key, ..Marks::default() },
        flags: request.flags,
        expiry: expiry(request.exptime, order.now),
        unique: terms.unique,
        value: request.value.clone(),
    }
}

/// `set`, `add`, `replace`, `cas`.
pub(super) fn store(order: Order<'_>, current: Option<&Current>) -> (Effect, Said) {
    let bytes = order.request.value.len();
    let is_seen = current.is_some_and(Current::is_seen);
    let refused = |outcome| (Effect::Nothing, Said::Store(outcome, bytes));
    let mut item = brought(order);
    match order.request.op {
        Op::Add if is_seen => return refused(Outcome::NotStored),
        Op::Replace if !is_seen => return refused(Outcome::NotStored),
        Op::Cas => match compare(order, current) {
            Compared::Equal => {}
            Compared::Older(old) => {
                item.expiry = old.expiry;
                item.marks.is_won = old.marks.is_won;
                item.marks.is_stale = true;
            }
            Compared::Refused(outcome) => return refused(outcome),
        },
        _ => {}
    }
    (Effect::Put(item), Said::Store(Outcome::Stored, bytes))
}

/// How the cas unique that a request names compares with the item's.
enum Compared<'c> {
    Equal,
    /// It is older, and the flag `I` lets the request store all the same.
    Older(&'c Item),
    Refused(Outcome),
}

fn compare<'c>(order: Order<'_>, current: Option<&'c Current>) -> Compared<'c> {
    let named = if order.terms.is_meta { order.terms.compare } else { Some(order.request.token) };
    let Some(named) = named else { return Compared::Equal };
    match current {
        None => Compared::Refused(Outcome::NotFound),
        Some(current) if named == current.unique => Compared::Equal,
        Some(current) if order.terms.is_stale && named < current.unique => {
            Compared::Older(&current.item)
        }
        Some(_) => Compared::Refused(Outcome::Exists),
    }
}

/// `append`, `prepend`: the item keeps its flags and its expiry.
pub(super) fn join(order: Order<'_>, seen: Option<&Current>) -> (Effect, Said) {
    let (request, terms) = (order.request, order.terms);
    let refused = |outcome| (Effect::Nothing, Said::Store(outcome, request.value.len()));
    let Some(current) = seen else {
        let (Some(ttl), None) = (terms.vivify, terms.compare) else {
            return refused(Outcome::NotStored);
        };
        let made = Item { expiry: expiry(ttl, order.now), ..brought(order) };
        return (Effect::Put(made), Said::Store(Outcome::Stored, request.value.len()));
    };
    if terms.compare.is_some_and(|named| named != current.unique) {
        return refused(Outcome::Exists);
    }
    let old = &current.item.value;
    if old.len() + request.value.len() > order.value_max {
        return refused(Outcome::NotStored);
    }
    let parts = match request.op {
        Op::Prepend => [&request.value[..], &old[..]],
        _ => [&old[..], &request.value[..]],
    };
    let value = Bytes::from(parts.concat());
    let bytes = value.len();
    let joined = Item { unique: terms.unique, value, ..current.item.clone() };
    (Effect::Put(joined), Said::Store(Outcome::Stored, bytes))
}

/// `incr`, `decr`: the number keeps its length, filled up with spaces.
pub(super) fn count(order: Order<'_>, seen: Option<&Current>) -> (Effect, Said) {
    let (request, terms) = (order.request, order.terms);
    let Some(Current { item, unique }) = seen else {
        let Some(ttl) = terms.vivify else {
            return (Effect::Nothing, Said::Plain(Outcome::NotFound));
        };
        let value = terms.initial.to_string().into();
        let expiry = expiry(ttl, order.now);
        let made = Item { expiry, value, flags: 0, ..brought(order) };
        return (Effect::Put(made), Said::Number(terms.initial, expiry));
    };
    // memcached treats a unique of 0 as none.
    if terms.compare.is_some_and(|named| named != 0 && named != *unique) {
        return (Effect::Nothing, Said::Plain(Outcome::Exists));
    }
    let Some(old) = number(&item.value) else { return (Effect::Nothing, Said::Fault(NON_NUMERIC)) };
    let number = match request.op {
        Op::Decr => old.saturating_sub(request.delta),
        _ => old.wrapping_add(request.delta),
    };
    // Not by a format's width, which ends at 65,535.
    let mut value = number.to_string().into_bytes();
    value.resize(value.len().max(item.value.len()), b' ');
    let value = value.into();
    let expiry = terms.ttl.map_or(item.expiry, |ttl| expiry(ttl, order.now));
    let counted = Item { expiry, unique: terms.unique, value, ..item.clone() };
    (Effect::Put(counted), Said::Number(number, expiry))
}

/// Parses up to twenty digits, with spaces around them.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    let is_number =
        (1..=DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// `touch`: sets the expiry, and keeps the unique.
pub(super) fn touch(order: Order<'_>, seen: Option<&Current>) -> (Effect, Said) {
    let Some(Current { item, unique }) = seen else {
        return (Effect::Nothing, Said::Plain(Outcome::NotFound));
    };
    let expiry = expiry(order.request.exptime, order.now);
    let touched = Item { expiry, unique: Some(*unique), ..item.clone() };
    (Effect::Put(touched), Said::Plain(Outcome::Touched))
}

/// `delete`; with `I` the item becomes stale instead, with `x` it is emptied.
pub(super) fn delete(order: Order<'_>, current: Option<&Current>) -> (Effect, Said) {
    let terms = order.terms;
    let Some(Current { item, unique }) = current else {
        return (Effect::Nothing, Said::Plain(Outcome::NotFound));
    };
    if terms.compare.is_some_and(|named| named != *unique) {
        return (Effect::Nothing, Said::Plain(Outcome::Exists));
    }
    if !terms.is_stale && !terms.is_emptied {
        return (Effect::Delete, Said::Plain(Outcome::Deleted));
    }
    let mut marked = item.clone();
    marked.expiry = terms.ttl.map_or(item.expiry, |ttl| expiry(ttl, order.now));
    if terms.is_stale {
        (marked.marks.is_stale, marked.marks.is_won) = (true, false);
    }
    if terms.is_emptied {
        (marked.value, marked.flags) = (Bytes::new(), 0);
    }
    // An item that is made stale gets another unique, so that comparisons fail, even if a client chose the one before. An
    // item that is emptied keeps its unique.
    marked.unique = match terms.is_stale {
        true => terms.unique,
        false => Some(terms.unique.unwrap_or(*unique)),
    };
    (Effect::Put(marked), Said::Plain(Outcome::Deleted))
}

pub(crate) const NON_NUMERIC: &str = "cannot increment or decrement non-numeric value";
const DIGITS_MAX: usize = 20;
