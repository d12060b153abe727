//! Gets of many keys, and gets over UDP.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::{Client, Server, settle_permit, too_late};
use crate::connection::{AskKeys, Caller};
use crate::window::Permit;
use crate::{Failure, Got, Op, Outcome, Udp};

/// The part of a multiget that went to one server.
struct Group {
    permit: Option<Permit>,
    /// The position of each of its keys in the multiget.
    places: Vec<usize>,
    asks: Asks,
}

enum Asks {
    Connection(AskKeys),
    Udp(JoinHandle<Vec<Got>>),
}

/// The error that the deadline passed while waiting for the window.
struct TooLate;

impl Client {
    /// Gets the items of many keys, in the order of the keys.
    ///
    /// # Cost
    /// One line per server and up to 100 keys. In a [`Window`](crate::Window) each server's share counts as one request.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Got> {
        let deadline = Instant::now() + self.inner.deadline;
        let mut shares = vec![Vec::new(); self.inner.servers.len()];
        for (at, key) in keys.iter().enumerate() {
            shares[self.inner.ring.choose(key.as_ref())].push(at);
        }
        let mut found = vec![Got::Miss; keys.len()];
        let mut out = VecDeque::new();
        for (server, places) in self.inner.servers.iter().zip(shares) {
            if places.is_empty() {
                continue;
            }
            let Ok(permit) = self.enter_beside(&mut out, &mut found, deadline).await else {
                for at in places {
                    found[at] = Got::Failed(Failure::of(&too_late()));
                }
                continue;
            };
            let asks = ask_for(server, keys, &places, deadline);
            out.push_back(Group { permit, places, asks });
        }
        while let Some(group) = out.pop_front() {
            group.settle(&mut found).await;
        }
        found
    }

    /// Gets one item over UDP.
    pub(super) async fn get_by_udp(&self, udp: &Udp, key: Bytes) -> Got {
        let deadline = Instant::now() + self.inner.deadline;
        let permit = match &self.inner.window {
            None => None,
            Some(window) => match timeout_at(deadline, window.enter()).await {
                Ok(permit) => Some(permit),
                Err(_) => return Got::Failed(Failure::of(&too_late())),
            },
        };
        let got = udp.get(&[key], deadline).await.pop().unwrap_or(Got::Miss);
        if let Some(permit) = permit {
            settle_permit(permit, outcome(&got));
        }
        got
    }

    /// Waits for room in the window. If there is none, it first settles what this multiget has under way, which makes
    /// room.
    async fn enter_beside(
        &self,
        out: &mut VecDeque<Group>,
        found: &mut [Got],
        deadline: Instant,
    ) -> Result<Option<Permit>, TooLate> {
        let Some(window) = &self.inner.window else {
            return Ok(None);
        };
        loop {
            if let Some(permit) = window.try_enter() {
                return Ok(Some(permit));
            }
            let Some(group) = out.pop_front() else {
                let entered = timeout_at(deadline, window.enter()).await;
                return entered.map(Some).map_err(|_| TooLate);
            };
            group.settle(found).await;
        }
    }
}

fn ask_for<K: AsRef<[u8]>>(
    server: &Server,
    keys: &[K],
    places: &[usize],
    deadline: Instant,
) -> Asks {
    let wanted: Vec<Bytes> =
        places.iter().map(|&at| Bytes::copy_from_slice(keys[at].as_ref())).collect();
    if let Some(udp) = server.udp.clone() {
        return Asks::Udp(tokio::spawn(async move { udp.get(&wanted, deadline).await }));
    }
    Asks::Connection(server.connection().ask_keys(Caller::default(), Op::Get, wanted, deadline))
}

impl Group {
    /// Waits for the results and puts them in their places.
    async fn settle(self, found: &mut [Got]) {
        match self.asks {
            Asks::Connection(ask) => {
                for (&at, reply) in self.places.iter().zip(ask.await) {
                    found[at] = Got::of(reply);
                }
            }
            Asks::Udp(task) => match task.await {
                Ok(all) => {
                    for (&at, got) in self.places.iter().zip(all) {
                        found[at] = got;
                    }
                }
                Err(error) => {
                    let (outcome, message) = (Outcome::LocalError, error.to_string());
                    for &at in &self.places {
                        found[at] = Got::Failed(Failure { outcome, message: message.clone() });
                    }
                }
            },
        }
        if let Some(permit) = self.permit {
            let outcomes = self.places.iter().map(|&at| outcome(&found[at]));
            let worst = outcomes.reduce(|a, b| if a == Outcome::Found { b } else { a });
            settle_permit(permit, worst.unwrap_or(Outcome::Found));
        }
    }
}

/// The outcome that a reply would have. A miss counts as found, because it was answered.
fn outcome(got: &Got) -> Outcome {
    match got {
        Got::Hit(_) | Got::Miss => Outcome::Found,
        Got::Failed(failure) => failure.outcome,
    }
}
