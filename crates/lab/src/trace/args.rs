//! The command line of `guira lab trace`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use guira_bench::ServerAddress;

use super::format::TraceFormat;
use super::read::Columns;
use super::recorded::Trace;
use super::simulate::Player;
use super::source::{Reading, TraceSource};
use crate::policies::PolicyKind;

/// Replay recorded requests through eviction policies, and print how often each policy misses
///
/// Reads the formats of ARC (.lis), LIRS and AdaptSize, CSV with a header or Twitter's columns, big-endian keys (.be32,
/// .be64), and libCacheSim's oracleGeneral; each also as .zst, .xz or .gz. After each miss ratio stands the percentage of
/// LRU's misses that the policy avoids. For several traces, the mean of that percentage and the worst trace follow.
#[derive(Clone, Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TraceArgs {
    /// Files, or zipf:THETA:KEYS:REQUESTS[:once=SHARE][:drift=SHARE] for a generated trace: "once" adds that share of
    /// requests for objects that never come back, "drift" replaces that share of the keys every 20,000 requests
    #[arg(required = true, value_name = "FILE")]
    pub(super) traces: Vec<TraceSource>,

    /// Policies to replay, or "all"; docs/explained/traces.md says what each does
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = DEFAULT_POLICIES)]
    #[arg(value_parser = PossibleValuesParser::new(policies()))]
    pub(super) policy: Vec<String>,

    /// Cache sizes: percentages of all objects such as 1%, numbers of objects, or with --sized, bytes such as 64m
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "0.1%,1%,10%")]
    pub(super) size: Vec<Size>,

    /// Measure cache sizes in bytes, for traces that have the objects' sizes
    #[arg(long)]
    pub(super) sized: bool,

    /// Format of the files [default: found by the file's name or first line]
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<TraceFormat>,

    /// The columns of a CSV file in their order: time, key, size (any number), op, ttl; other names are skipped
    #[arg(long, value_name = "NAME,...")]
    pub(super) columns: Option<Columns>,

    /// Read only this many requests from the start of each trace
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<u64>,

    /// Draw miss ratio over size, a curve for each policy
    #[arg(long, value_name = "FILE.svg")]
    pub(super) plot: Option<PathBuf>,

    /// Print JSON instead of tables
    #[arg(long)]
    pub(super) json: bool,

    /// Replay against this memcached server instead, which must be empty, and compare its misses with those of
    /// simulated caches that hold as many items as the server held
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["size", "sized", "plot"])]
    pub(super) server: Option<ServerAddress>,

    /// Size of the values to store in the server
    #[arg(long, value_name = "BYTES", default_value_t = 32, requires = "server")]
    pub(super) value_bytes: usize,
}

impl TraceArgs {
    /// How to read files.
    pub(super) fn reading(&self) -> Reading {
        Reading { format: self.format, columns: self.columns.clone(), limit: self.limit }
    }

    /// The policies, in the order of the list of all, LRU among them as what others are compared with.
    pub(super) fn players(&self) -> Vec<Player> {
        let is_named = |player: Player| self.policy.iter().any(|name| name == player.name());
        let is_all = self.policy.iter().any(|name| name == ALL);
        let wanted = |&player: &Player| is_all || is_named(player) || player == LRU;
        Player::all().filter(wanted).collect()
    }
}

/// What `--policy` takes.
fn policies() -> impl Iterator<Item = &'static str> {
    Player::all().map(Player::name).chain([ALL])
}

const ALL: &str = "all";
const LRU: Player = Player::Kind(PolicyKind::Lru);

/// The size of a cache, as it is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Size {
    /// Hundredths of the trace's footprint.
    Percent(f64),
    /// So many.
    Objects(u64),
    /// Bytes of objects.
    Bytes(u64),
}

impl Size {
    /// In objects, or in bytes if `is_sized`.
    ///
    /// # Errors
    /// A size in the other unit, or of a trace without sizes.
    pub(super) fn capacity(self, trace: &Trace, is_sized: bool) -> anyhow::Result<u64> {
        let footprint = if is_sized {
            trace.footprint_bytes().ok_or_else(|| anyhow::anyhow!("the trace tells no sizes"))?
        } else {
            u64::from(trace.footprint())
        };
        match (self, is_sized) {
            (Self::Percent(percent), _) => {
                Ok(whole((footprint as f64 * percent / 100.0).round()).max(1))
            }
            (Self::Objects(capacity), false) | (Self::Bytes(capacity), true) => Ok(capacity),
            (Self::Objects(_), true) => {
                anyhow::bail!("with --sized, sizes are shares such as 1% or bytes such as 64m")
            }
            (Self::Bytes(_), false) => anyhow::bail!("sizes in bytes need --sized"),
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no size: 1% of the footprint, 5000 objects, 64m bytes");
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|share| (0.0..=100.0).contains(share));
            return percent.map(Self::Percent).ok_or_else(wrong);
        }
        let units = [('k', 10), ('m', 20), ('g', 30), ('b', 0)];
        let last = text.chars().last().unwrap_or(' ').to_ascii_lowercase();
        let size = match units.into_iter().find(|(unit, _)| *unit == last) {
            Some((_, shift)) => text[..text.len() - 1]
                .parse::<u64>()
                .ok()
                .and_then(|number| number.checked_mul(1 << shift))
                .map(Self::Bytes),
            None => text.parse().ok().map(Self::Objects),
        };
        size.filter(|size| !matches!(size, Self::Objects(0) | Self::Bytes(0))).ok_or_else(wrong)
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent} %"),
            Self::Objects(number) => write!(f, "{number}"),
            Self::Bytes(bytes) => write!(f, "{bytes} B"),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a number of objects or bytes"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

const DEFAULT_POLICIES: &str = "fifo,lru,clock,sieve,arc,s3-clock-fixed,s3-clock";

const EXAMPLES: &str = "\
Examples:
  guira lab trace OLTP.lis.zst                         caches of 0.1 %, 1 % and 10 % of all objects
  guira lab trace *.zst --policy all                   a table for each trace, then means and worst cases
  guira lab trace web.csv --sized --size 64m,1g        sizes in bytes; expired objects miss
  guira lab trace t.lis --size 0.1%,0.3%,1%,3%,10%,30% --plot t.svg
  guira lab trace zipf:0.99:1000000:20000000           a generated trace
  guira serve -m 64 & guira ping --wait 5s
  guira lab trace OLTP.lis.zst --server 127.0.0.1:11211 --policy s3-clock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_named_and_lru_is_among_them() {
        let names = |policy: &str| -> Vec<&str> {
            let args = TraceArgs::try_parse_from(["trace", "t.lis", "--policy", policy]).unwrap();
            args.players().into_iter().map(Player::name).collect()
        };
        assert_eq!(names("opt,sieve"), ["lru", "sieve", "opt"]);
        assert_eq!(names("sieve,all"), Player::all().map(Player::name).collect::<Vec<_>>());
        let unknown = TraceArgs::try_parse_from(["trace", "t.lis", "--policy", "lru,mru"]);
        let words = unknown.unwrap_err().to_string();
        assert!(words.contains("'mru'") && words.contains("s3-clock, opt, all"), "{words}");
    }

    #[test]
    fn sizes_are_shares_objects_or_bytes() {
        for (text, size) in [
            ("0.1%", Size::Percent(0.1)),
            ("5000", Size::Objects(5000)),
            ("64m", Size::Bytes(64 << 20)),
            ("7B", Size::Bytes(7)),
        ] {
            assert_eq!(text.parse(), Ok(size));
        }
        for text in ["", "%", "101%", "-1", "0", "0k", "x", "99999999999g", "1ü"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
