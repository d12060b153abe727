//! Eviction policies as simulators: which object stays and which is evicted, by keys alone.
//!
//! ```text
//!  Policy ── Queue     FIFO, LRU, CLOCK, SIEVE: one list, four rules       (queue.rs)
//!         ├─ S3Clock   the server's rule, with its tuner or without        (s3clock.rs, guira-policy)
//!         ├─ Arc       two lists, two ghosts, one adaptive border          (arc.rs)
//!         └─ Opt       Belady's bound; it has read the trace before        (opt.rs)
//! ```
//! Capacity and [`Access::weight`] have one unit, of the caller's choice: objects (weight 1) or bytes.

mod kind;
mod arc;
mod opt;
mod queue;
mod s3clock;
#[cfg(test)]
mod tests;

pub use kind::{PolicyKind, UnknownPolicy};
pub use opt::Opt;

use guira_policy::Access;

/// A cache that holds keys only.
pub trait Policy {
    /// Looks up the request's object. Returns whether it is present and hasn't expired.
    fn get(&mut self, request: &Access) -> bool;

    /// Stores the request's object, and evicts until it fits. An object heavier than the whole cache is not stored. One
    /// that is present already keeps its position.
    fn insert(&mut self, request: &Access);

    /// Deletes an object. Returns whether it was present.
    fn remove(&mut self, key: u64) -> bool;

    /// Whether the object is held, expired or not. Changes nothing.
    fn contains(&self, key: u64) -> bool;

    /// Objects held.
    fn len(&self) -> usize;

    /// Sum of the weights of the objects held: at most the capacity.
    fn weight(&self) -> u64;

    /// Whether no object is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does what a client does: a get, and on a miss a set. Returns whether it was a hit.
    fn access(&mut self, request: &Access) -> bool {
        let hit = self.get(request);
        if !hit {
            self.insert(request);
        }
        hit
    }
}
