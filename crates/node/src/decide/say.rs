//! Replies: turns a decision into the reply that the session writes to the client.

use std::fmt::Write;
use std::sync::Arc;

use guira_client::{Op, Outcome, Reply, Request};
use guira_proto::MetaFlags;

use super::order::{Hit, Order, Said};
use crate::terms::Terms;

/// The reply. `written` is the number of the change that was made, if one was.
pub(crate) fn say(order: Order<'_>, said: Said, written: Option<u64>) -> Reply {
    let unique = order.terms.unique.or(written).unwrap_or_default();
    let mut reply = match said {
        Said::Fault(words) => return Reply::failure(Outcome::ClientError, words),
        Said::Hit(hit) => return say_hit(order, &hit, unique),
        Said::Plain(outcome) => Reply::new(outcome),
        Said::Store(outcome, _) => Reply::new(outcome),
        Said::Number(number, _) => Reply { number, ..Reply::new(Outcome::Found) },
    };
    if order.terms.is_meta {
        let told = Told { order, unique, written: written.is_some() };
        reply.meta = Some(told.flags(&said, order.request));
    }
    reply
}

/// What the flags of a meta command's reply are made from, except for a hit.
struct Told<'r> {
    order: Order<'r>,
    unique: u64,
    written: bool,
}

impl Told<'_> {
    fn flags(&self, said: &Said, request: &Request) -> Arc<[u8]> {
        let mut text = String::new();
        for flag in MetaFlags::new(request.meta.as_deref().unwrap_or_default()) {
            // Writing to a string doesn't fail.
            let _ = match (flag.letter(), said) {
                (b'c', Said::Store(..)) if !self.written => write!(text, " c0"),
                (b'c', Said::Store(..) | Said::Number(..)) => write!(text, " c{}", self.unique),
                (b's', Said::Store(_, bytes)) => write!(text, " s{bytes}"),
                (b't', Said::Number(_, expiry)) => {
                    append_ttl(&mut text, *expiry, self.order.now);
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        if self.order.terms.has_binary_key {
            text.push_str(" b");
        }
        text.as_bytes().into()
    }
}

fn say_hit(order: Order<'_>, hit: &Hit, written: u64) -> Reply {
    let Hit { item, unique, .. } = hit;
    let unique = unique.unwrap_or(written);
    let is_compared = order.terms.is_meta && order.terms.compare == Some(unique);
    let outcome = if is_compared { Outcome::Ok } else { Outcome::Found };
    let meta = order.terms.is_meta.then(|| told_of(order, hit, unique));
    let (flags, value) = (item.flags, item.value.clone());
    Reply { value, flags, token: unique, meta, ..Reply::new(outcome) }
}

/// The flags of a hit, in the order in which they were asked for.
fn told_of(order: Order<'_>, hit: &Hit, unique: u64) -> Arc<[u8]> {
    let item = &hit.item;
    let mut text = String::new();
    let [mut expiry, after] = hit.expiry;
    for flag in MetaFlags::new(order.request.meta.as_deref().unwrap_or_default()) {
        let _ = match flag.letter() {
            b'T' => {
                expiry = after;
                Ok(())
            }
            b't' => {
                append_ttl(&mut text, expiry, order.now);
                Ok(())
            }
            b's' => write!(text, " s{}", item.value.len()),
            b'c' => write!(text, " c{unique}"),
            b'f' => write!(text, " f{}", item.flags),
            // Reads leave no trace, so accesses aren't known.
            b'h' => write!(text, " h0"),
            b'l' => write!(text, " l0"),
            _ => Ok(()),
        };
    }
    let is_stale = item.marks.is_stale && !item.marks.is_unfilled;
    for (holds, mark) in [(hit.was_won, " Z"), (is_stale, " X"), (hit.has_won, " W")] {
        if holds {
            text.push_str(mark);
        }
    }
    if item.marks.has_binary_key {
        text.push_str(" b");
    }
    text.as_bytes().into()
}

fn append_ttl(text: &mut String, expiry: u32, now: u32) {
    // Writing to a string doesn't fail.
    let _ = match expiry {
        0 => write!(text, " t-1"),
        _ => write!(text, " t{}", expiry.saturating_sub(now)),
    };
}

/// Whether a request changes a key without reading it: a set, and a text delete that wants no reply. A quiet meta delete is
/// none of these: its client is told if there was nothing.
pub(crate) fn is_blind(request: &Request, terms: &Terms) -> bool {
    match request.op {
        Op::Set => true,
        Op::Delete => terms.is_noreply,
        _ => false,
    }
}

/// The reply to a request that failed.
pub(crate) fn failed(words: &impl ToString) -> Reply {
    Reply::failure(Outcome::RemoteError, words.to_string())
}
