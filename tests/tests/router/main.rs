//! `guira route`: the real binary in front of real servers of memcached and of Guira's own.

mod basics;
mod bombs;
mod config;
mod convert;
mod deletes;
mod etcd;
mod families;
mod fifo;
mod memory;
mod meta;
mod mistakes;
mod names;
mod operator;
mod owed;
mod shutdown;
mod spool;
mod tko;
mod tls;
