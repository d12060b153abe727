//! The events that can be watched, and the line of each in memcached's format.
//!
//! One difference: microseconds have six digits here, so that a time can also be read as a number.

use crate::process::roster::Seat;
use crate::process::written::Written;
use guira_cache::{Evicted, ItemRef, Miss};
use guira_flash::Compacted;
use guira_proto::{WatchKinds, append_uri};
use std::io::Write;
use std::os::fd::RawFd;

/// An event.
pub(crate) enum Event<'e> {
    /// A key was looked up, by any command.
    Get {
        key: &'e [u8],
        look: Look,
        fd: RawFd,
    },
    /// A storage command has ended.
    Store(Stored<'e>),
    /// An item was evicted.
    Eviction {
        evicted: &'e Evicted,
        now: u32,
    },
    /// An item was written to storage; `now` is the current second.
    ExtWrite {
        written: &'e Written,
        now: u32,
    },
    /// A client deleted an item; `command` is `delete` or `md`.
    Delete {
        key: &'e [u8],
        command: &'static str,
        class: usize,
        size: usize,
    },
    /// A connection was accepted.
    Open {
        seat: &'e Seat,
        fd: RawFd,
    },
    /// Compaction looks for a page whose live fraction is below `ratio`.
    CompactFraginfo {
        ratio: f64,
        bytes: f64,
    },
    CompactStart {
        page: u32,
        version: u64,
    },
    CompactReadEnd {
        page: u32,
        done: &'e Compacted,
    },
    CompactAbort {
        page: u32,
    },
    CompactEnd {
        page: u32,
    },
    /// A connection was closed.
    Close {
        seat: &'e Seat,
        reason: CloseReason,
        fd: RawFd,
    },
}

/// A storage command that has ended.
pub(crate) struct Stored<'e> {
    pub(crate) key: &'e [u8],
    pub(crate) status: &'static str,
    pub(crate) command: &'static str,
    /// Seconds to live; 0: no expiry.
    pub(crate) ttl: u32,
    /// The class, counted from 1; 0 if nothing was stored.
    pub(crate) class: usize,
    pub(crate) fd: RawFd,
    pub(crate) size: u32,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Absent,
    Found { class: usize, size: usize },
    Flushed,
    Expired,
}

/// The reason why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The input wasn't a request, or the connection broke.
    Error,
    /// The client closed it, or asked for that.
    Normal,
    IdleTimeout,
    /// The server stops.
    Shutdown,
}

impl Look {
    pub(crate) fn of(found: Result<&ItemRef<'_>, Miss>) -> Look {
        match found {
            Ok(item) => Look::Found { class: item.class() + 1, size: item.value_bytes() },
            Err(Miss::Absent) => Look::Absent,
            Err(Miss::Expired) => Look::Expired,
            Err(Miss::Flushed) => Look::Flushed,
        }
    }

    fn status(self) -> &'static str {
        match self {
            Look::Absent => "not_found",
            Look::Found { .. } => "found",
            Look::Flushed => "flushed",
            Look::Expired => "expired",
        }
    }
}

impl Event<'_> {
    /// The kind under which the event is watched.
    pub(crate) fn kind(&self) -> WatchKinds {
        match self {
            Event::Get { .. } => WatchKinds::FETCHERS,
            Event::Store(_) => WatchKinds::MUTATIONS,
            Event::Eviction { .. } | Event::ExtWrite { .. } => WatchKinds::EVICTIONS,
            Event::Delete { .. } => WatchKinds::DELETIONS,
            Event::CompactFraginfo { .. }
            | Event::CompactStart { .. }
            | Event::CompactReadEnd { .. }
            | Event::CompactAbort { .. }
            | Event::CompactEnd { .. } => WatchKinds::SYSEVENTS,
            Event::Open { .. } | Event::Close { .. } => WatchKinds::CONNEVENTS,
        }
    }

    /// Appends the words of the line, beginning with its type.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        // Writing to memory can't fail.
        let _ = match self {
            Event::Get { key, look, fd } => {
                append_key(out, "item_get", key);
                let (class, size) = match *look {
                    Look::Found { class, size } => (class, size),
                    _ => (0, 0),
                };
                let status = look.status();
                write!(out, " status={status} clsid={class} cfd={fd} size={size}")
            }
            Event::Store(Stored { key, status, command, ttl, class, fd, size }) => {
                append_key(out, "item_store", key);
                write!(
                    out,
                    " status={status} cmd={command} ttl={ttl} clsid={class} cfd={fd} size={size}"
                )
            }
            Event::Eviction { evicted, now } => {
                append_key(out, "eviction", &evicted.key);
                let fetch = if evicted.was_fetched { "yes" } else { "no" };
                let ttl = ttl_of(evicted.exptime, *now);
                let (la, class, size) = (evicted.idle_s, evicted.class + 1, evicted.value_bytes);
                write!(out, " fetch={fetch} ttl={ttl} la={la} clsid={class} size={size}")
            }
            Event::ExtWrite { written, now } => {
                append_key(out, "extwrite", &written.key);
                let Written { was_fetched, exptime, idle_s, class, bucket, .. } = written;
                let (fetch, ttl) =
                    (if *was_fetched { "yes" } else { "no" }, ttl_of(*exptime, *now));
                let bucket = bucket.number();
                write!(out, " fetch={fetch} ttl={ttl} la={idle_s} clsid={class} bucket={bucket}")
            }
            Event::Delete { key, command, class, size } => {
                append_key(out, "deleted", key);
                write!(out, " cmd={command} clsid={class} size={size}")
            }
            Event::CompactFraginfo { ratio, bytes } => {
                write!(out, "type=compact_fraginfo ratio={ratio:.2} bytes={bytes:.0}")
            }
            Event::CompactStart { page, version } => {
                write!(out, "type=compact_start id={page} version={version}")
            }
            Event::CompactReadEnd { page, done } => write!(
                out,
                "type=compact_read_end id={page} offset=0 rescues={} rescues_realloc=0 lost={} lost_oom=0 skipped={}",
                done.rescues, done.lost, done.skipped
            ),
            Event::CompactAbort { page } => write!(out, "type=compact_abort id={page}"),
            Event::CompactEnd { page } => write!(out, "type=compact_end id={page}"),
            Event::Open { seat, fd } => {
                append_peer(out, "conn_new", seat);
                write!(out, " cfd={fd}")
            }
            Event::Close { seat, reason, fd } => {
                append_peer(out, "conn_close", seat);
                write!(out, " reason={} cfd={fd}", reason.name())
            }
        };
    }
}

impl CloseReason {
    fn name(self) -> &'static str {
        match self {
            CloseReason::Error => "error",
            CloseReason::Normal => "normal",
            CloseReason::IdleTimeout => "idle_timeout",
            CloseReason::Shutdown => "shutdown",
        }
    }
}

/// Seconds until an expiry; -1 if there is none.
fn ttl_of(exptime: u32, now: u32) -> i64 {
    match exptime {
        0 => -1,
        at => i64::from(at) - i64::from(now),
    }
}

fn append_key(out: &mut Vec<u8>, kind: &str, key: &[u8]) {
    let _ = write!(out, "type={kind} key=");
    append_uri(out, key);
}

fn append_peer(out: &mut Vec<u8>, kind: &str, seat: &Seat) {
    let _ = match seat.remote() {
        Some(from) => {
            write!(out, "type={kind} rip={} rport={} transport=tcp", from.ip(), from.port())
        }
        None => write!(out, "type={kind} rip=unix rport=0 transport=local"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::roster::{Doing, Peer, Roster};

    fn line(event: &Event<'_>) -> String {
        let mut out = Vec::new();
        event.append(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_have_memcacheds_words_in_its_order() {
        let look = Look::Found { class: 3, size: 12 };
        let get = Event::Get { key: b"a b", look, fd: 9 };
        assert_eq!(line(&get), "type=item_get key=a%20b status=found clsid=3 cfd=9 size=12");
        let store = Stored {
            key: b"k",
            status: "stored",
            command: "cas",
            ttl: 60,
            class: 2,
            fd: 9,
            size: 5,
        };
        let want = "type=item_store key=k status=stored cmd=cas ttl=60 clsid=2 cfd=9 size=5";
        assert_eq!(line(&Event::Store(store)), want);
        let evicted = Evicted {
            key: b"k".to_vec().into(),
            was_fetched: true,
            exptime: 110,
            idle_s: 4,
            class: 0,
            value_bytes: 7,
        };
        let want = "type=eviction key=k fetch=yes ttl=10 la=4 clsid=1 size=7";
        assert_eq!(line(&Event::Eviction { evicted: &evicted, now: 100 }), want);
        let written = Written {
            key: b"k".to_vec().into(),
            was_fetched: false,
            exptime: 0,
            idle_s: 4,
            class: 1,
            bucket: guira_flash::Bucket::LowTtl,
        };
        let want = "type=extwrite key=k fetch=no ttl=-1 la=4 clsid=1 bucket=3";
        assert_eq!(line(&Event::ExtWrite { written: &written, now: 100 }), want);
        let delete = Event::Delete { key: b"k", command: "md", class: 1, size: 4 };
        assert_eq!(line(&delete), "type=deleted key=k cmd=md clsid=1 size=4");
    }

    #[test]
    fn connections_are_told_by_their_other_end() {
        let roster = Roster::default();
        let from = "192.0.2.1:4000".parse().unwrap();
        let tcp = roster.enter(9, Peer::Tcp { from, to: "tcp:x".into() }, Doing::Reading, 2);
        let unix = roster.enter(8, Peer::Unix { to: "unix:x".into() }, Doing::Reading, 2);
        let want = "type=conn_new rip=192.0.2.1 rport=4000 transport=tcp cfd=9";
        assert_eq!(line(&Event::Open { seat: &tcp, fd: 9 }), want);
        let reason = CloseReason::IdleTimeout;
        let want = "type=conn_close rip=unix rport=0 transport=local reason=idle_timeout cfd=8";
        assert_eq!(line(&Event::Close { seat: &unix, reason, fd: 8 }), want);
    }
}
