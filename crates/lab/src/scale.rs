//! How large an experiment is made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How large an experiment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    /// Each experiment takes under 90 seconds on two cores
    Small,
    /// The paper's sizes, where memory allows
    Paper,
}

impl Scale {
    /// Returns one of two sizes, by scale.
    #[must_use]
    pub(crate) fn pick<T>(self, small: T, paper: T) -> T {
        match self {
            Self::Small => small,
            Self::Paper => paper,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pick("small", "paper"))
    }
}
