//! `guira invalidate audit`: the paper's figure 11 as a table, from the counts of a running daemon.
//!
//! It reads the daemon's own metrics, so a monitor and this table always agree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::config::InvalidateConfig;

/// Returns the table.
///
/// # Errors
/// A sentence: no daemon answers at `http`.
pub(crate) fn report(config: &InvalidateConfig) -> Result<String, String> {
    let words = "the daemon has no port to be asked at: give the configuration http";
    let http = config.http.as_deref().ok_or(words)?;
    let scrape = scrape(http).map_err(|error| format!("no daemon answers at {http}: {error}"))?;
    Ok(table(&scrape, &config.audit.labels().collect::<Vec<_>>()))
}

fn scrape(http: &str) -> io::Result<String> {
    let place = match http.trim().rsplit_once(':') {
        None | Some(("" | "*" | "0.0.0.0", _)) => {
            let port = http.rsplit(':').next().unwrap_or_default();
            format!("127.0.0.1:{}", port.trim())
        }
        Some(("[::]", port)) => format!("[::1]:{port}"),
        Some(_) => http.trim().to_owned(),
    };
    let mut socket = TcpStream::connect(place)?;
    socket.set_read_timeout(Some(SILENCE))?;
    socket.set_write_timeout(Some(SILENCE))?;
    socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    socket.take(SCRAPE_MAX).read_to_string(&mut text)?;
    match text.starts_with("HTTP/1.1 200") || text.starts_with("HTTP/1.0 200") {
        true => Ok(text),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The counts of each source and destination, by the values of labels.
type Counts<'s> = BTreeMap<(&'s str, &'s str), BTreeMap<Vec<&'s str>, u64>>;

fn counts<'s>(scrape: &'s str, name: &str, labels: &[&str]) -> Counts<'s> {
    let mut counts = Counts::new();
    for line in scrape.lines() {
        let sample = line.strip_prefix(name).and_then(|rest| rest.strip_prefix('{'));
        let Some((inner, value)) = sample.and_then(|rest| rest.rsplit_once("} ")) else { continue };
        let label = |label: &str| {
            let begin = format!("{label}=\"");
            let after = inner.split(&begin).nth(1)?;
            after.split('"').next()
        };
        let (Some(source), Some(destination)) = (label("source"), label("destination")) else {
            continue;
        };
        let key = labels.iter().map(|name| label(name).unwrap_or_default()).collect();
        let pipe = counts.entry((source, destination)).or_default();
        pipe.insert(key, value.parse().unwrap_or(0));
    }
    counts
}

fn table(scrape: &str, delays: &[String]) -> String {
    let keys = counts(scrape, "guira_invalidate_audit_keys_total", &["found"]);
    let judged = counts(scrape, "guira_invalidate_audit_total", &["at", "result"]);
    let mut text = String::new();
    for ((source, destination), keys) in &keys {
        let of = |found| keys.get(&vec![found]).copied().unwrap_or(0);
        let _ = writeln!(
            text,
            "source {source}, destination {destination}: {} sampled deletes had something cached, {} had nothing, {} were not answered, {} were left out",
            of("value"),
            of("nothing"),
            of("unanswered"),
            of("left_out")
        );
        let _ = writeln!(
            text,
            "{:>8}{:>12}{:>12}{:>12}{:>12}  done",
            "after", "gone", "refilled", "survived", "unanswered"
        );
        for after in delays {
            let pipe = judged.get(&(*source, *destination));
            let of = |result| {
                let count = pipe.and_then(|pipe| pipe.get(&vec![after.as_str(), result]));
                count.copied().unwrap_or(0)
            };
            let (gone, refilled, survived) = (of("gone"), of("refilled"), of("survived"));
            let _ = writeln!(
                text,
                "{after:>8}{gone:>12}{refilled:>12}{survived:>12}{:>12}  {}",
                of("unanswered"),
                share(gone + refilled, gone + refilled + survived)
            );
        }
    }
    if text.is_empty() {
        text.push_str("nothing is audited yet\n");
    }
    text
}

/// Formats a share in percent, rounded down: one lost delete among millions must not show as 100 %.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let millionths = u128::from(part) * 100_000_000 / u128::from(whole);
    format!("{}.{:06} %", millionths / 1_000_000, millionths % 1_000_000)
}

const SILENCE: Duration = Duration::from_secs(5);
const SCRAPE_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_what_a_scrape_says_of_each_cluster_and_delay() {
        let line = |rest: &str| format!("guira_invalidate_audit_{rest}\n");
        let mut scrape = String::from("# TYPE guira_invalidate_audit_total counter\n");
        for (found, count) in [("value", 7), ("nothing", 5)] {
            scrape += &line(&format!(
                "keys_total{{source=\"db\",destination=\"c1\",found=\"{found}\"}} {count}"
            ));
        }
        for (at, result, count) in
            [("1s", "gone", 4), ("1s", "refilled", 2), ("1s", "survived", 1), ("1h", "gone", 7)]
        {
            scrape += &line(&format!(
                "total{{source=\"db\",destination=\"c1\",at=\"{at}\",result=\"{result}\"}} {count}"
            ));
        }
        let text = table(&scrape, &["1s".to_owned(), "1h".to_owned(), "2h".to_owned()]);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[0][..7],
            ["source", "db,", "destination", "c1:", "7", "sampled", "deletes"]
        );
        assert_eq!(lines[2], ["1s", "4", "2", "1", "0", "85.714285", "%"]);
        assert_eq!(lines[3], ["1h", "7", "0", "0", "0", "100.000000", "%"]);
        assert_eq!(lines[4], ["2h", "0", "0", "0", "0", "-"]);
        assert_eq!(table("", &[]), "nothing is audited yet\n");
        assert_eq!(share(999_999_999, 1_000_000_000), "99.999999 %");
    }
}
