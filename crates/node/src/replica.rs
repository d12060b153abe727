//! A node's part in a cluster: a store whose items are copied along chains of nodes.
//!
//! ```text
//! client ─▶ desk ─▶ front: who has the key? ─▶ driver ─▶ the node's own slot, or a link to the node that has the slot
//!                  ╰ a get, and this node is the reader, and no change of the slot is under way ─▶ the engine
//!                                                 ├ slots    which of them are due, and in which something waits
//!                                                 ├ keeper   the engine, and changes on their way to it
//!                                                 ├ chain    each slot's decisions (crate guira-chain)
//!                                                 └ peers    links to other nodes
//! view file, or register ─▶ driver ─▶ front
//!                              ╰ membership: in the register, what the slots have; one node's controller changes the view
//! ```
//! Any node answers any client: it asks the head of the key's slot for a change, the reader for a value.
//!
//! # Invariants
//! 1. This code decides nothing about order, commits or reads: `guira_chain::slot` does.
//! 2. A front-end that keeps values answers from them without asking. A node that granted that commits no change of the
//!    key before the front-end dropped the value, or its time is over.
//! 3. A process whose run no view names takes no part in chains; it only asks other nodes for its clients.
//!
//! # Weaknesses
//! One thread has all slots. It waits for the device if memory doesn't know a key, and a change, another node, or a get beside a
//! change needs it. A slot is copied as a whole, in one
//! frame, and its changes wait meanwhile. Results of changes are kept in memory for half a minute.

mod start;
mod front;
mod long_answers;
mod driver;
mod view_file;
mod view_copy;
mod membership;
mod keeper;
mod survey;
mod role_log;
mod slots;
mod rests;
mod holds;
mod requests;
mod readiness;
mod figures;
mod event;
mod ahead;
mod keys;
mod wire;
mod identity;
mod record;
mod clock;

pub(crate) use figures::{REPLICA_FIGURES, ReplicaRow};
pub(crate) use front::{Front, Lines};
pub(crate) use start::{Replica, Who, keep_rule, refuse_replicated, start};
