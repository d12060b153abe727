//! Serving a client from its arrival to its end, and ending all clients of a thread.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{Instant, timeout};

use crate::sessions::clients::Clients;
use crate::sessions::entrance::enter;
use crate::sessions::lanes::{Rounds, VISIT_COST};
use crate::sessions::service::Service;
use crate::sessions::session::Session;
use crate::sessions::stream::Arrival;
use crate::sessions::thread::{Phase, Sessions};

/// Lets in a client that was [admitted](Clients::admit), and serves it until it goes.
///
/// The caller spawns this on the thread's [`LocalSet`].
pub async fn serve<S: Service>(sessions: Rc<Sessions<S>>, arrival: Arrival) {
    let place = Place(Arc::clone(&sessions.clients));
    place.during(enter_and_serve(sessions, arrival)).await;
}

async fn enter_and_serve<S: Service>(sessions: Rc<Sessions<S>>, arrival: Arrival) {
    let from = arrival.to_string();
    tracing::trace!("a client comes from {from}");
    let entering = async {
        // Without this turn, a crowd that comes at once would be let in before other clients' requests are seen.
        Rounds::turn(&sessions.lanes, VISIT_COST).await;
        enter(arrival, &sessions.clients, (&sessions.entering, &sessions.lanes)).await
    };
    let entered = tokio::select! {
        entered = entering => Some(entered),
        () = sessions.is_ending.notified() => None,
    };
    match entered {
        Some(Ok((stream, input))) => Session::new(sessions, stream, input).serve(&from).await,
        Some(Err(error)) => sessions.clients.refusals.note(&from, &error),
        None => {}
    }
}

/// One of the connections that the limit allows. Dropping it frees the place, also when a session panics.
struct Place(Arc<Clients>);

impl Place {
    /// Keeps the place until `serving` ends.
    async fn during(self, serving: impl Future<Output = ()>) {
        serving.await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Ends a thread's tasks: clients get their replies, and changes are carried through even if their client has gone.
///
/// Requests that still wait after 4.5 seconds must fail. `abandon` is called repeatedly until they have, for two seconds at
/// most: a request that fails may be retried elsewhere.
pub async fn drain<S: Service>(sessions: &Sessions<S>, mut tasks: LocalSet, abandon: impl Fn()) {
    sessions.phase.set(Phase::Draining);
    sessions.is_ending.notify_waiters();
    if timeout(GRACE, &mut tasks).await.is_ok() {
        return;
    }
    sessions.phase.set(Phase::Closing);
    let closed = Instant::now();
    while closed.elapsed() < CLOSING_MAX {
        abandon();
        if timeout(CLOSING_STEP, &mut tasks).await.is_ok() {
            return;
        }
    }
}

/// How long clients' requests may still take once the process is to end.
const GRACE: Duration = Duration::from_millis(4500);
/// How long the requests that then fail may take to be written down and answered.
const CLOSING_MAX: Duration = Duration::from_secs(2);
const CLOSING_STEP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::clients::ClientLimits;
    use crate::sessions::memory::MemoryLimits;
    use crate::sessions::owner::ShutdownFrom;

    #[tokio::test]
    async fn a_client_whose_session_panics_leaves_its_place_to_the_next() {
        let limits = ClientLimits {
            connections_max: 1,
            outstanding_max: 1,
            timeout: Duration::ZERO,
            memory: MemoryLimits { all: 1 << 20, each: 1 << 20, value: 1 << 20 },
            shutdown_from: ShutdownFrom::Nobody,
        };
        let clients = Arc::new(Clients::new(limits, None, None));
        for _ in 0..3 {
            assert!(clients.admit(), "the place is free");
            assert!(!clients.admit(), "there is one place");
            let place = Place(Arc::clone(&clients));
            let session = async { panic!("as it should") };
            let tasks = LocalSet::new();
            let ended = tasks.spawn_local(place.during(session));
            let ended = tasks.run_until(ended).await;
            assert!(ended.is_err_and(|error| error.is_panic()));
        }
    }
}
