//! Files for a store: aligned direct I/O, reads in flight, and a simulated disk whose faults tests choose.
//!
//! [`Disk`] and [`DiskFile`] are what a store asks of a file system; their module has the contract. [`System`] is the real
//! one, [`SimulatedDisk`] a model in memory. [`Reads`] has many reads under way for one thread, by `io_uring` or, where
//! the kernel refuses that, by [`ReadThreads`].
//!
//! # Example
//! ```
//! use guira_disk::{Buffers, Disk, ReadThreads, Reads, System};
//!
//! let folder = tempfile::tempdir()?;
//! let file = System.create(&folder.path().join("nest"), false)?;
//! file.write_at(b"four blue eggs", 0)?;
//! file.allocate(4096)?;
//! file.sync_data()?;
//!
//! let buffers = Buffers::new(64);
//! let mut reads = Reads::open(64, &ReadThreads::start(4)?)?;
//! reads.submit(7, file, buffers.take(4096), 0);
//! reads.flush()?;
//! reads.wait()?;
//! reads.reap(&mut |tag, read| {
//!     assert_eq!(tag, 7);
//!     assert!(read.expect("a whole block").starts_with(b"four blue eggs"));
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Costs
//! A read by the ring is a third of a system call when three are flushed at once; by the pool it is one, and two context
//! switches. On two processors and a virtual disk both reach about the device's 90,000 reads of 4 KiB per second.
//!
//! # Where unsafe lives
//! In `reads/ring.rs` alone: handing the kernel a buffer that it fills later.

#![deny(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod reads;
pub mod faulty;
mod system;
mod disk;
mod buffer;

pub use buffer::{BLOCK, Buffer, Buffers};
pub use disk::{Disk, DiskFile, FileAccess};
pub use faulty::SimulatedDisk;
pub use reads::{ReadThreads, Reads};
pub use system::System;
