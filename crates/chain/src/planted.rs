//! Mistakes that the simulation or the search must find: each is one of a defect seen elsewhere, or of a draft of the protocol.
//!
//! A test plants one for its thread. Without `cfg(test)` nothing is ever planted, and the compiler removes the branches.

/// A mistake at the place that asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A reader answers without promises.
    ReadsWithoutPromises,
    /// A reader has the promises of serving members, and not of joining ones.
    PromisesOfServingOnly,
    /// A promise counts from its receipt, not from when it was asked for.
    PromiseFromReceipt,
    /// Nobody holds.
    NoHold,
    /// A member holds for the newest entry of `past` only.
    HoldForLastReaderOnly,
    /// A node that has just started doesn't hold, though it forgot its grants.
    NoHoldAfterStart,
    /// A member is called ready by one that holds.
    ReadyWhileHolding,
    /// The last commits what isn't durable at those before it.
    CommitBeforeUpstreamDurable,
    /// Messages of an older epoch are taken.
    OldEpochTaken,
    /// What is sent again has lost its delete.
    ResendForgetsDelete,
    /// A restarted node keeps what its disk has newer than its predecessor.
    RestartTrustsItsTail,
    /// A joining node serves reads.
    JoinerServes,
    /// A failed condition is answered at once.
    FailureAnsweredEarly,
    /// A node that lacks an effect which its predecessor dropped gets no copy once it was filled.
    LaggardGetsNoCopy,
    /// A repeated write is executed again.
    RepeatsWithoutIds,
    /// A base takes repeated writes for new ones, as if it had the results of all.
    BaseKnowsAllResults,
    /// The controller lets a joining node serve that isn't ready.
    ServesUnready,
    /// The controller lets a joining node that isn't ready be the chain once all that served are dead.
    TakesOverUnready,
    /// The controller forgets past readers at once.
    ForgetsPastEarly,
    /// The controller begins anew with one that returned though another of the copies lives.
    BeginsAnewBesideTheLiving,
    /// The controller lets a drained node leave before others have its copies.
    LeavesEarly,
}

/// Whether a test of this thread planted `mistake`.
#[cfg(test)]
pub(crate) fn is_planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// Nothing is planted outside of tests.
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
