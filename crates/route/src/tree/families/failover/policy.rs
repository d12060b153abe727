//! The order in which children are asked after the first has failed.

use std::cell::Cell;

use guira_client::ring::Rendezvous;
use guira_client::{Outcome, Request};

use crate::counters::Counter;
use crate::key;
use crate::outcome::{self, ErrorSet};
use crate::tree::families::hashing::{self, Function};
use crate::tree::families::{Builder, Fields, Node, Result, Route, fields};

/// An order, and limits for following it.
#[derive(Debug)]
pub(super) struct Policy {
    kind: Kind,
    /// The number of children asked, including the first.
    children_max: usize,
    /// The number of failures after which no more children are asked. Excluded errors don't count.
    error_tries_max: usize,
    excluded: ErrorSet,
}

#[derive(Debug)]
enum Kind {
    InOrder,
    /// The number of consecutive errors per child.
    LeastFailures(Vec<Cell<u64>>),
    Deterministic {
        function: Function,
        uses_domains: bool,
        ignores_choice: bool,
    },
    /// Over all children except the first.
    Rendezvous(Rendezvous),
}

/// The children after the first, in the order in which one request asks them.
pub(super) struct Order<'a> {
    policy: &'a Policy,
    children: &'a [Node],
    request: &'a Request,
    asked: usize,
    child: usize,
    state: State,
}

enum State {
    InOrder,
    Sorted(Vec<usize>),
    Drawn(Draw),
}

/// The state of a deterministic order.
#[derive(Default)]
struct Draw {
    salt: u32,
    is_used: Vec<bool>,
    failed_domains: Vec<u32>,
    draws: u64,
    chosen: u64,
    domain_collisions: u64,
}

impl Policy {
    /// Reads the object `failover_policy`.
    pub(super) fn read(fields: Fields<'_>, children: usize, builder: &Builder<'_>) -> Result<Self> {
        let in_order = Self {
            kind: Kind::InOrder,
            children_max: children,
            error_tries_max: usize::MAX,
            excluded: ErrorSet::default(),
        };
        let Some(json) = fields.object("failover_policy")? else { return Ok(in_order) };
        let policy = Fields::new(json, &fields::POLICY);
        let kind = policy.string("type")?;
        let kind = kind.ok_or_else(|| policy.error("'type' not found"))?;
        let excluded = error_set(policy, "exclude_errors")?.unwrap_or_default();
        let tries = |name| -> Result<Option<usize>> {
            Ok(policy.integer(name)?.map(|tries: usize| tries.min(children)))
        };
        let required = |name: &str, tries: Option<usize>| {
            tries.ok_or_else(|| policy.error(format!("{kind} must specify '{name}'")))
        };
        match kind {
            "LeastFailuresPolicy" => {
                let failures = (0..children).map(|_| Cell::default()).collect();
                let children_max = required("max_tries", tries("max_tries")?)?;
                Ok(Self { kind: Kind::LeastFailures(failures), children_max, ..in_order })
            }
            "DeterministicOrderPolicy" => {
                let children_max = required("max_tries", tries("max_tries")?)?;
                let error_tries_max = required("max_error_tries", tries("max_error_tries")?)?;
                let uses_domains = policy.boolean("enable_failure_domains")?.unwrap_or(false);
                let ignores_choice = policy.boolean("ignore_normal_reply_index")?.unwrap_or(false);
                let hash = fields.object("hash")?.or(policy.object("hash")?);
                let function = match hash {
                    Some(json) => {
                        Function::read(Fields::new(json, &fields::HASH), children, builder)?
                    }
                    None => Function::Ch3,
                };
                let kind = Kind::Deterministic { function, uses_domains, ignores_choice };
                let error_tries_max = error_tries_max.min(children_max);
                Ok(Self { kind, children_max, error_tries_max, excluded })
            }
            "RendezvousPolicy" => {
                // The tags are next to the policy, or in it.
                let of = if fields.any("tags").is_some() { fields } else { policy };
                let tags = hashing::tags(of, children - 1)?;
                let is_weighted =
                    fields.string("hash").is_ok_and(|name| name == Some("WeightedRendezvous"));
                let ring = if is_weighted {
                    let weights = hashing::weights(of, children - 1)?;
                    Rendezvous::weighted(&tags.into_iter().zip(weights).collect::<Vec<_>>())
                } else {
                    Rendezvous::new(&tags)
                };
                Ok(Self { kind: Kind::Rendezvous(ring), ..in_order })
            }
            _ => {
                let error_tries_max = tries("max_tries")?.unwrap_or(usize::MAX);
                Ok(Self { error_tries_max, excluded, ..in_order })
            }
        }
    }

    /// Returns the order for one request.
    pub(super) fn order<'a>(&'a self, request: &'a Request, children: &'a [Node]) -> Order<'a> {
        let state = match &self.kind {
            Kind::InOrder => State::InOrder,
            Kind::LeastFailures(failures) => {
                let mut sorted: Vec<usize> = (0..children.len()).collect();
                sorted[1..].sort_by_key(|child| failures[*child].get());
                State::Sorted(sorted)
            }
            Kind::Deterministic { .. } => State::Drawn(Draw::default()),
            Kind::Rendezvous(ring) => {
                let chosen = children[0].choice(request).unwrap_or(0);
                let ranking = ring.ranking(key::routing_key(&request.key)).into_iter();
                let others = ranking.filter(|child| *child != chosen).map(|child| child + 1);
                State::Sorted([0].into_iter().chain(others).collect())
            }
        };
        Order { policy: self, children, request, asked: 1, child: 0, state }
    }

    /// The number of failures after which no more children are asked.
    pub(super) fn error_tries_max(&self) -> usize {
        self.error_tries_max
    }

    /// Whether an error doesn't count as a failure.
    pub(super) fn excludes(&self, outcome: Outcome) -> bool {
        self.excluded.contains(outcome)
    }

    /// Records whether a child has failed.
    pub(super) fn note(&self, child: usize, has_failed: bool) {
        if let Kind::LeastFailures(failures) = &self.kind {
            let count = &failures[child];
            count.set(if has_failed { count.get() + 1 } else { 0 });
        }
    }

    /// The counters of failovers, and of failovers in which all children failed.
    pub(super) fn counters(&self) -> (Counter, Counter) {
        match self.kind {
            Kind::InOrder => (Counter::FailoverInOrder, Counter::FailoverInOrderFailed),
            Kind::LeastFailures(_) => {
                (Counter::FailoverLeastFailures, Counter::FailoverLeastFailuresFailed)
            }
            Kind::Deterministic { .. } => {
                (Counter::FailoverDeterministic, Counter::FailoverDeterministicFailed)
            }
            Kind::Rendezvous(_) => (Counter::FailoverRendezvous, Counter::FailoverRendezvousFailed),
        }
    }
}

impl Order<'_> {
    /// Returns the child to ask next.
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.is_last() {
            return None;
        }
        self.child = match &mut self.state {
            State::InOrder => self.asked,
            State::Sorted(sorted) => *sorted.get(self.asked)?,
            State::Drawn(draw) => draw.next(&self.policy.kind, self.request, self.children),
        };
        self.asked += 1;
        Some(self.child)
    }

    /// Whether no child is left.
    pub(super) fn is_last(&self) -> bool {
        let is_sorted_out =
            matches!(&self.state, State::Sorted(sorted) if self.asked >= sorted.len());
        is_sorted_out || self.asked >= self.policy.children_max
    }

    /// Records that the child asked last couldn't be reached. Other children in its failure domain are avoided from now
    /// on.
    pub(super) fn avoid_domain(&mut self) {
        let uses_domains =
            matches!(self.policy.kind, Kind::Deterministic { uses_domains: true, .. });
        if let State::Drawn(draw) = &mut self.state
            && uses_domains
        {
            let domain = failure_domain(&*self.children[self.child], self.request);
            if domain != 0 && !draw.failed_domains.contains(&domain) {
                draw.failed_domains.push(domain);
            }
        }
    }

    /// The numbers of children drawn twice, and of children skipped for their domain.
    pub(super) fn collisions(&self) -> (u64, u64) {
        match &self.state {
            State::Drawn(draw) => (draw.draws.saturating_sub(draw.chosen), draw.domain_collisions),
            _ => (0, 0),
        }
    }
}

impl Draw {
    /// Draws with the key and successive salts, until it draws a child that wasn't asked yet.
    fn next(&mut self, kind: &Kind, request: &Request, children: &[Node]) -> usize {
        let Kind::Deterministic { function, uses_domains, ignores_choice } = kind else { return 0 };
        let (uses_domains, ignores_choice) = (*uses_domains, *ignores_choice);
        if self.is_used.is_empty() {
            self.salt = 1;
            self.is_used.resize(children.len(), false);
            self.is_used[0] = true;
            let choice = children[0].choice(request).filter(|_| !ignores_choice);
            if let Some(used) = choice.and_then(|choice| self.is_used.get_mut(choice + 1)) {
                *used = true;
            }
        }
        let mut attempts = 0;
        loop {
            self.salt += 1;
            let salt = self.salt.to_string();
            let salted = [key::routing_key(&request.key), salt.as_bytes()].concat();
            let child = function.index(&salted, children.len());
            let domain = failure_domain(&*children[child], request);
            let has_failed = uses_domains && self.failed_domains.contains(&domain);
            let is_avoided = has_failed && attempts <= DOMAIN_ATTEMPTS_MAX;
            if is_avoided {
                self.domain_collisions += 1;
            } else {
                self.draws += 1;
            }
            if (!self.is_used[child] && !is_avoided) || attempts >= ATTEMPTS_MAX {
                self.chosen += 1;
                self.is_used[child] = true;
                return child;
            }
            attempts += 1;
        }
    }
}

/// The limit of draws for one child; after it, any child is taken. After three quarters of them, failure domains are
/// ignored.
const ATTEMPTS_MAX: u32 = 100;
const DOMAIN_ATTEMPTS_MAX: u32 = 75;

/// The domain of the first server that a request would reach through a route.
fn failure_domain(route: &dyn Route, request: &Request) -> u32 {
    let mut domain = route.failure_domain();
    route.visit(request, &mut |child, request| {
        if domain == 0 {
            domain = failure_domain(child, request);
        }
    });
    domain
}

/// Reads a list of errors by name.
pub(super) fn error_set(fields: Fields<'_>, name: &str) -> Result<Option<ErrorSet>> {
    let Some(array) = fields.array(name)? else { return Ok(None) };
    let error = |json: &crate::config::Json| {
        let found = json.as_str().and_then(outcome::error_named);
        found.ok_or_else(|| fields.error(format!("{name}: {json} is not a valid error type")))
    };
    array.iter().map(error).collect::<Result<ErrorSet>>().map(Some)
}
