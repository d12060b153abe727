//! The settings of memcached's `lru` commands: its hot, warm, cold and temporary queues.
//!
//! Guira's policies (`--eviction` chooses one) have no such queues. The settings are stored and shown, so
//! that scripts find what they have set; they only change which lines `stats` has.

/// The settings of the queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Queues {
    /// The hot queue's share of a class.
    pub(crate) hot_percent: u32,
    /// The warm queue's share of a class.
    pub(crate) warm_percent: u32,
    /// The greatest age in the hot queue, relative to the cold queue's.
    pub(crate) hot_factor: f64,
    /// The greatest age in the warm queue, relative to the cold queue's.
    pub(crate) warm_factor: f64,
    /// `lru mode segmented`, rather than `flat`.
    pub(crate) is_segmented: bool,
    /// Whether short-lived items have a queue of their own.
    pub(crate) has_temporary: bool,
    /// The longest life of a short-lived item, in seconds.
    pub(crate) temporary_ttl_s: u32,
}

impl Default for Queues {
    fn default() -> Self {
        Queues {
            hot_percent: 20,
            warm_percent: 40,
            hot_factor: 0.2,
            warm_factor: 2.0,
            is_segmented: true,
            has_temporary: false,
            temporary_ttl_s: 61,
        }
    }
}
