//! A link to a store that carries a limited number of gets per second, in the order of arrival: it makes the store slow.

use crate::live::pause_until;
use crate::measure::now;
use anyhow::Result;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A link that is in use.
pub(super) struct Relay {
    /// Where it listens, on 127.0.0.1.
    pub(super) port: u16,
    carried: Arc<AtomicU64>,
}

impl Relay {
    /// The number of keys that the store was asked for.
    pub(super) fn carried(&self) -> u64 {
        self.carried.load(Relaxed)
    }
}

/// Listens on its own port, and forwards gets to the store at `port`, `rate` keys per second for all connections
/// together. Ends with the process.
pub(super) fn start(port: u16, rate: f64) -> Result<Relay> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let carried = Arc::<AtomicU64>::default();
    let relay = Relay { port: listener.local_addr()?.port(), carried: Arc::clone(&carried) };
    let pace = Arc::new(Mutex::new(Pace { rate, free_at: now() }));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (pace, carried) = (Arc::clone(&pace), Arc::clone(&carried));
            thread::spawn(move || carry(&stream, port, &pace, &carried));
        }
    });
    Ok(relay)
}

/// Forwards until either end closes.
fn carry(near: &TcpStream, port: u16, pace: &Mutex<Pace>, carried: &AtomicU64) -> Result<()> {
    let far = TcpStream::connect(("127.0.0.1", port))?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (from, to) = (far.try_clone()?, near.try_clone()?);
    thread::spawn(move || pass(from, to));
    let mut line = Vec::new();
    let mut requests = BufReader::new(near);
    while requests.read_until(b'\n', &mut line)? > 0 {
        // Each key of a get is preceded by a blank.
        let keys = line.iter().filter(|&&byte| byte == b' ').count();
        let due = pace.lock().unwrap_or_else(PoisonError::into_inner).due(keys);
        pause_until(due);
        (&far).write_all(&line)?;
        carried.fetch_add(keys as u64, Relaxed);
        line.clear();
    }
    Ok(())
}

/// Forwards replies as they come. `std::io::copy` would have the system join several, and hold the last ones up for a while.
fn pass(mut from: TcpStream, mut to: TcpStream) -> Result<()> {
    let mut replies = vec![0; 64 << 10];
    loop {
        match from.read(&mut replies)? {
            0 => return Ok(()),
            n => to.write_all(&replies[..n])?,
        }
    }
}

/// When the link will be free again.
struct Pace {
    rate: f64,
    free_at: Instant,
}

impl Pace {
    /// When a get of so many keys is to be sent.
    fn due(&mut self, keys: usize) -> Instant {
        // A key that waits behind another is sent when it is due, even if this thread was woken late. Idle time isn't
        // made up for.
        self.free_at = self.free_at.max(now().checked_sub(LATE).unwrap_or(self.free_at));
        self.free_at += Duration::from_secs_f64(keys as f64 / self.rate);
        self.free_at
    }
}

/// The longest delay of a thread's wake-up that is made up for.
const LATE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_waits_for_those_before_it_and_idleness_is_not_made_up_for() {
        let begun = now();
        let mut pace = Pace { rate: 1e6, free_at: begun };
        pace.due(10);
        assert!(pace.due(10) >= begun + Duration::from_micros(20));
        pace.free_at = begun.checked_sub(Duration::from_secs(100)).unwrap_or(begun);
        assert!(pace.due(1) + Duration::from_secs(1) > now(), "the past is not made up for");
    }
}
