//! The thread that accepts clients. Where processors are short it comes after those that serve: clients that are there come
//! before those that come.
//!
//! To connect is cheap, and to accept what connects took a whole processor for as long as somebody did so again and again. A calm
//! client of a router on two processors waited 3 to 1,500 ms for one reply in a hundred meanwhile, and now waits 5 to 9 ms (three
//! rounds each, interleaved, four threads that connect and reset).

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime;
use tokio::sync::oneshot;

use crate::sessions::listener::{Dealer, Listening, accept};
use crate::sessions::stream::Arrival;

/// Accepts until it is dropped; then the sockets are closed.
#[derive(Debug)]
#[must_use = "dropped, it accepts no more"]
pub struct Accepting {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Accepts clients at all sockets, each in a task of this runtime, and deals them out; tells `failed` of a socket that can't
/// be listened on.
pub fn accept_all<T: From<Arrival> + Send + 'static>(
    sockets: Vec<Listening>,
    dealer: Dealer<T>,
    failed: impl Fn(&io::Error) + Send + Sync + 'static,
) {
    let (dealer, failed) = (Arc::new(dealer), Arc::new(failed));
    for socket in sockets {
        let (dealer, failed) = (Arc::clone(&dealer), Arc::clone(&failed));
        tokio::spawn(async move {
            if let Err(error) = accept(socket, dealer).await {
                failed(&error);
            }
        });
    }
}

/// [`accept_all`] on a thread of its own.
///
/// # Errors
/// The system has no thread or no event queue.
pub fn accept_apart<T: From<Arrival> + Send + 'static>(
    sockets: Vec<Listening>,
    dealer: Dealer<T>,
    failed: impl Fn(&io::Error) + Send + Sync + 'static,
) -> io::Result<Accepting> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (end, ended) = oneshot::channel::<()>();
    let run = move || {
        // A system that forbids it lets all wait alike.
        let _ = rustix::process::nice(AFTER_OTHERS);
        runtime.block_on(async move {
            accept_all(sockets, dealer, failed);
            // The sender is only dropped.
            let _ = ended.await;
        });
    };
    let thread = thread::Builder::new().name("accept".to_owned()).spawn(run)?;
    Ok(Accepting { end: Some(end), thread: Some(thread) })
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// By how much its niceness is raised: to a tenth of a processor, where others want all of it.
const AFTER_OTHERS: i32 = 10;
