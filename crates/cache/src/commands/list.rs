//! Listings of a class's items, one step per turn.

use super::commit::Actor;
use crate::engine::{WALK_STEP, WalkPosition};
use crate::items::ItemRef;
use crate::memory::Class;

/// A walk over one class that continues from turn to turn; see [`Handle::walk`](crate::Handle::walk).
pub struct Walk(WalkPosition);

impl Actor<'_> {
    pub(crate) fn walk(&self, class: usize) -> Walk {
        let classes = self.local.engine.slab.chunks.classes.len();
        let class = Class::try_from(class).ok().filter(|_| class < classes);
        Walk(WalkPosition::new(class.into_iter().collect()))
    }

    pub(crate) fn list(&self, walk: &mut Walk, now: u32, see: impl FnMut(&ItemRef<'_>)) -> bool {
        let moment = self.local.now(now);
        let items = walk.0.next(&self.local.engine.slab, WALK_STEP);
        let is_over = items.is_none();
        items.iter().flatten().filter(|item| !item.is_past(moment)).for_each(see);
        !is_over
    }
}
