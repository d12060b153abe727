//! What faces clients and monitors, for every program that listens.
//!
//! ```text
//! monitors ─▶ http ─▶ Probed: is it ready? its metrics ◀─ exposition
//! clients  ─▶ TLS by certificates
//! ```
//! A program gives data and answers; how they are shown on the wire is decided here, once.

#![forbid(unsafe_code)]

pub mod certificates;
pub mod exposition;
pub mod http;
pub mod vitals;
