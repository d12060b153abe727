//! A simulated cluster: nodes, clients, network, disks, clocks, crashes and view changes, all from one seed.
//!
//! It has one slot, four nodes and a few keys. The decisions of nodes and controller are the real ones; the facts for
//! the controller are late or wrong. The simulation models:
//! - links that keep the order, delay messages and lose them;
//! - clocks that run up to 0.9 % fast or slow;
//! - slow disks that lose unsynced data, and processes that stop for seconds;
//! - a register that holds the view, from which any node may be cut off;
//! - in half of the worlds, clients that keep values by holds, and that stop for seconds.
//!
//! Faults happen at random. Others are provoked: they hit nodes that had a role before a view change. Then all faults
//! except message loss end. The slot must get all its copies back, they must be equal, and each client must get
//! answers.
//!
//! `search` instead visits all states of three nodes, as many as time allows, those nearest to the start first.
//!
//! Two rules make no difference here. A copy that is alone answers no read while it holds: it would show the same as a
//! past reader. No write waits for a node that isn't filled: the tests of
//! `controller` cover that.
//!
//! Sync is one message, so the faults of a sync in pieces aren't covered. A deposed controller and expiry aren't
//! modelled.
//!
//! `GUIRA_CHAIN_SEEDS` sets the number of seeds to run, from `GUIRA_CHAIN_FIRST` on.

mod search;
mod tests;
mod control;
mod clients;
mod world;
mod weather;
mod register;
