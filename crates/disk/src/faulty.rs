//! A disk in memory that records what happens to it, crashes at any instant, and fails when told to.
//!
//! [`SimulatedDisk`] is a [`Disk`](crate::Disk) like any other. Its [`Journal`] has each write, sync and change of a name
//! in order. [`Crashes`] walks the journal and makes, at each instant, a disk as it may be found after the power failed.
//!
//! # Model
//! 1. A sector of 4 KiB that changed since its last sync may be found as it was then, as it is now, as it was at any write
//!    between, or torn: some units of 512 bytes from one of these, some from another. Sectors are independent.
//! 2. A sync that fails makes nothing durable, and the sectors that it should have written count as clean: later syncs
//!    pass them over, until they are written again. So Linux does it.
//! 3. A name's change that no sync of the folder covers may have happened or not. Changes are independent.
//! 4. A length is one that the file had since its last sync.
//!
//! Not modelled: devices that lie about a flush; sectors that rot (see [`SimulatedDisk::flip`]); time.
//!
//! # Costs
//! The journal keeps a copy of all that was written. An image copies the files that exist.

mod image;
mod simulated;
mod faults;
mod journal;

pub use faults::{DiskOp, Injected};
pub use image::{Crashes, Fate};
pub use journal::Journal;
pub use simulated::SimulatedDisk;
