//! A node's own statistics, asked for as a client does.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a node said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    stats: BTreeMap<String, String>,
    /// Seconds by which the node's clock is ahead of ours.
    pub(crate) ahead_s: f64,
}

impl Said {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.stats.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }
}

/// Asks a node at `host:port` for its statistics.
///
/// # Errors
/// A sentence: nobody answers there, or not as a node does that needs neither TLS nor a login.
pub(crate) fn ask(address: &str) -> Result<Said, String> {
    let begun = Instant::now();
    let text = exchange(address).map_err(|error| error.to_string())?;
    let took = begun.elapsed();
    let mut said = Said::default();
    for line in text.lines() {
        if let Some((name, value)) = line.strip_prefix("STAT ").and_then(|it| it.split_once(' ')) {
            said.stats.insert(name.to_owned(), value.to_owned());
        }
    }
    let Some(time) = said.number("time") else {
        let first: String = text.lines().next().unwrap_or("nothing").chars().take(80).collect();
        return Err(format!("its answer isn't a node's ({first:?}): it may want TLS or a login"));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The node's time is in whole seconds: on average it is half a second further.
    said.ahead_s = time + 0.5 - (now.as_secs_f64() - took.as_secs_f64() / 2.0);
    Ok(said)
}

fn exchange(address: &str) -> std::io::Result<String> {
    let place = address.to_socket_addrs()?.next();
    let place = place.ok_or_else(|| std::io::Error::other("the name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&place, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(b"stats\r\nstats cluster\r\nstats store\r\nquit\r\n")?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

const LIMIT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u64 = 1 << 20;
