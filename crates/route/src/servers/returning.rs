//! What happens before a returning server gets requests again: it gets the deletes that it is owed.
//!
//! ```text
//! a probe succeeds ─▶ new deletes are sent, not logged ─▶ other threads' requests under way are carried out or
//!                     discarded ─▶ logged deletes are sent ─▶ the mark is cleared
//! ```
//! # Invariants
//! 1. A delete that was answered before a get was sent is carried out before that get. So a delete that fails while the
//!    server returns is sent before the mark is cleared, or tried once more before it is answered.
//! 2. No set from before the outage is carried out after a delete from during it, if it was sent over a connection of
//!    this router. A connection of another thread with requests under way must answer a probe first, or is closed.
//! 3. A server that fails meanwhile stays marked. Deletes that it refuses, and files that can't be read, don't delay
//!    its return.
//! 4. While a configured server is owed deletes, some task sends them: the link that probes it if it is marked,
//!    otherwise [`Care::tend`].

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::directory::Servers;
use super::link::{Care, Link};
use crate::deletes::account::Account;
use crate::deletes::debts::Paying;

/// Sends a returning server its deletes and clears its mark. `false`: it has failed again.
async fn settle(link: &Arc<Link>, servers: &Arc<Servers>) -> bool {
    let Some(paying) = Paying::start(&link.account) else { return false };
    let others = servers.links().into_iter().filter(|other| {
        let is_same = Arc::ptr_eq(&other.tko, &link.tko);
        is_same && !Arc::ptr_eq(other, link) && other.load().1 > 0
    });
    for other in others {
        if !other.probe().await {
            other.give_up();
        }
    }
    let is_settled = pay(paying, link, servers, || link.unmark()).await;
    if is_settled && link.account.is_owed() {
        Arc::clone(servers).tend(&link.account, servers.options.tko.probe_first);
    }
    is_settled
}

/// Sends over a link the deletes that its server is owed. `false`: the server has failed.
async fn pay(
    mut paying: Paying,
    link: &Arc<Link>,
    servers: &Arc<Servers>,
    unmark: impl Fn(),
) -> bool {
    let finished = loop {
        let closed = link.stats.closed.load(Relaxed);
        let Ok(has_refused) = paying.pay(&servers.debts, link.connection()).await else {
            return false;
        };
        // An error reply on a connection that stays open is a refusal. If the connection was closed, the server has
        // failed.
        if has_refused && closed != link.stats.closed.load(Relaxed) {
            return false;
        }
        match paying.finish(&unmark) {
            Ok(finished) => break finished,
            Err(unfinished) => paying = unfinished,
        }
    };
    finished.tidy(&servers.debts).await;
    true
}

/// Tries once to send a server its deletes. Returns whether the server needs no further attempt.
async fn is_tended(account: &Arc<Account>, servers: &Arc<Servers>) -> bool {
    let Some(link) = servers.link_to(account).filter(|link| !link.tko.is_marked()) else {
        return true;
    };
    match Paying::start(account) {
        Some(paying) => pay(paying, &link, servers, || ()).await && !account.is_owed(),
        None => false,
    }
}

impl Care for Servers {
    /// The task holds no link, so that it ends when a configuration drops the server.
    fn probe(self: Arc<Self>, link: &Arc<Link>, is_prompt: bool) {
        tokio::spawn(probe(Arc::downgrade(link), self, is_prompt));
    }

    fn hand_over(self: Arc<Self>, link: &Link) {
        // Without a runtime, the process is ending.
        let is_kept = !link.account.is_paid() && tokio::runtime::Handle::try_current().is_ok();
        let is_heir = |other: &Arc<Link>| is_kept && Arc::ptr_eq(&other.tko, &link.tko);
        if let Some(heir) = self.links().into_iter().rfind(is_heir) {
            heir.take_charge();
        } else {
            link.tko.clear();
            // At the end of the process all links are dropped, but no server was removed.
            if !self.is_ending.load(Relaxed) {
                let (name, standing) = (&link.tko.name, link.tko.standing());
                tracing::info!("{name} was TKO, removed from config. {standing}");
            }
        }
    }

    /// Repeats until the server has its deletes, is marked, or isn't configured any more.
    fn tend(self: Arc<Self>, account: &Arc<Account>, first: Duration) {
        if account.is_tended.swap(true, SeqCst) {
            return;
        }
        let (account, servers) = (Arc::clone(account), self);
        let mut pause = first;
        tokio::spawn(async move {
            loop {
                sleep(pause).await;
                pause = pause.max(servers.options.tko.probe_first).mul_f64(1.5);
                pause = pause.min(servers.options.tko.probe_most);
                if is_tended(&account, &servers).await {
                    account.is_tended.store(false, SeqCst);
                    // A delete that was logged just before relied on this task.
                    let link = account.is_owed().then(|| servers.link_to(&account)).flatten();
                    let is_over = link.is_none_or(|link| link.tko.is_marked());
                    if is_over || account.is_tended.swap(true, SeqCst) {
                        return;
                    }
                }
            }
        });
    }
}

/// Probes until the server answers, or the link is dropped.
async fn probe(link: Weak<Link>, servers: Arc<Servers>, is_prompt: bool) {
    let tko = &servers.options.tko;
    let mut pauses = Pauses { is_prompt, next: tko.probe_first, most: tko.probe_most };
    loop {
        // The pause is random, so that routers that lost a server together don't probe it together.
        sleep(pauses.next().mul_f64(1.05 + 0.45 * fastrand::f64())).await;
        let Some(link) = link.upgrade() else { return };
        if link.probe().await && returned(&link, &servers).await {
            return;
        }
        // After packet loss, TCP retransmits late. The next probe is faster on a fresh connection.
        link.close_if_idle();
    }
}

/// The pauses before probes.
struct Pauses {
    /// Whether the next probe comes at once. It is one more: that it fails lengthens no pause.
    is_prompt: bool,
    next: Duration,
    most: Duration,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        if std::mem::take(&mut self.is_prompt) {
            return Duration::ZERO;
        }
        let longer = self.next.mul_f64(1.5).min(self.most);
        std::mem::replace(&mut self.next, longer)
    }
}

/// Sends deletes at once to a server that is owed them. If servers are marked at all, this server is. The task ends
/// when that is done, or has failed and will be tried again.
pub(super) fn recover(link: &Arc<Link>, servers: &Arc<Servers>) -> JoinHandle<()> {
    let is_marked = link.tko.is_marked();
    if is_marked {
        link.is_in_charge();
        tracing::warn!("{} marked hard TKO: it is owed deletes", link.tko.name);
    }
    let (link, servers) = (Arc::downgrade(link), Arc::clone(servers));
    tokio::spawn(async move {
        let Some(link) = link.upgrade() else { return };
        if link.probe().await && returned(&link, &servers).await {
            return;
        }
        if is_marked {
            link.take_charge();
        } else {
            let first = servers.options.tko.probe_first;
            servers.tend(&link.account, first);
        }
    })
}

/// Sends the server its deletes and clears its mark. `false`: it failed again before it had them.
async fn returned(link: &Arc<Link>, servers: &Arc<Servers>) -> bool {
    let was_marked = link.tko.is_marked();
    if !settle(link, servers).await {
        return false;
    }
    if was_marked {
        tracing::info!("{} unmarked TKO. {}", link.tko.name, link.tko.standing());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_at_once_is_one_more_and_lengthens_no_pause() {
        let pauses = |is_prompt| {
            let [next, most] = [10, 20].map(Duration::from_secs);
            let mut pauses = Pauses { is_prompt, next, most };
            [(); 4].map(|()| pauses.next().as_secs())
        };
        assert_eq!(pauses(false), [10, 15, 20, 20]);
        assert_eq!(pauses(true), [0, 10, 15, 20]);
    }
}
