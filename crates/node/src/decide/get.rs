//! Gets: what they find, and what some of them write.

use guira_client::Outcome;

use super::order::{Current, Effect, Hit, Order, Said};
use crate::item::{Item, Marks, expiry};

/// The answer to a get that writes nothing.
pub(crate) fn plain(current: Option<&Current>) -> Said {
    match current.filter(|current| current.is_seen()) {
        None => Said::Plain(Outcome::NotFound),
        Some(Current { item, unique }) => Said::Hit(Hit {
            item: item.clone(),
            unique: Some(*unique),
            expiry: [item.expiry; 2],
            was_won: false,
            has_won: false,
        }),
    }
}

/// `gat`: sets the expiry, and keeps the unique.
pub(super) fn touching(order: Order<'_>, seen: Option<&Current>) -> (Effect, Said) {
    let Some(current) = seen else { return (Effect::Nothing, plain(None)) };
    let touched = Item {
        expiry: expiry(order.request.exptime, order.now),
        unique: Some(current.unique),
        ..current.item.clone()
    };
    (Effect::Put(touched), plain(seen))
}

/// `mg`: it may touch, make an item for a miss, and win the right to fetch a value anew.
pub(super) fn meta(order: Order<'_>, current: Option<&Current>) -> (Effect, Said) {
    let Some(Current { item, unique }) = current else { return miss(order) };
    let after = order.terms.ttl.map_or(item.expiry, |ttl| expiry(ttl, order.now));
    let told = if order.terms.touches_first { after } else { item.expiry };
    let is_due = order.terms.recache.is_some_and(|ttl| told != 0 && told < expiry(ttl, order.now));
    let may_win = is_due || item.marks.is_stale;
    let (was_won, has_won) = (item.marks.is_won, may_win && !item.marks.is_won);
    let hit = Hit {
        item: item.clone(),
        unique: Some(*unique),
        expiry: [item.expiry, after],
        was_won,
        has_won,
    };
    if !has_won && order.terms.ttl.is_none() {
        return (Effect::Nothing, Said::Hit(hit));
    }
    let marks = Marks { is_won: was_won || has_won, ..item.marks };
    let written = Item { marks, expiry: after, unique: Some(*unique), ..item.clone() };
    (Effect::Put(written), Said::Hit(hit))
}

/// A miss. With `N` it makes an item without a value, which the asking client is to fill.
fn miss(order: Order<'_>) -> (Effect, Said) {
    let Some(ttl) = order.terms.vivify else { return (Effect::Nothing, plain(None)) };
    let marks = Marks {
        is_won: true,
        is_unfilled: true,
        has_binary_key: order.terms.has_binary_key,
        ..Marks::default()
    };
    let expiry = expiry(ttl, order.now);
    let unique = order.terms.unique;
    let item = Item { marks, expiry, unique, ..Item::default() };
    if item.is_expired(order.now) {
        return (Effect::Nothing, plain(None));
    }
    let hit =
        Hit { item: item.clone(), unique, expiry: [expiry; 2], was_won: false, has_won: true };
    (Effect::Put(item), Said::Hit(hit))
}
