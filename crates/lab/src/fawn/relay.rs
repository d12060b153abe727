//! A link to a store that carries a limited number of gets per second, in the order of arrival: it makes the store slow.

use crate::live::pause_until;
use crate::measure::now;
use anyhow::Result;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Listens on its own port for one connection after the other, and forwards gets to the store at `port`, `rate` keys
/// per second. Ends with the process.
pub(super) fn start(port: u16, rate: f64) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let own = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || carry(&stream, port, rate));
        }
    });
    Ok(own)
}

/// Forwards until either end closes.
fn carry(near: &TcpStream, port: u16, rate: f64) -> Result<()> {
    let far = TcpStream::connect(("127.0.0.1", port))?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (mut from, mut to) = (far.try_clone()?, near.try_clone()?);
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    let mut pace = Pace { rate, free_at: now() };
    let mut line = Vec::new();
    let mut requests = BufReader::new(near);
    while requests.read_until(b'\n', &mut line)? > 0 {
        // Each key of a get is preceded by a blank.
        let keys = line.iter().filter(|&&byte| byte == b' ').count();
        pace.wait(keys);
        (&far).write_all(&line)?;
        line.clear();
    }
    Ok(())
}

/// When the link will be free again.
struct Pace {
    rate: f64,
    free_at: Instant,
}

impl Pace {
    fn wait(&mut self, keys: usize) {
        // A key that waits behind another is sent when it is due, even if this thread was woken late. Idle time isn't
        // made up for.
        self.free_at = self.free_at.max(now().checked_sub(LATE).unwrap_or(self.free_at));
        self.free_at += Duration::from_secs_f64(keys as f64 / self.rate);
        pause_until(self.free_at);
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
        pace.wait(10);
        pace.wait(10);
        assert!(now() >= begun + Duration::from_micros(20));
        pace.free_at = begun.checked_sub(Duration::from_secs(100)).unwrap_or(begun);
        pace.wait(1);
        assert!(pace.free_at + Duration::from_secs(1) > now(), "the past is not made up for");
    }
}
