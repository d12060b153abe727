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
