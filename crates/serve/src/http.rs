//! What the HTTP port tells: `/metrics` for Prometheus, `/livez` and `/readyz` for whoever starts and stops servers.
//!
//! The port itself, and what a client of it may do, is `guira-http`.

use crate::metrics;
use crate::shared::Shared;
use crate::sockets::Listening;
use guira_http::Page;
use rustix::fd::AsFd;
use std::io;

/// Answers until the process ends. The thread's whole life.
///
/// # Errors
/// Waiting for events fails.
pub(crate) fn serve(listening: &[Listening], shared: &Shared) -> io::Result<()> {
    let sockets: Vec<_> = listening.iter().map(|listening| listening.socket.as_fd()).collect();
    guira_http::serve(&sockets, |path| page(path, shared))
}

fn page(path: &str, shared: &Shared) -> Option<Page> {
    match path {
        "/metrics" => Some(Page::metrics(metrics::expose(shared))),
        "/livez" => Some(Page::probe(None)),
        "/readyz" => Some(Page::probe(unready(shared))),
        "/" => Some(Page::text("200 OK", "/metrics\n/livez\n/readyz\n")),
        _ => None,
    }
}

/// Why no more clients should be sent here, if so.
fn unready(shared: &Shared) -> Option<&'static str> {
    if shared.stop.has_rung() {
        return Some("stopping");
    }
    (!shared.gauges.read().is_accepting).then_some("out of descriptors")
}
