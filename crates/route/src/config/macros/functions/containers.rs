//! Functions over arrays, objects and strings.

use std::hash::{BuildHasher, RandomState};

use super::casts::{compare, integer, is_equal};
use super::hashing::twang_mix64;
use crate::config::macros::expand::{Args, Macros};
use guira_config::{ConfigError, Json, Object, Result, Value};

fn fail<T>(message: impl Into<String>) -> Result<T> {
    Err(ConfigError::new(message))
}

/// Converts an index from 0, or from the end if it is negative.
fn index(key: i64, len: usize) -> Option<usize> {
    let from_end = i64::try_from(len).ok()?;
    let key = if key < 0 { key + from_end } else { key };
    usize::try_from(key).ok().filter(|index| *index < len)
}

pub(super) fn select(macros: &mut Macros<'_>, args: &mut Args<'_>) -> Result<Json> {
    let dictionary = args.take(macros, 0)?;
    let key = args.take(macros, 1)?;
    let found = match (&dictionary.value, &key.value) {
        (Value::Object(object), Value::String(name)) => object.get(name).cloned(),
        (Value::Array(array), Value::Int(key)) => {
            index(*key, array.len()).map(|index| array[index].clone())
        }
        (Value::Object(_), _) => {
            return fail("Select: dictionary is an object, key is not a string");
        }
        (Value::Array(_), _) => {
            return fail("Select: dictionary is an array, key is not an integer");
        }
        _ => return fail("Select: dictionary is not array/object"),
    };
    match found {
        Some(found) => Ok(found),
        None => match args.try_take(macros, 2)? {
            Some(default) => Ok(default),
            None => fail(format!("Select: {key} not found, default not specified")),
        },
    }
}

/// Shuffles by Fisher and Yates. A seed gives the same order each time, but not mcrouter's, which depends on its
/// library.
pub(super) fn shuffle(macros: &mut Macros<'_>, args: &mut Args<'_>) -> Result<Json> {
    let Value::Array(mut array) = args.take(macros, 0)?.value else {
        return fail("Shuffle: argument must be an array");
    };
    let mut state = match args.try_take(macros, 1)? {
        None => RandomState::new().hash_one(array.len()),
        Some(seed) => match u64::try_from(integer(&seed, "Shuffle: seed")?) {
            Ok(seed) => seed,
            Err(_) => return fail("Shuffle: seed must be a non-negative integer"),
        },
    };
    for last in (1..array.len()).rev() {
        state = twang_mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let other = usize::try_from(state % (last as u64 + 1)).unwrap_or(0);
        array.swap(last, other);
    }
    Ok(array.into())
}

pub(super) fn keys(dictionary: &Json) -> Result<Json> {
    let Some(object) = dictionary.as_object() else {
        return fail("Keys: dictionary is not object");
    };
    Ok(object.iter().map(|(name, _)| name.into()).collect::<Vec<Json>>().into())
}

pub(super) fn values(dictionary: &Json) -> Result<Json> {
    let Some(object) = dictionary.as_object() else {
        return fail("Values: dictionary is not object");
    };
    Ok(object.iter().map(|(_, value)| value.clone()).collect::<Vec<Json>>().into())
}

/// Concatenates arrays or strings, or merges objects, whose later members win.
pub(super) fn merge(mut args: Vec<Json>) -> Result<Json> {
    let Value::Array(params) = args.remove(0).value else {
        return fail("Merge: 'params' is not array");
    };
    let mut params = params.into_iter();
    let Some(mut merged) = params.next() else { return fail("Merge: empty params") };
    for (at, param) in params.enumerate() {
        match (&mut merged.value, param.value) {
            (Value::Array(merged), Value::Array(more)) => merged.extend(more),
            (Value::String(merged), Value::String(more)) => merged.push_str(&more),
            (Value::Object(merged), Value::Object(more)) => {
                for (name, value) in more {
                    merged.insert(name, value);
                }
            }
            _ => return fail(format!("Merge: param {} is of another type than the first", at + 1)),
        }
    }
    match merged.value {
        Value::Array(_) | Value::String(_) | Value::Object(_) => Ok(merged),
        _ => fail("Merge: first param is not array/object/string"),
    }
}

/// Returns the part between `from` and `to`, both included.
pub(super) fn slice(mut args: Vec<Json>) -> Result<Json> {
    let dictionary = args.remove(0).value;
    if let Value::Object(object) = dictionary {
        let (Some(from), Some(to)) = (args[0].as_str(), args[1].as_str()) else {
            return fail("Slice: from/to is not a string");
        };
        let members = object.into_iter().filter(|(name, _)| (from..=to).contains(&name.as_str()));
        return Ok(members.collect::<Object>().into());
    }
    let from = usize::try_from(integer(&args[0], "Slice: from")?.max(0)).unwrap_or(usize::MAX);
    let end = integer(&args[1], "Slice: to")?.saturating_add(1).max(0);
    let count = usize::try_from(end).unwrap_or(usize::MAX).saturating_sub(from);
    match dictionary {
        Value::Array(array) => {
            Ok(array.into_iter().skip(from).take(count).collect::<Vec<_>>().into())
        }
        Value::String(string) => {
            Ok(string.chars().skip(from).take(count).collect::<String>().into())
        }
        _ => fail("Slice: dictionary is not array/object/string"),
    }
}

pub(super) fn split(dictionary: &Json, delimiter: &Json) -> Result<Json> {
    let (Some(string), Some(delimiter)) = (dictionary.as_str(), delimiter.as_str()) else {
        return fail("Split: dictionary/delim is not a string");
    };
    let pieces = match delimiter {
        "" => string.chars().count(),
        _ => string.matches(delimiter).count(),
    };
    if pieces >= usize::try_from(ELEMENTS_MAX).unwrap_or(usize::MAX) {
        return fail(format!("Split: more than {ELEMENTS_MAX} elements"));
    }
    if delimiter.is_empty() {
        return Ok(string.chars().map(|one| one.to_string().into()).collect::<Vec<Json>>().into());
    }
    Ok(string.split(delimiter).map(Json::from).collect::<Vec<Json>>().into())
}

pub(super) fn range(from: &Json, to: &Json) -> Result<Json> {
    let (from, to) = (integer(from, "Range: from")?, integer(to, "Range: to")?);
    if to.saturating_sub(from) >= ELEMENTS_MAX {
        return fail(format!("Range: more than {ELEMENTS_MAX} elements"));
    }
    Ok((from..=to).map(Json::from).collect::<Vec<Json>>().into())
}

/// A limit that keeps a typing error from filling the memory.
const ELEMENTS_MAX: i64 = 1 << 18;

pub(super) fn contains(dictionary: &Json, key: &Json) -> Result<Json> {
    let found = match (&dictionary.value, &key.value) {
        (Value::Object(object), Value::String(name)) => object.get(name).is_some(),
        (Value::Array(array), _) => array.iter().any(|element| is_equal(element, key)),
        (Value::String(string), Value::String(part)) => string.contains(part.as_str()),
        (Value::Object(_) | Value::String(_), _) => return fail("Contains: key is not a string"),
        _ => return fail("Contains: dictionary is not object/array/string"),
    };
    Ok(found.into())
}

pub(super) fn size(dictionary: &Json) -> Result<i64> {
    let size = match &dictionary.value {
        Value::Object(object) => object.len(),
        Value::Array(array) => array.len(),
        Value::String(string) => string.len(),
        _ => return fail("dictionary is not object/array/string"),
    };
    Ok(i64::try_from(size).unwrap_or(i64::MAX))
}

pub(super) fn sort(mut args: Vec<Json>) -> Result<Json> {
    let Value::Array(mut array) = args.remove(0).value else {
        return fail("sort: dictionary is not an array");
    };
    if let [first, rest @ ..] = &array[..] {
        rest.iter().try_for_each(|element| compare(first, element).map(drop))?;
    }
    array.sort_by(|a, b| compare(a, b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(array.into())
}

pub(super) fn set(mut args: Vec<Json>) -> Result<Json> {
    let value = args.remove(2);
    let key = args.remove(1);
    let mut dictionary = args.remove(0);
    match (&mut dictionary.value, &key.value) {
        (Value::Object(object), Value::String(name)) => object.insert(name.clone(), value),
        (Value::Array(array), Value::Int(at)) => {
            let place = usize::try_from(*at).ok().and_then(|at| array.get_mut(at));
            let Some(place) = place else {
                return fail(format!("Set: key '{at}' is out of range"));
            };
            *place = value;
        }
        (Value::Object(_), _) => return fail("Set: key is not a string"),
        (Value::Array(_), _) => return fail("Set: key is not an int"),
        _ => return fail("Set: dictionary is not array/object"),
    }
    Ok(dictionary)
}
