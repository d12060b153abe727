//! Limits failovers: a token bucket that the requests themselves fill.

use std::cell::Cell;

use crate::tree::families::fields::LIMIT;
use crate::tree::families::rate_limit::TokenBucket;
use crate::tree::families::{Fields, Json, Result};

/// Each request adds `rate` tokens, up to `burst`. The bucket starts full.
#[derive(Debug)]
pub(super) struct Limit {
    bucket: TokenBucket,
    requests: Cell<f64>,
}

impl Limit {
    /// Reads the object `failover_limit`.
    pub(super) fn read(json: &Json) -> Result<Self> {
        let fields = Fields::new(json, &LIMIT);
        let rate = fields.number("rate")?.ok_or_else(|| fields.error("rate not found"))?;
        let burst = fields.number("burst")?.unwrap_or(1000.0).max(1.0);
        let bucket = TokenBucket::new(rate.clamp(0.0, 1.0), burst, -1e6);
        Ok(Self { bucket, requests: Cell::new(0.0) })
    }

    /// Counts a request.
    pub(super) fn count_request(&self) {
        self.requests.set(self.requests.get() + 1.0);
    }

    /// Takes a token, if there is one.
    pub(super) fn allows(&self) -> bool {
        self.bucket.allows(self.requests.get())
    }
}
