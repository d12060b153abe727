//! `lease-get`, mcrouter's command: a value, or the right to fetch it; see [`guira_cache::Leased`].
//!
//! ```text
//! VALUE <key> <flags> <bytes>            the value
//! LVALUE <key> <token> <flags> <bytes>   none: store one under the token; 1 tells to wait; the bytes are stale, or 0
//! ```
//! `lease-set` is a storage command like the others (`store.rs`).

use super::Executor;
use crate::process::detail::Event;
use guira_cache::{ClassCounter, Counter, Key, Leased, Stale};
use guira_proto::reply;

impl<'t> Executor<'t> {
    /// One key of a lease-get.
    pub(super) fn lease_get(&mut self, key: &Key<'_>) {
        let handle = self.handle();
        handle.count(Counter::CmdGet);
        let (token, stale, miss) = match handle.lease_get(key, self.now()) {
            Leased::Hit(item) => {
                handle.count_class(ClassCounter::GetHits, item.class());
                self.watch_get(key, Ok(&item));
                self.turn.process.detail.count(key.bytes(), Event::Hit);
                let (flags, bytes) = (item.client_flags(), item.value_bytes());
                reply::value_header(&mut self.output.bytes, key.bytes(), flags, bytes, None);
                return self.value(&item);
            }
            Leased::Granted { token, stale, miss } => (token, stale, miss),
            Leased::Wait { stale, miss } => (TOKEN_WAIT, stale, miss),
        };
        handle.count(Counter::GetMisses);
        self.count_miss(miss);
        self.watch_get(key, Err(miss));
        self.turn.process.detail.count(key.bytes(), Event::Miss);
        let out = &mut self.output.bytes;
        match stale {
            None => {
                reply::lease_header(out, key.bytes(), token, 0, 0);
                self.say(b"\r\n");
            }
            Some(Stale::Item(item)) => {
                let (flags, bytes) = (item.client_flags(), item.value_bytes());
                reply::lease_header(out, key.bytes(), token, flags, bytes);
                self.value(&item);
            }
            Some(Stale::Kept(stale)) => {
                let (flags, value) = (stale.client_flags(), stale.value());
                reply::lease_header(out, key.bytes(), token, flags, value.len());
                self.say(value);
                self.say(b"\r\n");
            }
        }
    }
}

/// The token that is none: somebody else fetches the value.
const TOKEN_WAIT: u64 = 1;
