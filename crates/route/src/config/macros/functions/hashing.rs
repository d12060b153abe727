//! Hashes of values, identical to mcrouter's.

use guira_client::ring::spooky64;

use guira_config::{ConfigError, Json, Result, Value};

/// A hash that is the same on each host and in each version.
pub(super) fn hash(value: &Json) -> Result<u64> {
    match &value.value {
        Value::Int(number) => Ok(twang_mix64(number.cast_unsigned())),
        Value::String(string) => Ok(spooky64(string.as_bytes(), 0)),
        _ => {
            let message = format!("Hash: can not cast {} to int or string", value.type_name());
            Err(ConfigError::at(value.line, message))
        }
    }
}

/// Thomas Wang's mix, in the variant that folly calls by this name.
pub(super) fn twang_mix64(key: u64) -> u64 {
    let mut key = (!key).wrapping_add(key << 21);
    key ^= key >> 24;
    key = key.wrapping_add(key << 3).wrapping_add(key << 8);
    key ^= key >> 14;
    key = key.wrapping_add(key << 2).wrapping_add(key << 4);
    key ^= key >> 28;
    key.wrapping_add(key << 31)
}

/// Rendezvous hashing: returns the name with the largest hash^(1/weight), with hashes as numbers from 0 to 1.
pub(super) fn weighted_hash(dictionary: &Json, key: &Json) -> Result<Json> {
    let fail = |message: &str| ConfigError::new(format!("WeightedHash: {message}"));
    let choices = dictionary.as_object().filter(|object| !object.is_empty());
    let choices = choices.ok_or_else(|| fail("dictionary is not an object with members"))?;
    let key = match key.as_int() {
        Some(number) => number.cast_unsigned(),
        None => hash(key)?,
    };
    let mut weights = Vec::with_capacity(choices.len());
    for (name, weight) in choices.iter() {
        let weight = weight.as_number().filter(|weight| *weight >= -0.01);
        let weight = weight.ok_or_else(|| fail(&format!("{name} is not a number from 0")))?;
        weights.push((name, weight.max(0.0)));
    }
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    if sum < f64::EPSILON {
        return Err(fail("sum of weights is 0"));
    }
    let mut best = (-1.0, "");
    for (name, weight) in weights {
        let weight = weight / sum;
        let uniform = unit(twang_mix64(fnv64(name.as_bytes()).wrapping_add(key)));
        let score = if weight > f64::EPSILON { uniform.powf(1.0 / weight) } else { 0.0 };
        if score > best.0 {
            best = (score, name);
        }
    }
    Ok(best.1.into())
}

/// FNV-1 over signed bytes, as in folly.
fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        hash.wrapping_mul(0x100_0000_01b3) ^ i64::from(byte.cast_signed()).cast_unsigned()
    })
}

/// Converts a hash to a number from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "53 of 64 bits are plenty")]
fn unit(hash: u64) -> f64 {
    hash as f64 / u64::MAX as f64
}
