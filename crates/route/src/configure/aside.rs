//! Work that may take long or never end: each piece runs on a thread of its own, and is given up after a while.
//!
//! A thread can't be stopped from outside. If it was given up it goes on, and its result is dropped. At most
//! [`STUCK_MAX`] pieces of work run at once; with as many, new work is refused.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use guira_config::budget::STACK_BYTES;

/// Runs such work.
#[derive(Debug)]
pub(crate) struct Aside {
    places: Arc<Semaphore>,
}

/// Why work has no result.
#[derive(Debug)]
pub(crate) enum Lost {
    /// It took too long, and may still run.
    TooLong,
    /// Too much work that was given up is still running.
    Stuck,
    /// No thread could be started, or the work panicked.
    Failed(String),
}

impl Aside {
    pub(crate) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(STUCK_MAX)) }
    }

    /// Runs `work`, and waits at most `patience` for its result.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Lost> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| Lost::Stuck)?;
        let (done, result) = oneshot::channel();
        let run = move || {
            let value = work();
            // Before the result is sent: the caller may start new work at once.
            drop(place);
            // The caller may have stopped waiting.
            let _ = done.send(value);
        };
        let thread =
            thread::Builder::new().name("configuration".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(|error: io::Error| Lost::Failed(error.to_string()))?;
        match timeout(patience, result).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) => Err(Lost::Failed("it panicked".to_owned())),
            Err(_) => Err(Lost::TooLong),
        }
    }
}

/// The limit of work under way.
const STUCK_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn work_that_hangs_is_given_up_and_the_next_is_done() {
        let aside = Aside::new();
        let patience = Duration::from_millis(50);
        let mut ends = Vec::new();
        for _ in 0..STUCK_MAX - 1 {
            let (end, hangs) = channel::<()>();
            let lost = aside.run(patience, move || hangs.recv().is_ok()).await;
            assert!(matches!(lost, Err(Lost::TooLong)));
            ends.push(end);
        }
        let long = Duration::from_secs(20);
        assert!(matches!(aside.run(long, || 7).await, Ok(7)));
        let (_end, hangs) = channel::<()>();
        assert!(matches!(
            aside.run(patience, move || hangs.recv().is_ok()).await,
            Err(Lost::TooLong)
        ));
        assert!(matches!(aside.run(long, || 7).await, Err(Lost::Stuck)));
        ends.clear();
        while matches!(aside.run(long, || 7).await, Err(Lost::Stuck)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn work_that_panics_is_lost_and_leaves_its_place() {
        let aside = Aside::new();
        for _ in 0..=STUCK_MAX {
            let lost = aside.run(Duration::from_secs(20), || panic!("as it should")).await;
            assert!(matches!(lost, Err::<(), _>(Lost::Failed(_))));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
