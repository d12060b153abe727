//! The replies to `stats` and its kinds, in memcached 1.6.45's order and under its conditions.
//!
//! Exporters find these lines by name, and some by position. So every line that memcached has is there,
//! with 0 if Guira has no such part; Guira's own figures are in `stats guira`.
//!
//! A statistic is declared once, as a row of a table ([`row`]): its line, its meaning, its metric and how
//! it is read. A new statistic needs only a row; `stats`, `/metrics` and the documentation follow.

mod classes;
mod general;
mod settings;
pub(crate) mod row;

pub(crate) use classes::{ITEMS, SLABS, SLABS_ALL, items, sizes, slabs};
pub(crate) use general::{EVENTS, OWN, STATS};
pub(crate) use settings::{SETTINGS, settings};

use crate::process::Process;
use crate::process::roster::{Held, Seat};
use row::{Row, View, line, lines};
use std::os::fd::RawFd;

/// A statistic as the documentation describes it.
pub struct Meaning {
    /// The name in `stats` or `stats guira`.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// The metric's name with labels and its type, if the statistic has a metric.
    pub metric: Option<(String, &'static str)>,
}

/// Returns each kind of `stats` with its lines, for the documentation.
pub fn stat_tables() -> Vec<(&'static str, Vec<Meaning>)> {
    let settings = SETTINGS.iter().flat_map(|(rows, _)| *rows);
    let of = |rows: &'static [Row]| rows.iter().map(meaning).collect();
    vec![
        ("stats", of(STATS)),
        ("stats guira", OWN.iter().chain(EVENTS).map(meaning).collect()),
        ("stats items", of(ITEMS)),
        ("stats slabs", SLABS.iter().chain(SLABS_ALL).map(meaning).collect()),
        ("stats settings", settings.map(meaning).collect()),
    ]
}

fn meaning(row: &Row) -> Meaning {
    let metric = row.metric.as_ref();
    Meaning {
        name: row.name,
        meaning: row.meaning,
        metric: metric.map(|metric| (metric.series(), metric.kind.name())),
    }
}

/// Replies to `stats` and its short kinds. Returns `false` if the kind doesn't exist.
pub(crate) fn answer(kind: Option<&[u8]>, process: &Process, now: u32, out: &mut Vec<u8>) -> bool {
    match kind {
        None => lines(STATS, &View::new(process, now), "", out),
        Some(b"settings") => settings(process, now, out),
        Some(b"items") => items(process, now, out),
        Some(b"slabs") => slabs(process, now, out),
        Some(b"sizes") => sizes(process, now, out),
        Some(b"extstore") => storage(process, out),
        Some(b"guira") => {
            let view = View::new(process, now);
            [OWN, EVENTS].into_iter().for_each(|table| lines(table, &view, "", out));
        }
        Some(_) => return false,
    }
    true
}

/// Appends the pages of storage as memcached shows them; nothing without storage.
fn storage(process: &Process, out: &mut Vec<u8>) {
    let pages = process.storage.as_ref().map(|storage| storage.tier.pages()).unwrap_or_default();
    for (number, page) in pages.iter().enumerate() {
        line(out, &format!("{number}:version"), page.version);
        line(out, &format!("{number}:bytes"), page.bytes);
        line(out, &format!("{number}:bucket"), page.bucket.number());
        line(out, &format!("{number}:free_bucket"), page.free_bucket.number());
    }
}

/// Appends a socket's lines of `stats conns`; `is_asking`: the socket is the connection that sent the command.
pub(crate) fn conn((fd, seat): (RawFd, &Seat), now: u32, is_asking: bool, out: &mut Vec<u8>) {
    let is_listening = seat.listening().is_none();
    line(out, &format!("{fd}:addr"), seat.address());
    if let Some(address) = seat.listening() {
        line(out, &format!("{fd}:listen_addr"), address);
    }
    let state = if is_asking { "conn_parse_cmd" } else { seat.state() };
    line(out, &format!("{fd}:state"), state);
    let idle_s = if is_listening { 0 } else { now.saturating_sub(seat.last_request()) };
    line(out, &format!("{fd}:secs_since_last_cmd"), idle_s);
    for held in Held::ALL.into_iter().filter(|_| !is_listening) {
        line(out, &format!("{fd}:{}", held.name()), seat.held(held));
    }
}
