//! What a command does to an item and what it answers, given the current item: no store, no clock, no waiting.
//!
//! ```text
//! request, item ─▶ decide: Effect, Said ─▶ the store ─▶ say: Reply
//! ```
//! Conditions and answers are those of `guira serve`, whose tables of requests and replies are also tested against this
//! module.

mod change;
mod get;
mod say;
mod order;

use guira_client::{Op, Outcome};

pub(crate) use change::{NON_NUMERIC, brought};
pub(crate) use get::plain;
pub(crate) use order::{Current, Effect, Gone, Order, Said};
pub(crate) use say::{failed, is_blind, say};

/// Returns what a request does and what it answers, given the current item.
pub(crate) fn decide(order: Order<'_>, current: Option<&Current>) -> (Effect, Said) {
    let seen = current.filter(|current| current.is_seen());
    match order.request.op {
        op if op.is_get() && order.terms.is_meta => get::meta(order, current),
        Op::Gat | Op::Gats => get::touching(order, seen),
        op if op.is_get() => (Effect::Nothing, plain(current)),
        Op::Add | Op::Replace | Op::Set | Op::Cas => change::store(order, current),
        Op::Append | Op::Prepend => change::join(order, seen),
        Op::Incr | Op::Decr => change::count(order, seen),
        Op::Touch => change::touch(order, seen),
        Op::Delete => change::delete(order, current),
        _ => (Effect::Nothing, Said::Plain(Outcome::BadCommand)),
    }
}

#[cfg(test)]
mod tests;
