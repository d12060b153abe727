//! Failed deletes: the servers that are owed them, the files that store them, and how they are sent again.
//!
//! ```text
//! a delete fails ─▶ Debts::owe ─▶ spool: a line in a file ─▶ Account: owed ─▶ the client is answered
//!                                                               │ the server returns
//!                                                               ▼
//!                                     Paying: sends file after file ─▶ paid ─▶ the file is removed
//! ```
//! This module reaches servers only through the `Connection` that a payer brings.

pub(crate) mod debts;
pub(crate) mod spool;
pub(crate) mod pay;
pub(crate) mod file;
mod marks;
pub(crate) mod account;

use std::fmt::Display;

/// `1 delete`, `2 deletes`, with a verb that fits behind it, if one follows.
pub(crate) fn counted(number: impl Display, [one, several]: [&str; 2]) -> String {
    match number.to_string().as_str() {
        "1" => format!("1 delete{one}"),
        number => format!("{number} deletes{several}"),
    }
}
