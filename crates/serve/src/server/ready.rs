//! The lines that a server logs once it serves: its addresses and memory, and a command to try.
//!
//! There are none under memcached's name, as in memcached, and none in the background, where they wouldn't be read.

use crate::settings::ServerSettings;
use crate::sockets::{Listening, Sockets};
use crate::version::GUIRA_VERSION;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns the two lines, for a process that was started as `name`.
pub(crate) fn lines(
    name: &str,
    settings: &ServerSettings,
    sockets: &Sockets,
) -> Option<[String; 2]> {
    if name.starts_with("memcached") || settings.daemon {
        return None;
    }
    let places: Vec<String> = sockets.listening.iter().map(place).collect();
    let tcp = || sockets.listening.iter().filter_map(|listening| listening.address);
    let is_local = tcp().all(|address| address.ip().is_loopback());
    let who = match tcp().count() {
        0 => "",
        _ if is_local => " (this machine only; -l '*' for all)",
        _ => "",
    };
    let (memory, threads) = (megabytes(settings.memory_bytes), settings.threads);
    let (places, s) = (places.join(", "), if threads == 1 { "" } else { "s" });
    Some([
        format!(
            "guira {GUIRA_VERSION} ready: {places}{who}, {memory} MB for items, {threads} thread{s}"
        ),
        format!(
            "try: guira ping{}; Ctrl-C stops it at once, SIGUSR1 after the requests under way",
            flags_to_reach(sockets)
        ),
    ])
}

fn place(listening: &Listening) -> String {
    let place = listening.address.map_or_else(|| listening.name.clone(), |it| it.to_string());
    if listening.tls.is_some() { format!("{place} (TLS)") } else { place }
}

/// The flags by which a client on this machine finds the server.
fn flags_to_reach(sockets: &Sockets) -> String {
    let near = |listening: &Listening| Some((near(listening.address?), listening.tls.is_some()));
    let mut tcp: Vec<_> = sockets.listening.iter().filter_map(near).collect();
    // The address that the client uses by default comes first.
    tcp.sort_by_key(|(address, has_tls)| (*has_tls, *address != DEFAULT));
    match tcp.first() {
        Some((address, false)) if *address == DEFAULT => String::new(),
        Some((address, false)) => format!(" -s {address}"),
        Some((address, true)) => format!(" -s {address} --tls-ca FILE"),
        None => sockets.listening.first().map_or_else(String::new, |it| format!(" -s {}", it.name)),
    }
}

/// Returns an address by which this machine reaches itself.
fn near(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Rounds to megabytes, the unit of `-m`.
fn megabytes(bytes: usize) -> usize {
    (bytes + (1 << 19)) >> 20
}

const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 11211);
