//! The rules by which one view may follow another.
//!
//! Each node checks every view that it gets. So a defective controller can't bring two orders into a slot, nor let a
//! node serve that wasn't filled. Some duties remain the controller's, because no view shows them. A node that gets to
//! serve must be ready. A base may begin anew only if its whole chain is lost.
//!
//! # Invariants
//! 1. The order of a chain never changes: a member leaves, or is added behind the last. So in every epoch a member's
//!    content is a prefix of its predecessor's.
//! 2. A node serves only after it was joining, and joins only after it was syncing. A view doesn't show whether a
//!    joining node was ready: its predecessor reports that.
//! 3. A process that the last view didn't name is filled anew. The exception is the *base*: if all copies were lost at
//!    once, a returned node becomes the whole chain, with its disk's content.
//! 4. A reader that is replaced is remembered in `past`.

use super::{Group, InvalidView, NodeId, View};
use std::collections::BTreeSet;
use std::fmt;

impl View {
    /// Checks whether this view is a legal successor of `before`.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn may_follow(&self, before: &Self) -> Result<(), IllegalStep> {
        self.validate().map_err(IllegalStep::Invalid)?;
        if Some(self.epoch) != before.epoch.checked_add(1) {
            return Err(IllegalStep::Epoch { from: before.epoch, to: self.epoch });
        }
        if self.cluster != before.cluster || self.seed != before.seed {
            return Err(IllegalStep::OtherCluster);
        }
        let (ours, theirs) = (self.pieces(), before.pieces());
        let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
        let mut seen = BTreeSet::new();
        while let (Some(new), Some(old)) = (ours.peek().copied(), theirs.peek().copied()) {
            if seen.insert((new.2, old.2)) {
                let slot = new.0.max(old.0);
                self.check(before, &self.groups[new.2], &before.groups[old.2])
                    .map_err(|why| IllegalStep::Slot { slot, why })?;
            }
            ours.next_if(|it| it.1 <= old.1);
            theirs.next_if(|it| it.1 <= new.1);
        }
        Ok(())
    }

    /// Checks whether this view is a legal successor of `before`, as if the views between the two, if there are any, had
    /// changed nothing.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn may_follow_later(&self, before: &Self) -> Result<(), IllegalStep> {
        let (from, to) = (before.epoch, self.epoch);
        if to <= from {
            return Err(IllegalStep::Epoch { from, to });
        }
        self.may_follow(&Self { epoch: to - 1, ..before.clone() })
    }

    /// Checks whether a node that follows `before` may follow this view instead. If the node missed views between the
    /// two, only the cluster and this view itself are checked.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn may_replace(&self, before: &Self) -> Result<(), IllegalStep> {
        if before.epoch.checked_add(1) == Some(self.epoch) {
            return self.may_follow(before);
        }
        self.may_supersede(before)
    }

    /// Checks whether this view is a later one of the same cluster, and valid by itself. That is enough for a process of which
    /// no other relies on what it knows.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn may_supersede(&self, before: &Self) -> Result<(), IllegalStep> {
        let (from, to) = (before.epoch, self.epoch);
        if to <= from {
            return Err(IllegalStep::Epoch { from, to });
        }
        if self.cluster != before.cluster || self.seed != before.seed {
            return Err(IllegalStep::OtherCluster);
        }
        self.validate().map_err(IllegalStep::Invalid)
    }

    fn check(&self, before: &Self, new: &Group, old: &Group) -> Result<(), &'static str> {
        let restarted = |node: NodeId| self.run(node) != before.run(node);
        let must = |holds: bool, why| if holds { Ok(()) } else { Err(why) };
        let is_filled_anew = new.syncing.iter().any(|node| restarted(*node));
        if new.has_chain_of(old) && !new.path().any(restarted) && !is_filled_anew {
            return must(new.epoch == old.epoch, "its epoch changes without a reason");
        }
        must(new.epoch == self.epoch, "it changes and keeps its epoch")?;
        must(
            is_subsequence(new.serving.iter().copied(), old.path()),
            "a node serves that didn't join, or the order changes",
        )?;
        let is_fresh_base = new.base.is_some_and(restarted);
        if is_fresh_base {
            let is_alone = new.path().count() == 1
                && new.syncing.is_empty()
                && old.serving.contains(&new.serving[0]);
            must(is_alone, "a restarted node keeps its place")?;
        } else {
            must(!new.path().any(restarted), "a restarted node keeps its place")?;
            let kept = old.base.filter(|base| new.head() == Some(*base));
            must(new.base == kept, "the base changes, and none restarted")?;
        }
        let added = |node: &NodeId| !old.is_on_path(*node);
        let kept = new.path().filter(|node| !added(node));
        must(is_subsequence(kept, old.path()), "the order of the chain changes")?;
        let first_added = new.joining.iter().position(added).unwrap_or(new.joining.len());
        must(new.joining[first_added..].iter().all(added), "a node joins before the last")?;
        must(
            new.joining.iter().filter(|it| added(it)).all(|it| old.syncing.contains(it)),
            "a node joins that wasn't syncing",
        )?;
        self.check_attempt(before, new, old)?;
        let replaced = old.reader().filter(|reader| new.reader() != Some(*reader));
        must(
            replaced.is_none_or(|reader| new.past.contains(&reader)),
            "the replaced reader isn't in past",
        )
    }

    /// Checks that a chain has one attempt: it added all nodes that are being filled. A node that is filled anew needs
    /// a new one.
    fn check_attempt(&self, before: &Self, new: &Group, old: &Group) -> Result<(), &'static str> {
        let under_way =
            |it: &Group, node: &NodeId| it.joining.contains(node) || it.syncing.contains(node);
        let mut filled = new.joining.iter().chain(&new.syncing);
        if new.attempt == old.attempt {
            let goes_on =
                |node: &NodeId| under_way(old, node) && self.run(*node) == before.run(*node);
            let all = filled.all(goes_on);
            return if all { Ok(()) } else { Err("a node is added to an attempt under way") };
        }
        let is_new = new.attempt == self.epoch;
        let fresh = filled.all(|node| new.syncing.contains(node) && !under_way(old, node));
        if is_new && fresh { Ok(()) } else { Err("a new attempt takes what an old one began") }
    }

    /// Whether the view names this process as the node's. Another process has no part in any chain.
    #[must_use]
    pub fn names(&self, node: NodeId, run: &str) -> bool {
        self.run(node) == Some(run)
    }

    fn run(&self, node: NodeId) -> Option<&str> {
        self.nodes.get(&node).map(|member| &*member.run)
    }
}

/// The reason why a view may not follow another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IllegalStep {
    /// The view is invalid by itself.
    Invalid(InvalidView),
    /// The epoch isn't the next one, or isn't newer.
    Epoch {
        /// The epoch of the earlier view.
        from: u64,
        /// The epoch of the later view.
        to: u64,
    },
    /// The cluster's name or the seed differs.
    OtherCluster,
    /// A slot's step is illegal.
    Slot {
        /// The first slot in which the faulty step was found.
        slot: u16,
        /// The rule that is broken.
        why: &'static str,
    },
}

impl fmt::Display for IllegalStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(why) => why.fmt(f),
            Self::Epoch { from, to } => write!(f, "epoch {to} doesn't follow {from}"),
            Self::OtherCluster => write!(f, "the view is another cluster's"),
            Self::Slot { slot, why } => write!(f, "slot {slot}: {why}"),
        }
    }
}

impl std::error::Error for IllegalStep {}

fn is_subsequence(
    part: impl Iterator<Item = NodeId>,
    mut whole: impl Iterator<Item = NodeId>,
) -> bool {
    part.into_iter().all(|node| whole.any(|it| it == node))
}
