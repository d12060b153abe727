//! `slow_warmup` of a pool: a server with a low hit rate gets only a share of its gets, which grows with the hit rate.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use guira_client::{Reply, Request};

use super::{BoxFuture, Context, Fields, Node, Result, Route, SHARE, Shape, Takes, field, needed};
use crate::outcome::{is_hit, is_miss};

/// Sends the other gets elsewhere.
#[derive(Debug)]
struct SlowWarmUp {
    target: Node,
    elsewhere: Node,
    settings: Settings,
    hits: Cell<u64>,
    misses: Cell<u64>,
    is_warming_up: Cell<bool>,
}

/// The hit rates at which warming up begins and ends, and the server's share of gets: `start` + hit rate · `step`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    enable_threshold: f64,
    disable_threshold: f64,
    start: f64,
    step: f64,
    min_requests: u64,
}

impl Settings {
    /// Reads the object `settings`, or returns the defaults.
    pub(super) fn read(fields: Option<Fields<'_>>) -> Result<Self> {
        let (enable_threshold, disable_threshold) = (0.7, 0.9);
        let default =
            Self { enable_threshold, disable_threshold, start: 0.1, step: 1.0, min_requests: 100 };
        let Some(fields) = fields else { return Ok(default) };
        let share = |name: &str| -> Result<f64> {
            let share = fields.number(name)?;
            share.ok_or_else(|| fields.error(format!("'{name}' must be a double in [0,1] range")))
        };
        let (enable_threshold, disable_threshold) =
            (share("enable_threshold")?, share("disable_threshold")?);
        if enable_threshold >= disable_threshold {
            return Err(
                fields.error("'enable_threshold' must be strictly less than 'disable_threshold'.")
            );
        }
        let start = fields.number("start")?.unwrap_or(default.start);
        let step = fields.number("step")?.unwrap_or(default.step);
        if !(start > 0.0 && start < 1.0 && step > 0.0 && step < 100.0) {
            return Err(fields.error("'start' must be in (0,1), 'step' in (0,100)"));
        }
        let min_requests = fields.integer("min_requests")?.unwrap_or(default.min_requests);
        Ok(Self { enable_threshold, disable_threshold, start, step, min_requests })
    }
}

impl SlowWarmUp {
    #[expect(clippy::cast_precision_loss, reason = "a rate of counts needs no more than 53 bits")]
    fn hit_rate(&self) -> f64 {
        let (hits, misses) = (self.hits.get(), self.misses.get());
        if hits + misses < self.settings.min_requests {
            return 1.0;
        }
        hits as f64 / (hits + misses) as f64
    }

    /// Whether a get goes to the server itself.
    fn takes(&self) -> bool {
        let rate = self.hit_rate();
        let Settings { enable_threshold, disable_threshold, start, step, .. } = self.settings;
        let threshold = if self.is_warming_up.get() { disable_threshold } else { enable_threshold };
        self.is_warming_up.set(rate < threshold);
        !self.is_warming_up.get() || fastrand::f64() <= start + rate * step
    }
}

impl Route for SlowWarmUp {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if request.op.is_get() && !self.takes() {
            return self.elsewhere.route(request, context);
        }
        Box::pin(async move {
            let reply = self.target.route(request, context).await;
            if is_hit(reply.outcome) {
                self.hits.set(self.hits.get() + 1);
            } else if is_miss(reply.outcome) {
                self.misses.set(self.misses.get() + 1);
            }
            reply
        })
    }

    fn name(&self) -> Cow<'_, str> {
        "slow-warmup".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.target, request);
        if request.op.is_get() {
            visitor(&*self.elsewhere, request);
        }
    }

    fn failure_domain(&self) -> u32 {
        self.target.failure_domain()
    }
}
/// `slow_warmup`
pub(super) static SHAPE: Shape = Shape {
    name: "slow_warmup",
    fields: &[&[
        needed("failoverTarget", Takes::Route, "where gets go meanwhile"),
        field("settings", Takes::Object(&SETTINGS), "when"),
    ]],
};

pub(super) static SETTINGS: Shape = Shape {
    name: "settings",
    fields: &[&[
        needed("enable_threshold", SHARE, "the rate of hits below which it begins"),
        needed("disable_threshold", SHARE, "the rate at which it ends"),
        field("start", SHARE, "the share of gets that the server has at first (0.1)"),
        field("step", Takes::Number(0.0, 100.0), "how much more by its rate of hits (1)"),
        field("min_requests", Takes::Whole(1, i64::MAX), "gets before the rate counts (100)"),
    ]],
};

/// Returns a route to `target`. While the target warms up, some of its gets go to `elsewhere`.
pub(super) fn node(target: Node, elsewhere: Node, settings: Settings) -> Node {
    let (hits, misses, is_warming_up) = (Cell::new(0), Cell::new(0), Cell::new(false));
    Rc::new(SlowWarmUp { target, elsewhere, settings, hits, misses, is_warming_up })
}
