//! `guira store plan`: what a store will take, estimated before it exists.

use std::fmt::Write;

use clap::Args;
use guira_front::size::{self, parse_count};
use guira_store::{Expected, RunIndex, Sizing};

use crate::options::{IndexFlag, Syncing, VALUE_BYTES_MAX, filter_bits};

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Keys: 250, 10k, 100m
    #[arg(long, value_name = "NUM", value_parser = keys)]
    keys: u64,
    /// Bytes of a key
    #[arg(long, value_name = "NUM", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=250))]
    key_bytes: u64,
    /// Bytes of a value
    #[arg(long, value_name = "NUM", value_parser = value_bytes)]
    value_bytes: u64,
    /// Changes a second, of keys that are there already; 0: no lifetime is told
    #[arg(long, value_name = "NUM", default_value = "0", value_parser = changes)]
    changes_per_second: u64,
    /// As the server's: always, interval:MS or os
    #[arg(long, value_name = "WHEN", default_value = "always", value_parser = Syncing::parse)]
    durability: Syncing,
    /// Changes that share a sync with --durability always: as many as clients wait for at once
    #[arg(long, value_name = "NUM", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    together: u64,
    /// As the server's: fence or ef
    #[arg(long, value_name = "KIND", default_value = "fence")]
    index: IndexFlag,
    /// As the server's: bits per key of the last level's filter
    #[arg(long, value_name = "BITS", default_value = "0", value_parser = filter_bits)]
    last_level_filter: u8,
    /// Terabytes that may be written to the device: its maker calls it TBW
    #[arg(long, value_name = "TB", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    endurance: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn keys(text: &str) -> Result<u64, String> {
    let is_good = |number: &u64| (1..=KEYS_MAX).contains(number);
    Some(parse_count(text)?).filter(is_good).ok_or_else(|| "from 1 to 250000g".to_owned())
}

fn changes(text: &str) -> Result<u64, String> {
    let number = Some(parse_count(text)?).filter(|number| *number <= CHANGES_MAX);
    number.ok_or_else(|| "4g at most".to_owned())
}

fn value_bytes(text: &str) -> Result<u64, String> {
    let size = Some(size::parse(text)?).filter(|size| *size <= VALUE_BYTES_MAX as u64);
    size.ok_or_else(|| "64m at most".to_owned())
}

/// A figure: its name, its value, the number of decimals, and its meaning.
type Row = (&'static str, f64, usize, &'static str);

/// Returns what a store will take, as text or JSON.
///
/// # Errors
/// None: clap has checked all values.
pub(crate) fn plan(args: &PlanArgs) -> Result<String, String> {
    let mut options = guira_store::Options::default();
    options.last_level_filter_bits = args.last_level_filter;
    options.index = match args.index {
        IndexFlag::Fence => RunIndex::Fence,
        IndexFlag::Ef => RunIndex::EliasFano,
    };
    // A value has at least one byte of the item's fields in front of it.
    let (key_bytes, value_bytes) = (args.key_bytes, args.value_bytes + 1);
    let sizing = Expected { keys: args.keys, key_bytes, value_bytes }.sizing(&options);
    let mut rows = sizes(&sizing);
    rows.extend(wear(args, &sizing));
    Ok(if args.json { json(&rows) } else { text(&rows) })
}

fn sizes(it: &Sizing) -> Vec<Row> {
    vec![
        (
            "memory_bytes",
            it.memory_bytes(),
            0,
            "memory, beside --client-memory: the sum of the next four",
        ),
        ("log_memory_bytes", it.log_memory_bytes, 0, "indexes and last records of logs"),
        (
            "run_memory_bytes",
            it.young_memory_bytes,
            0,
            "indexes and filters of runs that wait to be merged",
        ),
        (
            "partition_index_bytes",
            it.last_index_bytes,
            0,
            "index of the last level's blocks (--index)",
        ),
        ("partition_filter_bytes", it.last_filter_bytes, 0, "its filter (--last-level-filter)"),
        ("disk_bytes", it.disk_bytes(), 0, "disk: the sum of the next four"),
        ("log_bytes", it.log_bytes, 0, "logs"),
        ("runs", it.runs, 0, "runs that a merge takes: more, the larger the last level is"),
        ("run_bytes", it.young_bytes, 0, "runs that wait to be merged, when they are most"),
        ("partition_bytes", it.last_bytes, 0, "the last level"),
        ("reserve_bytes", it.reserve_bytes, 0, "what stays free for merges"),
    ]
}

fn wear(args: &PlanArgs, it: &Sizing) -> Vec<Row> {
    let changes = args.changes_per_second as f64;
    let syncs = match args.durability {
        Syncing::Always => changes / args.together as f64,
        Syncing::Interval(every) => changes.min(1.0 / every.as_secs_f64()),
        Syncing::Os => 0.0,
    };
    let written = it.bytes_logged + it.bytes_converted + it.bytes_merged;
    let brought = (args.key_bytes + args.value_bytes) as f64;
    let mut rows = vec![(
        "write_amplification",
        written / brought,
        2,
        "bytes written to files for each byte of keys and values, where keys change evenly",
    )];
    if changes > 0.0 {
        let each_second = changes * written + syncs * BLOCK_BYTES;
        let days = args.endurance as f64 * 1e12 / each_second / DAY_S;
        rows.extend([
            ("syncs_per_second", syncs, 1, "syncs of the log (--durability, --together)"),
            (
                "written_bytes_per_second",
                each_second,
                0,
                "bytes written to the device: files, and a block anew for each sync",
            ),
            ("lifetime_days", days, 2, "until --endurance terabytes are written"),
        ]);
    }
    rows
}

fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for (name, value, decimals, meaning) in rows {
        // Writing to a string doesn't fail.
        let unit = if name.contains("bytes") { readable(*value) } else { String::new() };
        let _ = writeln!(text, "{name:<25} {value:>16.decimals$} {unit:>10}  {meaning}");
    }
    text
}

/// Bytes in a unit in which they have up to four digits; empty: it is their own.
fn readable(bytes: f64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"].iter().zip([10, 20, 30, 40]);
    let scaled = units.map(|(unit, bits)| (unit, bytes / f64::from(bits).exp2()));
    let fitting = scaled.take_while(|(_, scaled)| *scaled >= 1.0).last();
    fitting.map_or_else(String::new, |(unit, scaled)| format!("{scaled:.1} {unit}"))
}

fn json(rows: &[Row]) -> String {
    let fields =
        rows.iter().map(|(name, value, decimals, _)| format!("\"{name}\":{value:.decimals$}"));
    format!("{{{}}}\n", fields.collect::<Vec<_>>().join(","))
}

/// Bytes that a sync writes anew: the block in which the log ends.
const BLOCK_BYTES: f64 = 4096.0;
const DAY_S: f64 = 86_400.0;
const KEYS_MAX: u64 = 250_000_000_000_000;
const CHANGES_MAX: u64 = 4_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn planned(flags: &str) -> Vec<Row> {
        let command = PlanArgs::augment_args(Command::new("plan"));
        let words = ["plan"].into_iter().chain(flags.split(' '));
        let matches = command.try_get_matches_from(words).expect("good flags");
        let args = PlanArgs::from_arg_matches(&matches).expect("good flags");
        let json = plan(&PlanArgs { json: true, ..args }).expect("it has an answer");
        let fields = json.trim().trim_start_matches('{').trim_end_matches('}').split(',');
        fields
            .map(|field| {
                let (name, value) = field.split_once(':').expect("a field");
                let name = name.trim_matches('"').to_owned();
                (&*name.leak(), value.parse().expect("a number"), 0, "")
            })
            .collect()
    }

    fn figure(rows: &[Row], name: &str) -> Option<f64> {
        rows.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    #[test]
    fn sums_are_sums_and_a_lifetime_is_what_is_written() {
        let rows = planned(
            "--keys 100000000 --value-bytes 1000 --changes-per-second 5000 --endurance 600",
        );
        let of = |name| figure(&rows, name).expect("it is told");
        let memory = [
            "log_memory_bytes",
            "run_memory_bytes",
            "partition_index_bytes",
            "partition_filter_bytes",
        ];
        assert!((memory.map(of).iter().sum::<f64>() - of("memory_bytes")).abs() < 4.0);
        let disk = ["log_bytes", "run_bytes", "partition_bytes", "reserve_bytes"];
        assert!((disk.map(of).iter().sum::<f64>() - of("disk_bytes")).abs() < 4.0);
        let written = of("lifetime_days") * 86_400.0 * of("written_bytes_per_second");
        assert!((written / 600e12 - 1.0).abs() < 0.01, "{written}");
        assert_eq!(of("syncs_per_second"), 5000.0);
        let shared = planned(
            "--keys 100000000 --value-bytes 1000 --changes-per-second 5000 --durability interval:100",
        );
        assert_eq!(figure(&shared, "syncs_per_second"), Some(10.0));
        assert!(figure(&shared, "lifetime_days") > figure(&rows, "lifetime_days"));
        assert_eq!(figure(&planned("--keys 1 --value-bytes 0"), "lifetime_days"), None);
    }

    #[test]
    fn numbers_have_units_when_they_are_read_and_when_they_are_told() {
        let same = |keys, bytes| {
            let rows = planned(&format!("--keys {keys} --value-bytes {bytes}"));
            figure(&rows, "disk_bytes")
        };
        assert_eq!(same("100m", "1k"), same("100000000", "1024"));
        assert!(keys("0").is_err() && keys("x").is_err() && keys("1.5k") == Ok(1500));
        assert!(value_bytes("65m").is_err() && changes("5g").is_err());
        for (bytes, told) in [(0.0, ""), (1023.0, ""), (1536.0, "1.5 KiB"), (5e12, "4.5 TiB")] {
            assert_eq!(readable(bytes), told);
        }
        let text = text(&[("disk_bytes", 1536.0, 0, "disk"), ("runs", 1536.0, 0, "runs")]);
        assert!(
            text.contains("1536    1.5 KiB  disk") && !text.contains("1.5 KiB  runs"),
            "{text}"
        );
    }
}
