//! `guira bench memory`: fills a server and divides its resident memory by its items.
//!
//! The server reports how many items it holds (`stats`: `curr_items`), and the kernel how much of it is
//! in RAM (`VmRSS`). The memory before the first item is reported as well, but not subtracted.

use serde::Serialize;

use crate::address::{ServerAddress, Target};
use crate::args::{Memory, Preset};
use crate::cpu::resident_bytes;
use crate::crew::Around;
use crate::error::BenchError;
use crate::load::{Loader, find_stat, stat};
use crate::value::fits;
use crate::workload::Workload;

/// A server's memory when it was full, or held all items.
#[derive(Clone, Debug, Serialize)]
pub struct Filling {
    /// The server's address.
    pub server: String,
    /// Items that were stored.
    pub stored: u64,
    /// Items that the server holds.
    pub items: u64,
    /// Whether the server began to evict.
    pub evicted: bool,
    /// Resident memory before the first item, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_before: Option<u64>,
    /// Resident memory now, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// Resident memory divided by the items held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_an_item: Option<f64>,
}

/// Fills the server and measures its memory.
pub(crate) fn run(args: &Memory, around: &Around<'_>) -> Result<Filling, BenchError> {
    if !fits(args.items, args.key_bytes) {
        return Err(BenchError::Usage(format!(
            "--key-bytes {}: keys are 2 to 250 bytes, with room for a letter and {} in digits",
            args.key_bytes, args.items
        )));
    }
    let (base, _) = Preset::Set50.workload();
    let workload =
        Workload { keys: args.items, key_bytes: args.key_bytes, value: args.value_bytes, ..base };
    let target = Target {
        name: args.server.to_string(),
        address: args.server.clone(),
        pid: args.server_pid,
    };
    let resident = || target.pid.map(resident_bytes).transpose();
    let resident_before = resident()?;
    let (stored, evicted) = fill(&workload, &target.address, around)?;
    let items = stat(&target.address, "curr_items")?;
    let resident = resident()?;
    Ok(Filling {
        server: target.name,
        stored,
        items,
        evicted,
        resident_before,
        resident,
        bytes_an_item: resident.map(|bytes| bytes as f64 / items.max(1) as f64),
    })
}

/// Stores items until the server evicts, all are stored, or the user interrupts.
fn fill(
    workload: &Workload,
    address: &ServerAddress,
    around: &Around<'_>,
) -> Result<(u64, bool), BenchError> {
    around.bar.set_prefix("filling");
    around.bar.set_length(workload.keys);
    let evictions_before = evictions(address)?;
    let mut loader = Loader::open(workload, address)?;
    let mut stored = 0;
    while stored < workload.keys {
        let until = (stored + CHUNK_ITEMS).min(workload.keys);
        loader.store(stored..until, around)?;
        stored = until;
        if evictions(address)? > evictions_before {
            return Ok((stored, true));
        }
        if around.is_interrupted() {
            break;
        }
    }
    Ok((stored, false))
}

/// How many items the server has evicted. Without that figure it could be filled without end.
fn evictions(address: &ServerAddress) -> Result<u64, BenchError> {
    let missing = || {
        BenchError::Usage(format!(
            "{address} tells of no evictions: a store evicts nothing, and guira stats store tells what it holds"
        ))
    };
    find_stat(address, "evictions")?.ok_or_else(missing)
}

/// Items stored between two checks whether the server evicts.
const CHUNK_ITEMS: u64 = 50_000;
