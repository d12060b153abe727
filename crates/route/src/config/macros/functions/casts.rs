//! One type of value from another, where nothing is lost.

use crate::config::macros::{ConfigError, Json, Result, Value};

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

/// A hash as a number from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "53 of 64 bits are plenty")]
pub(super) fn unit(hash: u64) -> f64 {
    hash as f64 / u64::MAX as f64
}
