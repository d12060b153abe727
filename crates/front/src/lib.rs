//! What faces clients and monitors, for every program that listens.

#![forbid(unsafe_code)]

pub mod expiry;
pub mod http;
pub mod vitals;
