//! The top of the tree: routing prefixes, broadcast, and the steps that all requests pass.
//!
//! ```text
//! key                    goes to the routes of
//! user:5                 the default prefix
//! /region/cluster/k      that prefix, or /region/fallback/
//! /region/*/k            each cluster of the region, the default one first
//! /*/*/k                 all, the default one first
//! /re*/c*/k              those that match, the default one first
//! ```
//! The reply comes from the first route. Replies of the others are discarded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use guira_client::{Op, Outcome, Reply, Request};

use super::families::{all, big_value, logging};
use super::prefix::{PrefixMap, Selector, normal};
use super::route::{BoxFuture, Node, Route, detach};
use crate::context::Context;
use crate::hot_cache::Stripes;
use crate::key;
use crate::outcome::default_reply;
use crate::settings::Settings;
use guira_config::ConfigError;

/// Chooses routes by routing prefix and by key prefix.
#[derive(Debug)]
struct Root {
    default: Rc<Targets>,
    /// Sorted by prefix.
    by_prefix: BTreeMap<String, Rc<Targets>>,
    by_region: BTreeMap<String, Rc<Targets>>,
    all: Rc<Targets>,
    default_prefix: String,
    send_invalid_to_default: bool,
    allow_only_gets: bool,
    group_remote_errors: bool,
}

/// The routes of one or more routing prefixes, by key prefix. A route occurs once per list.
type Targets = PrefixMap<Vec<Node>>;

impl Root {
    /// The routes for a key. The first one gives the reply.
    fn targets(&self, key: &[u8]) -> Cow<'_, [Node]> {
        let prefix = key::prefix(key);
        if prefix.is_empty()
            && let Some(targets) = self.default.for_all()
        {
            return targets.into();
        }
        let routing_key = key::routing_key(key);
        if prefix.is_empty() {
            return of(&self.default, routing_key).into();
        }
        let prefix = String::from_utf8_lossy(prefix);
        let found = self.targets_of(&prefix, routing_key);
        if found.is_empty() && self.send_invalid_to_default {
            return of(&self.default, routing_key).into();
        }
        found
    }

    fn targets_of(&self, prefix: &str, routing_key: &[u8]) -> Cow<'_, [Node]> {
        if prefix == "/*/*/" {
            return of(&self.all, routing_key).into();
        }
        let (region, cluster) = parts(prefix);
        if !prefix.contains('*') {
            let fallback = || self.by_prefix.get(&format!("/{region}/fallback/"));
            let targets = self.by_prefix.get(prefix).or_else(fallback);
            return targets.map_or(&[][..], |targets| of(targets, routing_key)).into();
        }
        if cluster == "*" && !region.contains('*') {
            let targets = self.by_region.get(region);
            return targets.map_or(&[][..], |targets| of(targets, routing_key)).into();
        }
        let matching = |known: &&String| matches(prefix, known);
        let first = Some(&self.default_prefix).filter(matching);
        let others = self.by_prefix.keys().filter(|known| **known != self.default_prefix);
        let mut found: Vec<Node> = Vec::new();
        for known in first.into_iter().chain(others.filter(matching)) {
            let targets =
                self.by_prefix.get(known).map_or(&[][..], |targets| of(targets, routing_key));
            push_new(&mut found, targets);
        }
        found.into()
    }

    /// The route for a request, if it is the only one and its reply is returned unchanged.
    fn only(&self, request: &Request) -> Option<&Node> {
        if self.group_remote_errors || (self.allow_only_gets && !request.op.is_get()) {
            return None;
        }
        match self.targets(&request.key) {
            Cow::Borrowed([only]) => Some(only),
            _ => None,
        }
    }
}

fn of<'t>(targets: &'t Targets, routing_key: &[u8]) -> &'t [Node] {
    targets.get(routing_key).map_or(&[], Vec::as_slice)
}

impl Route for Root {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if self.allow_only_gets && !request.op.is_get() {
            return Box::pin(std::future::ready(default_reply(request)));
        }
        let targets = self.targets(&request.key);
        let Some((first, others)) = targets.split_first() else {
            let reply = Reply::failure(Outcome::LocalError, "RootRoute: No rh found");
            return Box::pin(std::future::ready(reply));
        };
        others.iter().for_each(|other| detach(other, request.clone(), context));
        let first = Rc::clone(first);
        Box::pin(async move {
            let reply = first.route(request, context).await;
            if self.group_remote_errors && reply.outcome.is_error() {
                return Reply::new(Outcome::RemoteError);
            }
            reply
        })
    }

    fn name(&self) -> Cow<'_, str> {
        "root".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        self.targets(&request.key).iter().for_each(|target| visitor(&**target, request));
    }

    fn next(&self, request: &Request, _: &Context) -> Option<&dyn Route> {
        self.only(request).map(|only| &**only)
    }
}

/// The node above the root. It sends `flush_all` to every server, and tells hot caches about all writes, whichever
/// route they take.
#[derive(Debug)]
struct Top {
    root: Node,
    everywhere: Node,
    destinations: Vec<Node>,
    stripes: Stripes,
}

impl Top {
    /// Whether hot caches must learn of the request.
    fn is_told(&self, request: &Request) -> bool {
        let op = request.op;
        self.stripes.are_used() && (op.is_update() || op.is_arithmetic() || op == Op::Delete)
    }

    /// Flushes the server that the request's key names: no client's `flush_all` has a key.
    async fn flush_one(&self, request: &Request, context: &Context) -> Reply {
        let is_it = |node: &&Node| {
            node.server().is_some_and(|server| server.host_port().as_bytes() == &request.key[..])
        };
        match self.destinations.iter().find(is_it) {
            Some(server) => server.route(&Request::new(Op::FlushAll, ""), context).await,
            None => Reply::failure(Outcome::RemoteError, "no such server"),
        }
    }
}

impl Route for Top {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if self.is_told(request) {
            let write = Some(Rc::new(self.stripes.write(&request.key)));
            let context = Context { write, ..context.clone() };
            return Box::pin(async move { self.root.route(request, &context).await });
        }
        if request.op != Op::FlushAll {
            return self.root.route(request, context);
        }
        Box::pin(async move {
            // Invalidate before and after: once a flush is answered, hot caches hold nothing older.
            self.stripes.write_all();
            let reply = match request.key.is_empty() {
                true => self.everywhere.route(request, context).await,
                false => self.flush_one(request, context).await,
            };
            self.stripes.write_all();
            reply
        })
    }

    fn name(&self) -> Cow<'_, str> {
        "proxy".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.root, request);
    }

    fn next(&self, request: &Request, _: &Context) -> Option<&dyn Route> {
        let passes = request.op != Op::FlushAll && !self.is_told(request);
        passes.then_some(&*self.root)
    }
}

/// Builds the top of a tree from the selectors of all routing prefixes.
pub(crate) fn build(
    selectors: Vec<(String, Selector)>,
    destinations: Vec<Node>,
    settings: &Settings,
) -> Result<Node, ConfigError> {
    let mut by_prefix: BTreeMap<String, Selector> = BTreeMap::new();
    for (prefix, selector) in selectors {
        by_prefix.insert(normal(&prefix)?, selector);
    }
    let default_prefix = normal(&settings.default_route)?;
    let Some(default) = by_prefix.get(&default_prefix) else {
        return Err(ConfigError::new(format!("invalid default route: {default_prefix}")));
    };
    let others = || by_prefix.iter().filter(|(prefix, _)| **prefix != default_prefix);
    let defaults_first: Vec<(&str, &Selector)> = [(default_prefix.as_str(), default)]
        .into_iter()
        .chain(others().map(|(prefix, selector)| (prefix.as_str(), selector)))
        .collect();
    let mut regions: BTreeMap<String, Vec<&Selector>> = BTreeMap::new();
    for (prefix, selector) in &defaults_first {
        regions.entry(parts(prefix).0.to_owned()).or_default().push(selector);
    }
    let all: Vec<&Selector> = defaults_first.iter().map(|(_, selector)| *selector).collect();
    let beginnings: usize = all.iter().map(|selector| selector.policies.len()).sum();
    if beginnings.saturating_mul(all.len()) > PAIRS_MAX {
        let message =
            format!("{} routing prefixes with {beginnings} policies: too many", all.len());
        return Err(ConfigError::new(message));
    }
    let root = Root {
        default: Rc::new(targets(&[default])),
        all: Rc::new(targets(&all)),
        by_region: regions
            .into_iter()
            .map(|(region, selectors)| (region, Rc::new(targets(&selectors))))
            .collect(),
        by_prefix: by_prefix
            .iter()
            .map(|(prefix, selector)| (prefix.clone(), Rc::new(targets(&[selector]))))
            .collect(),
        default_prefix,
        send_invalid_to_default: settings.send_invalid_route_to_default,
        allow_only_gets: settings.allow_only_gets,
        group_remote_errors: settings.group_remote_errors,
    };
    let (threshold, batch) = (settings.big_value_split_threshold, settings.big_value_batch_size);
    let mut root = big_value::node(Rc::new(root), threshold, batch, settings.hides_big_value_flag);
    if settings.is_logging_route_enabled {
        root = logging::node(root, settings.log.clone());
    }
    let stripes = settings.stripes.clone();
    Ok(Rc::new(Top { root, everywhere: all::sync(destinations.clone()), destinations, stripes }))
}

/// The limit for routing prefixes times policies: each prefix is searched for the key prefix of each policy.
const PAIRS_MAX: usize = 1 << 20;

/// For each key prefix of any selector, the routes that all selectors have for it.
fn targets(selectors: &[&Selector]) -> Targets {
    let beginnings = selectors.iter().flat_map(|selector| &selector.policies);
    let mut beginnings: Vec<Vec<u8>> = beginnings.map(|(prefix, _)| prefix.clone()).collect();
    beginnings.push(Vec::new());
    let maps: Vec<(PrefixMap<Node>, &Option<Node>)> = selectors
        .iter()
        .map(|selector| (PrefixMap::new(selector.policies.clone()), &selector.wildcard))
        .collect();
    let routes = |beginning: Vec<u8>| {
        let mut found = Vec::new();
        for (policies, wildcard) in &maps {
            let policy = policies.get(&beginning).or(wildcard.as_ref());
            push_new(&mut found, policy.map_or(&[], std::slice::from_ref));
        }
        (beginning, found)
    };
    PrefixMap::new(beginnings.into_iter().map(routes).collect())
}

fn push_new(found: &mut Vec<Node>, more: &[Node]) {
    for node in more {
        if !found.iter().any(|known| Rc::ptr_eq(known, node)) {
            found.push(Rc::clone(node));
        }
    }
}

/// The region and the cluster of a routing prefix.
fn parts(prefix: &str) -> (&str, &str) {
    prefix.trim_matches('/').split_once('/').unwrap_or_default()
}

/// Whether a prefix matches the pattern. A star matches any text without slashes.
fn matches(pattern: &str, prefix: &str) -> bool {
    let (pattern, prefix) = (parts(pattern), parts(prefix));
    matches_part(pattern.0, prefix.0) && matches_part(pattern.1, prefix.1)
}

/// Matches each piece between stars as early as possible, so that the cost is at most the product of both lengths.
fn matches_part(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = text.strip_prefix(first).and_then(|text| text.strip_suffix(last));
    let Some(mut inner) = inner else { return false };
    middle.split('*').all(|piece| match inner.find(piece) {
        Some(at) => {
            inner = &inner[at + piece.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text_of_its_part() {
        for (pattern, prefix, expected) in [
            ("/a/*/", "/a/b/", true),
            ("/*/b/", "/a/b/", true),
            ("/a*/b*c/", "/a/bxc/", true),
            ("/a*/b*c/", "/a/bx/", false),
            ("/*a*/b/", "/xay/b/", true),
            ("/a*b*c*d/x/", "/a1b2c3d/x/", true),
            ("/aa*a/x/", "/aa/x/", false),
            ("/*/x/", "/a/b/", false),
        ] {
            assert_eq!(matches(pattern, prefix), expected, "{pattern} {prefix}");
        }
    }
}
