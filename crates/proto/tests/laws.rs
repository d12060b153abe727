//! Tests of the crate's promises: the grammar as tables, and the laws of the crate's documentation over the same lines.

mod binary;
mod grammar;
mod lines;
mod split;
mod udp;
