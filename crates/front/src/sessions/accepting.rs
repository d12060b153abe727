//! The thread that accepts clients. Where processors are short, it yields to the threads that serve: connected clients come
//! before new ones.
//!
//! To connect is cheap, but accepting took a whole processor while others connected again and again. For a calm client of a
//! router on two processors, one reply in a hundred then took 3 to 1,500 ms. With the lower priority it takes 5 to 9 ms.
//! (Three rounds each, interleaved; four threads connected and reset.)

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::runtime;
use tokio::sync::oneshot;

use crate::sessions::listener::{Dealer, Listening, accept};
use crate::sessions::stream::Arrival;

/// A thread that accepts clients. Dropping this ends the thread and closes its sockets.
#[derive(Debug)]
#[must_use = "dropped, it accepts no more"]
pub struct Accepting {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Accepts clients at all sockets, each in a task of the current runtime, and deals them out. Calls `failed` for a socket
/// that can't be listened on.
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
/// The system can't provide a thread or an event queue.
pub fn accept_apart<T: From<Arrival> + Send + 'static>(
    sockets: Vec<Listening>,
    dealer: Dealer<T>,
    failed: impl Fn(&io::Error) + Send + Sync + 'static,
) -> io::Result<Accepting> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (end, ended) = oneshot::channel::<()>();
    let run = move || {
        // If the system forbids this, clients that connect and clients that are served wait alike.
        let _ = rustix::process::nice(AFTER_OTHERS);
        runtime.block_on(async move {
            accept_all(sockets, dealer, failed);
            // Nothing is ever sent: the sender is only dropped.
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

/// By how much the thread's niceness is raised. It then gets a tenth of a processor while others want all of it.
const AFTER_OTHERS: i32 = 10;
