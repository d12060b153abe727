//! The experiments of MemC3.
//!
//! Items have 16-byte keys and 32-byte values, as in the paper.
//!
//! ```text
//! t2 f4         tables without items: space, building, inserts by load    appendix  the protocol's interleavings
//! f5a f5b       lookups step by step: factors                            t3        what fits, and misses
//! f6 f7         reads and writes: contest                                 f8        caches in process
//! gains         rates against threads, next to what the machine allows      f9        whole servers
//! ```

mod appendix;
mod f4;
mod f5a;
mod f5b;
mod f6;
mod f7;
mod contest;
mod f8;
mod f9;
mod factors;
pub(crate) mod gains;
mod t2;
mod t3;

use crate::experiment::Experiment;

/// In the order of the paper.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    t2::EXPERIMENT,
    f4::EXPERIMENT,
    f5a::EXPERIMENT,
    f5b::EXPERIMENT,
    f6::EXPERIMENT,
    f7::EXPERIMENT,
    t3::EXPERIMENT,
    f8::BIG,
    f8::SMALL,
    f9::EXPERIMENT,
    appendix::EXPERIMENT,
];
