//! The answers to `stats` and its kinds, in memcached 1.6.45's order and under its conditions.
//!
//! Exporters read these by name and some by place, so every line that memcached has is there, 0
//! where Guira has no such thing; Guira's own figures are in `stats guira`.

mod classes;
mod general;
mod settings;

pub(crate) use classes::{items, sizes, slabs};
pub(crate) use general::{general, own};
pub(crate) use settings::settings;

use crate::roster::Seat;
use crate::shared::Shared;
use guira_proto::reply;
use std::fmt::Display;
use std::os::fd::RawFd;

/// The name and the meaning of every line of `stats`, then of `stats guira`, for the documentation.
pub fn stat_meanings() -> impl Iterator<Item = (&'static str, &'static str)> {
    general::STATS.iter().chain(general::OWN).map(|stat| (stat.name, stat.meaning))
}

/// Appends one line.
fn line(out: &mut Vec<u8>, name: &str, value: impl Display) {
    reply::stat(out, name, value.to_string().as_bytes());
}

/// `stats conns`: every socket by rising descriptor. `asking` is the connection that wants to know.
pub(crate) fn conns(shared: &Shared, now: u32, asking: RawFd, out: &mut Vec<u8>) {
    shared.roster.each(|fd, seat: &Seat| {
        let is_listening = seat.listening().is_none();
        line(out, &format!("{fd}:addr"), seat.address());
        if let Some(address) = seat.listening() {
            line(out, &format!("{fd}:listen_addr"), address);
        }
        let state = if fd == asking { "conn_parse_cmd" } else { seat.state() };
        line(out, &format!("{fd}:state"), state);
        let idle_s = if is_listening { 0 } else { now.saturating_sub(seat.last_request()) };
        line(out, &format!("{fd}:secs_since_last_cmd"), idle_s);
    });
}
