//! What is accepted for memcached's sake and does nothing, because Guira has no such part.

mod queues;
mod settings;

pub(crate) use queues::{QueueSettings, Queues};
pub(crate) use settings::SETTINGS;
