//! The limit of memory that a configuration may take before it is refused: a few lines of macros can stand for gigabytes.
//!
//! Everything built from a text is charged before it is built, by an estimate of its bytes. What is
//! dropped later isn't credited, so the budget limits the time as well.
//!
//! ```text
//! text ─ parsed ─▶ values ─ expanded ─▶ values    one budget, with all imports and flavors
//! values ─ built ─▶ routes                         another of the same size
//! ```
//! # Bad at
//! The estimates are coarse: a value counts as 64 bytes, a member of an object as 100 more plus the length of its name.

use std::cell::Cell;
use std::fmt;

use super::error::{ConfigError, Result};
use super::{Json, Value};

/// The bytes that are left.
#[derive(Debug)]
pub struct Budget {
    left: Cell<usize>,
    whole: usize,
}

impl Budget {
    /// A budget of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        Self { left: Cell::new(bytes), whole: bytes }
    }

    /// Takes `bytes` from the budget.
    ///
    /// # Errors
    /// The budget has fewer bytes left. It is then empty, so that every later charge fails too.
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

    /// Charges a value that is about to be copied, with everything it contains.
    ///
    /// # Errors
    /// Those of [`Self::charge`], or the value is nested too deep.
    pub fn charge_copy(&self, json: &Json) -> Result<()> {
        self.charge(bytes(json, 1)?)
    }
}

/// Shows a number of bytes in the largest unit of which it is a whole multiple.
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

/// Checks that a value isn't nested deeper than recursive functions can go.
pub fn check_depth(json: &Json) -> Result<()> {
    bytes(json, 1).map(drop)
}

/// The estimated bytes of a value, with everything it contains.
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

/// The estimate for a value without what it points to: twice its size, since arrays grow by doubling.
pub const VALUE_BYTES: usize = 64;
/// The estimate for a member's name and its entry in the object's index.
pub const MEMBER_BYTES: usize = 100;
/// The limit of nesting: deeper than any configuration, shallower than the stack permits.
pub(crate) const DEPTH_MAX: usize = 256;
/// The stack of a thread that reads a configuration: enough for the deepest nesting, in a debug build too.
pub const STACK_BYTES: usize = 16 << 20;
/// The default budget.
pub const BUDGET_BYTES: usize = 64 << 20;
