//! What the crate promises: the grammar as tables, and the laws of its head over the same lines.

mod binary;
mod grammar;
mod lines;
mod split;
mod udp;
