//! A cluster that never was: nodes, clients, network, disks, clocks, crashes and view changes, all from one seed.
//!
//! One slot, four nodes, three keys. The nodes' decisions are the real ones. What the simulation models: links that keep
//! their order, delay and lose; clocks that differ by up to 0.9 % each way; disks that lose what isn't synced; processes
//! that stop for seconds; a register that holds the view, from which any node may be cut off; a controller that mistakes
//! living nodes for dead ones. Sync is one message, so what `bulk` may do wrong isn't covered.
//!
//! Half of the planted mistakes need more seeds than a test run has, some more than anybody tried (`tests::RARE`). For these
//! it takes a search through all states, which isn't here yet. Leases of caches, sync in pieces, a deposed controller and
//! expiry aren't modelled.
//!
//! `GUIRA_CHAIN_SEEDS` is how many seeds to run, from `GUIRA_CHAIN_FIRST` on.

mod tests;
mod control;
mod clients;
mod world;
mod register;
