//! Prints the figures as tables, and whether guira-store meets its goals.

use crate::Figures;
use crate::jobs::Sizes;
use serde_json::Value;

/// A column: its heading, the figure's name, and its number of decimals.
type Column = (&'static str, &'static str, usize);

const LOADED: &[Column] = &[
    ("puts/s", "put_per_s", 0),
    ("settled", "put_settled_per_s", 0),
    ("CPU µs/put", "put_cpu_us", 1),
    ("puts/s, 1 thread", "put_1_per_s", 0),
    ("4 threads", "put_4_per_s", 0),
    ("16 threads", "put_16_per_s", 0),
    ("CPU µs/put, 1 thread", "put_1_cpu_us", 1),
    ("4 threads", "put_4_cpu_us", 1),
    ("16 threads", "put_16_cpu_us", 1),
    ("synced puts/s, 1 thread", "synced_put_1_per_s", 0),
    ("64 threads", "synced_put_per_s", 0),
    ("bytes written per byte", "write_amplification", 2),
    ("disk per byte", "space_amplification", 2),
    ("index B/key", "index_bytes_per_key", 3),
    ("last level B/key", "last_index_bytes_per_key", 3),
    ("with the log's B/key", "whole_index_bytes_per_key", 3),
    ("open after a kill, s", "open_s", 2),
    ("kept", "kept", 3),
];

const READ: &[Column] = &[
    ("hits/s, 16 threads", "hit_16_per_s", 0),
    ("1 thread", "hit_1_per_s", 0),
    ("misses/s, 16 threads", "miss_16_per_s", 0),
    ("reads/hit", "hit_16_reads", 4),
    ("pages/hit", "hit_16_pages", 3),
    ("bytes/hit", "hit_16_bytes", 0),
    ("reads/miss", "miss_16_reads", 4),
    ("pages/miss", "miss_16_pages", 3),
    ("CPU µs/hit", "hit_16_cpu_us", 1),
    ("CPU µs/miss", "miss_16_cpu_us", 1),
];

const SERVED: &[Column] = &[
    ("hits/s, 16 clients", "wire_hit_per_s", 0),
    ("99 % of hits within, µs", "wire_hit_p99_us", 0),
    ("CPU µs/hit", "wire_hit_cpu_us", 1),
    ("reads/hit", "wire_hit_reads", 4),
    ("pages/hit", "wire_hit_pages", 3),
    ("misses/s, 16 clients", "wire_miss_per_s", 0),
    ("CPU µs/miss", "wire_miss_cpu_us", 1),
    ("reads/miss", "wire_miss_reads", 4),
    ("pages/miss", "wire_miss_pages", 3),
    ("synced sets/s, 64 clients", "wire_set_per_s", 0),
    ("CPU µs/set", "wire_set_cpu_us", 1),
    ("99 % of sets within, µs", "wire_set_p99_us", 0),
    ("synced incr/s, 64 clients", "wire_incr_per_s", 0),
    ("index and filters B/key", "wire_index_bytes_per_key", 3),
    ("log B/key", "wire_log_bytes_per_key", 3),
    ("disk B/key", "wire_disk_bytes_per_key", 1),
];

/// Prints all figures.
pub fn print(figures: &Figures, sizes: Sizes) {
    println!("{} items of 20 + {} bytes", sizes.items, sizes.value_bytes);
    table(figures, READ);
    table(figures, LOADED);
    table(figures, SERVED);
    goals(figures, sizes);
}

fn table(figures: &Figures, columns: &[Column]) {
    let is_there =
        |name: &str| figures.keys().any(|engine| median(figures, engine, name).is_some());
    let columns: Vec<_> = columns.iter().filter(|(_, name, _)| is_there(name)).collect();
    if columns.is_empty() {
        return;
    }
    let heads: Vec<_> = columns.iter().map(|(head, ..)| *head).collect();
    println!("\n| | {} |\n|---|{}", heads.join(" | "), "---|".repeat(columns.len()));
    for engine in figures.keys() {
        let cell = |(_, name, decimals): &&Column| {
            let figure = median(figures, engine, name);
            figure.map_or_else(|| "–".into(), |it| format!("{it:.decimals$}"))
        };
        let cells: Vec<_> = columns.iter().map(cell).collect();
        if cells.iter().any(|it| it != "–") {
            println!("| {engine} | {} |", cells.join(" | "));
        }
    }
}

fn median(figures: &Figures, engine: &str, name: &str) -> Option<f64> {
    let all = figures.get(engine)?.get(name)?.as_array()?;
    let mut all: Vec<f64> = all.iter().filter_map(Value::as_f64).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

/// Prints the store's goals, for each figure that was measured.
fn goals(figures: &Figures, sizes: Sizes) {
    println!("\n| goal | measured | met |\n|---|---|---|");
    let of = |engine: &str, name: &str| median(figures, engine, name);
    let is_small = sizes.value_bytes <= 100;
    let whole = if sizes.items >= 50_000_000 { 0.3 } else { 0.7 };
    let most = [
        (
            "last level, fence, B/key",
            "guira",
            "last_index_bytes_per_key",
            if is_small { 0.08 } else { 0.75 },
        ),
        ("last level, Elias-Fano, B/key", "guira-ef", "last_index_bytes_per_key", 0.4),
        ("whole store, B/key", "guira", "whole_index_bytes_per_key", whole),
        ("device reads per hit", "guira", "hit_16_reads", 1.01),
        ("device reads per miss", "guira", "miss_16_reads", 1.01),
        ("with the last level's filter", "guira-filter", "miss_16_reads", 0.02),
        ("pages per hit by the kernel's count", "guira", "hit_16_pages", 1.01),
        ("bytes written per byte", "guira", "write_amplification", 4.0),
        ("disk per byte", "guira", "space_amplification", 1.10),
        ("server, index and filters, B/key", "guira", "wire_index_bytes_per_key", whole),
        ("server, device reads per hit", "guira", "wire_hit_reads", 1.01),
        ("server, device reads per miss", "guira", "wire_miss_reads", 1.01),
        ("open after a kill with 256 MiB of log, s", "guira", "open_s", 2.0),
    ];
    for (what, engine, name, most) in most {
        let Some(figure) = of(engine, name) else { continue };
        row(what, &format!("at most {most}"), figure, figure <= most);
    }
    let least = [
        ("hits/s, 16 threads", "hit_16_per_s", "rocksdb", 1.0),
        ("hits/s, 16 threads", "hit_16_per_s", "fjall", 1.2),
        ("hits/s, 16 threads", "hit_16_per_s", "fio, 4 KiB", 0.9),
        ("puts/s, loading", "put_per_s", "rocksdb", 2.0),
        ("puts/s, loading", "put_per_s", "fjall", 2.0),
        ("puts/s, 1 thread", "put_1_per_s", "rocksdb", 2.0),
        ("puts/s, 4 threads", "put_4_per_s", "rocksdb", 2.0),
        ("puts/s, 16 threads", "put_16_per_s", "rocksdb", 2.0),
        ("synced puts/s, 64 threads", "synced_put_per_s", "rocksdb", 1.0),
        ("server, hits/s", "wire_hit_per_s", "rocksdb", 1.0),
        ("server, hits/s", "wire_hit_per_s", "fjall", 1.2),
        ("server, synced sets/s", "wire_set_per_s", "fdatasync, in place", 50.0),
        ("server, synced incr/s", "wire_incr_per_s", "fdatasync, in place", 20.0),
    ];
    for (what, name, other, least) in least {
        let Some((ours, theirs)) = of("guira", name).zip(of(other, name)) else { continue };
        row(what, &format!("at least {least} × {other}"), ours / theirs, ours >= least * theirs);
    }
    let cpu =
        [("CPU per hit", "hit_16_cpu_us", 0.6), ("server, CPU per hit", "wire_hit_cpu_us", 0.75)];
    for (what, name, most) in cpu {
        let Some((ours, theirs)) = of("guira", name).zip(of("rocksdb", name)) else { continue };
        row(what, &format!("at most {most} × rocksdb"), ours / theirs, ours <= most * theirs);
    }
}

fn row(what: &str, goal: &str, figure: f64, is_met: bool) {
    println!("| {what}: {goal} | {figure:.3} | {} |", if is_met { "yes" } else { "**no**" });
}
