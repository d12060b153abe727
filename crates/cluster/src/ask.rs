//! Nodes' own statistics, asked for as a client does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use guira_chain::{Member, NodeId, View};

use crate::snapshot::RegisterSnapshot;

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

    /// The epoch of the view that the node follows.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.text("cluster_epoch")?.parse().ok()
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    /// The bytes of disk that the node has left, below `--disk-max` too, and those below which it takes no values. `None`: it
    /// doesn't say.
    pub(crate) fn room(&self) -> Option<(f64, f64)> {
        Some((self.number("disk_free_bytes")?, self.number("disk_reserve_bytes")?))
    }

    /// What a node says that says this.
    #[cfg(test)]
    pub(crate) fn saying(stats: &[(&str, u64)]) -> Self {
        let stats = stats.iter().map(|(name, number)| ((*name).to_owned(), number.to_string()));
        Self { stats: stats.collect(), ahead_s: 0.0 }
    }

    /// Who said this, unless it is the node `id` of the view's cluster: in words, and its number if it is another one of its
    /// nodes.
    fn somebody_else(&self, view: &View, id: NodeId) -> Option<(String, Option<NodeId>)> {
        let of = |name| self.text(name).unwrap_or_default();
        let (cluster, node) = (of("cluster_name"), of("cluster_node"));
        if cluster.is_empty() {
            return Some(("no node of a cluster".to_owned(), None));
        }
        let is_same = cluster == view.cluster && of("cluster_id") == view.id();
        if is_same && node == id.to_string() {
            return None;
        }
        let another =
            if !is_same && cluster == view.cluster { "another cluster" } else { "the cluster" };
        let words = format!("node {node} ({}) of {another} {cluster}", of("cluster_node_name"));
        Some((words, node.parse().ok().filter(|_| is_same)))
    }
}

/// What each of several nodes said, or why nothing of it is known.
pub(crate) type Answers = BTreeMap<NodeId, Result<Said, Unheard>>;

/// Why nothing of a node is known.
#[derive(Debug)]
pub(crate) enum Unheard {
    /// It couldn't be asked.
    Unasked(String),
    /// Somebody else answers at its address: in words, and the number if it is another node of the cluster.
    Else(String, Option<NodeId>),
}

/// Asks all these nodes of the view's cluster at once that say where clients reach them.
pub(crate) fn ask_all<'a>(
    view: &View,
    nodes: impl Iterator<Item = (&'a NodeId, &'a Member)>,
) -> Answers {
    let asked: Vec<_> = nodes
        .filter(|it| !it.1.clients.is_empty())
        .map(|(id, member)| {
            let address = member.clients.clone();
            (*id, member, thread::spawn(move || ask(&address)))
        })
        .collect();
    let answer = |id: NodeId, member: &Member, thread: thread::JoinHandle<_>| {
        let said: Result<Said, String> =
            thread.join().unwrap_or_else(|_| Err("the question failed".to_owned()));
        let said = said.map_err(Unheard::Unasked)?;
        match said.somebody_else(view, id) {
            None => Ok(said),
            Some((who, node)) => {
                Err(Unheard::Else(format!("at {} answers {who}", member.clients), node))
            }
        }
    };
    asked.into_iter().map(|(id, member, thread)| (id, answer(id, member, thread))).collect()
}

/// What is at the addresses of nodes of the view of which the register has no key.
#[derive(Debug, Default)]
pub(crate) struct Keyless {
    /// Nodes that say that they are members. etcd has lost their keys, or they can't reach etcd.
    pub(crate) serving: BTreeSet<NodeId>,
    /// Who else answers there, in words.
    pub(crate) strangers: BTreeMap<NodeId, String>,
    /// Those that another living node of the cluster has taken the address of, and that node: the operator began it anew.
    pub(crate) replaced: BTreeMap<NodeId, NodeId>,
}

impl Keyless {
    /// Asks there.
    pub(crate) fn of(snapshot: &RegisterSnapshot) -> Self {
        let view = &snapshot.seen.view;
        let without_key = view.nodes.iter().filter(|it| !snapshot.nodes.contains_key(it.0));
        let mut found = Self::default();
        for (id, said) in ask_all(view, without_key) {
            match said {
                Ok(said) if said.number("cluster_is_member") == Some(1.0) => {
                    found.serving.insert(id);
                }
                Err(Unheard::Else(_, Some(by))) if snapshot.nodes.contains_key(&by) => {
                    found.replaced.insert(id, by);
                }
                Err(Unheard::Else(who, _)) => drop(found.strangers.insert(id, who)),
                Ok(_) | Err(Unheard::Unasked(_)) => {}
            }
        }
        found
    }
}

/// The name of the node that leads: by the key `controller`, or, if that was put there by hand, by what nodes say.
pub(crate) fn leader(snapshot: &RegisterSnapshot) -> Option<String> {
    if snapshot.stray_lead().is_none() {
        return snapshot.controller.as_ref().map(|it| it.1.clone());
    }
    let leads = |said: &Said| said.number("cluster_is_leader") == Some(1.0);
    let answers = ask_all(&snapshot.seen.view, snapshot.nodes.iter());
    let (id, _) = answers.iter().find(|it| it.1.as_ref().is_ok_and(leads))?;
    snapshot.nodes.get(id).map(|it| it.name.clone())
}

/// The same in words. `stray`: [`RegisterSnapshot::stray_lead`].
pub(crate) fn leader_words(leader: Option<&str>, stray: Option<&str>) -> String {
    match (leader, stray) {
        (Some(who), None) => who.to_owned(),
        (None, None) => "none: no node stands for election".to_owned(),
        (who, Some(stray)) => format!("{} (the key {stray})", who.unwrap_or("none")),
    }
}

/// Asks a node at `host:port` for its statistics.
///
/// # Errors
/// A sentence: nobody answers there, or not as a node does that needs neither TLS nor a login.
fn ask(address: &str) -> Result<Said, String> {
    let begun = Instant::now();
    let text = exchange(address).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("no answer within {} s: it hangs, or has too much to do", LIMIT.as_secs())
        }
        _ => error.to_string(),
    })?;
    let took = begun.elapsed();
    let mut said = Said::default();
    for line in text.lines() {
        if let Some((name, value)) = line.strip_prefix("STAT ").and_then(|it| it.split_once(' ')) {
            said.stats.insert(name.to_owned(), value.to_owned());
        }
    }
    let Some(time) = said.number("time") else {
        // What TLS answers to a plain request: an alert.
        if text.starts_with('\u{15}') {
            return Err("it speaks TLS, and this command doesn't".to_owned());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_takes_connections_and_says_nothing_is_told_to_hang() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = silent.local_addr().expect("it is bound").to_string();
        let words = ask(&address).expect_err("it says nothing");
        assert_eq!(words, "no answer within 2 s: it hangs, or has too much to do");
    }
}
