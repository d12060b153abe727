//! How large an experiment is made.

/// How large an experiment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Under 90 seconds on two cores; tables are still larger than the processor's caches where that is the point.
    Small,
    /// The paper's sizes, where memory allows.
    Paper,
}

impl Scale {
    /// One of two sizes, by scale.
    #[must_use]
    pub fn pick<T>(self, small: T, paper: T) -> T {
        match self {
            Self::Small => small,
            Self::Paper => paper,
        }
    }
}
