//! A disk in memory that records its operations, can crash at any instant, and fails on request.
//!
//! [`SimulatedDisk`] is a [`Disk`](crate::Disk) like any other. Its [`Journal`] has each write, sync and change of a
//! name in order. [`Crashes`] walks through the journal and builds, at each instant, a disk as it may be found after a
//! power failure.
//!
//! # Model
//! 1. A sector of 4 KiB that changed since its last sync may be found as it was at that sync, as it is now, as it was
//!    after any write in between, or torn: some units of 512 bytes from one of these states, some from another. Sectors
//!    are independent.
//! 2. A failed sync makes nothing durable, and the sectors that it should have written count as clean: later syncs skip
//!    them until they are written again. Linux behaves like this.
//! 3. A change of a name that no sync of the folder covers may have happened or not. Changes are independent.
//! 4. The length is one that the file has had since its last sync.
//!
//! Not modelled: devices that acknowledge a flush that they didn't do; sectors that rot (see [`SimulatedDisk::flip`]);
//! time.
//!
//! # Costs
//! The journal keeps a copy of everything that was written. An image copies the existing files.

mod image;
mod simulated;
mod faults;
mod journal;

pub use faults::{DiskOp, Injected};
pub use image::{Crashes, Fate};
pub use journal::Journal;
pub use simulated::SimulatedDisk;
