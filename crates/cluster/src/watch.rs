//! The newest view, in a channel that a thread fills.
//!
//! # Invariants
//! 1. A view in the channel is valid. All views are of one cluster, and their epochs rise.
//! 2. A view whose predecessor was seen is refused unless it may follow that one. So is what is built on it: the channel keeps
//!    the last good view until etcd has that one again, or a later one that may follow it, as if what was refused had never
//!    been there. None of the views that come meanwhile is missed, unless etcd has compacted them.
//! 3. A newcomer (`newcomer.rs`) follows a later view though that may not follow the one that it has: perhaps it
//!    began with a wrong one.
//! 4. Why a view is refused is logged once, and again only if the next one has another reason.
//!
//! # Costs
//! One thread, which asks once each [`WATCH_MAX`]. It ends that long after the last receiver.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use guira_chain::View;
use guira_etcd::{Error, EtcdEvent, EtcdKeys};
use tokio::sync::watch::{Receiver, Sender, channel};

use crate::fault::{Fault, Told};
use crate::register::Register;
use crate::snapshot::{Seen, read_view};

/// What is known of a cluster's view.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// The newest view that was seen; `None`: no view was seen yet.
    pub view: Option<Arc<View>>,
    /// Why there may be a newer view: the register can't be read now, or its view is refused. A receiver is notified of views
    /// only, and of the reason why there is none.
    pub lack: Option<String>,
}

/// Reads the view, and follows it from then on. While etcd is away the channel keeps what it has.
///
/// # Errors
/// The first view can't be read; or the system has no thread.
pub fn watch(register: Arc<Register>) -> Result<Receiver<Sight>, Fault> {
    let known = register.known();
    let first = register.view()?;
    register.check(known.as_ref(), &first.view)?;
    register.know(&first.view);
    follow(register, Some(first))
}

/// As [`watch`], also where there is no view yet, or nobody who tells.
///
/// # Errors
/// The system has no thread.
pub fn watch_anyway(register: Arc<Register>) -> Result<Receiver<Sight>, Fault> {
    follow(register, None)
}

fn follow(register: Arc<Register>, seen: Option<Seen>) -> Result<Receiver<Sight>, Fault> {
    let view = seen.as_ref().map(|seen| Arc::clone(&seen.view));
    let (sender, receiver) = channel(Sight { view, lack: None });
    let follower = Follower { register, seen, sender, refused: None };
    let spawned = thread::Builder::new().name("view".to_owned()).spawn(move || follower.follow());
    spawned.map_err(|error| no_thread(&error))?;
    Ok(receiver)
}

pub(crate) fn no_thread(error: &io::Error) -> Fault {
    Fault::Etcd(Error::Files(format!("no thread: {error}")))
}

struct Follower {
    register: Arc<Register>,
    /// The view in the channel.
    seen: Option<Seen>,
    sender: Sender<Sight>,
    /// The last view of etcd, if it is refused.
    refused: Option<Refused>,
}

struct Refused {
    /// Up to which revision etcd's views were judged.
    upto: u64,
    epoch: u64,
    why: Fault,
}

impl Refused {
    fn words(&self) -> String {
        format!("the view of epoch {} is refused: {}", self.epoch, self.why)
    }
}

impl Follower {
    fn follow(mut self) {
        let mut told = Told::default();
        while !self.sender.is_closed() {
            let followed = self.follow_once();
            if let Err(fault) = &followed {
                if told.is_new(fault) {
                    tracing::warn!("the watch of the cluster's view: {fault}; it is tried again");
                }
                self.lack(Some(fault.to_string()));
                thread::sleep(REST);
            } else if !std::mem::take(&mut told).is_empty() {
                tracing::info!("the cluster's view can be read from etcd again");
            }
        }
    }

    /// Reads the view, because some may have been missed, and then watches once.
    fn follow_once(&mut self) -> Result<(), Fault> {
        let known = self.register.known();
        let (now, revision) = self.register.view_now()?;
        self.register.check_now(known.as_ref(), &now.view)?;
        let after = match &self.refused {
            Some(refused) => {
                self.lack(Some(refused.words()));
                refused.upto + 1
            }
            None => {
                self.lack(None);
                self.take(now.clone());
                // etcd may have compacted what was before.
                revision + 1
            }
        };
        let keys = EtcdKeys::one(self.register.key("view"));
        let mut watch = self.register.etcd.watch(&keys, after, WATCH_MAX)?;
        loop {
            match watch.next_events() {
                Ok(None) => return Ok(()),
                Ok(Some(told)) => told.events.into_iter().try_for_each(|it| self.hear(it))?,
                // etcd doesn't have all views any more that came since.
                Err(Error::Ended { .. }) if self.refused.is_some() => {
                    self.take(now);
                    if let Some(refused) = &mut self.refused {
                        refused.upto = revision;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn hear(&mut self, event: EtcdEvent) -> Result<(), Fault> {
        let (revision, next) = match event {
            EtcdEvent::Put(pair) => (pair.mod_revision, read_view(&pair)),
            EtcdEvent::Deleted { mod_revision, .. } => (mod_revision, Err(self.register.nothing())),
        };
        let checked = next.and_then(|next| {
            self.register.check(self.register.known().as_ref(), &next.view)?;
            Ok(next)
        });
        match (checked, &mut self.refused) {
            (Ok(next), _) => self.take(next),
            (Err(fault), None) => return Err(fault),
            // It was there for a while, and isn't any more, or else reading the view fails.
            (Err(_), Some(refused)) => refused.upto = revision,
        }
        Ok(())
    }

    fn take(&mut self, next: Seen) {
        let before = self.seen.as_ref().map(|seen| &seen.view);
        let is_same = before == Some(&next.view);
        let step = before.filter(|_| !is_same).map_or(Ok(()), |before| match self.refused {
            Some(_) => next.view.may_follow_later(before),
            None => next.view.may_replace(before),
        });
        let epoch = next.view.epoch;
        match (step, before) {
            (Ok(()), Some(_)) if !is_same => self.register.newcomer.note_step(),
            (Err(why), Some(before))
                if self.register.newcomer.is() && next.view.may_supersede(before).is_ok() =>
            {
                tracing::warn!(
                    "the view of epoch {epoch} may not follow the one of epoch {} with which this process began: {why}; it is followed, since no other process relies on this one yet",
                    before.epoch
                );
            }
            (Err(why), _) => {
                self.refuse(Fault::Step(why), &next);
                return;
            }
            _ => {}
        }
        self.register.know(&next.view);
        if self.refused.take().is_some() {
            self.lack(None);
            tracing::info!("etcd has a good view again, of epoch {epoch}: it is followed");
        }
        if !is_same {
            self.sender.send_modify(|sight| sight.view = Some(Arc::clone(&next.view)));
            self.seen = Some(next);
        }
    }

    fn refuse(&mut self, why: Fault, next: &Seen) {
        self.register.refuse(&why);
        let refused = Refused { upto: next.mod_revision, epoch: next.view.epoch, why };
        self.lack(Some(refused.words()));
        if self.refused.as_ref().is_none_or(|before| before.why != refused.why) {
            tracing::error!(
                "the view of epoch {} in etcd is refused, and what is built on it: {}; the last good one, of epoch {}, stays in use until that is put back, or one of a higher epoch that may follow it",
                refused.epoch,
                refused.why,
                self.seen.as_ref().map_or(0, |seen| seen.view.epoch)
            );
        }
        self.refused = Some(refused);
    }

    fn lack(&self, lack: Option<String>) {
        self.sender.send_if_modified(|sight| {
            let is_told = sight.view.is_none() && sight.lack != lack;
            sight.lack = lack;
            is_told
        });
    }
}

/// A watch ends after this time, so that a silent connection is noticed.
const WATCH_MAX: Duration = Duration::from_secs(5);
/// The pause between attempts.
const REST: Duration = Duration::from_millis(500);
