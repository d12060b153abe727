//! What the tests have in common: the register, views, a way to etcd that can be cut, nodes.

use guira_chain::{Group, Member, NodeId, View};
use guira_cluster::{GroupReport, Present, Register, Report, Sight, watch};
use guira_etcd::{Etcd, EtcdAccess, EtcdPlace};
use guira_tests::etcd::Etcd as Server;
use std::collections::BTreeSet;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::watch::Receiver;

pub(crate) fn register(port: u16) -> Arc<Register> {
    let place = format!("etcd:127.0.0.1:{port}/c1");
    Register::open(&place, EtcdAccess::default()).expect("a place").into()
}

pub(crate) fn raw(server: &Server) -> Etcd {
    let place = format!("etcd:127.0.0.1:{}/k", server.port());
    Etcd::new(&EtcdPlace::parse(&place).expect("a place"), EtcdAccess::default())
}

pub(crate) fn member(id: NodeId) -> Member {
    Member {
        name: format!("store-{id}"),
        peers: format!("127.0.0.1:{id}"),
        clients: String::new(),
        zone: String::new(),
        weight: 1,
        run: format!("run-{id}"),
    }
}

/// The view after `view`, in which only a wish differs.
pub(crate) fn after(view: &View, replicas: u32) -> View {
    View { epoch: view.epoch + 1, replicas, ..view.clone() }
}

/// A view whose only group has a member that nobody filled.
pub(crate) fn wrong(view: &View) -> View {
    let mut next = after(view, 3);
    next.nodes.insert(2, member(2));
    next.groups[0].epoch = next.epoch;
    next.groups[0].serving.push(2);
    next
}

pub(crate) fn epoch_of(sights: &Receiver<Sight>) -> u64 {
    sights.borrow().view.as_ref().map_or(0, |view| view.epoch)
}

/// A way to etcd that can be cut.
pub(crate) struct Way {
    pub(crate) port: u16,
    state: Arc<(AtomicBool, Mutex<Vec<TcpStream>>)>,
}

impl Way {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("a port").port();
        let state = Arc::new((AtomicBool::new(false), Mutex::new(Vec::new())));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let mut ends = shared.1.lock().expect("nobody panics here");
                if shared.0.load(SeqCst) {
                    continue;
                }
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let [mut from, mut to] = [from, to].map(|it| it.try_clone().expect("a copy"));
                    ends.push(from.try_clone().expect("a copy"));
                    thread::spawn(move || {
                        // A connection that is cut fails here.
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { port: own, state }
    }

    pub(crate) fn cut(&self, is_cut: bool) {
        self.state.0.store(is_cut, SeqCst);
        if is_cut {
            let mut ends = self.state.1.lock().expect("nobody panics here");
            ends.drain(..).for_each(|it| drop(it.shutdown(Shutdown::Both)));
        }
    }
}

/// A node that does at once what the view says.
pub(crate) struct Node {
    _present: Arc<Present>,
    is_over: Arc<AtomicBool>,
}

impl Node {
    pub(crate) fn start(register: &Arc<Register>, id: NodeId) -> Self {
        let present = Present::begin(Arc::clone(register), id, &member(id), 2);
        let present = Arc::new(present.expect("etcd answers"));
        let views = watch(Arc::clone(register)).expect("there is a view");
        let is_over = Arc::<AtomicBool>::default();
        let (said, ends) = (Arc::downgrade(&present), Arc::clone(&is_over));
        thread::spawn(move || {
            while !ends.load(SeqCst) {
                let view = views.borrow().view.clone().expect("there is a view");
                let Some(present) = said.upgrade() else { break };
                let groups = view.groups.iter().filter(|it| it.members().any(|it| it == id));
                let groups = groups.map(|group| report(id, group)).collect();
                present.report(&Report { run: member(id).run, groups });
                drop(present);
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self { _present: present, is_over }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
    }
}

fn report(id: NodeId, group: &Group) -> GroupReport {
    let is_reader = group.reader() == Some(id);
    GroupReport {
        slots: group.slots.clone(),
        epoch: group.epoch,
        is_filled: group.syncing.contains(&id),
        ready: group.joining.iter().copied().filter(|_| is_reader).collect(),
    }
}

/// Whether all slots have these nodes, and nothing is under way.
pub(crate) fn is_settled(register: &Register, nodes: &[NodeId]) -> bool {
    let view = register.view().expect("etcd answers").view;
    view.groups.iter().all(|group| {
        let serving: BTreeSet<NodeId> = group.serving.iter().copied().collect();
        let under_way = group.joining.len() + group.syncing.len() + group.past.len();
        serving.iter().eq(nodes) && under_way == 0
    })
}

/// Whether each of three nodes heads and reads about a third of the slots: then the controller stands still.
pub(crate) fn is_spread(register: &Register) -> bool {
    let view = register.view().expect("etcd answers").view;
    let is_near = |role: fn(&Group) -> Option<NodeId>, node| {
        let groups = view.groups.iter().filter(|group| role(group) == Some(node));
        groups.map(|group| group.slots.len()).sum::<usize>().abs_diff(5461) <= 341
    };
    (1..=3).all(|node| is_near(Group::head, node) && is_near(Group::reader, node))
}
