//! The newest view, in a channel that a thread fills.
//!
//! # Invariants
//! 1. The view in the channel is valid. All views are of one cluster, and their epochs rise.
//! 2. A view whose predecessor was seen is refused unless it may follow that one. So are all views after it: what is built
//!    on a wrong view is wrong. The channel keeps the last good view until the program is started again.
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

use crate::fault::Fault;
use crate::register::{Register, Seen, read_view};

/// Reads the view, and follows it from then on. While etcd is away the channel keeps what it has.
///
/// # Errors
/// The first view can't be read; or the system has no thread.
pub fn watch(register: Arc<Register>) -> Result<Receiver<Arc<View>>, Fault> {
    let first = register.view()?;
    let (sender, receiver) = channel(Arc::clone(&first.view));
    let follower = Follower { register, seen: first, sender, refused: false };
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
    seen: Seen,
    sender: Sender<Arc<View>>,
    refused: bool,
}

impl Follower {
    fn follow(mut self) {
        let mut is_away = false;
        while !self.sender.is_closed() {
            let followed = self.follow_once();
            if let Err(fault) = &followed {
                if !is_away {
                    tracing::warn!("the watch of the cluster's view: {fault}; it is tried again");
                }
                thread::sleep(REST);
            }
            is_away = followed.is_err();
        }
    }

    /// Reads the view, because some may have been missed, and then watches once.
    fn follow_once(&mut self) -> Result<(), Fault> {
        let now = self.register.view()?;
        let after = now.mod_revision + 1;
        self.take(now);
        let keys = EtcdKeys::one(self.register.key("view"));
        let mut watch = self.register.etcd.watch(&keys, after, WATCH_MAX)?;
        while let Some(told) = watch.next_events()? {
            for event in told.events {
                match event {
                    EtcdEvent::Put(pair) => self.take(read_view(&pair)?),
                    EtcdEvent::Deleted { .. } => {
                        return Err(Fault::NoCluster(self.register.name().to_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, next: Seen) {
        if self.refused || next.view == self.seen.view {
            return;
        }
        if let Err(fault) = next.view.may_replace(&self.seen.view).map_err(Fault::Step) {
            self.refused = true;
            tracing::error!(
                "the view of epoch {} in etcd is refused, and those after it: {fault}; the last good one stays in use until the program is started again",
                next.view.epoch
            );
            return;
        }
        self.sender.send_replace(Arc::clone(&next.view));
        self.seen = next;
    }
}

/// A watch ends after this time, so that a silent connection is noticed.
const WATCH_MAX: Duration = Duration::from_secs(5);
/// The pause between attempts.
const REST: Duration = Duration::from_millis(500);
