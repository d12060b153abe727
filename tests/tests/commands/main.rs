//! Each program's command line, as people and systems use it: exit codes, what is printed, and what is said to mistakes.

mod ctl;
mod lab;
mod mistakes;
mod operator;
mod ready;
