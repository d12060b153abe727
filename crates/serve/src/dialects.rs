//! The protocols of requests: text with its meta commands, and binary.

mod text;
mod binary;

pub(crate) use binary::Binary;
pub(crate) use text::Text;
