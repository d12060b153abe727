//! Tables and JSON of the results.

use std::io::{self, Write};

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::compare::{Row, Spread, Standing};
use crate::error::BenchError;
use crate::memory::Filling;
use crate::outcome::RunResult;

/// Writes `figures` as JSON to standard output.
pub(crate) fn json(figures: &impl Serialize) -> Result<(), BenchError> {
    let text = serde_json::to_string_pretty(figures).expect("figures are plain data");
    print(&text)
}

/// Prints the table of a run; `is_filled`: all keys were stored before.
pub(crate) fn outcome(outcome: &RunResult, is_filled: bool) -> Result<(), BenchError> {
    let mut table = table(&["server", "loop", "seconds", "operations", "operations/s"]);
    table.add_row([
        outcome.server.clone(),
        outcome.mode.clone(),
        format!("{:.2}", outcome.seconds),
        outcome.operations.to_string(),
        rate(outcome.rate),
    ]);
    align(&mut table, 2);
    print(&table.to_string())?;
    if let Some(cpu) = outcome.cpu {
        let mut table = self::table(&["server CPU per operation", "user", "system", "total"]);
        let us = |us: f64| format!("{us:.3} us");
        table.add_row(["".into(), us(cpu.user_us), us(cpu.system_us), us(cpu.total_us)]);
        align(&mut table, 1);
        print(&table.to_string())?;
    }
    latencies(outcome)?;
    let lines = counts(outcome, is_filled);
    if lines.is_empty() { Ok(()) } else { print(&lines.join("\n")) }
}

fn latencies(outcome: &RunResult) -> Result<(), BenchError> {
    let mut table =
        table(&["latency, us", "requests", "mean", "50 %", "90 %", "99 %", "99.9 %", "max"]);
    let rows = [("read", &outcome.read_latency), ("write", &outcome.write_latency)];
    for (name, summary) in rows.iter().filter_map(|(name, it)| it.as_ref().map(|it| (name, it))) {
        let us = |us: f64| format!("{us:.1}");
        table.add_row([
            (*name).to_owned(),
            summary.requests.to_string(),
            us(summary.mean_us),
            us(summary.p50_us),
            us(summary.p90_us),
            us(summary.p99_us),
            us(summary.p999_us),
            us(summary.max_us),
        ]);
    }
    align(&mut table, 1);
    if table.is_empty() { Ok(()) } else { print(&table.to_string()) }
}

pub(crate) fn counts(outcome: &RunResult, is_filled: bool) -> Vec<String> {
    let counts = &outcome.counts;
    let reads = counts.hits + counts.misses;
    let mut lines = Vec::new();
    if reads > 0 {
        let missed = counts.misses as f64 * 100.0 / reads as f64;
        lines.push(format!("{reads} keys read, {} missed ({missed:.2} %)", counts.misses));
    }
    if counts.stored > 0 {
        lines.push(format!("{} items stored", counts.stored));
    }
    if outcome.unsent > 0 {
        lines.push(format!(
            "{} requests were due and not sent: they count with the time they waited; more \
             --connections or --pipeline send more",
            outcome.unsent
        ));
    }
    if let Some(refusal) = &counts.refusal {
        lines.push(format!("{} requests refused, such as with \"{refusal}\"", counts.refused));
    }
    if counts.checked > 0 {
        lines.push(format!(
            "{} values checked: {} of another key, {} of a wrong length, {} torn",
            counts.checked, counts.wrong_key, counts.wrong_length, counts.torn
        ));
    }
    let warmup = &outcome.warmup;
    let before = warmup.hits + warmup.misses + warmup.stored + warmup.refused;
    if before > 0 {
        lines.push(format!("{before} operations before that, as a warm-up, are not counted here"));
    }
    if counts.misses * MISSES_WORTH_A_WORD > reads {
        lines.push(if is_filled { TOO_SMALL } else { UNFILLED }.to_owned());
    }
    lines
}

/// A hint is printed if more than one read of this many misses.
const MISSES_WORTH_A_WORD: u64 = 10;
const UNFILLED: &str = "many keys were not there: --load stores all of them first";
const TOO_SMALL: &str =
    "many keys were not there any more: give the server more memory, or ask for fewer --keys";

/// Prints the tables of a comparison.
pub(crate) fn comparison(rows: &[Row]) -> Result<(), BenchError> {
    for row in rows {
        let mut table = table(&[
            &row.row,
            "CPU us per operation",
            "user",
            "system",
            "x",
            "M operations/s",
            "x",
        ]);
        for standing in &row.servers {
            table.add_row(standing_cells(standing));
        }
        align(&mut table, 1);
        print(&table.to_string())?;
    }
    let note = "medians [lowest to highest] of the rounds; x: how many times better than the first";
    if rows.is_empty() { Ok(()) } else { print(note) }
}

fn standing_cells(standing: &Standing) -> [String; 7] {
    let spread = |spread: Option<Spread>| {
        spread.map_or("-".into(), |it| {
            format!("{} [{} to {}]", figure(it.median), figure(it.least), figure(it.most))
        })
    };
    let median = |spread: Option<Spread>| spread.map_or("-".into(), |it| figure(it.median));
    let millions = Spread {
        median: standing.rate.median / 1e6,
        least: standing.rate.least / 1e6,
        most: standing.rate.most / 1e6,
    };
    let mut name = standing.server.clone();
    if standing.misses > 0 {
        name += &format!(" ({} misses)", standing.misses);
    }
    if standing.violations > 0 {
        name += &format!(" ({} WRONG VALUES)", standing.violations);
    }
    [
        name,
        spread(standing.cpu_us),
        median(standing.user_us),
        median(standing.system_us),
        standing.cpu_ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
        spread(Some(millions)),
        format!("{:.2}", standing.rate_ratio),
    ]
}

/// Prints the table of a filled server.
pub(crate) fn filling(filling: &Filling) -> Result<(), BenchError> {
    let mut table =
        table(&["server", "stored", "held", "resident before", "resident", "bytes an item"]);
    let mib = |bytes: Option<u64>| {
        bytes.map_or("-".into(), |bytes| format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64))
    };
    table.add_row([
        filling.server.clone(),
        filling.stored.to_string(),
        filling.items.to_string(),
        mib(filling.resident_before),
        mib(filling.resident),
        filling.bytes_an_item.map_or("-".into(), |bytes| format!("{bytes:.1}")),
    ]);
    align(&mut table, 1);
    print(&table.to_string())?;
    print(&notes(filling).join("\n"))
}

pub(crate) fn notes(filling: &Filling) -> Vec<&'static str> {
    let evicts =
        if filling.evicted { "the server evicts: it is full" } else { "the server never evicted" };
    let unseen = filling.resident.is_none();
    let hint = unseen.then_some("give --server-pid PID for the memory of the process");
    std::iter::once(evicts).chain(hint).collect()
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(head);
    table
}

/// Aligns the columns from `first` on to the right.
fn align(table: &mut Table, first: usize) {
    for column in table.column_iter_mut().skip(first) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// Formats a number with three significant digits.
fn figure(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n if n >= 1.0 => format!("{n:.2}"),
        n => format!("{n:.3}"),
    }
}

fn rate(rate: f64) -> String {
    match rate {
        r if r >= 1e6 => format!("{} M", figure(r / 1e6)),
        r if r >= 1e3 => format!("{} k", figure(r / 1e3)),
        r => figure(r),
    }
}

/// Writes to standard output. It is no error if the reader has gone (`| head`).
fn print(text: &str) -> Result<(), BenchError> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(BenchError::io("writing the result")(error))
        }
        _ => Ok(()),
    }
}
