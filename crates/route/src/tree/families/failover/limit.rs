//! Limits failovers: a token bucket that the requests themselves fill.

use std::cell::Cell;

use crate::tree::families::fields::LIMIT;
use crate::tree::families::{Fields, Json, Result};

/// A token bucket: each request adds `rate` tokens, up to `burst`. It starts full.
#[derive(Debug)]
pub(super) struct Limit {
    rate: f64,
    burst: f64,
    requests: Cell<f64>,
    /// The number of the request at which the bucket would have been empty.
    empty_at: Cell<f64>,
}

impl Limit {
    /// Reads the object `failover_limit`.
    pub(super) fn read(json: &Json) -> Result<Self> {
        let fields = Fields::new(json, &LIMIT);
        let rate = fields.number("rate")?.ok_or_else(|| fields.error("rate not found"))?;
        let burst = fields.number("burst")?.unwrap_or(1000.0).max(1.0);
        let (requests, empty_at) = (Cell::new(0.0), Cell::new(-1e6));
        Ok(Self { rate: rate.clamp(0.0, 1.0), burst, requests, empty_at })
    }

    /// Counts a request.
    pub(super) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1.0);
    }

    /// Takes a token, if there is one.
    pub(super) fn allows(&self) -> bool {
        let now = self.requests.get();
        let tokens = ((now - self.empty_at.get()) * self.rate).min(self.burst);
        if tokens < 1.0 {
            return false;
        }
        self.empty_at.set(now - (tokens - 1.0) / self.rate);
        true
    }
}
