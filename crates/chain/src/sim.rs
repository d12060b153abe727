//! A cluster that never was: nodes, clients, network, disks, clocks, crashes and view changes, all from one seed.
//!
//! One slot, four nodes, a few keys. The nodes' decisions and the controller's are the real ones; the controller's facts are
//! late or wrong. What the simulation models: links that keep their order, delay and lose; clocks that differ by up to 0.9 %
//! each way; slow disks that lose what isn't synced; processes that stop for seconds; a register that holds the view, from
//! which any node may be cut off. Things break at random, and on purpose: after a view change, whoever had a role before it.
//! Then all that breaks ends, and the slot must get its copies back, equal ones, and answer each client.
//!
//! `search` goes through all states of three nodes instead, as near to the beginning as there is time.
//!
//! Two rules make no difference here. A copy that is alone answers no read while it holds: what it could show is what a past
//! reader shows, and only leases of caches need it. And no write waits for a node that isn't filled: the tests of `controller`
//! see that one.
//!
//! Sync is one message, so what `bulk` may do wrong isn't covered. Leases of caches, a deposed controller and expiry aren't
//! modelled.
//!
//! `GUIRA_CHAIN_SEEDS` is how many seeds to run, from `GUIRA_CHAIN_FIRST` on.

mod search;
mod tests;
mod control;
mod clients;
mod world;
mod weather;
mod register;
