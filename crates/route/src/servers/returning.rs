//! What a server that returns gets before anybody asks it again: the deletes that it is owed.
//!
//! ```text
//! a probe succeeds ─▶ deletes are sent again, not written down ─▶ what others had on their way is carried out, or
//!                     discarded ─▶ the written-down deletes are sent ─▶ the mark comes off
//! ```
//! # Invariants
//! 1. A delete that was answered before a get was asked is carried out before that get. So a delete that fails while
//!    the server returns is either sent before the mark comes off, or tried once more before it is answered.
//! 2. No set from before the outage is carried out after a delete from during it, as far as it reached the server over
//!    one of our connections: each thread's connection with anything overdue answers a probe first, or is given up.
//! 3. A server that fails meanwhile stays marked. Deletes that it refuses, and files that can't be read, hold nobody up.
//! 4. While a server is owed deletes and a configuration names it, someone sees to them: the link that probes it where
//!    it is marked, else [`tend`].

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use tokio::time::sleep;

use super::deletes::debts::{Account, Paying};
use super::link::Link;
use super::shared::Shared;

/// Sends a returning server its deletes and takes its mark off; false: it fails again.
pub(crate) async fn settle(link: &Arc<Link>, shared: &Arc<Shared>) -> bool {
    let Some(paying) = link.account.start_paying() else { return false };
    let others = shared.links().into_iter().filter(|other| {
        let is_same = Arc::ptr_eq(&other.tko, &link.tko);
        is_same && !Arc::ptr_eq(other, link) && other.load().1 > 0
    });
    for other in others {
        if !other.probe().await {
            other.give_up();
        }
    }
    let is_settled = pay(paying, link, shared, || link.unmark()).await;
    if is_settled && link.account.is_owed() {
        tend(&link.account, shared, shared.options.tko.probe_first);
    }
    is_settled
}

/// Sends over a link what its server is owed; false: the server fails.
async fn pay(
    mut paying: Paying,
    link: &Arc<Link>,
    shared: &Arc<Shared>,
    unmark: impl Fn(),
) -> bool {
    let finished = loop {
        let closed = link.stats.closed.load(Relaxed);
        let Ok(has_refused) = paying.pay(&shared.debts, link.connection()).await else {
            return false;
        };
        // An error that the server says itself, over a connection that stands, is a refusal.
        if has_refused && closed != link.stats.closed.load(Relaxed) {
            return false;
        }
        match paying.finish(&unmark) {
            Ok(finished) => break finished,
            Err(unfinished) => paying = unfinished,
        }
    };
    finished.tidy(&shared.debts).await;
    true
}

/// A server that isn't marked is owed deletes: sends them after a first pause, again and again until it has them, is
/// marked, or leaves the configuration.
pub(crate) fn tend(account: &Arc<Account>, shared: &Arc<Shared>, first: Duration) {
    if account.is_tended.swap(true, SeqCst) {
        return;
    }
    let (account, shared) = (Arc::clone(account), Arc::clone(shared));
    let mut pause = first;
    tokio::spawn(async move {
        loop {
            sleep(pause).await;
            pause = pause.max(shared.options.tko.probe_first).mul_f64(1.5);
            pause = pause.min(shared.options.tko.probe_most);
            if is_tended(&account, &shared).await {
                account.is_tended.store(false, SeqCst);
                // What was written down just before that relied on this task.
                let link = account.is_owed().then(|| shared.link_to(&account)).flatten();
                let is_over = link.is_none_or(|link| link.tko.is_marked());
                if is_over || account.is_tended.swap(true, SeqCst) {
                    return;
                }
            }
        }
    });
}

/// Whether a server needs no tending any more, after an attempt.
async fn is_tended(account: &Arc<Account>, shared: &Arc<Shared>) -> bool {
    let Some(link) = shared.link_to(account).filter(|link| !link.tko.is_marked()) else {
        return true;
    };
    match account.start_paying() {
        Some(paying) => pay(paying, &link, shared, || ()).await && !account.is_owed(),
        None => false,
    }
}
