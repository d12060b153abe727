//! Items that lie below memory: bringing them back, and removing them there.

use super::commit::Actor;
use crate::engine::{Decision, Lower, NoRoom, Swap, Swapped};
use crate::items::{Fields, Key};

/// An item as it was read from below memory.
#[derive(Clone, Copy, Debug)]
pub struct Recalled<'v> {
    /// Its value.
    pub value: &'v [u8],
    /// Expiry and marks, as passed to [`Below::take`](crate::Below::take).
    pub life: u32,
    /// The client's flags.
    pub client_flags: u32,
    /// The unique that the item itself holds.
    pub explicit_cas: Option<u64>,
    /// Whether the key was given in base64.
    pub key_binary: bool,
    /// Whether a get has found it.
    pub fetched: bool,
    /// The place below memory from which it was read.
    pub place: u64,
    /// The generation in which it was read.
    pub generation: u32,
}

impl Actor<'_> {
    pub(crate) fn recall(
        &self,
        key: &Key<'_>,
        what: &Recalled<'_>,
        now: u32,
    ) -> Result<(), NoRoom> {
        let fields = Fields {
            client_flags: what.client_flags,
            life: what.life != 0,
            cas: what.explicit_cas.is_some(),
            key_binary: what.key_binary,
            unfilled: false,
        };
        let new = self.local.begin(key, what.value.len(), fields, now)?;
        self.note_moved(what.value.len());
        let new = self.local.filled(new, std::iter::once(what.value), now)?;
        let lower = Lower::Recalls { place: what.place, generation: what.generation };
        let explicit_cas = what.explicit_cas;
        let swap = Swap { inserts: true, explicit_cas, advances: false, lower };
        let swapped = self.local.swap(key, new, &swap, now, |live| match live {
            // Another thread has stored a newer item, or has already brought this one back.
            Some(_) => Decision::Refuse(()),
            None => Decision::Put(what.life),
        });
        let swapped = swapped.map_err(|refused| self.local.discarded(refused))?;
        if let Swapped::Put { at, exptime, .. } = swapped {
            self.local.pass_on_fetched(what.fetched, at);
            self.expect_end(exptime, at);
        }
        Ok(())
    }

    pub(crate) fn remove_below(&self, key: &Key<'_>, place: Option<(u64, u32)>) -> bool {
        self.features.before_change(key);
        self.local.remove_below(key, place).is_some()
    }
}
