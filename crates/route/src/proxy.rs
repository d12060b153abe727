//! A proxy thread: its clients, its tree of routes, its connections to servers.
//!
//! Threads share nothing except what [`Process`] holds.
//!
//! # Invariants
//! 1. A request ends on the tree on which it began: a new configuration replaces the tree only for later requests.

mod asking;
mod sampled;
mod answers;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use guira_client::{Outcome, Reply, Request};
use guira_front::sessions::Arrival;
use tokio::time::Instant;

use crate::configure::Loaded;
use crate::context::Context;
use crate::counters::Counters;
use crate::operate::View;
use crate::process::Process;
use crate::servers::{FirstPool, Fleet, Leaf};
use crate::settings::Settings;
use crate::tree::{Tree, last};
use guira_config::ConfigError;

/// A message to a thread.
#[derive(Debug)]
pub(crate) enum ProxyMessage {
    /// Serve this client.
    Client(Arrival),
    /// Use this configuration from now on.
    Configuration(Arc<Loaded>),
}

impl From<Arrival> for ProxyMessage {
    fn from(arrival: Arrival) -> Self {
        Self::Client(arrival)
    }
}

/// The state of one thread.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) process: Arc<Process>,
    pub(crate) view: Arc<View>,
    number: usize,
    /// The settings with this thread's number.
    settings: Settings,
    pub(crate) fleet: Rc<Fleet>,
    tree: RefCell<Rc<Tree>>,
}

impl Proxy {
    /// Creates a proxy with the routes of `loaded`.
    pub(crate) fn new(
        view: Arc<View>,
        number: usize,
        loaded: &Loaded,
    ) -> Result<Self, ConfigError> {
        let process = Arc::clone(&view.process);
        let fleet = Fleet::new(Arc::clone(&process.servers));
        let proxy_index = u32::try_from(number).unwrap_or(u32::MAX);
        let settings = Settings { proxy_index, ..process.options.settings.clone() };
        let tree = RefCell::new(Rc::new(Tree::build(&loaded.config, &settings, &*fleet)?));
        Ok(Self { process, view, number, settings, fleet, tree })
    }

    /// Answers a request through the tree, when it has a permit.
    pub(crate) async fn route(&self, request: &Request, context: &Context) -> Reply {
        let _permit = match self.process.routed.get(self.number) {
            Some(permits) if context.record.is_none() => match permits.take().await {
                Some(permit) => Some(permit),
                None => return Reply::new(Outcome::Busy),
            },
            _ => None,
        };
        if !self.process.servers.pool_stats.is_empty() {
            return self.route_counted(request, context).await;
        }
        let tree = self.tree();
        last(&*tree.root, request, context).route(request, context).await
    }

    /// As [`Self::route`], if pools are counted: counts the reply for the pool that the request reached first.
    async fn route_counted(&self, request: &Request, context: &Context) -> Reply {
        let first = FirstPool::default();
        let context = Context { first_pool: Some(Rc::clone(&first)), ..context.clone() };
        let began = Instant::now();
        let reply = self.tree().root.route(request, &context).await;
        self.process.servers.pool_stats.finished(&first, &reply, began.elapsed());
        reply
    }

    /// The leaf that answers a request, if the request needs nothing else.
    pub(crate) fn leaf(&self, request: &Request, context: &Context) -> Option<Rc<Leaf>> {
        if !self.process.servers.pool_stats.is_empty() || !self.process.routed.is_empty() {
            return None;
        }
        let tree = self.tree.borrow();
        let last = last(&*tree.root, request, context);
        last.leaf()?.plain(request, context)
    }

    pub(crate) fn tree(&self) -> Rc<Tree> {
        Rc::clone(&self.tree.borrow())
    }

    /// Uses another configuration from now on.
    pub(crate) fn reconfigure(&self, loaded: &Loaded) {
        self.fleet.reconfigure();
        match Tree::build(&loaded.config, &self.settings, &*self.fleet) {
            // The old tree is dropped with the last request that uses it.
            Ok(tree) => drop(self.tree.replace(Rc::new(tree))),
            Err(error) => {
                let number = self.number;
                tracing::error!("proxy {number} keeps its routes: {error}");
            }
        }
    }

    /// This thread's counters.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(self.counters_ref())
    }

    pub(crate) fn counters_ref(&self) -> &Arc<Counters> {
        &self.process.counters[self.number]
    }
}
