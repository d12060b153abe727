//! The parts of messages: effects, results and a slot's whole content; requests of clients and the answers.

use super::bytes::{Body, put_count, put_key, put_u32, put_u64, put_value};
use super::fault::BadFrame;
use crate::slot::{Effect, Results, SlotCopy, Stand, Told, Version, WriteId, WriteVerdict};

/// A client's request for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Its value.
    Read {
        /// The key.
        key: Vec<u8>,
    },
    /// A change: it becomes a [`WriteKind::Command`](crate::slot::WriteKind::Command).
    Write {
        /// The write's number.
        id: WriteId,
        /// Whether it may have been sent before.
        is_repeated: bool,
        /// The key.
        key: Vec<u8>,
        /// The change, in the form that the store's owner understands.
        command: Vec<u8>,
    },
}

/// The fewest bytes that a result takes in a copy, and that an item takes.
const RESULT_BYTES_MIN: usize = ID_BYTES + 8 + 1;
const ITEM_BYTES_MIN: usize = 2 + 1 + 16;
const ID_BYTES: usize = 4 + 8;

pub(super) fn put_effect(out: &mut Vec<u8>, effect: &Effect) -> Result<(), BadFrame> {
    put_version(out, effect.version);
    put_id(out, effect.id);
    put_verdict(out, &effect.verdict)?;
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
        put_verdict(out, verdict)?;
    }
    let forgotten = copy.results.forgotten();
    put_count(out, forgotten.len(), "forgotten")?;
    forgotten.iter().for_each(|it| put_id(out, *it));
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
    let count = body.count(ID_BYTES, "forgotten")?;
    let mut forgotten = Vec::with_capacity(count);
    for _ in 0..count {
        forgotten.push(id(body)?);
    }
    let count = body.count(ITEM_BYTES_MIN, "items")?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let key = body.key()?;
        let value = option(body)?;
        items.push((key, Stand { value, version: version(body)? }));
    }
    let results = Results::from_entries(results, forgotten);
    Ok(SlotCopy { last, items, results, complete_for })
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

fn put_verdict(out: &mut Vec<u8>, verdict: &WriteVerdict) -> Result<(), BadFrame> {
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
        WriteVerdict::Said(said) => {
            out.push(5);
            put_value(out, said)?;
        }
    }
    Ok(())
}

fn verdict(body: &mut Body<'_>) -> Result<WriteVerdict, BadFrame> {
    Ok(match body.u8("verdict")? {
        0 => WriteVerdict::Done(body.u64("unique")?),
        1 => WriteVerdict::Number(body.u64("number")?, body.u64("unique")?),
        2 => WriteVerdict::Missing,
        3 => WriteVerdict::Conflict,
        4 => WriteVerdict::NotANumber,
        5 => WriteVerdict::Said(body.value()?),
        tag => return Err(BadFrame::Tag("verdict", tag)),
    })
}

pub(super) fn put_asked(out: &mut Vec<u8>, asked: &Asked) -> Result<(), BadFrame> {
    match asked {
        Asked::Read { key } => {
            out.push(0);
            put_key(out, key)
        }
        Asked::Write { id, is_repeated, key, command } => {
            out.push(if *is_repeated { 2 } else { 1 });
            put_id(out, *id);
            put_key(out, key)?;
            put_value(out, command)
        }
    }
}

pub(super) fn asked(body: &mut Body<'_>) -> Result<Asked, BadFrame> {
    let tag = body.u8("request")?;
    Ok(match tag {
        0 => Asked::Read { key: body.key()? },
        1 | 2 => Asked::Write {
            id: id(body)?,
            is_repeated: tag == 2,
            key: body.key()?,
            command: body.value()?,
        },
        _ => return Err(BadFrame::Tag("request", tag)),
    })
}

pub(super) fn put_told(out: &mut Vec<u8>, told: &Told) -> Result<(), BadFrame> {
    match told {
        Told::Wrote(verdict) => {
            out.push(0);
            put_verdict(out, verdict)?;
        }
        Told::Read(None) => out.push(1),
        Told::Read(Some((value, unique))) => {
            out.push(2);
            put_value(out, value)?;
            put_u64(out, *unique);
        }
        Told::Stale => out.push(3),
        Told::Busy => out.push(4),
        Told::Refused => out.push(5),
        Told::Unknown => out.push(6),
    }
    Ok(())
}

pub(super) fn told(body: &mut Body<'_>) -> Result<Told, BadFrame> {
    Ok(match body.u8("answer")? {
        0 => Told::Wrote(verdict(body)?),
        1 => Told::Read(None),
        2 => Told::Read(Some((body.value()?, body.u64("unique")?))),
        3 => Told::Stale,
        4 => Told::Busy,
        5 => Told::Refused,
        6 => Told::Unknown,
        tag => return Err(BadFrame::Tag("answer", tag)),
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
