//! File access for a store: aligned direct I/O, asynchronous reads, and a simulated disk with injected faults.
//!
//! [`Disk`] and [`DiskFile`] are the file system interface of a store; their module defines the contract. [`System`] is
//! the real file system, [`SimulatedDisk`] a model in memory. [`Reads`] keeps many reads of one thread in flight, by
//! `io_uring` or, if the kernel refuses that, by [`ReadThreads`].
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
//! By the ring, a read costs a third of a system call if three are flushed at once. By the pool it costs one, and two
//! context switches. On two processors and a virtual disk both reach about the device's 90,000 reads of 4 KiB per
//! second.
//!
//! # Where unsafe lives
//! Only in `reads/ring.rs`, which passes the kernel a buffer that it fills later.

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
