//! One measurement: a router of its own, clients, and what the nodes answered.

use super::super::cluster::SERVERS;
use super::super::load::Load;
use super::super::relay::Relay;
use super::placed::Placed;
use super::verdicts::{Busy, Meter};
use crate::live::Router;
use crate::machine::Machine;
use crate::measure::now;
use crate::{Run, Scale};
use anyhow::Result;
use guira_bench::Rng;
use serde_json::{Value, json};
use std::time::Duration;

/// What answers before the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    Nothing,
    /// The thesis' cache, of so many entries: one front-end, and nothing is written, so a reply is kept.
    Kept(usize),
    /// The cluster's own cache: a reply is kept under a hold of the key's reader, for a second at most.
    Held(usize),
}

/// What clients do.
pub(super) struct Asking<'a> {
    pub(super) cache: Cache,
    /// How many clients wait for a reply at any time.
    pub(super) clients: u64,
    /// Chooses the next key.
    pub(super) next: &'a (dyn Fn(&mut Rng) -> u64 + Sync),
}

/// What was measured.
pub(super) struct Asked {
    /// Queries per second that were answered.
    pub(super) rate: f64,
    /// Keys per second of each node.
    pub(super) loads: Vec<f64>,
    pub(super) busy: Busy,
}

impl Placed {
    /// Lets clients ask a new router.
    pub(super) fn ask(&self, asking: &Asking<'_>, run: &Run<'_>) -> Result<Asked> {
        let router = Router::start(&json!({ "route": self.route(asking.cache) }), &[])?;
        let (first, learns_s) = match asking.cache {
            // Clients gather at the fullest node, each after it waited for others: before, these answer too much.
            Cache::Nothing => (0, GATHER_S),
            // It keeps the first keys, while it has room: each is asked once.
            Cache::Kept(entries) => (entries as u64, GATHER_S),
            // Holds are asked for while there is traffic.
            Cache::Held(_) => (0, GATHER_S),
        };
        let load = Load {
            port: router.port,
            clients: asking.clients,
            seed: run.seed,
            first,
            warm: Duration::from_secs_f64(
                first as f64 / self.layout.capacity() + learns_s * run.scale.pick(1.0, 2.0),
            ),
            lasts: Duration::from_secs_f64(run.scale.pick(3.0, 6.0)),
            next: asking.next,
        };
        let look = || {
            let carried = self.relays.iter().map(Relay::carried).collect::<Vec<_>>();
            (now(), carried, Meter::read(&router))
        };
        let (rate, [before, after]) = load.run(look)?;
        let seconds = (after.0 - before.0).as_secs_f64();
        let carried = before.1.iter().zip(&after.1);
        Ok(Asked {
            rate,
            loads: carried.map(|(before, after)| (after - before) as f64 / seconds).collect(),
            busy: after.2?.busy_since(before.2?),
        })
    }

    fn route(&self, cache: Cache) -> Value {
        // Nobody waits so long: there are too few clients.
        let mut cluster =
            json!({"type": "ClusterRoute", "etcd": self.place, "timeout_ms": TIMEOUT_MS});
        match cache {
            Cache::Nothing => cluster,
            Cache::Kept(entries) => json!({
                "type": "HotCacheRoute", "target": cluster, "entries": entries, "fresh_ms": 3_600_000
            }),
            Cache::Held(entries) => {
                cluster["hot_cache"] = json!({ "entries": entries });
                cluster
            }
        }
    }

    /// So many clients that each node has a waiting request if it gets its share, and that nobody waits for longer than
    /// half of the router's patience, even if all wait for one node.
    pub(super) fn clients(&self) -> u64 {
        self.clients_of(self.relays.len())
    }

    /// As [`clients`](Self::clients), if so many nodes are asked. The router joins gets that wait for one link into one line,
    /// and a link passes a line on as a whole. So hundreds of clients of one key would get their replies at once, each second
    /// or two, and the rate would depend on when the measurement ends.
    pub(super) fn clients_of(&self, nodes: usize) -> u64 {
        let of_one = self.layout.rate * f64::from(TIMEOUT_MS) / 2000.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few hundred"
        )]
        let most = of_one as u64;
        most.min(CLIENTS_A_NODE * nodes as u64).max(8)
    }
}

/// The number of nodes, and the keys a second that each takes. Together they take a few thousand: what two processors do
/// easily, clients and links included.
pub(super) fn size(scale: Scale) -> (usize, f64) {
    scale.pick((24, 150.0), (nodes_max(), 100.0))
}

/// The most nodes, up to the thesis' 85, that the processors carry. Each node asks all others for promises four times a
/// second, whatever else it does: of 40 nodes each has a hundredth of a processor, and of more each has more.
pub(super) fn nodes_max() -> usize {
    (NODES_A_PROCESSOR * Machine::this().cores).min(SERVERS)
}

/// The longest that a node may take, for the router.
const TIMEOUT_MS: u32 = 9000;
const CLIENTS_A_NODE: u64 = 10;
/// If all wait for one node, a client waits there for a second or two. After 1.5 s the rate was up to a seventh above what
/// the fullest node allows.
const GATHER_S: f64 = 6.0;
const NODES_A_PROCESSOR: usize = 20;
