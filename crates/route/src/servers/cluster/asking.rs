//! One request: the nodes that are asked, one after the other, until there is a reply.

use std::cmp::min;
use std::rc;
use std::time::Duration;

use guira_chain::slot::WriteTag;
use guira_chain::{Chart, NodeId};
use guira_client::{Op, Outcome, Reply, Request};
use guira_front::crowded::Turn;
use guira_front::rewrites::LONG_BYTES;
use guira_proto::is_key;
use tokio::time::{sleep, timeout};

use super::dressed::{dressed, is_numbered, stored_length};
use super::hot::Hot;
use super::nodes::Role;
use super::place::{Cluster, NOT_BEGUN, meant};
use super::tries::{LEFT, PATIENCE, PAUSE_MIN, Tried, Tries};
use crate::context::Context;
use crate::counters::Counter;
use crate::key;
use crate::outcome::default_reply;

impl Cluster {
    /// Answers a request.
    pub(crate) async fn ask(&self, request: &Request, context: &Context) -> Reply {
        if let Some(record) = &context.record {
            record.borrow_mut().extend(self.place(request).server);
            return default_reply(request);
        }
        let reply = self.answer(request, context).await;
        if reply.outcome.is_error() {
            context.count_error(reply.outcome);
        }
        reply
    }

    async fn answer(&self, request: &Request, context: &Context) -> Reply {
        if let Some(words) = lacks(request.op) {
            return Reply::failure(Outcome::RemoteError, words);
        }
        let key = key::without_prefix(&request.key);
        // As other routes do. Changes travel as meta commands: without this, such a key could be written and not read.
        if request.meta.is_none() && !is_key(key) {
            return Reply::new(Outcome::BadKey);
        }
        // A shadow request takes no place in the client's order.
        let line = (!context.is_shadow).then(|| context.order.line(key));
        let (mut reading, mut writing) = (None, None);
        match line {
            Some(line) if request.op.is_get() => {
                reading = Some(match line.try_read() {
                    Ok(reading) => reading,
                    Err(_) => line.read().await,
                });
            }
            Some(line) => writing = Some(line.write().await),
            None => {}
        }
        let _rewrite = self.long.begin(request.op, key, context.order.rewrites()).await;
        let reply = match &self.hot {
            // A meta get may ask for more than is kept.
            Some(hot) if matches!(request.op, Op::Get | Op::Gets) && request.meta.is_none() => {
                self.settle_hot(hot, request, key, context).await
            }
            _ => self.settle(request, key, context).await,
        };
        drop((reading, writing));
        if reply.value.len() >= LONG_BYTES {
            self.long.note(key, reply.value.len());
        }
        reply
    }

    /// Answers from the cache, or asks nodes.
    async fn settle_hot(
        &self,
        hot: &Hot,
        request: &Request,
        key: &[u8],
        context: &Context,
    ) -> Reply {
        let chart = self.nodes.lock().chart().ok();
        let found = hot.get(key, chart.as_deref());
        if let Some(reply) = found.reply {
            context.count(Counter::HotCacheHits);
            return reply;
        }
        context.count(Counter::HotCacheMisses);
        let Some(number) = found.keep else {
            return self.settle(request, key, context).await;
        };
        // What is kept answers a `gets` too.
        let request = Request { op: Op::Gets, ..request.clone() };
        let reply = self.settle(&request, key, context).await;
        hot.offer(key, number, &reply);
        reply
    }

    /// Asks one node after the other.
    async fn settle(&self, request: &Request, key: &[u8], context: &Context) -> Reply {
        let tag = is_numbered(request).then(|| self.tag());
        let mut tries = Tries::new(tag, self.limit);
        let mut turn = None;
        loop {
            let seen = self.nodes.lock().chart();
            let chart = match seen {
                Ok(chart) if chart.view.is_draft() => {
                    return Reply::failure(Outcome::LocalError, NOT_BEGUN);
                }
                Ok(chart) => chart,
                // A router that has just started waits for its first view.
                Err(_) if self.may_look(&tries) => {
                    self.rest(PAUSE_MIN).await;
                    continue;
                }
                Err(words) => return Reply::failure(Outcome::LocalError, words),
            };
            let Some((slot, group)) = chart.place(key) else {
                return Reply::failure(Outcome::LocalError, "the view has no such slot");
            };
            if turn.is_none() && !request.op.is_get() {
                match self.turn(request, key, slot).await {
                    Ok(it) => turn = Some(it),
                    Err(reply) => return reply,
                }
                if tries.began.elapsed() > PAUSE_MIN {
                    continue; // There may be a newer view by now.
                }
            }
            let meant = meant(request, group).1;
            let elapsed = tries.began.elapsed();
            if elapsed >= PATIENCE {
                return tries.failed(request, slot);
            }
            if tries.epoch != chart.view.epoch {
                (tries.epoch, tries.by_view, tries.pause) = (chart.view.epoch, 0, PAUSE_MIN);
                // Other nodes may be the chain now.
                tries.whys.clear();
            }
            if tries.by_view >= chart.view.nodes.len().max(1) {
                tries.by_view = 0;
                self.rest(tries.pause).await;
                tries.pause = min(tries.pause * 2, PAUSE_MAX);
                continue;
            }
            let node = self.nodes.lock().nth(tries.by_view, (slot, meant), &chart);
            tries.by_view += 1;
            let Some(node) = node else {
                let place = self.nodes.lock().wanted.place.clone();
                let words = format!(
                    "cluster {place}: no node says where clients reach it: start one with a port"
                );
                return Reply::failure(Outcome::LocalError, words);
            };
            let role = match (meant == Some(node), request.op.is_get()) {
                (true, true) => Role::Read,
                (true, false) => Role::Change,
                (false, _) => Role::Pass,
            };
            let limit = tries.limit_after(elapsed);
            let tried = self.tried((request, &tries), (node, role), (&chart, limit), context).await;
            let name = chart.view.nodes.get(&node).map_or("", |it| &it.name);
            if let Some(reply) = tries.judge((name, tried), request, slot) {
                return reply;
            }
        }
    }

    /// Whether a request that finds no view waits for the first one.
    fn may_look(&self, tries: &Tries) -> bool {
        tries.began.elapsed() < FIRST_LOOK && self.nodes.lock().lack().is_none()
    }

    /// Waits until a change has its turn among those of its slot.
    async fn turn(&self, request: &Request, key: &[u8], slot: u16) -> Result<Turn<'_>, Reply> {
        let bytes = request.value.len().max(self.long.known(key));
        let weight = if bytes >= LONG_BYTES { LONG_WEIGHT } else { 1 };
        if let Some(turn) = self.crowded.try_turn(slot, weight) {
            return Ok(turn);
        }
        self.crowded.turn(slot, weight, TURN_MAX).await.ok_or_else(|| {
            let words = format!("slot {slot}: too many changes wait for it");
            Reply::failure(Outcome::LocalError, words)
        })
    }

    /// Asks a node once.
    async fn tried(
        &self,
        (request, tries): (&Request, &Tries),
        (node, role): (NodeId, Role),
        (chart, limit): (&Chart, Duration),
        context: &Context,
    ) -> Tried {
        let Some(fleet) = self.fleet.as_ref().and_then(rc::Weak::upgrade) else {
            return Tried::Answered(Reply::failure(Outcome::LocalError, "nothing is sent"));
        };
        let link = self.nodes.lock().link((node, role), chart, &*fleet);
        let link = match link {
            Ok(link) => link,
            Err(words) => return Tried::Unsent(Reply::failure(Outcome::ConnectError, words)),
        };
        if tries.all > 0 {
            context.count(Counter::ClusterRepeats);
        }
        let dressed =
            dressed(request, tries.tag.map(|it| WriteTag { is_repeated: tries.was_sent, ..it }));
        let (mut reply, is_servers) = link.ask_once(dressed, limit, context).await;
        self.nodes.lock().note(node, reply.outcome == Outcome::Timeout && !is_servers);
        if let Some(bytes) = stored_length(request, &mut reply) {
            self.long.note(key::without_prefix(&request.key), bytes);
        }
        if request.meta.is_none() {
            reply.meta = None;
        }
        match reply.outcome {
            // The node is ending, and others serve.
            Outcome::RemoteError if is_servers && reply.message.starts_with(LEFT) => {
                Tried::Lost(reply)
            }
            _ if is_servers => Tried::Answered(reply),
            Outcome::Tko => Tried::Unsent(Reply::failure(Outcome::Tko, link.tko.whole_reason())),
            Outcome::ConnectError | Outcome::ConnectTimeout | Outcome::DeadlineExceeded => {
                Tried::Unsent(reply)
            }
            Outcome::Timeout => Tried::Late,
            Outcome::RemoteError => Tried::Lost(reply),
            _ => Tried::Answered(reply),
        }
    }

    /// Waits, but at most until there is a newer view.
    async fn rest(&self, pause: Duration) {
        let mut sights = self.nodes.lock().next_sights();
        if let Ok(Err(_)) = timeout(pause, sights.changed()).await {
            // The watch has ended, and `changed` returned at once.
            sleep(pause).await;
        }
    }
}

/// Returns an error for commands that no node supports.
fn lacks(op: Op) -> Option<&'static str> {
    match op {
        Op::LeaseGet | Op::LeaseSet => Some("a replicated store has no leases"),
        Op::MetaGet => Some("a replicated store has no metaget"),
        Op::FlushAll => Some("a replicated store has no flush_all"),
        _ => None,
    }
}

/// How long a request waits for the first view.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// How long a change waits for its turn: it has a few seconds left then.
const TURN_MAX: Duration = Duration::from_secs(5);
/// As how many changes one of a long value counts.
const LONG_WEIGHT: u32 = 16;
const PAUSE_MAX: Duration = Duration::from_millis(100);
