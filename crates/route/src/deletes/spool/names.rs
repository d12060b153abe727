//! The names of files and folders in the spool, and its lines, both as mcrouter writes them.
//!
//! ```text
//! ["AS1.0", 1289416829.836, "C", ["10.0.0.1", 11302, "delete foo\r\n"]]
//! ["AS2.0", 1289416829.836, "C", {"s": service, "f": flavor, "r": region, "h": "[10.0.0.1]:11302", "p": pool,
//!                                 "k": key, "a": {…}}]
//! ```
//! # Invariants
//! 1. Keys are written unchanged, UTF-8 or not, as mcrouter does.
//! 2. Dates are UTC.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::server::Server;

/// The names of the router in lines and files.
#[derive(Clone, Debug)]
pub(crate) struct SpoolNames {
    pub(crate) service: String,
    pub(crate) router: String,
    pub(crate) region: String,
    /// Whether lines have the format of mcrouter's second version.
    pub(crate) is_version_2: bool,
}

impl SpoolNames {
    /// Returns the name of a file: `20240101T101500-1704104100-libmcrouter-11211-t77-0x0`.
    pub(super) fn file(&self, now: Timestamp, number: u64) -> String {
        let Self { service, router, .. } = self;
        let (date, seconds) = (now.strftime("%Y%m%dT%H%M%S"), now.as_second());
        let process = std::process::id();
        format!("{date}-{seconds}-{service}-{router}-t{process}-{number:#x}")
    }

    /// Returns the line of a delete.
    pub(super) fn line(&self, server: &Server, key: &[u8], pool: &str) -> Vec<u8> {
        let now = Timestamp::now();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a double has milliseconds for 285,000 years"
        )]
        let time = Value::from(now.as_millisecond() as f64 / 1e3);
        let (host, port) = (&server.host, server.port);
        let (before, text, after) = if self.is_version_2 {
            let entry = json!({
                "s": self.service, "f": "unknown", "r": self.region, "h": format!("[{host}]:{port}"), "p": pool,
                "a": {"asynclog": 1},
            });
            let entry = entry.to_string();
            let open = entry.strip_suffix('}').unwrap_or_default();
            (format!("[\"AS2.0\",{time},\"C\",{open},\"k\":"), quoted(key), "}]\n")
        } else {
            let host = Value::from(&host[..]);
            let command = [b"delete ", key, b"\r\n"].concat();
            (format!("[\"AS1.0\",{time},\"C\",[{host},{port},"), quoted(&command), "]]\n")
        };
        [before.as_bytes(), &text, after.as_bytes()].concat()
    }
}

/// A JSON string of any bytes: those that are no UTF-8 are written unchanged, as mcrouter does.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for chunk in bytes.utf8_chunks() {
        let valid = Value::from(chunk.valid()).to_string();
        quoted.extend_from_slice(&valid.as_bytes()[1..valid.len() - 1]);
        quoted.extend_from_slice(chunk.invalid());
    }
    quoted.push(b'"');
    quoted
}

/// Returns the folder for files of this hour, named as mcrouter does: `20240101T10-1704103200`.
pub(super) fn folder(now: Timestamp) -> String {
    let seconds = now.as_second();
    format!("{}-{}", now.strftime("%Y%m%dT%H"), seconds - seconds % 3600)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_files_are_named_by_the_hour_and_second_in_utc() {
        let [service, router, region] = ["libmcrouter", "11211", ""].map(str::to_owned);
        let names = SpoolNames { service, router, region, is_version_2: false };
        for (seconds, hour, date) in [
            (951_782_400, "20000229T00-951782400", "20000229T000000-951782400"),
            (1_704_104_100, "20240101T10-1704103200", "20240101T101500-1704104100"),
            (4_107_542_399, "21000228T23-4107538800", "21000228T235959-4107542399"),
        ] {
            let now = Timestamp::from_second(seconds).unwrap();
            assert_eq!(folder(now), hour);
            let file = format!("{date}-libmcrouter-11211-t{}-0x1f", std::process::id());
            assert_eq!(names.file(now, 31), file);
        }
    }
}
