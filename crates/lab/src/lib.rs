//! `guira lab`: every table and figure of the papers, measured on the reader's own machine.
//!
//! An [`Experiment`] is declared once: id, paper, claim, shape, and the function that runs it. The list, the
//! documents and the checks follow from that. Running one yields an [`Outcome`]: plots with the paper's axes, tables
//! with the paper's figures beside ours, [`Check`]s of shapes (ratios and orders, never absolute times), and a
//! sentence of reading.
//!
//! ```text
//! experiment  what is declared          outcome   what a run yields
//! scale       how large                 measure   rounds, medians, CPU time
//! memc3 …     a file an experiment      baseline  what the papers compare with
//! ```

#![forbid(unsafe_code)]

mod experiment;
pub mod measure;
mod outcome;
mod scale;
pub mod trace;

pub use experiment::{EXPERIMENTS, Experiment, Paper, Run, Verdict};
pub use outcome::{Axis, Bound, Check, Outcome, Plot, Series, Table};
pub use scale::Scale;
