//! Files of the configuration in use that are gone: said once, and again when they are back.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// A look at the files of the configuration in use.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// One holds something else than it did.
    pub(super) has_changed: bool,
    /// Those that can't be read, and why.
    pub(super) unread: Vec<(PathBuf, String)>,
}

/// The files that were told as gone.
#[derive(Debug, Default)]
pub(super) struct Gone(BTreeSet<PathBuf>);

impl Gone {
    /// Says what is new.
    pub(super) fn tell(&mut self, unread: &[(PathBuf, String)]) {
        for (path, words) in unread {
            if self.0.insert(path.clone()) {
                tracing::warn!(
                    "the configuration's file is gone: {words}; the configuration in use stays"
                );
            }
        }
        self.0.retain(|path| {
            let is_gone = unread.iter().any(|(unread, _)| unread == path);
            if !is_gone {
                tracing::info!("the configuration's file {} is there again", path.display());
            }
            is_gone
        });
    }
}
