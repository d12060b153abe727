//! What the cache does beyond storing and finding: each feature is a type with its own state and rules.

mod lease;
mod holdoff;

pub(crate) use holdoff::HoldOff;
pub use lease::{LeaseTerms, StaleValue};
pub(crate) use lease::{Leases, Value};
