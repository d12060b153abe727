//! A cluster of stores (`guira store --cluster`) as a proxy thread asks it: changes at the head of a key's slot, values at its
//! reader.
//!
//! ```text
//! etcd ─▶ watches   the newest view, one watch for all threads
//!            │
//! request ─▶ asking ─▶ nodes   links of this thread: for reads, for changes, for what another node passes on
//! ```
//! Any node answers any request: if its view is newer, it passes the request on. So an old view here costs a hop, and never
//! gives a wrong answer. Where the node that is meant doesn't answer, another one is asked.
//!
//! # Invariants
//! 1. A change has one number, which travels with it ([`WriteTag`]). So it happens once, however many nodes are asked. What
//!    has none, a touch, is sent again only if it surely wasn't sent.
//! 2. Of one client's requests for one key, a change waits for those before it, and those behind it wait for it.
//! 3. Each request ends within [`asking::PATIENCE`] and a try, with an answer or an error that says what isn't known.
//!
//! # Costs
//! A future on the heap for each key. A node has three connections of each thread, since it answers on each in the order of
//! requests: what waits for the next view keeps no others waiting.
//!
//! # Weaknesses
//! A delete that fails isn't written down to be sent later.

mod asking;
mod place;
mod nodes;
mod watches;

pub(super) use nodes::NodeLinks;
pub(crate) use place::{Cluster, ClusterPlace};
pub(crate) use watches::{ClusterWatch, ClusterWatches, register};
