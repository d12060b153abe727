//! How much memory a configuration may take before it is refused: a few lines of macros can stand for gigabytes.
//!
//! What is made of a text is charged before it is made, by an estimate of the bytes that it takes. What is dropped again
//! isn't given back, so the budget bounds the time too.
//!
//! ```text
//! text ─ parsed ─▶ values ─ expanded ─▶ values    one budget, with all imports and flavors
//! values ─ built ─▶ routes                         another of the same size
//! ```
//! # Bad at
//! Estimates: a value counts 64 bytes, a member of an object 100 more and its name's length.

use std::cell::Cell;
use std::fmt;

use super::error::{ConfigError, Result};
use super::{Json, Value};

/// What is left.
#[derive(Debug)]
pub struct Budget {
    left: Cell<usize>,
    whole: usize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { left: Cell::new(bytes), whole: bytes }
    }

    /// Takes bytes out.
    ///
    /// # Errors
    /// There are fewer; then nothing is left for anybody.
    pub fn charge(&self, bytes: usize) -> Result<()> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.unwrap_or(0));
        let message = || {
            format!(
                "the configuration takes more than {}: --config-budget allows more",
                Size(self.whole)
            )
        };
        left.map(drop).ok_or_else(|| ConfigError::new(message()))
    }

    /// Charges a value that is about to be copied, with all that it holds.
    ///
    /// # Errors
    /// As [`Self::charge`]; or it nests too deep.
    pub fn charge_copy(&self, json: &Json) -> Result<()> {
        self.charge(bytes(json, 1)?)
    }
}

/// Bytes in the largest unit that has a whole number of them.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let units = [(30, "GB"), (20, "MB"), (10, "KB")];
        let whole = |(shift, _): &(u32, _)| bytes >> shift > 0 && bytes.trailing_zeros() >= *shift;
        match units.into_iter().find(whole) {
            Some((shift, unit)) => write!(f, "{} {unit}", bytes >> shift),
            None => write!(f, "{bytes} bytes"),
        }
    }
}

/// Whether a value nests no deeper than those can go who walk through it.
pub fn check_depth(json: &Json) -> Result<()> {
    bytes(json, 1).map(drop)
}

/// What a value takes, with all that it holds.
fn bytes(json: &Json, depth: usize) -> Result<usize> {
    if depth > DEPTH_MAX {
        return Err(ConfigError::at(json.line, format!("nested more than {DEPTH_MAX} deep")));
    }
    let mut sum = VALUE_BYTES;
    match &json.value {
        Value::String(text) => sum += text.len(),
        Value::Array(array) => {
            for element in array {
                sum += bytes(element, depth + 1)?;
            }
        }
        Value::Object(object) => {
            for (name, value) in object.iter() {
                sum += MEMBER_BYTES + name.len() + bytes(value, depth + 1)?;
            }
        }
        _ => {}
    }
    Ok(sum)
}

/// A value without what it points to: twice its size, since arrays grow by doubling.
pub const VALUE_BYTES: usize = 64;
/// As above, a member's name and its place in the object's index.
pub const MEMBER_BYTES: usize = 100;
/// Deeper than any configuration, shallower than the stack.
pub const DEPTH_MAX: usize = 256;
/// Stack of a thread that reads a configuration: enough for one that nests as deep as it may, in a debug build too.
pub const STACK_BYTES: usize = 16 << 20;
/// Where nobody says otherwise.
pub const BUDGET_BYTES: usize = 64 << 20;
