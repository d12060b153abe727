//! The merge of all `HashStore`s and the `SortedStore` into one `SortedStore`.
//!
//! Of equal keys the youngest entry counts. Deleted keys are left out, because nothing is older.
//!
//! # Costs
//! The records of the hash stores are held in memory during the merge, because they are unsorted; the paper sorts them
//! on disk. The `SortedStore` is read and written once, sequentially.

use super::hash_store::HashStore;
use super::record::SiltKey;
use super::sorted_store::{SortedStore, SortedWriter};
use crate::error::StoreError;
use std::iter::Peekable;

/// The entries of the hash stores, sorted by key, each key once.
struct Young {
    keys: Vec<(SiltKey, usize, Option<usize>)>,
    values: Vec<u8>,
}

/// Writes the merged entries of `young`, the youngest store first, and `old` to `out`.
pub(super) fn merge<'a>(
    young: impl Iterator<Item = &'a HashStore>,
    old: Option<&SortedStore>,
    value_bytes: usize,
    mut out: SortedWriter<'_>,
) -> Result<SortedStore, StoreError> {
    let Young { keys, values } = collect(young)?;
    let mut keys = keys.into_iter().peekable();
    let value = |at: usize| &values[at..at + value_bytes];
    if let Some(old) = old {
        old.scan(|record| {
            push_below(&mut keys, Some(&record.key), &mut out, value)?;
            match (keys.next_if(|it| it.0 == record.key), record.value) {
                (Some((key, _, Some(at))), _) => out.push(&key, value(at)),
                (None, Some(value)) => out.push(&record.key, value),
                (Some((_, _, None)), _) | (None, None) => Ok(()),
            }
        })?;
    }
    push_below(&mut keys, None, &mut out, value)?;
    out.finish()
}

/// Writes the young records whose keys are below `end`.
fn push_below<'v>(
    keys: &mut Peekable<impl Iterator<Item = (SiltKey, usize, Option<usize>)>>,
    end: Option<&SiltKey>,
    out: &mut SortedWriter<'_>,
    value: impl Fn(usize) -> &'v [u8],
) -> Result<(), StoreError> {
    while let Some((key, _, at)) = keys.next_if(|it| end.is_none_or(|end| it.0 < *end)) {
        if let Some(at) = at {
            out.push(&key, value(at))?;
        }
    }
    Ok(())
}

fn collect<'a>(young: impl Iterator<Item = &'a HashStore>) -> Result<Young, StoreError> {
    let mut made = Young { keys: Vec::new(), values: Vec::new() };
    for (age, store) in young.enumerate() {
        store.scan(|record| {
            let at = record.value.map(|value| {
                made.values.extend_from_slice(value);
                made.values.len() - value.len()
            });
            made.keys.push((record.key, age, at));
            Ok(())
        })?;
    }
    made.keys.sort_unstable();
    made.keys.dedup_by_key(|it| it.0);
    Ok(made)
}
