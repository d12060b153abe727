//! Mistakes that the simulation, the search or a loom model must find. Each is a defect seen elsewhere, or one of an early draft of
//! the protocol.
//!
//! A test plants a mistake for its own thread. Without `cfg(test)` none is ever planted, and the compiler removes the
//! branches.

/// A mistake. The code that it concerns asks whether it is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A reader answers without promises.
    ReadsWithoutPromises,
    /// A reader waits for the promises of serving members, but not of joining ones.
    PromisesOfServingOnly,
    /// A promise counts from its receipt instead of from the request.
    PromiseFromReceipt,
    /// No member holds.
    NoHold,
    /// A member holds only for the newest entry of `past`.
    HoldForLastReaderOnly,
    /// A node that has just started doesn't hold, although it forgot its grants.
    NoHoldAfterStart,
    /// A member that holds calls another member ready.
    ReadyWhileHolding,
    /// The last node commits effects that aren't durable at the nodes before it.
    CommitBeforeUpstreamDurable,
    /// A slot accepts messages of an older epoch.
    OldEpochTaken,
    /// A delete that is sent again has lost its change.
    ResendForgetsDelete,
    /// A restarted node keeps changes on its disk that are newer than its predecessor's.
    RestartTrustsItsTail,
    /// A joining node answers reads.
    JoinerServes,
    /// The head answers a failed condition at once.
    FailureAnsweredEarly,
    /// A filled node gets no copy when its predecessor has dropped an effect that it lacks.
    LaggardGetsNoCopy,
    /// A repeated write is executed again.
    RepeatsWithoutIds,
    /// A base takes repeated writes for new ones, as if it had all results.
    BaseKnowsAllResults,
    /// A hold lasts longer than the promises of the reader that grants it.
    HoldLongerThanPromises,
    /// A client counts a hold from its receipt instead of from the request.
    HoldFromReceipt,
    /// A change of a key goes on while a client may keep the key's value.
    ChangesOvertakeHolds,
    /// A request to drop a value counts as answered after a while, although it may be lost.
    LostInvalidateForgotten,
    /// A reader that is replaced forgets the holds that it granted.
    ReplacedReaderForgets,
    /// A member forgets the grants on which holds rest, once the past reader names a newer view.
    NewViewEndsOldHolds,
    /// A read that is answered together with a change of its key gets a hold, of the value before the change.
    HoldBesideChange,
    /// A member calls another ready while a hold may run that the other's promise didn't limit.
    ReadyWhileHoldsRun,
    /// Others read a slot's content before it is committed.
    OpenBeforeCommitted,
    /// Whoever reads a slot directly doesn't look whether it stayed open.
    DirectUnvalidated,
    /// What is read directly isn't ordered before that look.
    DirectWithoutFence,
    /// A slot is opened to others without release.
    OpensRelaxed,
    /// The promises of new chains are shown to others without release.
    PromisesRelaxed,
    /// The controller lets a joining node serve that isn't ready.
    ServesUnready,
    /// All serving nodes are dead, and the controller makes a joining node the chain that isn't ready.
    TakesOverUnready,
    /// The controller forgets past readers at once.
    ForgetsPastEarly,
    /// The controller makes a returned node the base although another serving node lives.
    BeginsAnewBesideTheLiving,
    /// The controller lets a drained node leave before other nodes have its copies.
    LeavesEarly,
}

/// Whether a test of this thread planted `mistake`.
#[cfg(test)]
pub(crate) fn is_planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Always false: outside of tests no mistake is planted.
#[cfg(not(test))]
#[inline]
pub(crate) const fn is_planted(_: Mistake) -> bool {
    false
}

#[cfg(test)]
pub(crate) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mistake>> = const { std::cell::Cell::new(None) };
}
