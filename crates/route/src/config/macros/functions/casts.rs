//! Conversions between types, and comparisons.

use std::cmp::Ordering;

use guira_config::{ConfigError, Json, Result, Value};

fn fail(json: &Json, to: &str) -> ConfigError {
    ConfigError::at(json.line, format!("Can not cast {} {json} to {to}", json.type_name()))
}

pub(super) fn int(json: &Json) -> Result<Json> {
    let number = match &json.value {
        Value::Int(number) => Some(*number),
        Value::Bool(truth) => Some(i64::from(*truth)),
        Value::String(string) => string.trim().parse().ok(),
        Value::Double(number) => whole(*number),
        _ => None,
    };
    number.map(Json::from).ok_or_else(|| fail(json, "int"))
}

#[expect(clippy::cast_possible_truncation, reason = "whole numbers below 2^53 only")]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 2.0_f64.powi(53)).then_some(number as i64)
}

pub(super) fn double(json: &Json) -> Result<Json> {
    let number = match &json.value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::String(string) => string.trim().parse().ok(),
        _ => json.as_number(),
    };
    number.map(Json::from).ok_or_else(|| fail(json, "double"))
}

pub(super) fn string(json: &Json) -> Result<Json> {
    match &json.value {
        Value::String(_) => Ok(json.clone()),
        Value::Int(number) => Ok(number.to_string().into()),
        Value::Double(number) => Ok(number.to_string().into()),
        Value::Bool(truth) => Ok(truth.to_string().into()),
        _ => Err(fail(json, "string")),
    }
}

pub(super) fn boolean(json: &Json) -> Result<Json> {
    let truth = match &json.value {
        Value::Bool(truth) => Some(*truth),
        Value::Int(number) => Some(*number != 0),
        Value::Double(number) => Some(*number != 0.0),
        Value::String(string) => match string.trim().to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    };
    truth.map(Json::from).ok_or_else(|| fail(json, "boolean"))
}

pub(super) fn truth(json: &Json, what: &str) -> Result<bool> {
    let message = || format!("{what} is {}, expected bool", json.type_name());
    json.as_bool().ok_or_else(|| ConfigError::at(json.line, message()))
}

pub(super) fn integer(json: &Json, what: &str) -> Result<i64> {
    let message = || format!("{what} is not an integer");
    json.as_int().ok_or_else(|| ConfigError::at(json.line, message()))
}

/// Numbers are equal if their values are. Other values must also have the same type.
pub(super) fn is_equal(a: &Json, b: &Json) -> bool {
    match (a.as_number(), b.as_number()) {
        (Some(x), Some(y)) if a.as_int().is_none() || b.as_int().is_none() => x == y,
        _ => a == b,
    }
}

pub(super) fn compare(a: &Json, b: &Json) -> Result<Ordering> {
    let unordered =
        || ConfigError::new(format!("Can not compare {} with {}", a.type_name(), b.type_name()));
    match (&a.value, &b.value) {
        (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::Array(a), Value::Array(b)) => {
            for (a, b) in a.iter().zip(b) {
                let order = compare(a, b)?;
                if order.is_ne() {
                    return Ok(order);
                }
            }
            Ok(a.len().cmp(&b.len()))
        }
        _ => match (a.as_number(), b.as_number()) {
            (Some(a), Some(b)) => a.partial_cmp(&b).ok_or_else(unordered),
            _ => Err(unordered()),
        },
    }
}
