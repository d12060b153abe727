//! `get __mcrouter__.COMMAND(ARGUMENTS)`: what the router knows of itself, over its clients' connections.
//!
//! The answer is a value, so that any client library can ask. A command that can't be answered says `ERROR: …` there.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use guira_client::{Op, Outcome, Reply, Request};

use super::configuration::seconds_now;
use super::options::From;
use super::proxy::Proxy;
use super::session::VERSION;
use crate::{Context, Route, route};

/// What such a key begins with.
pub(crate) const PREFIX: &[u8] = b"__mcrouter__.";

/// Answers a command: at once, or by asking the tree.
pub(crate) fn answer(proxy: &Rc<Proxy>, command: &[u8]) -> Pin<Box<dyn Future<Output = Reply>>> {
    let proxy = Rc::clone(proxy);
    let command = String::from_utf8_lossy(command).into_owned();
    Box::pin(async move {
        let (name, arguments) = match command.strip_suffix(')').and_then(|c| c.split_once('(')) {
            Some((name, arguments)) => (name, arguments),
            None => (&command[..], ""),
        };
        let text = match name {
            "route" => proxy.reached(arguments).await,
            _ => proxy.told(name, arguments),
        };
        let value = text.unwrap_or_else(|error| format!("ERROR: {error}"));
        Reply { value: Bytes::from(value), ..Reply::new(Outcome::Found) }
    })
}

impl Proxy {
    /// The servers that a request reaches, one a line.
    async fn reached(&self, arguments: &str) -> Result<String, String> {
        let request = request("route", arguments)?;
        let servers = self.record(&request).await;
        let servers: Vec<_> = servers.iter().map(crate::Server::host_port).collect();
        Ok(servers.join("\r\n"))
    }

    fn told(&self, name: &str, arguments: &str) -> Result<String, String> {
        let options = &self.shared.options;
        let standing = self.shared.standing.lock();
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
            "hostid" => Ok(options.settings.host_id.to_string()),
            "route_handles" => {
                Ok(route::outline(&*self.tree().root, &request("route_handles", arguments)?))
            }
            "pools" => Ok(self.tree().pools.keys().map(|pool| format!("{pool}\n")).collect()),
            "global_params" => Ok(options.settings.global_params()),
            "get_bucket" => self.buckets(arguments),
            "failure_domains" => self.failure_domains(arguments),
            "verbosity" => Ok(options.log.verbosity.to_string()),
            _ => Err(format!("unknown command: {name}")),
        }
    }

    /// The buckets of a key on its ways to servers, one a line: key, bucket, key space, tenant.
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
        collect(&*self.tree().root, &request, &Context::default(), &mut lines);
        Ok(lines.join("\r\n"))
    }

    fn failure_domains(&self, pool: &str) -> Result<String, String> {
        let tree = self.tree();
        let leaves =
            tree.pools.get(pool).ok_or_else(|| format!("failure_domains: no pool '{pool}'"))?;
        let lines = leaves.iter().filter_map(|leaf| {
            Some(format!("{} {}\n", leaf.server()?.host_port(), leaf.failure_domain()))
        });
        Ok(lines.collect())
    }
}

/// `op,key`; the key may have commas.
fn request(command: &str, arguments: &str) -> Result<Request, String> {
    let (op, key) =
        arguments.split_once(',').ok_or_else(|| format!("{command}: 2 args expected"))?;
    let op = op_named(op).ok_or_else(|| format!("{command}: unknown operation {op}"))?;
    Ok(Request::new(op, key.to_owned()))
}

/// The operation of that name.
pub(crate) fn op_named(name: &str) -> Option<Op> {
    Some(match name {
        "get" => Op::Get,
        "gets" => Op::Gets,
        "gat" => Op::Gat,
        "gats" => Op::Gats,
        "lease-get" => Op::LeaseGet,
        "metaget" => Op::MetaGet,
        "set" => Op::Set,
        "add" => Op::Add,
        "replace" => Op::Replace,
        "append" => Op::Append,
        "prepend" => Op::Prepend,
        "cas" => Op::Cas,
        "lease-set" => Op::LeaseSet,
        "delete" => Op::Delete,
        "touch" => Op::Touch,
        "incr" => Op::Incr,
        "decr" => Op::Decr,
        _ => return None,
    })
}
