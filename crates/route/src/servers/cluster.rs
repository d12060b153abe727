//! A cluster of stores (`guira store --cluster`), as a proxy thread uses it: changes go to the head of a key's slot,
//! reads to its reader.
//!
//! ```text
//! etcd ─▶ watches   the newest view, one watch for all threads
//!            │
//! request ─▶ asking ─▶ nodes   this thread's links: for reads, for changes, and for requests that a node passes on
//! ```
//! Any node answers any request: a node with a newer view passes the request on. So an old view costs a hop, and never
//! gives a wrong answer. If the right node doesn't answer, another one is asked.
//!
//! # Invariants
//! 1. A change has one number, which travels with it ([`WriteTag`]). So it happens once, however many nodes are asked.
//!    A touch has no number, and is repeated only if it certainly wasn't sent.
//! 2. Among one client's requests for one key, a change waits for the earlier ones, and the later ones wait for it.
//! 3. Each request ends within [`tries::PATIENCE`] and one more try, with a reply, or an error that says what isn't
//!    known.
//! 4. A cached reply is used only while its key's reader lets nobody change the key ([`crate::hot_cache::HeldCache`]).
//!
//! # Costs
//! One heap-allocated future per key. A node answers on each connection in the order of requests. So that a change that
//! waits for the next view blocks few others, one goes to a connection on which none waits, if there is one. Each thread has
//! up to thirteen connections to a node: one for reads, eight for changes, and four for requests that the node passes on.
//!
//! # Bad at
//! Failed deletes: they aren't logged to be sent later.

mod asking;
mod tries;
mod dressed;
mod place;
mod hot;
mod nodes;
mod watches;

pub(super) use nodes::NodeLinks;
pub(crate) use place::{Cluster, ClusterPlace};
pub(crate) use watches::{ClusterWatch, ClusterWatches, register};
