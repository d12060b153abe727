//! The parts of a slot's messages: effects, results, and a whole content.

use super::bytes::{Body, put_count, put_key, put_u32, put_u64, put_value};
use super::fault::BadFrame;
use crate::slot::{Effect, Results, SlotCopy, Stand, Version, WriteId, WriteVerdict};

/// The fewest bytes of a result, and of an item, in a copy.
const RESULT_BYTES_MIN: usize = 12 + 8 + 1;
const ITEM_BYTES_MIN: usize = 2 + 1 + 16;

pub(super) fn put_effect(out: &mut Vec<u8>, effect: &Effect) -> Result<(), BadFrame> {
    put_version(out, effect.version);
    put_id(out, effect.id);
    put_verdict(out, &effect.verdict);
    put_key(out, &effect.key)?;
    match &effect.change {
        None => out.push(2),
        Some(change) => put_option(out, change.as_deref())?,
    }
    Ok(())
}

pub(super) fn effect(body: &mut Body<'_>) -> Result<Effect, BadFrame> {
    Ok(Effect {
        version: version(body)?,
        id: id(body)?,
        verdict: verdict(body)?,
        key: body.key()?,
        change: match body.u8("change")? {
            0 => Some(None),
            1 => Some(Some(body.value()?)),
            2 => None,
            tag => return Err(BadFrame::Tag("change", tag)),
        },
    })
}

pub(super) fn put_copy(out: &mut Vec<u8>, copy: &SlotCopy) -> Result<(), BadFrame> {
    put_u64(out, copy.last);
    put_u64(out, copy.complete_for);
    let results: Vec<_> = copy.results.entries().collect();
    put_count(out, results.len(), "results")?;
    for (id, seq, verdict) in results {
        put_id(out, id);
        put_u64(out, seq);
        put_verdict(out, verdict);
    }
    put_count(out, copy.items.len(), "items")?;
    for (key, stand) in &copy.items {
        put_key(out, key)?;
        put_option(out, stand.value.as_deref())?;
        put_version(out, stand.version);
    }
    Ok(())
}

pub(super) fn copy(body: &mut Body<'_>) -> Result<SlotCopy, BadFrame> {
    let (last, complete_for) = (body.u64("number")?, body.u64("time")?);
    let count = body.count(RESULT_BYTES_MIN, "results")?;
    let mut results = Vec::with_capacity(count);
    for _ in 0..count {
        results.push((id(body)?, body.u64("number")?, verdict(body)?));
    }
    let count = body.count(ITEM_BYTES_MIN, "items")?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let key = body.key()?;
        let value = option(body)?;
        items.push((key, Stand { value, version: version(body)? }));
    }
    Ok(SlotCopy { last, items, results: Results::from_entries(results), complete_for })
}

fn put_version(out: &mut Vec<u8>, version: Version) {
    put_u64(out, version.epoch);
    put_u64(out, version.seq);
}

fn version(body: &mut Body<'_>) -> Result<Version, BadFrame> {
    Ok(Version { epoch: body.u64("epoch")?, seq: body.u64("number")? })
}

fn put_id(out: &mut Vec<u8>, (client, number): WriteId) {
    put_u32(out, client);
    put_u64(out, number);
}

fn id(body: &mut Body<'_>) -> Result<WriteId, BadFrame> {
    Ok((body.u32("client")?, body.u64("number")?))
}

fn put_verdict(out: &mut Vec<u8>, verdict: &WriteVerdict) {
    match verdict {
        WriteVerdict::Done(unique) => {
            out.push(0);
            put_u64(out, *unique);
        }
        WriteVerdict::Number(number, unique) => {
            out.push(1);
            put_u64(out, *number);
            put_u64(out, *unique);
        }
        WriteVerdict::Missing => out.push(2),
        WriteVerdict::Conflict => out.push(3),
        WriteVerdict::NotANumber => out.push(4),
    }
}

fn verdict(body: &mut Body<'_>) -> Result<WriteVerdict, BadFrame> {
    Ok(match body.u8("verdict")? {
        0 => WriteVerdict::Done(body.u64("unique")?),
        1 => WriteVerdict::Number(body.u64("number")?, body.u64("unique")?),
        2 => WriteVerdict::Missing,
        3 => WriteVerdict::Conflict,
        4 => WriteVerdict::NotANumber,
        tag => return Err(BadFrame::Tag("verdict", tag)),
    })
}

fn put_option(out: &mut Vec<u8>, value: Option<&[u8]>) -> Result<(), BadFrame> {
    let Some(value) = value else {
        out.push(0);
        return Ok(());
    };
    out.push(1);
    put_value(out, value)
}

fn option(body: &mut Body<'_>) -> Result<Option<Vec<u8>>, BadFrame> {
    match body.u8("item")? {
        0 => Ok(None),
        1 => Ok(Some(body.value()?)),
        tag => Err(BadFrame::Tag("item", tag)),
    }
}
