//! A check whether the history of one key is linearizable. It searches the orders that time allows (Wing and Gong
//! 1993), and remembers what it tried (Lowe 2017).
//!
//! A write with an unknown outcome may have happened at any time after it began, or never.

use crate::slot::{Told, WriteKind, WriteVerdict};
use std::collections::HashSet;

/// What a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    Read,
    Write(WriteKind),
}

/// One operation. `told` is `None` if the outcome is unknown.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) asked: Asked,
    pub(crate) told: Option<Told>,
}

/// The value and its unique. The unique is `None` after a write with an unknown outcome.
type State = Option<(Vec<u8>, Option<u64>)>;

/// Whether some order of the operations explains all answers.
pub(crate) fn is_linearizable(history: &[Operation]) -> bool {
    assert!(history.len() <= 128, "the set of operations is one u128");
    let mut seen = HashSet::new();
    let mut todo: Vec<(u128, State)> = vec![(0, None)];
    while let Some((done, state)) = todo.pop() {
        let is_left = |at: &usize| done & (1 << at) == 0;
        let left: Vec<usize> = (0..history.len()).filter(is_left).collect();
        if left.iter().all(|at| history[*at].told.is_none()) {
            return true;
        }
        let ends = |at: &usize| history[*at].told.as_ref().map_or(u64::MAX, |_| history[*at].ended);
        let first_end = left.iter().map(ends).min().unwrap_or(u64::MAX);
        for at in left.into_iter().filter(|at| history[*at].begun <= first_end) {
            if let Some(after) = after(&state, &history[at]) {
                let next = (done | 1 << at, after);
                if seen.insert(next.clone()) {
                    todo.push(next);
                }
            }
        }
    }
    false
}

/// Returns the state after `operation`, or `None` if its answer doesn't fit `state`.
fn after(state: &State, operation: &Operation) -> Option<State> {
    let value = state.as_ref().map(|(value, _)| value);
    let wanted = match (&operation.asked, &operation.told) {
        (Asked::Read, Some(Told::Read(None))) => return state.is_none().then_some(None),
        (Asked::Read, Some(Told::Read(Some((read, unique))))) => {
            let fits = state.as_ref().is_some_and(|(value, known)| {
                value == read && known.is_none_or(|it| it == *unique)
            });
            return fits.then(|| Some((read.clone(), Some(*unique))));
        }
        (Asked::Read, _) => return Some(state.clone()),
        (Asked::Write(wanted), _) => wanted,
    };
    let unique = match &operation.told {
        Some(Told::Wrote(WriteVerdict::Done(unique) | WriteVerdict::Number(_, unique))) => {
            Some(*unique)
        }
        _ => None,
    };
    let fails = |as_told: &[WriteVerdict]| {
        let fits = match &operation.told {
            Some(Told::Wrote(verdict)) => as_told.contains(verdict),
            _ => true,
        };
        fits.then(|| state.clone())
    };
    let stores = |new: Option<Vec<u8>>| {
        let fits = operation.told.is_none() || unique.is_some();
        fits.then(|| new.map(|new| (new, unique)))
    };
    match (wanted, value) {
        (WriteKind::Set(new), _) | (WriteKind::Add(new), None) => stores(Some(new.clone())),
        (WriteKind::Add(_), Some(_)) => fails(&[WriteVerdict::Conflict]),
        (_, None) => fails(&[WriteVerdict::Missing]),
        (WriteKind::Delete, Some(_)) => stores(None),
        (WriteKind::Append(more) | WriteKind::Command(more), Some(value)) => {
            stores(Some([&value[..], more].concat()))
        }
        (WriteKind::Incr(by), Some(value)) => {
            let number = String::from_utf8_lossy(value).parse::<u64>().ok();
            let Some(sum) = number.map(|it| it.wrapping_add(*by)) else {
                return fails(&[WriteVerdict::NotANumber]);
            };
            let fits = match &operation.told {
                Some(Told::Wrote(WriteVerdict::Number(told, _))) => *told == sum,
                Some(_) => false,
                None => true,
            };
            fits.then(|| Some((sum.to_string().into_bytes(), unique)))
        }
        (WriteKind::Cas(expected, new), Some(_)) => {
            let known = state.as_ref().and_then(|(_, known)| *known);
            match (&operation.told, known) {
                (Some(_), _) if unique.is_some() => {
                    known.is_none_or(|it| it == *expected).then(|| Some((new.clone(), unique)))
                }
                (Some(_), _) if known == Some(*expected) => None,
                (Some(_), _) => fails(&[WriteVerdict::Conflict]),
                (None, _) if known.is_none_or(|it| it == *expected) => {
                    Some(Some((new.clone(), None)))
                }
                (None, _) => Some(state.clone()),
            }
        }
    }
}

fn done(begun: u64, ended: u64, wanted: WriteKind, unique: u64) -> Operation {
    let told = Some(Told::Wrote(WriteVerdict::Done(unique)));
    Operation { begun, ended, asked: Asked::Write(wanted), told }
}

fn read(begun: u64, ended: u64, value: &str, unique: u64) -> Operation {
    let told = Some(Told::Read(Some((value.into(), unique))));
    Operation { begun, ended, asked: Asked::Read, told }
}

#[test]
fn a_stale_read_a_lost_write_and_a_double_one_are_seen() {
    let set = |begun, ended, value: &str, unique| {
        done(begun, ended, WriteKind::Set(value.into()), unique)
    };
    let (one, two) = (set(0, 1, "1", 1), set(2, 5, "2", 2));
    assert!(is_linearizable(&[one.clone(), two.clone(), read(3, 4, "1", 1), read(3, 4, "2", 2)]));
    assert!(!is_linearizable(&[one.clone(), two.clone(), read(6, 7, "1", 1)]), "stale");
    let back = [one.clone(), two, read(3, 3, "2", 2), read(4, 4, "1", 1)];
    assert!(!is_linearizable(&back), "reads go back");
    let append = |begun, ended| done(begun, ended, WriteKind::Append("x".into()), 2);
    assert!(is_linearizable(&[one.clone(), append(2, 3), read(4, 5, "1x", 2)]));
    assert!(!is_linearizable(&[one.clone(), append(2, 3), read(4, 5, "1xx", 3)]), "twice");
    let mut open = append(2, 3);
    open.told = None;
    assert!(is_linearizable(&[one.clone(), open.clone(), read(4, 5, "1", 1), read(8, 9, "1x", 2)]));
    assert!(!is_linearizable(&[one.clone(), open, read(4, 5, "1x", 2), read(8, 9, "1", 1)]));
    let failed = Operation {
        told: Some(Told::Wrote(WriteVerdict::Missing)),
        ..done(2, 3, WriteKind::Delete, 0)
    };
    assert!(!is_linearizable(&[one, failed]), "a failure that no state explains");
}
