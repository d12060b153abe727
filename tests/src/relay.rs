//! A relay in front of a server: it can be cut, and what is under way then arrives once it is whole again.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// Its connections stay until a side of them ends; dropped, it takes no more.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_cut: AtomicBool,
    is_over: AtomicBool,
}

impl Relay {
    /// Takes connections for the server at a port of 127.0.0.1.
    ///
    /// # Panics
    /// If the system has no port.
    #[must_use]
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if shared.is_over.load(SeqCst) {
                    return;
                }
                // Without a server the client sees its connection end.
                if let Ok(far) = TcpStream::connect(("127.0.0.1", to)) {
                    join(&near, &far, &shared);
                    join(&far, &near, &shared);
                }
            }
        });
        Self { port, state }
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing comes through, or everything does.
    pub fn cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.is_over.store(true, SeqCst);
        // Whoever waits for a connection sees that it is over.
        TcpStream::connect(("127.0.0.1", self.port)).ok();
    }
}

/// Copies what comes from one side to the other, on a thread.
fn join(from: &TcpStream, to: &TcpStream, state: &Arc<State>) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    let state = Arc::clone(state);
    thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            while state.is_cut.load(SeqCst) && !state.is_over.load(SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    });
}
