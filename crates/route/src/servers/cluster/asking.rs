//! One request: the nodes that are asked, one after the other, until there is a reply.

use std::cmp::min;
use std::io::Write;
use std::rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use guira_chain::slot::WriteTag;
use guira_chain::{Chart, NodeId};
use guira_client::{Op, Outcome, Reply, Request};
use guira_front::rewrites::LONG_BYTES;
use guira_proto::{MetaFlag, MetaFlags};
use tokio::time::{Instant, sleep, timeout};

use super::hot::Hot;
use super::nodes::Role;
use super::place::{Cluster, NOT_BEGUN, meant};
use crate::context::Context;
use crate::counters::Counter;
use crate::key;
use crate::outcome::default_reply;

/// The state of a request between its tries.
struct Tries {
    began: Instant,
    /// The number of the change, if it has one.
    tag: Option<WriteTag>,
    /// Whether the request may have reached a node.
    was_sent: bool,
    /// How many nodes were asked with the current view, and in total.
    by_view: usize,
    all: usize,
    epoch: u64,
    /// The time limit of the next try.
    limit: Duration,
    pause: Duration,
    /// Why the last try at each node failed, by the nodes' names. The node that should answer is asked first.
    whys: Vec<(String, String)>,
}

/// The result of a try.
enum Tried {
    /// The reply is final.
    Answered(Reply),
    /// No node got the request.
    Unsent(Reply),
    /// The request may have reached the node, but its reply is lost: this is why.
    Lost(Reply),
    /// The node didn't answer in time.
    Late,
}

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
        // A shadow request doesn't take a place in the client's order, so it delays no other request.
        let line = (!context.is_shadow).then(|| context.order.line(key));
        let (mut reading, mut writing) = (None, None);
        match line {
            Some(line) if request.op.is_get() => reading = Some(line.read().await),
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
        let mut tries = Tries {
            began: Instant::now(),
            tag: is_numbered(request).then(|| self.tag()),
            was_sent: false,
            by_view: 0,
            all: 0,
            epoch: 0,
            limit: self.nodes.lock().wanted.timeout,
            pause: PAUSE_MIN,
            whys: Vec::new(),
        };
        loop {
            let (chart, lack) = {
                let mut nodes = self.nodes.lock();
                (nodes.chart(), nodes.lack())
            };
            let chart = match chart {
                Ok(chart) if chart.view.is_draft() => {
                    return Reply::failure(Outcome::LocalError, NOT_BEGUN);
                }
                Ok(chart) => chart,
                // A router that has just started waits for its first view.
                Err(_) if lack.is_none() && tries.began.elapsed() < FIRST_LOOK => {
                    self.rest(PAUSE_MIN).await;
                    continue;
                }
                Err(words) => return Reply::failure(Outcome::LocalError, words),
            };
            let Some((slot, group)) = chart.place(key) else {
                return Reply::failure(Outcome::LocalError, "the view has no such slot");
            };
            let meant = meant(request, group).1;
            if tries.began.elapsed() >= PATIENCE {
                return tries.failed(request, slot);
            }
            if tries.epoch != chart.view.epoch {
                (tries.epoch, tries.by_view, tries.pause) = (chart.view.epoch, 0, PAUSE_MIN);
                // Other nodes may be the chain now.
                tries.whys.clear();
            }
            let round = self.nodes.lock().count().max(1);
            if tries.by_view >= round {
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
            let tried = self.tried((request, &tries), (node, role), &chart, context).await;
            let name = chart.view.nodes.get(&node).map_or("", |it| &it.name);
            if let Some(reply) = tries.judge((name, tried), request, slot) {
                return reply;
            }
        }
    }

    /// Asks a node once.
    async fn tried(
        &self,
        (request, tries): (&Request, &Tries),
        (node, role): (NodeId, Role),
        chart: &Arc<Chart>,
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
        let limit = tries.limit_after(tries.began.elapsed());
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

impl Tries {
    /// The time limit of a try that begins now: all tries together end within [`PATIENCE`] and [`LAST_TRY`].
    fn limit_after(&self, elapsed: Duration) -> Duration {
        self.limit.min((PATIENCE + LAST_TRY).saturating_sub(elapsed))
    }

    /// Records a try at a node. Returns the reply if it is final.
    fn judge(
        &mut self,
        (node, tried): (&str, Tried),
        request: &Request,
        slot: u16,
    ) -> Option<Reply> {
        self.all += 1;
        match tried {
            Tried::Answered(reply) => {
                // The node that was asked before may carry it out yet, where this one refused it.
                let is_refusal = reply.outcome == Outcome::RemoteError
                    && reply.message.starts_with(b"slot ")
                    && !request.op.is_get();
                return Some(if self.was_sent && is_refusal { unknown(slot) } else { reply });
            }
            Tried::Unsent(reply) => {
                self.note(node, &String::from_utf8_lossy(&reply.message));
                return None;
            }
            Tried::Late => {
                self.limit = (self.limit * 2).min(LIMIT_MAX).max(self.limit);
                self.note(node, "it didn't answer in time");
            }
            Tried::Lost(reply) => {
                let why = String::from_utf8_lossy(&reply.message);
                let lost =
                    if reply.message.starts_with(LEFT) { "" } else { "the reply was lost: " };
                self.note(node, &format!("{lost}{why}"));
            }
        }
        self.was_sent = true;
        let may_repeat = request.op.is_get() || self.tag.is_some();
        (!may_repeat).then(|| unknown(slot))
    }

    fn note(&mut self, node: &str, why: &str) {
        if let Some(noted) = self.whys.iter_mut().find(|it| it.0 == node) {
            why.clone_into(&mut noted.1);
        } else if self.whys.len() < TOLD_MAX {
            self.whys.push((node.to_owned(), why.to_owned()));
        }
    }

    fn failed(&self, request: &Request, slot: u16) -> Reply {
        match (request.op.is_get(), self.was_sent) {
            (false, true) => unknown(slot),
            _ => {
                let whys = self.whys.iter().map(|(node, why)| format!("{node}: {why}"));
                let whys = whys.collect::<Vec<_>>().join("; ");
                let words = format!("slot {slot}: no node answers: {whys}");
                Reply::failure(Outcome::RemoteError, words)
            }
        }
    }
}

fn unknown(slot: u16) -> Reply {
    Reply::failure(Outcome::RemoteError, format!("slot {slot}: outcome unknown"))
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

/// Whether a request is a change that can carry a number.
fn is_numbered(request: &Request) -> bool {
    match request.op {
        // No meta command has this delete's hold-off.
        Op::Delete => request.meta.is_some() || request.exptime == 0,
        op => op.is_update() || op.is_arithmetic(),
    }
}

/// Whether a change brings only a part of the value that is stored.
fn brings_part(request: &Request) -> bool {
    matches!(request.op, Op::Append | Op::Prepend)
}

/// Whether the client wants to know the length of what is stored.
fn asks_length(request: &Request) -> bool {
    let mut flags = MetaFlags::new(request.meta.as_deref().unwrap_or_default());
    flags.any(|flag| flag.letter() == LENGTH)
}

/// The length of the value that was stored, if one was. If a node tells it and the client didn't ask, that flag is taken out of
/// the reply.
fn stored_length(request: &Request, reply: &mut Reply) -> Option<usize> {
    if reply.outcome != Outcome::Stored {
        return None;
    }
    if !brings_part(request) {
        return Some(request.value.len());
    }
    let words = reply.meta.take()?;
    let told = MetaFlags::new(&words).find(|flag| flag.letter() == LENGTH);
    let bytes = told.and_then(|flag| str::from_utf8(flag.token()).ok()?.parse().ok());
    let is_kept = |flag: &MetaFlag<'_>| asks_length(request) || flag.letter() != LENGTH;
    let kept: Vec<_> = MetaFlags::new(&words).filter(is_kept).map(|it| it.text()).collect();
    reply.meta = Some(kept.join(&b' ').into());
    bytes
}

/// The request as it is sent: without the routing prefix, and a change with its number.
fn dressed(request: &Request, tag: Option<WriteTag>) -> Request {
    let mut dressed = request.clone();
    dressed.key.advance(key::prefix(&request.key).len());
    let Some(tag) = tag else { return dressed };
    let mut words = Vec::new();
    // Writing to a vector doesn't fail.
    let _ = match &request.meta {
        Some(flags) => MetaFlags::new(flags)
            .filter(|flag| flag.letter() != WriteTag::LETTER)
            .try_for_each(|flag| words.write_all(&[flag.text(), b" "].concat())),
        None if request.op == Op::Cas => write!(words, "C{} ", request.token),
        None if request.op.is_arithmetic() => write!(words, "v "),
        None => Ok(()),
    };
    if brings_part(request) && !asks_length(request) {
        words.extend([LENGTH, b' ']);
    }
    let _ = write!(words, "{tag}");
    dressed.meta = Some(words.into());
    dressed
}

/// The flag with the length of the stored value.
const LENGTH: u8 = b's';
/// How long nodes are asked. A node continues for ten seconds, and keeps the results of changes for thirty.
pub(super) const PATIENCE: Duration = Duration::from_secs(9);
/// An error tells what so many nodes said, those of the chain first.
const TOLD_MAX: usize = 5;
/// The longest try, unless the configured limit of the first one is longer.
const LIMIT_MAX: Duration = Duration::from_secs(4);
/// How long the last try may go on after [`PATIENCE`].
const LAST_TRY: Duration = Duration::from_millis(500);
/// How long a request waits for the first view.
const FIRST_LOOK: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// The error of a node that has left its chains.
const LEFT: &[u8] = b"this node has left its chains";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_travels_with_its_number_and_a_read_without() {
        let tag = WriteTag { id: (42, 7), is_repeated: true };
        let text = "L0000002a0000000000000007r";
        let of = |op| Request { token: 5, ..Request::new(op, "/a/b/k") };
        let meta = |words: &str| Request { meta: Some(words.as_bytes().into()), ..of(Op::Set) };
        for (request, words) in [
            (of(Op::Set), text.to_owned()),
            (of(Op::Delete), text.to_owned()),
            (of(Op::Cas), format!("C5 {text}")),
            (of(Op::Decr), format!("v {text}")),
            (of(Op::Append), format!("s {text}")),
            (meta("T30 Lhint O\\"), format!("T30 O\\ {text}")),
            (meta(""), text.to_owned()),
        ] {
            assert!(is_numbered(&request));
            let sent = dressed(&request, Some(tag));
            assert_eq!(sent.key, "k");
            let meta = sent.meta.map(|words| String::from_utf8_lossy(&words).into_owned());
            assert_eq!(meta.as_deref(), Some(&words[..]));
        }
        let held_off = Request { exptime: 5, ..of(Op::Delete) };
        for request in [of(Op::Get), of(Op::Touch), held_off] {
            assert!(!is_numbered(&request));
            assert_eq!(dressed(&request, None).meta, None);
        }
    }

    #[test]
    fn the_length_of_what_an_append_left_is_known_here_and_told_only_who_asked() {
        let reply = |outcome, words: &str| Reply {
            meta: Some(words.as_bytes().into()),
            ..Reply::new(outcome)
        };
        let asked = |op, meta: Option<&str>| Request {
            value: "more".into(),
            meta: meta.map(|words| words.as_bytes().into()),
            ..Request::new(op, "k")
        };
        for (request, told, bytes, kept) in [
            (asked(Op::Append, None), "s700000", Some(700_000), ""),
            (asked(Op::Append, Some("MA c Oq")), "c9 s700000 Oq", Some(700_000), "c9 Oq"),
            (asked(Op::Prepend, Some("MP s c")), "s9 c1", Some(9), "s9 c1"),
            (asked(Op::Append, Some("MA")), "", None, ""),
            (asked(Op::Set, Some("c")), "c7", Some(4), "c7"),
        ] {
            let mut reply = reply(Outcome::Stored, told);
            assert_eq!(stored_length(&request, &mut reply), bytes, "{told}");
            assert_eq!(reply.meta.as_deref(), Some(kept.as_bytes()));
        }
        let mut refused = reply(Outcome::NotStored, "");
        assert_eq!(stored_length(&asked(Op::Append, None), &mut refused), None);
    }

    #[test]
    fn what_may_have_been_sent_without_a_number_is_not_sent_again() {
        let tries = |tag| Tries {
            began: Instant::now(),
            tag,
            was_sent: false,
            by_view: 0,
            all: 0,
            epoch: 0,
            limit: Duration::from_millis(500),
            pause: PAUSE_MIN,
            whys: Vec::new(),
        };
        let refused = || Tried::Unsent(Reply::failure(Outcome::ConnectError, "refused"));
        let tag = Some(WriteTag { id: (1, 1), is_repeated: false });
        let mut touch = tries(None);
        let request = Request::new(Op::Touch, "k");
        assert!(touch.judge(("a", refused()), &request, 3).is_none());
        assert_eq!(touch.failed(&request, 3).message, "slot 3: no node answers: a: refused");
        let lost = Tried::Lost(Reply::failure(Outcome::RemoteError, "reset"));
        let told = touch.judge(("b", lost), &request, 3).map(|reply| reply.message);
        assert_eq!(told.as_deref(), Some(&b"slot 3: outcome unknown"[..]));
        let mut set = tries(tag);
        let request = Request::new(Op::Set, "k");
        assert!(set.judge(("a", Tried::Late), &request, 3).is_none() && set.was_sent);
        assert_eq!(set.limit, Duration::from_secs(1), "a slow chain isn't asked ever more");
        assert_eq!(set.failed(&request, 3).message, "slot 3: outcome unknown");
        let few = "slot 3: fewer copies than writes need";
        let refusal = || Tried::Answered(Reply::failure(Outcome::RemoteError, few));
        let told = set.judge(("a", refusal()), &request, 3).map(|reply| reply.message);
        assert_eq!(
            told.as_deref(),
            Some(&b"slot 3: outcome unknown"[..]),
            "who was late may do it"
        );
        let told = tries(tag).judge(("a", refusal()), &request, 3).map(|reply| reply.message);
        assert_eq!(told.as_deref(), Some(few.as_bytes()));
        set.limit = LIMIT_MAX;
        for (elapsed_ms, limit_ms) in [(0, 4000), (5500, 4000), (7500, 2000), (8999, 501)] {
            let [elapsed, limit] = [elapsed_ms, limit_ms].map(Duration::from_millis);
            assert_eq!(set.limit_after(elapsed), limit, "after {elapsed_ms} ms");
        }
        let mut get = tries(None);
        let request = Request::new(Op::Get, "k");
        assert!(get.judge(("a", Tried::Late), &request, 3).is_none());
        for node in ["b", "c", "d", "e", "f", "a"] {
            assert!(get.judge((node, refused()), &request, 3).is_none());
        }
        let told =
            "slot 3: no node answers: a: refused; b: refused; c: refused; d: refused; e: refused";
        assert_eq!(get.failed(&request, 3).message, told, "the one that should answer first");
    }
}
