//! A tree whose leaves give the answers that a test sets, and record their requests.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use guira_client::{Op, Outcome, Reply, Request};

use super::route::{BoxFuture, Node, servers};
use crate::config::{ConfigError, RouteConfig, Sources};
use crate::context::Context;
use crate::server::{LeafSpec, Server};
use crate::settings::Settings;
use crate::tree::{Leaves, Route, Tree};

/// The state that all leaves of a tree share.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Replies by host. A host without an entry answers a miss.
    replies: RefCell<BTreeMap<String, Vec<Reply>>>,
    delays: RefCell<BTreeMap<String, Duration>>,
    asked: RefCell<Vec<String>>,
    requests: RefCell<Vec<Request>>,
}

/// A tree with its script. Time is simulated: it advances when no task can run.
pub(crate) struct Canned {
    pub(crate) tree: Tree,
    pub(crate) script: Rc<Script>,
    pub(crate) context: Context,
    runtime: tokio::runtime::Runtime,
    tasks: tokio::task::LocalSet,
}

impl Canned {
    pub(crate) fn new(config: &str) -> Self {
        Self::with(config, &Settings::default()).unwrap()
    }

    pub(crate) fn with(config: &str, settings: &Settings) -> Result<Self, ConfigError> {
        let script = Rc::new(Script::default());
        let config = RouteConfig::read(config, settings, &mut NoSources)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let tree = runtime.block_on(async {
            Tree::build(&config, settings, &CannedLeaves(Rc::clone(&script)))
        })?;
        let (context, tasks) = (Context::default(), tokio::task::LocalSet::new());
        Ok(Self { tree, script, context, runtime, tasks })
    }

    /// Sets the replies of a host. They are given in order, and the last one is repeated.
    pub(crate) fn answer(&self, host: &str, replies: impl IntoIterator<Item = Reply>) {
        self.script.replies.borrow_mut().insert(host.to_owned(), replies.into_iter().collect());
    }

    /// Sets the replies of several hosts: `a=timeout b=found:value`.
    pub(crate) fn answers(&self, text: &str) {
        for word in text.split_whitespace() {
            let (host, reply) = word.split_once('=').unwrap();
            let replies = reply.split(',').map(|reply| {
                let (outcome, value) = reply.split_once(':').unwrap_or((reply, ""));
                let outcome = outcome_named(outcome);
                Reply { value: value.as_bytes().to_vec().into(), ..Reply::new(outcome) }
            });
            self.answer(host, replies);
        }
    }

    /// Sets the delay of a host's replies.
    pub(crate) fn delay(&self, host: &str, delay: Duration) {
        self.script.delays.borrow_mut().insert(host.to_owned(), delay);
    }

    /// Sends a request. Returns the reply after a minute, so that background work has ended.
    pub(crate) fn ask(&self, request: &Request) -> Reply {
        self.timed(request).0
    }

    /// As [`Self::ask`], with the time until the reply.
    pub(crate) fn timed(&self, request: &Request) -> (Reply, Duration) {
        self.runtime.block_on(self.tasks.run_until(async {
            let start = tokio::time::Instant::now();
            let reply = self.tree.root.route(request, &self.context).await;
            let took = start.elapsed();
            tokio::time::sleep(Duration::from_secs(60)).await;
            (reply, took)
        }))
    }

    /// Sends a request, and returns the outcome. Time doesn't advance unless the reply needs it.
    pub(crate) fn outcome_now(&self, request: &Request) -> Outcome {
        let reply = self.tree.root.route(request, &self.context);
        self.runtime.block_on(self.tasks.run_until(reply)).outcome
    }

    /// Advances the time.
    pub(crate) fn wait(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Sends all requests together. Returns the time until the last reply.
    pub(crate) fn all_at_once(&self, requests: &[Request]) -> Duration {
        self.runtime.block_on(self.tasks.run_until(async {
            let start = tokio::time::Instant::now();
            let replies =
                requests.iter().map(|request| self.tree.root.route(request, &self.context));
            futures_util::future::join_all(replies).await;
            start.elapsed()
        }))
    }

    /// As [`Self::ask`], but returns the outcome only.
    pub(crate) fn outcome(&self, op: Op, key: &str) -> Outcome {
        self.ask(&Request::new(op, key.as_bytes().to_vec())).outcome
    }

    /// Takes the list of what was asked since the last call: `host op key`.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.script.requests.take();
        self.script.asked.take()
    }

    /// Takes the requests that leaves received since the last call.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.script.asked.take();
        self.script.requests.take()
    }

    /// The hosts that a request may reach.
    pub(crate) fn reachable(&self, request: &Request) -> Vec<String> {
        servers(&*self.tree.root, request).into_iter().map(|server| server.host).collect()
    }
}

/// Returns the outcome with this mcrouter name.
pub(crate) fn outcome_named(name: &str) -> Outcome {
    let found = Outcome::ALL.into_iter().find(|outcome| crate::outcome::name(*outcome) == name);
    found.or_else(|| crate::outcome::error_named(name)).unwrap_or_else(|| panic!("{name}"))
}

/// The `"pools": {…}` part of a configuration, with pools named after their hosts: `a b,c` is one pool of one host, and
/// one of two.
pub(crate) fn pools(text: &str) -> String {
    let pools = text.split_whitespace().map(|hosts| {
        let servers: Vec<String> = hosts.split(',').map(|host| format!("\"{host}:1\"")).collect();
        format!("\"{}\": {{\"servers\": [{}]}}", hosts.replace(',', ""), servers.join(", "))
    });
    format!("\"pools\": {{{}}}", pools.collect::<Vec<_>>().join(", "))
}

struct NoSources;

impl Sources for NoSources {
    fn read(&mut self, path: &str) -> Result<String, String> {
        Err(format!("no file {path}"))
    }
}

struct CannedLeaves(Rc<Script>);

impl Leaves for CannedLeaves {
    fn leaf(&self, wanted: &LeafSpec) -> Node {
        Rc::new(Leaf { wanted: wanted.clone(), script: Rc::clone(&self.0) })
    }
}

#[derive(Debug)]
struct Leaf {
    wanted: LeafSpec,
    script: Rc<Script>,
}

impl Route for Leaf {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let host = &self.wanted.server.host;
        Box::pin(async move {
            let name = crate::ops::op_name(request.op);
            let key =
                String::from_utf8_lossy(crate::key::without_prefix(&request.key)).into_owned();
            let log =
                context.asynclog.as_ref().map_or_else(String::new, |log| format!(" log={log}"));
            let shadow = if context.is_shadow { " shadow" } else { "" };
            self.script.asked.borrow_mut().push(format!("{host} {name} {key}{log}{shadow}"));
            self.script.requests.borrow_mut().push(request.clone());
            let delay = self.script.delays.borrow().get(host).copied();
            if let Some(delay) = delay {
                tokio::time::sleep(delay).await;
            }
            match self.script.replies.borrow_mut().get_mut(host) {
                None => crate::outcome::default_reply(request),
                Some(replies) if replies.len() > 1 => replies.remove(0),
                Some(replies) => replies[0].clone(),
            }
        })
    }

    fn name(&self) -> Cow<'_, str> {
        format!("host|{}", self.wanted.server.host).into()
    }

    fn visit(&self, _: &Request, _: &mut dyn FnMut(&dyn Route, &Request)) {}

    fn failure_domain(&self) -> u32 {
        self.wanted.failure_domain
    }

    fn server(&self) -> Option<&Server> {
        Some(&self.wanted.server)
    }
}
