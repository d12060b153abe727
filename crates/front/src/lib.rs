//! The interface to clients and monitors that every listening program shares.
//!
//! ```text
//! clients  ─▶ listener ─▶ serving: entrance ─▶ session ─▶ Service: the program
//!              deals       TLS, login           text and meta, replies in order
//! monitors ─▶ http ─▶ Probed: is it ready? its metrics ◀─ exposition
//! ```
//! The program supplies replies, readiness and metric values; this crate alone decides how they look on the wire. The
//! sessions need tokio and the feature `sessions`. HTTP, metrics and certificates also serve programs that run their own
//! threads.

#![deny(unsafe_code)]

#[cfg(feature = "sessions")]
pub mod sessions;
pub mod certificates;
pub mod exposition;
pub mod http;
#[cfg(feature = "sessions")]
pub mod rewrites;
#[cfg(feature = "sessions")]
pub mod crowded;
pub mod sample;
pub mod shares;
pub mod size;
#[expect(unsafe_code, reason = "two system calls that rustix doesn't have")]
pub mod slices;
pub mod systemd;
pub mod vitals;

pub use guira_config::meant;
