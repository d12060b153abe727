//! A trace in memory, for repeated replays: objects are numbered from 0 in the order of their first appearance.
//!
//! # Costs
//! 4 bytes per request. 4 more for each of sizes and times, and 1 for operations, if the trace has any of them. While a
//! trace is read, there is also a table of about 20 bytes per object.
//! Bad at: traces that outgrow memory (see `--limit`), and more than 2^32 objects.

use rapidhash::RapidHashMap;

use super::request::{TraceOp, TraceRequest};

/// The requests of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// The object of each request.
    objects: Vec<u32>,
    /// What each asks; empty if all are gets.
    ops: Vec<TraceOp>,
    /// Bytes of the object at each; empty if the format knows none.
    sizes: Vec<u32>,
    /// Second of each, and the time to live of what it stores; empty if nothing expires.
    times: Vec<Lifetime>,
    /// How many objects there are.
    footprint: u32,
}

/// When a request is made, and how long what it stores lives; 0 is forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lifetime {
    /// The request's second.
    pub time_s: u32,
    /// The time to live.
    pub ttl_s: u32,
}

/// A request of a [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The object's number.
    pub object: u32,
    /// What is asked.
    pub op: TraceOp,
    /// Its size; 0 if the trace has no sizes.
    pub bytes: u32,
    /// When, and for how long.
    pub lifetime: Lifetime,
}

impl Trace {
    /// How many requests there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// How many different objects are asked for.
    #[must_use]
    pub(crate) fn footprint(&self) -> u32 {
        self.footprint
    }

    /// Bytes of all objects, each at the largest size it ever has; `None` if the trace has no sizes.
    #[must_use]
    pub(crate) fn footprint_bytes(&self) -> Option<u64> {
        if self.sizes.is_empty() {
            return None;
        }
        let mut largest = vec![0; self.footprint as usize];
        for (&object, &bytes) in self.objects.iter().zip(&self.sizes) {
            let known: &mut u32 = &mut largest[object as usize];
            *known = bytes.max(*known);
        }
        Some(largest.into_iter().map(u64::from).sum())
    }

    /// Whether objects expire.
    #[must_use]
    pub(crate) fn has_lifetimes(&self) -> bool {
        !self.times.is_empty()
    }

    /// Every request, in its order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.objects.iter().enumerate().map(|(place, &object)| Step {
            object,
            op: self.ops.get(place).copied().unwrap_or(TraceOp::Get),
            bytes: self.sizes.get(place).copied().unwrap_or(0),
            lifetime: self.times.get(place).copied().unwrap_or_default(),
        })
    }
}

/// Takes requests and gives objects their numbers.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    trace: Trace,
    numbers: RapidHashMap<u64, u32>,
    has_ttl: bool,
}

impl Recorder {
    /// Adds a request. Requests that would need more than 2^32 objects are dropped.
    pub(super) fn push(&mut self, request: TraceRequest) {
        let next = self.trace.footprint;
        let object = *self.numbers.entry(request.key).or_insert(next);
        self.trace.footprint = next.max(object.saturating_add(1));
        let trace = &mut self.trace;
        let place = trace.objects.len();
        trace.objects.push(object);
        append(&mut trace.ops, place, TraceOp::Get, request.op);
        append(&mut trace.sizes, place, 0, request.bytes);
        let lifetime = Lifetime { time_s: request.time_s, ttl_s: request.ttl_s };
        append(&mut trace.times, place, Lifetime::default(), lifetime);
        self.has_ttl |= request.ttl_s > 0;
    }

    /// How many requests were added.
    #[must_use]
    pub(super) fn len(&self) -> usize {
        self.trace.objects.len()
    }

    /// What was recorded.
    #[must_use]
    pub(super) fn finish(mut self) -> Trace {
        if !self.has_ttl {
            // Time without expiry changes nothing.
            self.trace.times = Vec::new();
        }
        self.trace.objects.shrink_to_fit();
        self.trace
    }
}

/// Appends to a column that stays empty while all its values are the default.
fn append<T: Copy + PartialEq>(column: &mut Vec<T>, place: usize, usual: T, value: T) {
    if column.is_empty() && value != usual {
        column.resize(place, usual);
    }
    if !column.is_empty() || value != usual {
        column.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(requests: &[TraceRequest]) -> Trace {
        let mut recorder = Recorder::default();
        requests.iter().for_each(|&request| recorder.push(request));
        recorder.finish()
    }

    #[test]
    fn objects_are_numbered_as_they_appear() {
        let trace = record(&[9, 7, 9, u64::MAX, 7].map(TraceRequest::get));
        assert_eq!(&trace.objects[..], [0, 1, 0, 2, 1]);
        assert_eq!((trace.len(), trace.footprint(), trace.footprint_bytes()), (5, 3, None));
    }

    #[test]
    fn a_column_begins_where_something_is_in_it_and_keeps_its_place() {
        let sized = |key, bytes| TraceRequest { bytes, ..TraceRequest::get(key) };
        let trace = record(&[sized(1, 0), sized(2, 5), sized(1, 0), sized(2, 3)]);
        let sizes: Vec<u32> = trace.steps().map(|step| step.bytes).collect();
        assert_eq!(sizes, [0, 5, 0, 3]);
        assert_eq!(trace.footprint_bytes(), Some(5));
        assert!(!trace.has_lifetimes());
    }

    #[test]
    fn times_are_kept_only_where_something_expires() {
        let at = |time_s, ttl_s| TraceRequest { time_s, ttl_s, ..TraceRequest::get(1) };
        assert!(!record(&[at(1, 0), at(2, 0)]).has_lifetimes());
        let trace = record(&[at(0, 0), at(7, 0), at(9, 3)]);
        let last = trace.steps().last().unwrap();
        assert_eq!(last.lifetime, Lifetime { time_s: 9, ttl_s: 3 });
        assert_eq!(trace.steps().nth(1).unwrap().lifetime, Lifetime { time_s: 7, ttl_s: 0 });
    }
}
