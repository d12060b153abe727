//! What faces clients and monitors, for every program that listens.
//!
//! ```text
//! clients  ─▶ listener ─▶ serving: entrance ─▶ session ─▶ Service: the program
//!              deals       TLS, login           text and meta, replies in order
//! monitors ─▶ http ─▶ Probed: is it ready? its metrics ◀─ exposition
//! ```
//! A program gives answers, readiness and figures; how they look on the wire is decided here, once. Sessions need tokio, and
//! the feature `sessions`. HTTP, metrics and certificates are also for programs with threads of their own.

#![forbid(unsafe_code)]

#[cfg(feature = "sessions")]
pub mod sessions;
pub mod certificates;
pub mod exposition;
pub mod http;
pub mod shares;
pub mod size;
pub mod vitals;

pub use guira_config::meant;
