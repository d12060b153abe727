//! What the HTTP port tells: `/metrics` for Prometheus, `/livez` and `/readyz` for whoever starts and stops servers.
//!
//! The port itself, and what a client of it may do, is in `guira-front`.

use crate::metrics;
use crate::process::Process;
use crate::sockets::Listening;
use guira_front::http::Page;
use rustix::fd::AsFd;
use std::io;

/// Answers until the process ends. The thread's whole life.
///
/// # Errors
/// Waiting for events fails.
pub(crate) fn serve(listening: &[Listening], process: &Process) -> io::Result<()> {
    let sockets: Vec<_> = listening.iter().map(|listening| listening.socket.as_fd()).collect();
    guira_front::http::serve(&sockets, |path| page(path, process))
}

fn page(path: &str, process: &Process) -> Option<Page> {
    match path {
        "/metrics" => Some(Page::metrics(metrics::expose(process))),
        "/livez" => Some(Page::probe(None)),
        "/readyz" => Some(Page::probe(unready(process))),
        "/" => Some(Page::text("200 OK", "/metrics\n/livez\n/readyz\n")),
        _ => None,
    }
}

/// Why no more clients should be sent here, if so.
fn unready(process: &Process) -> Option<&'static str> {
    if process.stop.has_rung() {
        return Some("stopping");
    }
    (!process.gauges.is_accepting()).then_some("out of descriptors")
}
