//! Membership of a cluster of stores: the register in etcd, and the elected controller that changes it.
//!
//! ```text
//! command     guira cluster init, status, plan, check, drain, restart, set, rescue
//! dev         guira cluster dev: all of it on one machine
//! parts       its processes, for guira lab too
//! controller  elected, one at a time: snapshot ─▶ facts ─▶ guira-chain's decision ─▶ write
//! present     a node's keys in the register, under a lease that a thread renews
//! watch       the newest view, in a channel
//! register    the keys below /guira/NAME/, read and written
//! snapshot    what stands there at one revision
//! ```
//! etcd orders views, and nothing else: no client's request goes through it. A cluster whose etcd is away serves by the
//! view that it has.
//!
//! # Keys
//! Below `/guira/NAME/`, values in JSON:
//!
//! | key | value | with a lease |
//! |---|---|---|
//! | `view` | [`guira_chain::View`] | |
//! | `wish` | [`WishRecord`]: copies, nodes to drain, pause | |
//! | `restart` | processes that leave their chains before they are restarted: runs by number | |
//! | `ids` | the highest node number that was given away | |
//! | `controller` | who leads | the controller's |
//! | `nodes/ID` | [`guira_chain::Member`]: name, address, zone, weight, run | the node's |
//! | `suspect/ID/BY` | the run of ID that BY can't reach | BY's |
//! | `away/ID` | [`AwayRecord`]: since when a node of the view is gone | |
//! | `sync/ID` | [`Report`]: what the node's slots know and have | the node's |
//!
//! # Invariants
//! 1. The view is written only if it and the key `controller` are as the writer saw them, so a controller that was deposed
//!    writes nothing.
//! 2. A view is written and believed only if it may follow the one before, by [`guira_chain::View::may_follow`]. A reader
//!    that missed some views takes the newest.
//! 3. A process that knows a cluster writes nothing for another one of its name, nor for an older state of it: etcd may have
//!    lost its data.
//! 4. Leases are only hints of which nodes live. No two nodes rely on them: epochs and promises in `guira-chain` keep data
//!    safe.
//! 5. A missing key says that a node is gone only once etcd has been well for as long as a lease lasts: `health.rs`.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "leases are renewed and promises end in time")]

mod command;
mod dev;
mod parts;
mod check;
mod plan;
mod status;
mod ask;
mod restart;
mod rescue;
mod controller;
mod put_out;
mod wishes;
mod trouble;
mod facts;
mod present;
mod watch;
#[cfg(test)]
mod sample;
mod register;
mod snapshot;
mod draft;
mod records;
mod newcomer;
mod health;
mod fault;
mod names;
mod counted;

pub use command::{EXIT_CODES, EtcdArgs, command, host_name, run};
pub use controller::{Controller, Rules};
pub use dev::lacks;
pub use draft::first_view;
pub use fault::Fault;
pub use names::{NAME_FORM, is_name};
pub use parts::Parts;
pub use present::{Present, await_place};
pub use records::{AwayRecord, GroupReport, Report, WishRecord};
pub use register::Register;
pub use rescue::VIEW_COPY;
pub use snapshot::{Lead, RegisterSnapshot, Seen};
pub use watch::{Sight, watch, watch_anyway};
pub use wishes::Shortage;
