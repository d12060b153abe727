//! `get __mcrouter__.COMMAND(ARGUMENTS)`: what the router knows about itself, on its clients' connections.
//!
//! The reply is a value, so that any client library can ask. For a command that can't be answered, the value
//! begins with `ERROR:`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use guira_client::{Op, Outcome, Reply, Request};
use tokio::time::Instant;

use super::view::View;
use crate::configure::{From, seconds_now};
use crate::context::Context;
use crate::ops::{VERSION, op_named};
use crate::server::Server;
use crate::tree::{BoxFuture, Route, Tree, outline};

/// The beginning of such keys.
pub(crate) const PREFIX: &[u8] = b"__mcrouter__.";

/// Answers a command: at once, or by asking the tree.
pub(crate) fn answer(
    view: &Arc<View>,
    tree: Rc<Tree>,
    command: &[u8],
) -> BoxFuture<'static, Reply> {
    let asked = Asked { view: Arc::clone(view), tree };
    let command = String::from_utf8_lossy(command).into_owned();
    Box::pin(async move {
        let (name, arguments) = match command.strip_suffix(')').and_then(|c| c.split_once('(')) {
            Some((name, arguments)) => (name, arguments),
            None => (&command[..], ""),
        };
        let text = match name {
            "route" => asked.reached(arguments).await,
            "flush" => asked.flushed(arguments).await,
            _ => asked.told(name, arguments),
        };
        let value = text.unwrap_or_else(|error| format!("ERROR: {error}"));
        Reply { value: Bytes::from(value), ..Reply::new(Outcome::Found) }
    })
}

/// The data for answers.
struct Asked {
    view: Arc<View>,
    tree: Rc<Tree>,
}

impl Asked {
    /// The servers that a request reaches if each answers a miss, one per line.
    async fn reached(&self, arguments: &str) -> Result<String, String> {
        let request = request("route", arguments)?;
        let record = Rc::new(RefCell::new(Vec::new()));
        let context = Context { record: Some(Rc::clone(&record)), ..Context::default() };
        self.tree.root.route(&request, &context).await;
        let servers: Vec<_> = record.take().iter().map(Server::host_port).collect();
        Ok(servers.join("\r\n"))
    }

    /// Flushes one server, as `flush_all` flushes all.
    async fn flushed(&self, server: &str) -> Result<String, String> {
        if !self.view.process.options.is_flush_enabled {
            return Err("Command disabled".to_owned());
        }
        if server.is_empty() {
            return Err("flush: 1 arg (server) expected".to_owned());
        }
        let request = Request::new(Op::FlushAll, server.to_owned());
        let reply = self.tree.root.route(&request, &Context::default()).await;
        match reply.outcome {
            Outcome::Ok => Ok("OK".to_owned()),
            outcome if reply.message.is_empty() => Err(format!("flush: {outcome:?}")),
            _ => Err(format!("flush: {}", reply.message.escape_ascii())),
        }
    }

    /// The servers that a flush goes to, one per line.
    fn servers(&self) -> Result<String, String> {
        let mut names = BTreeSet::new();
        for leaf in self.tree.pools.values().flatten() {
            let server = leaf.server().ok_or("servers: a pool has no servers of its own")?;
            names.insert(format!("{}\n", server.host_port()));
        }
        Ok(names.into_iter().collect())
    }

    fn told(&self, name: &str, arguments: &str) -> Result<String, String> {
        let process = &self.view.process;
        let options = &process.options;
        let standing = process.standing.lock();
        let loaded = standing.loaded.as_ref().ok_or("no configuration is in use");
        match name {
            "version" => Ok(VERSION.to_owned()),
            "config_age" => Ok(seconds_now().saturating_sub(standing.last_success).to_string()),
            "config_file" => match &options.config.from {
                From::File(path) => Ok(path.display().to_string()),
                From::Text(_) | From::Etcd(_) => Err("no config file found!".to_owned()),
            },
            "config_md5_digest" => Ok(loaded?.digest.clone()),
            "config_sources_info" => Ok(loaded?.sources().to_string()),
            "preprocessed_config" => Ok(loaded?.config.expanded().to_pretty()),
            "options" if arguments.is_empty() => {
                let lines = options.shown.iter().map(|(name, value)| format!("{name} {value}\n"));
                Ok(lines.collect())
            }
            "options" => {
                let found = options.shown.iter().find(|(name, _)| *name == arguments);
                let missing = || format!("options: option {arguments} not found");
                found.map(|(_, value)| value.clone()).ok_or_else(missing)
            }
            "families" => match &process.families {
                Some(families) => {
                    let sampled = families.sampled(arguments, Instant::now());
                    let unknown = || "families: day or week expected".to_owned();
                    sampled.map(|sampled| sampled.to_text()).ok_or_else(unknown)
                }
                None => Err("families: nothing is sampled (--sample-families)".to_owned()),
            },
            "hostid" => Ok(options.settings.host_id.to_string()),
            "route_handles" => Ok(outline(&*self.tree.root, &request("route_handles", arguments)?)),
            "servers" => self.servers(),
            "pools" => Ok(self.tree.pools.keys().map(|pool| format!("{pool}\n")).collect()),
            "global_params" => Ok(options.settings.global_params()),
            "get_bucket" => self.buckets(arguments),
            "failure_domains" => self.failure_domains(arguments),
            "verbosity" => Ok(options.log.verbosity.to_string()),
            _ => Err(format!("unknown command: {name}")),
        }
    }

    /// The buckets of a key on its ways to servers, one per line: key, bucket, key space, tenant.
    fn buckets(&self, key: &str) -> Result<String, String> {
        fn collect(
            route: &dyn Route,
            request: &Request,
            context: &Context,
            lines: &mut Vec<String>,
        ) {
            if let Some((bucket, keyspace)) = route.bucket(request, context) {
                let key = request.key.escape_ascii();
                lines.push(format!("{key}\t{bucket}\t{keyspace}\tnull"));
            }
            route.visit(request, &mut |child, request| collect(child, request, context, lines));
        }
        if key.is_empty() {
            return Err("get_bucket: 1 arg (key) expected".to_owned());
        }
        let mut lines = Vec::new();
        let request = Request::new(Op::Get, key.to_owned());
        collect(&*self.tree.root, &request, &Context::default(), &mut lines);
        Ok(lines.join("\r\n"))
    }

    fn failure_domains(&self, pool: &str) -> Result<String, String> {
        let leaves = self
            .tree
            .pools
            .get(pool)
            .ok_or_else(|| format!("failure_domains: no pool '{pool}'"))?;
        let lines = leaves.iter().filter_map(|leaf| {
            Some(format!("{} {}\n", leaf.server()?.host_port(), leaf.failure_domain()))
        });
        Ok(lines.collect())
    }
}

/// Parses `op,key`. The key may contain commas.
fn request(command: &str, arguments: &str) -> Result<Request, String> {
    let (op, key) =
        arguments.split_once(',').ok_or_else(|| format!("{command}: 2 args expected"))?;
    let op = op_named(op).ok_or_else(|| format!("{command}: unknown operation {op}"))?;
    Ok(Request::new(op, key.to_owned()))
}
