//! What a server that returns gets before anybody asks it again: the deletes that this process wrote down for it.
//!
//! ```text
//! a probe succeeds ─▶ deletes are sent again, not written down ─▶ what others had on their way is carried out, or thrown
//!                     away ─▶ the written-down deletes are sent ─▶ the mark comes off
//! ```
//! # Invariants
//! 1. A delete that was answered before a get was asked is carried out before that get. So a delete that fails while
//!    the server returns is either in the file when that is read, or tried once more before it is answered.
//! 2. No set from before the outage is carried out after a delete from during it, as far as it reached the server over
//!    one of our connections: each thread's connection with anything overdue answers a probe first, or is given up.
//! 3. A server that fails meanwhile stays marked. Deletes that it refuses, and files that can't be read, hold nobody up.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::{Wait, remove_if_done, send_again};
use crate::front::link::Link;
use crate::front::shared::Shared;

/// Sends a returning server its deletes; false: it fails again.
pub(crate) async fn send_all(link: &Arc<Link>, shared: &Arc<Shared>) -> bool {
    link.tko.take_deletes(true);
    let others = shared.links().into_iter().filter(|other| {
        let is_same = Arc::ptr_eq(&other.tko, &link.tko);
        is_same && !Arc::ptr_eq(other, link) && other.load().1 > 0
    });
    for other in others {
        if !other.probe().await {
            other.give_up();
        }
    }
    let closed = link.stats.closed.load(Relaxed);
    let sent = send_written(link, shared).await;
    let fails_again = match &sent {
        Err(Wait::Server(..)) => true,
        // An error that the server says itself, over a connection that stands, is a refusal.
        Err(Wait::Refused { .. }) => closed != link.stats.closed.load(Relaxed),
        Err(Wait::File(_)) | Ok(()) => false,
    };
    if fails_again {
        link.tko.take_deletes(false);
        return false;
    }
    if sent.is_err() {
        send_later(link, shared);
    }
    true
}

/// Sends what processes before this one left for the servers that `links` reach: before a client is served, as far as
/// they answer.
pub(crate) async fn at_start(links: Vec<Arc<Link>>, shared: &Arc<Shared>) {
    let Some(spool) = &shared.spool else { return };
    let mut waiting = spool.waiting();
    let links = links.into_iter().filter(|link| waiting.remove(&link.server.host_port()));
    let send = |link: Arc<Link>| async move {
        if send_written(&link, shared).await.is_err() {
            send_later(&link, shared);
        }
    };
    join_all(links.map(send)).await;
}

/// Deletes were written down for a server that isn't marked: sends them in a while, again and again until it takes them
/// or is marked.
pub(crate) fn send_later(link: &Arc<Link>, shared: &Arc<Shared>) {
    if link.tko.is_owed.swap(true, Relaxed) {
        return;
    }
    let (tko, link, shared) = (Arc::clone(&link.tko), Arc::downgrade(link), Arc::clone(shared));
    let mut pause = shared.options.tko.probe_first;
    tokio::spawn(async move {
        loop {
            sleep(pause).await;
            // What is written down from now on may come too late for this time.
            tko.is_owed.store(false, Relaxed);
            // Without the link, the next one of this server that fails begins anew.
            let Some(link) = link.upgrade() else { return };
            let is_over = link.tko.is_marked() || send_written(&link, &shared).await.is_ok();
            if is_over || link.tko.is_owed.swap(true, Relaxed) {
                return;
            }
            pause = pause.mul_f64(1.5).min(shared.options.tko.probe_most);
        }
    });
}

/// Sends the deletes that were written down for a link's server.
async fn send_written(link: &Link, shared: &Shared) -> Result<(), Wait> {
    let Some(spool) = &shared.spool else { return Ok(()) };
    let _alone = link.tko.replaying.lock().await;
    let name = link.server.host_port();
    let mut refused = None;
    for file in spool.files_for(&name) {
        // One that is written to now may grow behind what is read now.
        let is_current = spool.is_current(&file);
        match send_again(link.connection(), &name, &file, None).await {
            Ok(sent) => {
                if sent > 0 {
                    shared.log.say(format_args!("{name}: {sent} deletes sent again"));
                }
                if !is_current {
                    spool.forget(&name, &file);
                    if !spool.may_grow(&file) {
                        remove_if_done(&file);
                    }
                }
            }
            Err(wait) => {
                shared.log.say(format_args!("{name}: deletes of {} wait: {wait}", file.display()));
                match wait {
                    Wait::Refused { .. } => refused = Some(wait),
                    _ => return Err(wait),
                }
            }
        }
    }
    refused.map_or(Ok(()), Err)
}
