//! The repository itself: its sources keep their rules, and its documents say what is true.

mod claims;
mod console;
mod floors;
mod tidy;
