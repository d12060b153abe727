//! The HTTP port: `/metrics` for Prometheus, `/livez` and `/readyz` for whoever starts and stops routers.
//!
//! On the main thread, apart from the proxies.
//!
//! # Invariants
//! 1. At most [`EXCHANGES_MAX`] exchanges at a time; more wait in the backlog.
//! 2. A request has [`HEAD_BYTES_MAX`] bytes at most, and an exchange [`EXCHANGE_MAX`]. The connection is closed after
//!    one answer.
//!
//! Bad at: being reached by strangers. It knows no TLS and no password, and tells whoever asks.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::listener::all_addresses;
use super::metrics;
use super::shared::Shared;

/// Reads `--http`, as `guira serve` has it: an address or a name with a port, `*` for all addresses, or a port of this
/// machine's own address.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let text = text.trim();
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    let words =
        || format!("--http {text}: write a port, ADDRESS:PORT, or *:PORT for all addresses");
    let (host, port) = match text.rsplit_once(':') {
        _ if text.parse::<IpAddr>().is_ok() || text.ends_with(']') => (text, PORT),
        Some((host, port)) => (host, port.parse().map_err(|_| words())?),
        None => (text, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_number = host.bytes().all(|byte| byte.is_ascii_digit());
    match host {
        "*" => Ok(SocketAddr::new(all_addresses(), port)),
        // A host of digits only is a port out of range.
        _ if is_number => Err(words()),
        host => {
            let found = (host, port).to_socket_addrs();
            let found = found.map_err(|error| format!("{}: {error}", words()))?;
            found.into_iter().next().ok_or_else(words)
        }
    }
}

/// Answers for ever.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let exchanges = Arc::new(Semaphore::new(EXCHANGES_MAX));
    loop {
        let Ok(permit) = Arc::clone(&exchanges).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    // Whoever goes before the answer doesn't want it.
                    let _ = timeout(EXCHANGE_MAX, exchange(stream, &shared)).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn exchange(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut head = Vec::new();
    let answer = loop {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(httparse::Status::Complete(_)) => {
                break answer(request.method, request.path, shared);
            }
            Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES_MAX => {}
            Ok(httparse::Status::Partial) => {
                break whole("431 Request Header Fields Too Large", "", true);
            }
            Err(_) => break whole("400 Bad Request", "", true),
        }
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn answer(method: Option<&str>, path: Option<&str>, shared: &Shared) -> String {
    let has_body = match method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return whole("405 Method Not Allowed", "", true),
    };
    let path = path.unwrap_or_default();
    match path.split('?').next().unwrap_or_default() {
        "/metrics" => whole("200 OK", &metrics::exposition(shared), has_body),
        "/livez" => whole("200 OK", "ok\n", has_body),
        "/readyz" => match shared.unready() {
            None => whole("200 OK", "ok\n", has_body),
            Some(why) => whole("503 Service Unavailable", &format!("{why}\n"), has_body),
        },
        _ => whole("404 Not Found", "there are /metrics, /livez and /readyz\n", has_body),
    }
}

fn whole(status: &str, body: &str, has_body: bool) -> String {
    let (length, body) = (body.len(), if has_body { body } else { "" });
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Where a host alone is served, as by `guira serve`.
const PORT: u16 = 9150;
const EXCHANGES_MAX: usize = 32;
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;
const EXCHANGE_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_this_machines() {
        assert_eq!(address("9150"), Ok(SocketAddr::from(([127, 0, 0, 1], 9150))));
        assert_eq!(address(":9150"), Ok(SocketAddr::from(([127, 0, 0, 1], 9150))));
        assert_eq!(address("0.0.0.0:1"), Ok(SocketAddr::from(([0, 0, 0, 0], 1))));
        assert_eq!(address("[::1]:7"), "[::1]:7".parse().map_err(|_| String::new()));
        assert!(address("*:9150").is_ok_and(|all| all.ip().is_unspecified() && all.port() == 9150));
        assert!(address("localhost:9150").is_ok_and(|own| own.ip().is_loopback()));
        assert!(address("*").is_ok_and(|all| all.ip().is_unspecified() && all.port() == PORT));
        assert_eq!(address("1.2.3.4"), Ok(SocketAddr::from(([1, 2, 3, 4], PORT))));
        for bad in ["99999", "*:x", "*:99999", "1.2.3.4:x", "", ":", "12:34"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
