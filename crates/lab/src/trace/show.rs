//! Grids and summaries as tables, JSON and plots.

use serde_json::{Value, json};

use super::grid::{Grid, OBJECTS_MIN, Summary};
use super::wire::Replayed;
use crate::console;
use crate::outcome::{Axis, Plot, Series};

/// A table: a row for each policy, a column for each size, misses of a hundred gets and beside them how many of LRU's
/// misses, of a hundred, are avoided.
pub(super) fn table(grid: &Grid, is_sized: bool) -> String {
    let unit = if is_sized { "bytes" } else { "objects" };
    let mut heads = vec!["miss %".to_owned()];
    heads.extend(grid.sizes.iter().map(|(size, capacity)| {
        let size = size.to_string();
        let capacity = capacity.to_string();
        if size == capacity { capacity } else { format!("{size} = {capacity}") }
    }));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = console::table(&heads);
    for (player, cells) in &grid.rows {
        let mut row = vec![player.name().to_owned()];
        row.extend(cells.iter().enumerate().map(|(place, cell)| {
            let reduction = cell.reduction_percent(grid.lru(place));
            format!("{:6.2} {:>+7.1}", cell.miss_percent(), reduction)
        }));
        table.add_row(row);
    }
    let Grid { name, requests, footprint, .. } = grid;
    format!("{name}: {requests} requests, a footprint of {footprint} {unit}\n{table}")
}

/// The means and worst cases over several traces.
pub(super) fn summary_table(summaries: &[Summary]) -> String {
    let heads = ["cache", "policy", "traces", "LRU's misses avoided, mean %", "worst %", "on"];
    let mut table = console::table(&heads);
    for Summary { player, size, traces, mean, worst } in summaries {
        table.add_row([
            size.to_string(),
            player.name().to_owned(),
            traces.to_string(),
            format!("{mean:+.1}"),
            format!("{:+.1}", worst.0),
            worst.1.clone(),
        ]);
    }
    format!("All traces; caches below {OBJECTS_MIN} objects are left out\n{table}")
}

/// All of it, as JSON.
pub(super) fn json(grids: &[Grid], summaries: &[Summary]) -> Value {
    let trace = |grid: &Grid| {
        let cells: Vec<Value> = grid
            .rows
            .iter()
            .flat_map(|(player, cells)| {
                cells.iter().zip(&grid.sizes).map(|(cell, (size, capacity))| {
                    json!({
                        "policy": player.name(),
                        "size": size.to_string(),
                        "capacity": capacity,
                        "gets": cell.gets,
                        "misses": cell.misses,
                    })
                })
            })
            .collect();
        json!({
            "trace": grid.name,
            "requests": grid.requests,
            "footprint": grid.footprint,
            "cells": cells,
        })
    };
    let summary = |summary: &Summary| {
        json!({
            "policy": summary.player.name(),
            "size": summary.size.to_string(),
            "traces": summary.traces,
            "mean_reduction_percent": summary.mean,
            "worst_reduction_percent": summary.worst.0,
            "worst_trace": summary.worst.1,
        })
    };
    json!({
        "traces": grids.iter().map(trace).collect::<Vec<_>>(),
        "summary": summaries.iter().map(summary).collect::<Vec<_>>(),
    })
}

/// Miss ratio over size, a curve for each policy.
pub(super) fn plot(grid: &Grid, is_sized: bool) -> Plot {
    let label = if is_sized { "cache, bytes" } else { "cache, objects" };
    let curve = |(player, cells): &(super::Player, Vec<super::Replayed>)| Series {
        name: player.name().to_owned(),
        points: cells
            .iter()
            .zip(&grid.sizes)
            .map(|(cell, (_, capacity))| (*capacity as f64, cell.miss_percent()))
            .collect(),
        is_papers: false,
    };
    Plot {
        title: format!("{}: misses over the size of the cache", grid.name),
        x: Axis { label: label.into(), is_log: true, categories: Vec::new() },
        y: Axis { label: "misses, % of gets".into(), is_log: false, categories: Vec::new() },
        series: grid.rows.iter().map(curve).collect(),
    }
}

/// A replay over the wire beside simulations of as many items.
pub(super) fn wire_table(replayed: &Replayed, seconds: f64, grid: &Grid) -> String {
    let wire = 100.0 * replayed.misses as f64 / replayed.gets.max(1) as f64;
    let mut table = console::table(&["policy", "miss %", "server − simulation, points"]);
    table.add_row(["the server".to_owned(), format!("{wire:.2}"), String::new()]);
    for (player, cells) in &grid.rows {
        let simulated = cells[0].miss_percent();
        let difference = format!("{:+.2}", wire - simulated);
        table.add_row([player.name().to_owned(), format!("{simulated:.2}"), difference]);
    }
    let rate = replayed.gets as f64 / seconds / 1000.0;
    let mut text = format!(
        "{}: {} requests, {rate:.0} thousand gets a second; the server holds {} of {} objects\n{table}",
        grid.name, grid.requests, replayed.items, grid.footprint,
    );
    if replayed.refused > 0 {
        text += &format!("\n{} sets were refused: the server ran out of memory", replayed.refused);
    }
    if replayed.items >= grid.footprint {
        text +=
            "\nNothing was evicted; give the server less memory, or larger values by --value-bytes";
    }
    text
}

/// A replay over the wire beside simulations of as many items, as JSON.
pub(super) fn wire_json(replayed: &Replayed, seconds: f64, grid: &Grid) -> Value {
    json!({
        "server": {
            "gets": replayed.gets,
            "misses": replayed.misses,
            "refused": replayed.refused,
            "items": replayed.items,
            "seconds": seconds,
        },
        "simulation": json(std::slice::from_ref(grid), &[])["traces"][0],
    })
}
