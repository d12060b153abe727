//! A scrape: the HTTP port of a server, and Prometheus's text format taken apart.
//!
//! # Invariants
//! 1. `Scrape::parse` refuses what Prometheus would: a sample without a type, a series that is there
//!    twice, a family in two places, a value that is no number.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::client::PATIENCE;

/// Sends `request` to a port of this machine and reads until the other end closes.
///
/// # Panics
/// If nobody answers in time.
#[must_use]
pub fn ask_http(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the HTTP port accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    stream.write_all(request.as_bytes()).expect("the request goes out");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time, in UTF-8");
    answer
}

/// Status line and body of a GET.
///
/// # Panics
/// As [`ask_http`], or if the answer has no head.
#[must_use]
pub fn get_http(port: u16, path: &str) -> (String, String) {
    let answer = ask_http(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

/// The metrics of one scrape.
#[derive(Debug, Default)]
pub struct Scrape {
    /// The type of each family.
    pub types: BTreeMap<String, String>,
    /// The value of each series, spelled `name{label="value",...}` with its labels in order.
    pub series: BTreeMap<String, f64>,
}

impl Scrape {
    /// Scrapes `/metrics` at a port of this machine.
    ///
    /// # Panics
    /// If the answer isn't 200, or no exposition.
    #[must_use]
    pub fn of(port: u16) -> Self {
        let (status, body) = get_http(port, "/metrics");
        assert_eq!(status, "HTTP/1.1 200 OK");
        Self::parse(&body)
    }

    /// Takes an exposition apart.
    ///
    /// # Panics
    /// If Prometheus would refuse it.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        let mut family = String::new();
        for line in text.lines() {
            if let Some(declared) = line.strip_prefix("# TYPE ") {
                let (name, kind) = declared.split_once(' ').expect("a name and a type");
                name.clone_into(&mut family);
                let before = scrape.types.insert(family.clone(), kind.to_owned());
                assert!(before.is_none(), "{name} is in two places");
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').expect("a series and a value");
                let name = series.split('{').next().unwrap_or_default();
                let is_part = ["_bucket", "_sum", "_count"]
                    .iter()
                    .any(|part| name.strip_suffix(part) == Some(&family));
                assert!(name == family || is_part, "{series} is below the type of {family}");
                let value = value.parse().unwrap_or_else(|_| panic!("{line}: no number"));
                let before = scrape.series.insert(in_order(series), value);
                assert!(before.is_none(), "{series} is there twice");
            }
        }
        scrape
    }

    /// The value of a series.
    ///
    /// # Panics
    /// If it isn't there.
    #[must_use]
    pub fn value(&self, series: &str) -> f64 {
        let value = self.series.get(&in_order(series));
        *value.unwrap_or_else(|| panic!("{series} is not among {:#?}", self.series.keys()))
    }

    /// Every name of a metric: of families, and of the parts of histograms.
    #[must_use]
    pub fn names(&self) -> BTreeSet<&str> {
        let names = self.series.keys().map(|series| series.split('{').next().unwrap_or_default());
        names.chain(self.types.keys().map(String::as_str)).collect()
    }
}

/// A series with its labels in order. No value of ours has a comma.
fn in_order(series: &str) -> String {
    let Some((name, labels)) = series.strip_suffix('}').and_then(|s| s.split_once('{')) else {
        return series.to_owned();
    };
    let mut labels: Vec<&str> = labels.split(',').collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}
