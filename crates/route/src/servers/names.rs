//! Addresses of server names, which are looked up again when their records expire: one lookup per name for all threads.
//!
//! ```text
//! link ─ name, port ─▶ Names ─▶ a task on the main thread ─ addresses, when they change ─▶ the link's connection
//! ```
//! The router queries DNS itself, because the system's resolver returns neither expiry times nor SRV records.
//! `/etc/hosts` comes first. Names that DNS doesn't know are left to the system.
//!
//! # Invariants
//! 1. A failed lookup changes nothing for links that already have addresses.
//! 2. Addresses are sorted, so that all threads and routers try the same one first.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use guira_client::{Known, Whereabouts};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::server::Server;

/// A name to look up, and the channel for its addresses.
pub(crate) struct Job {
    host: String,
    port: u16,
    told: watch::Sender<Known>,
}

/// The names that links have asked for.
#[derive(Debug)]
pub(crate) struct Names {
    known: Mutex<HashMap<(String, u16), Whereabouts>>,
    jobs: UnboundedSender<Job>,
    /// The receiver of jobs, until the lookup task takes it.
    orders: Mutex<Option<UnboundedReceiver<Job>>>,
}

impl Names {
    pub(crate) fn new() -> Self {
        let (jobs, orders) = unbounded_channel();
        Self { known: Mutex::default(), jobs, orders: Mutex::new(Some(orders)) }
    }

    /// Returns a watch of the addresses of a server's name. `None`: the server is given by an IP address or a path.
    pub(crate) fn whereabouts(&self, server: &Server) -> Option<Whereabouts> {
        if server.is_unix || server.host.parse::<IpAddr>().is_ok() {
            return None;
        }
        let place = (server.host.clone(), server.port);
        let mut known = self.known.lock();
        let fresh = || {
            let (told, whereabouts) = watch::channel(None);
            let job = Job { host: server.host.clone(), port: server.port, told };
            // This fails only if the main thread has ended, and then this thread ends too.
            let _ = self.jobs.send(job);
            whereabouts
        };
        Some(known.entry(place).or_insert_with(fresh).clone())
    }

    /// Looks names up forever. Must be called once, in the main thread's runtime.
    pub(crate) async fn look_up_forever(self: Arc<Self>, servers: DnsServers) {
        let Some(mut orders) = self.orders.lock().take() else { return };
        while let Some(job) = orders.recv().await {
            tokio::spawn(Arc::clone(&self).look_after(job, Arc::clone(&servers)));
        }
    }

    /// Looks a name up, until no link uses it.
    async fn look_after(self: Arc<Self>, job: Job, servers: DnsServers) {
        let Job { host, port, told } = job;
        loop {
            let (known, pause) = match look_up(&host, &servers).await {
                Ok((ips, holds)) => {
                    (Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()), holds)
                }
                Err(words) => (Err(words.into()), HOLDS_MIN),
            };
            told.send_if_modified(|old| {
                let is_news = match (&old, &known) {
                    (Some(Ok(_)), Err(_)) => false,
                    (Some(old), new) => old != new,
                    (None, _) => true,
                };
                if is_news {
                    *old = Some(known);
                }
                is_news
            });
            tokio::time::sleep(pause).await;
            let mut known = self.known.lock();
            if told.receiver_count() <= 1 {
                // Only the map's own receiver is left. A later request for this name starts a new job.
                known.remove(&(host, port));
                return;
            }
        }
    }
}

/// The configured DNS servers, and one resolver, which learns which of its servers answer fast.
///
/// The resolver belongs to the runtime that uses it first. A thread with its own runtime needs another one.
#[derive(Debug, Default)]
pub(crate) struct Dns {
    /// Empty: the servers of `/etc/resolv.conf`.
    servers: Vec<SocketAddr>,
    kept: Mutex<Option<(Vec<Stamp>, Arc<TokioResolver>)>>,
}

pub(crate) type DnsServers = Arc<Dns>;

/// A file's inode, and the seconds and nanoseconds of its last change. `None`: there is no file.
type Stamp = Option<(u64, i64, i64)>;

impl Dns {
    fn new(servers: Vec<SocketAddr>) -> Self {
        Self { servers, kept: Mutex::default() }
    }

    /// Returns the resolver. If one of the `files` it has read has changed, a new one is made.
    fn resolver(&self, files: &[&str]) -> Result<Arc<TokioResolver>, String> {
        let stamp = |path: &&str| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.ino(), found.ctime(), found.ctime_nsec()))
        };
        let stamps: Vec<Stamp> = files.iter().map(stamp).collect();
        let mut kept = self.kept.lock();
        match &*kept {
            Some((seen, resolver)) if *seen == stamps => Ok(Arc::clone(resolver)),
            _ => {
                let resolver = Arc::new(resolver(&self.servers)?);
                *kept = Some((stamps, Arc::clone(&resolver)));
                Ok(resolver)
            }
        }
    }
}

/// Parses `--dns-servers`.
pub(crate) fn dns_servers(text: &str) -> Result<DnsServers, String> {
    let parse = |text: &str| -> Result<SocketAddr, String> {
        let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS_PORT));
        ip.or_else(|_| text.parse()).map_err(|_| {
            format!("--dns-servers {text}: write IP addresses, with a port if it isn't 53")
        })
    };
    let servers: Result<_, String> =
        text.split(',').filter(|text| !text.is_empty()).map(parse).collect();
    Ok(Arc::new(Dns::new(servers?)))
}

/// Makes a resolver, which reads [`FILES`] now. It caches nothing: expiry is handled here.
fn resolver(servers: &[SocketAddr]) -> Result<TokioResolver, String> {
    let mut builder = if servers.is_empty() {
        TokioResolver::builder_tokio().map_err(|error| error.to_string())?
    } else {
        let named = servers.iter().map(|server| {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let connections = connections.map(|mut connection| {
                connection.port = server.port();
                connection
            });
            NameServerConfig::new(server.ip(), true, connections.into())
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), named.collect());
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    builder.options_mut().cache_size = 0;
    builder.build().map_err(|error| error.to_string())
}

/// Returns a name's addresses, and how long they are valid.
async fn look_up(host: &str, dns: &Dns) -> Result<(Vec<IpAddr>, Duration), String> {
    let asked = match dns.resolver(&FILES) {
        Err(words) => Err(words),
        Ok(resolver) => match resolver.lookup_ip(host).await {
            Ok(answer) => Ok((answer.iter().collect::<Vec<_>>(), holds(answer.valid_until()))),
            Err(error) => Err(error.to_string()),
        },
    };
    let (mut ips, holds) = match asked {
        Ok(answer) => answer,
        Err(words) => {
            let by_system = tokio::net::lookup_host((host, 0)).await;
            let by_system =
                by_system.map_err(|_| format!("the name {host} has no address: {words}"))?;
            (by_system.map(|address| address.ip()).collect(), HOLDS_BY_SYSTEM)
        }
    };
    ips.sort_unstable();
    ips.dedup();
    if ips.is_empty() { Err(format!("the name {host} has no address")) } else { Ok((ips, holds)) }
}

fn holds(until: std::time::Instant) -> Duration {
    until.saturating_duration_since(Instant::now().into_std()).clamp(HOLDS_MIN, HOLDS_MAX)
}

/// The servers that DNS returns for pool entries: the text of an entry, and the texts of its servers.
pub(crate) type Members = BTreeMap<String, Vec<String>>;

/// Looks up an entry `srv:NAME…` or `all:HOST:PORT…`. Also returns how long the result is valid.
pub(crate) async fn members(entry: &str, dns: &Dns) -> Result<(Vec<String>, Duration), String> {
    let (kind, rest) = entry.split_once(':').unwrap_or_default();
    let (name, rest) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
    if kind == "all" {
        let (ips, holds) = look_up(name, dns).await?;
        let bracketed = |ip: IpAddr| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        return Ok((ips.into_iter().map(|ip| bracketed(ip) + rest).collect(), holds));
    }
    let answer = dns.resolver(&FILES)?.srv_lookup(name).await;
    let answer = answer.map_err(|error| format!("{name} has no SRV record: {error}"))?;
    let records = answer.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(srv) => Some(srv),
        _ => None,
    });
    let records: Vec<_> = records.collect();
    let best = records.iter().map(|srv| srv.priority).min();
    let best = records.iter().filter(|srv| Some(srv.priority) == best);
    let mut texts: Vec<String> = best
        .map(|srv| {
            let target = srv.target.to_utf8();
            format!("{}:{}{rest}", target.trim_end_matches('.'), srv.port)
        })
        .collect();
    texts.sort_unstable();
    texts.dedup();
    if texts.is_empty() {
        return Err(format!("{name} has no SRV record"));
    }
    Ok((texts, holds(answer.valid_until())))
}

/// As [`members`], for a caller that can't await.
pub(crate) fn members_now(entry: &str, dns: &Dns) -> Result<(Vec<String>, Duration), String> {
    let (entry, dns) = (entry.to_owned(), Dns::new(dns.servers.clone()));
    // A thread that runs one runtime can't block on another.
    let asking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(members(&entry, &dns))
    });
    asking.join().unwrap_or_else(|_| Err("the lookup panicked".to_owned()))
}

/// The files that a resolver reads when it is made.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];
/// The minimum and maximum time that an answer is valid, and the time for one of the system's resolver.
const HOLDS_MIN: Duration = Duration::from_secs(1);
const HOLDS_MAX: Duration = Duration::from_secs(300);
const HOLDS_BY_SYSTEM: Duration = Duration::from_secs(30);
const DNS_PORT: u16 = 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_resolver_serves_until_a_file_that_it_read_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        let files = [path.to_str().unwrap()];
        let dns = dns_servers("127.0.0.1").unwrap();
        let ask = || dns.resolver(&files).unwrap();
        let first = ask();
        assert!(Arc::ptr_eq(&first, &ask()));
        std::fs::write(&path, "127.0.0.1 a\n").unwrap();
        let second = ask();
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &ask()));
        // The file is replaced, as editors do, and has a new inode.
        std::fs::write(dir.path().join("new"), "127.0.0.2 a\n").unwrap();
        std::fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(!Arc::ptr_eq(&second, &ask()));
        assert_eq!(first.options().cache_size, 0, "a name that moves is found at its new address");
    }
}
