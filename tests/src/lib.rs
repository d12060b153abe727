//! The proving ground: the real binary over real sockets, beside memcached, with real clients.
//!
//! ```text
//! server.rs    starts `guira serve` or memcached, waits for its socket, ends it when dropped
//! client.rs    bytes to a server and back, with a deadline on each read
//! cluster.rs   a server and its router
//! console.rs   the commands on a page, run as a reader types them
//! etcd.rs      a real etcd, with TLS and logins
//! mariadb.rs   a database
//! postgres.rs  another one
//! mysql.rs     a third, which not every machine can get
//! relay.rs     a relay in front of a server, which can be cut
//! recorded.rs  histories of a replicated store under faults, and their check
//! replicas.rs  three nodes of a replicated store, and their etcd
//! pair.rs      two hosts of one, a primary and its replica
//! holder.rs    who asks a node for holds, and never drops what it keeps
//! keys.rs      which keys must go at which change, whichever of MariaDB and MySQL it is
//! sql.rs       sessions of SQL at each
//! churn.rs     random transactions of one while everything is killed, beside a model
//! shop.rs      one of them, with clusters and `guira invalidate`
//! twins.rs     two daemons of one shop, of which one is active
//! metrics.rs   a scrape of the HTTP port, taken apart
//! script.rs    the tables in tests/tables: what is sent, what must come back
//! tls.rs       certificates made for a test, a client over TLS
//! torture.rs   many connections, self-checking values, a checker that knows what each read may say
//! tidy.rs      what the source tree promises of itself: sizes, edges, words
//! ```
//!
//! # Invariants
//! 1. No test waits a fixed time for a server: it waits for the socket, or for the reply of a probe.
//! 2. A test whose reference program is missing fails and names the package; it doesn't pass by silence.
//! 3. Everything that a test starts ends with the test.
#![forbid(unsafe_code)]

pub mod churn;
pub mod client;
pub mod cluster;
pub mod console;
pub mod etcd;
pub mod holder;
pub mod keys;
pub mod mariadb;
pub mod metrics;
pub mod mysql;
pub mod packet;
pub mod pair;
pub mod postgres;
pub mod recorded;
pub mod relay;
pub mod replicas;
pub mod script;
pub mod server;
pub mod shop;
pub mod sql;
pub mod tidy;
pub mod tls;
pub mod tmpfs;
pub mod torture;
pub mod twins;
