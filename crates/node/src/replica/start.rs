//! Starting and ending a node's threads: the links, and the driver.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use guira_chain::direct::DirectReads;
use guira_chain::frames::PeerHello;
use guira_chain::{Member, NodeId, SlotHash, View};
use guira_cluster::{Fault, Register, Sight, await_place};
use guira_front::rewrites::LongValues;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{oneshot, watch};

use super::driver::Driver;
use super::event::Event;
use super::figures::ReplicaBoard;
use super::front::{Front, refused_changes};
use super::identity::{self, Identity};
use super::keeper::Keeper;
use super::long_answers::LongAnswers;
use super::membership::{self, LEASE_S, Membership};
use super::readiness::Readiness;
use super::{view_copy, view_file};
use crate::engine::{Engine, EngineError, KeepRule, Landing};
use crate::item::expiry_of;
use crate::node::{Node, now};
use crate::options::{Joining, ReplicaOptions, ViewSource};
use crate::peers::{PeerLimits, PeerTls, Peers};

/// A node that was started.
pub(crate) struct Replica {
    /// Who it is: `stats cluster` shows that, so that nobody takes another program for the node.
    pub(crate) who: Who,
    /// Where clients' requests go.
    pub(crate) front: Arc<Front>,
    /// The figures of the last second.
    pub(crate) board: Arc<ReplicaBoard>,
    /// How links are secured.
    pub(crate) tls: Option<Arc<PeerTls>>,
    readiness: Arc<Readiness>,
    ended: watch::Receiver<Option<EngineError>>,
    threads: Mutex<Option<Threads>>,
}

/// What tells a node from all others, and its process from those before.
pub(crate) struct Who {
    pub(crate) cluster: String,
    /// Of the cluster: see [`View::id`].
    pub(crate) id: String,
    pub(crate) node: NodeId,
    pub(crate) name: String,
    pub(crate) run: String,
}

struct Threads {
    chains: JoinHandle<()>,
    links: LinkThread,
}

struct LinkThread {
    thread: JoinHandle<()>,
    /// Dropping it ends the thread.
    end: oneshot::Sender<()>,
}

impl Replica {
    /// Waits until the node has failed, and returns why.
    pub(crate) async fn failed(&self) -> EngineError {
        let mut ended = self.ended.clone();
        loop {
            if let Some(failure) = ended.borrow_and_update().clone() {
                return failure;
            }
            if ended.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why the node's slots don't serve yet, if they don't.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        self.readiness.lack()
    }

    /// Ends the node. No client may ask any more.
    pub(crate) fn stop(&self) {
        // Perhaps the driver has ended by itself.
        let _ = self.front.events.send(Event::Stop);
        let threads = std::mem::take(&mut *self.threads.lock());
        if let Some(Threads { chains, links: LinkThread { thread, end } }) = threads {
            // A thread that panicked has logged that.
            let _ = chains.join();
            drop(end);
            let _ = thread.join();
        }
    }
}

/// The rule for merges: keep everything except what expired a while ago.
pub(crate) fn keep_rule() -> KeepRule {
    Arc::new(|_, value| {
        let item = super::record::decode(value).map(|(_, item)| item);
        let expiry = item.and_then(expiry_of).filter(|expiry| *expiry != 0);
        expiry.is_none_or(|expiry| now() < expiry.saturating_add(crate::horizon::KEPT_S))
    })
}

/// Refuses a store that belongs to a node of a cluster: it must not be served without the others.
///
/// # Errors
/// A sentence: the store belongs to a node, or its identity can't be read.
pub(crate) fn refuse_replicated(engine: &impl Engine) -> Result<(), String> {
    match identity::read(engine)? {
        None => Ok(()),
        Some(of) => Err(format!(
            "the store is node {}'s of the cluster {:?}: name its --cluster, or its --view and --node, or another directory",
            of.node, of.cluster
        )),
    }
}

/// A node's entry into its cluster.
struct Entry {
    view: View,
    node: NodeId,
    member: Member,
    views: Views,
}

/// Where the node gets later views from.
enum Views {
    File(PathBuf),
    Register(Arc<Register>, watch::Receiver<Sight>),
}

/// Reads the first view, and finds or takes the node's number.
fn enter<E: Engine>(
    (options, directory): (&ReplicaOptions, &Path),
    store: &Node<E>,
) -> Result<Entry, String> {
    match &options.source {
        ViewSource::File { path, node } => {
            let view = view_file::read(path)?;
            let member = view.nodes.get(node).cloned().ok_or_else(|| {
                let path = path.display();
                format!("--node {node}: the view in {path} names no such node: name it there, with an empty run")
            })?;
            Ok(Entry { view, node: *node, member, views: Views::File(path.clone()) })
        }
        ViewSource::Register(joining) => {
            let Joining { place, etcd, name, zone, weight, clients } = joining;
            let register = Arc::new(etcd.register(place)?);
            let told = |fault: Fault| {
                let advice =
                    if fault.is_of_etcd_away() { ": start etcd, or correct --cluster" } else { "" };
                format!("--cluster {place}: {fault}{advice}")
            };
            let found = identity::read(&store.engine)?;
            if let Some(found) = found.as_ref().filter(|it| it.cluster == register.name()) {
                let copy = view_copy::read(directory).filter(|it| it.seed == found.seed);
                register.know_former(&found.seed, copy.map_or(0, |it| it.epoch));
            }
            let views = guira_cluster::watch(Arc::clone(&register)).map_err(told)?;
            let view = views.borrow().view.clone();
            let view = view.map(|view| View::clone(&view)).ok_or("no view")?;
            let peers = options.peers.clone().unwrap_or_default();
            let node = match found {
                Some(found) => found.node,
                // Before the node has a number, and its store an owner.
                None => {
                    await_place(&register, None, (name, &peers), LEASE_S).map_err(told)?;
                    register.take_id().map_err(told)?
                }
            };
            let (name, clients, zone) = (name.clone(), clients.clone(), zone.clone());
            let (weight, run) = (*weight, String::new());
            let member = Member { name, peers, clients, zone, weight, run };
            Ok(Entry { view, node, member, views: Views::Register(register, views) })
        }
    }
}

/// Refuses a node whose disk is full, and without which each slot has a copy. It could take none, and while it waited for
/// its first one, others would wait for theirs.
fn refuse_without_room(view: &View, node: NodeId, engine: &impl Engine) -> Result<(), String> {
    let figures = engine.figures();
    let (free, reserve) = (figures.disk_free_bytes, figures.disk_reserve_bytes);
    let is_serving = view.groups.iter().any(|group| group.serving.contains(&node));
    if is_serving || free >= reserve {
        return Ok(());
    }
    Err(format!(
        "out of disk: {free} bytes are free, and {reserve} stay free for merges, so this node can take no copies. Make room there, \
         or raise --disk-max, and start it again"
    ))
}

/// Starts the node's part in the cluster, over a store in this directory that is open.
///
/// # Errors
/// A sentence: why it can't take part.
pub(crate) fn start<E: Engine>(
    (options, directory): (&ReplicaOptions, &Path),
    tls: Option<Arc<PeerTls>>,
    node: &Arc<Node<E>>,
) -> Result<Replica, String> {
    let Entry { view, node: number, mut member, views } = enter((options, directory), node)?;
    refuse_without_room(&view, number, &node.engine)?;
    member.run = format!("{:016x}", fastrand::u64(..));
    let (cluster, name, run) = (view.cluster.clone(), member.name.clone(), member.run.clone());
    let me = PeerHello { cluster, node: number, name, run, epoch: 0 };
    let who = who(&me, &view);
    let place = options.peers.as_ref().unwrap_or(&member.peers);
    let listener = std::net::TcpListener::bind(place)
        .and_then(|it| it.set_nonblocking(true).map(|()| it))
        .map_err(|error| {
            format!("can't listen for other nodes on {place}: {error}: name a free port of this machine as --peers HOST:PORT")
        })?;
    let (first, own) = own(&view, number, node)?;
    node.damage.end_process();
    tracing::info!("node {number} of the cluster {:?}: this process is run {}", me.cluster, me.run);

    let (events, happening) = unbounded_channel();
    let (tell_chart, chart) = watch::channel(None);
    let (tell_end, ended) = watch::channel(None);
    let keeper = Keeper::new(Arc::clone(node), SlotHash::of(&view), own, events.clone());
    let (links, (peers, arrivals, handle)) = start_links(me.clone(), listener, tls.clone())?;
    let membership = match views {
        Views::File(path) => {
            handle.spawn(view_file::watch(path, events.clone()));
            None
        }
        Views::Register(register, views) => {
            handle.spawn(view_copy::keep(chart.clone(), directory.to_owned()));
            handle.spawn(membership::follow(views, events.clone()));
            let begun = Membership::begin(&register, number, &member);
            Some(begun.map_err(|fault| fault.to_string())?)
        }
    };
    let board = Arc::<ReplicaBoard>::default();
    let readiness = Arc::new(Readiness::of(number, me.run.clone()));
    let reported = (membership, Arc::clone(&board), Arc::clone(&readiness));
    let direct = Arc::new(DirectReads::new(number));
    let shown = (tell_chart, Arc::clone(&direct));
    let driver = Driver::new(me, (keeper, first), (peers, handle), shown, reported);
    let work = move || {
        let Ok(runtime) = runtime::Builder::new_current_thread().enable_time().build() else {
            let failure = EngineError::Other("no event queue for the chains".to_owned());
            let _ = tell_end.send(Some(failure));
            return;
        };
        if let Err(failure) = runtime.block_on(driver.work(happening, arrivals)) {
            let _ = tell_end.send(Some(failure));
        }
    };
    let thread = thread::Builder::new().name("chains".to_owned()).spawn(work);
    let thread = thread.map_err(|error| format!("no thread: {error}"))?;
    let front = Front {
        events,
        chart,
        direct,
        hash: SlotHash::of(&view),
        client: fastrand::u32(..),
        // Random, so that no two processes give one number, and none gets another's result.
        numbers: AtomicU64::new(fastrand::u64(..1 << 62)),
        value_max: node.value_max,
        long: LongValues::default(),
        answers: LongAnswers::default(),
        crowded: refused_changes(),
    };
    let threads = Mutex::new(Some(Threads { chains: thread, links }));
    Ok(Replica { who, front: Arc::new(front), board, tls, readiness, ended, threads })
}

fn who(me: &PeerHello, view: &View) -> Who {
    let PeerHello { cluster, node, name, run, .. } = me.clone();
    Who { cluster, id: view.id(), node, name, run }
}

type Linked = (Peers, tokio::sync::mpsc::UnboundedReceiver<crate::peers::Arrived>, runtime::Handle);

/// Starts the thread of the links.
fn start_links(
    me: PeerHello,
    listener: std::net::TcpListener,
    tls: Option<Arc<PeerTls>>,
) -> Result<(LinkThread, Linked), String> {
    let no_thread = |error: io::Error| format!("no thread for links: {error}");
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
    let linked = {
        let _entered = runtime.enter();
        let listener = TcpListener::from_std(listener).map_err(no_thread)?;
        let (peers, arrivals) = Peers::start(me, listener, PeerLimits::default(), tls);
        (peers, arrivals, runtime.handle().clone())
    };
    let (stop, stopped) = oneshot::channel();
    let run = move || {
        let _: Result<(), _> = runtime.block_on(stopped);
        runtime.shutdown_background();
    };
    let thread = thread::Builder::new().name("links".to_owned()).spawn(run).map_err(no_thread)?;
    Ok((LinkThread { thread, end: stop }, linked))
}

/// Returns after which number effects begin, the store's identity, and whether the store has no records. A new store
/// becomes the node's.
fn own<E: Engine>(
    view: &View,
    node: NodeId,
    store: &Node<E>,
) -> Result<(u64, (Identity, bool)), String> {
    let (cluster, seed) = (view.cluster.clone(), view.seed.clone());
    let own = Identity { cluster, seed, node, reserved: 0 };
    match identity::read(&store.engine)? {
        Some(found) if found.is_same(&own) => Ok((found.reserved, (found, false))),
        Some(found) => Err(format!(
            "the store is node {}'s of the cluster {:?}, which isn't node {node} of {:?} in the view, or has another seed: name the view of that cluster, or another directory",
            found.node, found.cluster, view.cluster
        )),
        None if store.engine.figures().seq > 0 => Err(
            "the store has items of a server that isn't replicated: name a new directory, and copy them over a client"
                .to_owned(),
        ),
        None => {
            let (tell, told) = mpsc::sync_channel(1);
            let write = Arc::new(Written(tell));
            let submitted =
                store.engine.submit(identity::key(), Some(own.encode()), true, write);
            let done = submitted.and_then(|_| {
                told.recv().unwrap_or(Err(EngineError::Other("the store has ended".to_owned())))
            });
            done.map_err(|failure| format!("the store can't be written: {failure}"))?;
            tracing::info!(
                "the store was empty, and is node {node}'s of the cluster {:?} from now on: nobody serves it without the cluster any more",
                own.cluster
            );
            Ok((0, (own, true)))
        }
    }
}

struct Written(mpsc::SyncSender<Result<(), EngineError>>);

impl Landing for Written {
    fn landed(&self, result: Result<(), EngineError>) {
        let _ = self.0.try_send(result);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::replica::keeper::tests::Slow;

    #[test]
    fn a_full_node_starts_only_where_it_may_have_copies_that_others_lack() {
        let mut view = guira_cluster::first_view("birds", 3, 1).expect("random numbers");
        view.groups[0].serving = vec![2, 1];
        let engine = Slow::default();
        assert_eq!(refuse_without_room(&view, 3, &engine), Ok(()));
        engine.is_full.store(true, Relaxed);
        let refused = refuse_without_room(&view, 3, &engine).expect_err("it is full");
        assert!(refused.contains("Make room there"), "{refused}");
        assert_eq!(refuse_without_room(&view, 1, &engine), Ok(()));
    }
}
