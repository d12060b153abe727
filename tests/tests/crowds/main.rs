//! More clients than a process may have by default, in front of each program: what is held for them is bounded, others are
//! served, and what runs out is said.
//!
//! These tests raise the limit of open files of their own process, and the programs that it starts inherit that. So they
//! aren't modules of those programs' families: there, programs start with the limit that a user's shell gives them.

mod descriptors;
mod router;
mod store;
