//! Why following ended.

use std::io;

use super::wire::PgTrouble;
use crate::source::bytes::Broken;
use crate::source::halt::Halt;

/// What has to be answered.
#[derive(Debug)]
pub(super) enum PgStopped {
    Trouble(PgTrouble),
    /// The slot doesn't go on from our position: in words.
    Gap(String),
    Journal(io::Error),
    Halt(Halt),
}

impl From<PgTrouble> for PgStopped {
    fn from(trouble: PgTrouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<Broken> for PgStopped {
    fn from(broken: Broken) -> Self {
        Self::Trouble(broken.into())
    }
}

impl From<io::Error> for PgStopped {
    fn from(error: io::Error) -> Self {
        Self::Trouble(error.into())
    }
}
