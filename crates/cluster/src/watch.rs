//! The newest view, in a channel that a thread fills.
//!
//! # Invariants
//! 1. A view in the channel is valid. All views are of one cluster, and their epochs rise.
//! 2. A view whose predecessor was seen is refused unless it may follow that one. So are all views after it: what is built
//!    on a wrong view is wrong. The channel keeps the last good view until etcd has that one again, or the one that follows
//!    it.
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
use crate::register::{Register, Seen, read_view};

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
    let follower = Follower { register, seen, sender, refused: false };
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
    refused: bool,
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
            } else {
                told = Told::default();
            }
        }
    }

    /// Reads the view, because some may have been missed, and then watches once.
    fn follow_once(&mut self) -> Result<(), Fault> {
        let known = self.register.known();
        let now = self.register.view()?;
        self.register.check(known.as_ref(), &now.view)?;
        let after = now.mod_revision + 1;
        if !self.refused {
            self.lack(None);
        }
        self.take(now);
        let keys = EtcdKeys::one(self.register.key("view"));
        let mut watch = self.register.etcd.watch(&keys, after, WATCH_MAX)?;
        while let Some(told) = watch.next_events()? {
            for event in told.events {
                match event {
                    EtcdEvent::Put(pair) => {
                        let next = read_view(&pair)?;
                        self.register.check(self.register.known().as_ref(), &next.view)?;
                        self.take(next);
                    }
                    EtcdEvent::Deleted { .. } => return Err(self.register.nothing()),
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, next: Seen) {
        let (before, epoch) = (self.seen.as_ref().map(|seen| &seen.view), next.view.epoch);
        let is_same = before == Some(&next.view);
        let step = before.filter(|_| !is_same).map_or(Ok(()), |before| match self.refused {
            true => next.view.may_follow(before),
            false => next.view.may_replace(before),
        });
        match step.map_err(Fault::Step) {
            Err(_) if self.refused => return,
            Err(fault) => {
                self.refused = true;
                self.lack(Some(format!("the view of epoch {epoch} is refused: {fault}")));
                tracing::error!(
                    "the view of epoch {epoch} in etcd is refused, and those after it: {fault}; the last good one stays in use until it is put back, or the program is started again"
                );
                return;
            }
            Ok(()) if self.refused => {
                self.refused = false;
                self.lack(None);
                tracing::info!("etcd has a good view again, of epoch {epoch}: it is followed");
            }
            Ok(()) => {}
        }
        if is_same {
            return;
        }
        self.register.know(&next.view);
        self.sender.send_modify(|sight| sight.view = Some(Arc::clone(&next.view)));
        self.seen = Some(next);
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
