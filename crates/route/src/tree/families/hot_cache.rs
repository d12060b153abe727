//! `HotCacheRoute`: answers the few most requested keys from a local cache, so that their servers have capacity for
//! other keys.
//!
//! There is one cache per proxy thread ([`crate::hot_cache`]). Stripes, shared by the whole process, tell each cache
//! about writes on other threads.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use guira_client::{Op, Outcome, Reply, Request};
use tokio::time::Instant;

use super::{
    BoxFuture, Builder, Context, Fields, Node, Result, Route, Shape, Takes, U32, field, needed,
};
use crate::counters::Counter;
use crate::hot_cache::{Found, HotCache, Limits, Stripes};
use crate::plan;

/// Answers gets from a cache. Other requests, and misses, go to its target.
#[derive(Debug)]
struct HotCacheRoute {
    target: Node,
    entries: usize,
    cache: RefCell<HotCache>,
    stripes: Stripes,
}

impl HotCacheRoute {
    async fn get(&self, request: &Request, context: &Context) -> Reply {
        // The borrow must end before the server is asked.
        let found = self.cache.borrow_mut().get(&request.key, &self.stripes, Instant::now());
        let asked = match found {
            Found::Reply(reply) => {
                context.count(Counter::HotCacheHits);
                return reply;
            }
            Found::Ask(asked) => asked,
        };
        context.count(Counter::HotCacheMisses);
        let reply = self.target.route(request, context).await;
        if let (Some(asked), Outcome::Found) = (asked, reply.outcome) {
            let (key, now) = (&request.key, Instant::now());
            self.cache.borrow_mut().offer((key, asked), &reply, &self.stripes, now);
        }
        reply
    }

    async fn write(&self, request: &Request, context: &Context) -> Reply {
        let _under_way = self.stripes.write(&request.key);
        self.target.route(request, context).await
    }
}

impl Route for HotCacheRoute {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        match request.op {
            // A meta get may ask for more, such as a lease to fill the key. Only the server can answer that.
            Op::Get if request.meta.is_none() => Box::pin(self.get(request, context)),
            op if op.is_update() || op.is_arithmetic() || op == Op::Delete => {
                Box::pin(self.write(request, context))
            }
            _ => self.target.route(request, context),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        format!("hot-cache|{}", self.entries).into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.target, request);
    }

    fn choice(&self, request: &Request) -> Option<usize> {
        self.target.choice(request)
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "HotCacheRoute",
    fields: &[&[
        needed("target", Takes::Route, "where requests go"),
        field("servers", Takes::Whole(2, 1000000), "how many servers the keys are spread over"),
        field(
            "entries",
            Takes::Whole(1, ENTRIES_MAX),
            "how many replies are held, whatever `servers` says",
        ),
        field(
            "k",
            Takes::Number(f64::MIN_POSITIVE, 1000.0),
            "of k·n·ln n + 1 entries for n servers (8)",
        ),
        field("fresh_ms", Takes::Whole(1, U32), "how long a reply may be held (1000)"),
        field(
            "value_bytes_max",
            Takes::Whole(0, 1 << 30),
            "larger values are left to the servers (65536)",
        ),
    ]],
};

/// `HotCacheRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let target = builder.one(fields.required("target")?)?;
    let servers: Option<u32> = fields.integer("servers")?;
    let entries = match (fields.integer("entries")?, servers) {
        (Some(entries), _) => entries,
        (None, Some(servers)) => {
            let k = fields.number("k")?.unwrap_or(K);
            let entries = plan::entries(f64::from(servers), k).ceil();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
            let entries = entries.min(ENTRIES_MAX as f64) as usize;
            entries
        }
        (None, None) => {
            let message = "give `servers`, how many the keys are spread over, or `entries`; \
                           `guira plan` tells what entries promise";
            return Err(fields.error(message));
        }
    };
    let limits = Limits {
        entries,
        fresh: fields.milliseconds("fresh_ms")?.unwrap_or(FRESH),
        value_bytes_max: fields.integer("value_bytes_max")?.unwrap_or(VALUE_BYTES_MAX),
    };
    let (cache, stripes) = (RefCell::new(HotCache::new(limits)), builder.settings.stripes.clone());
    stripes.begin_use();
    Ok(vec![Rc::new(HotCacheRoute { target, entries, cache, stripes })])
}

/// k in the number of entries, k·n·ln n + 1: the fullest of n servers then has at most 1.21 times an equal share.
const K: f64 = 8.0;
const FRESH: Duration = Duration::from_secs(1);
const VALUE_BYTES_MAX: usize = 64 << 10;
const ENTRIES_MAX: i64 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::canned::{Canned, pools};

    fn canned(fields: &str) -> Canned {
        let target = r#""type": "HotCacheRoute", "target": "PoolRoute|a""#;
        Canned::new(&format!("{{ {}, \"route\": {{{target}, {fields}}} }}", pools("a")))
    }

    fn of(op: Op) -> Request {
        let key = if op == Op::FlushAll { "" } else { "k" };
        Request { value: "v".into(), delta: 1, ..Request::new(op, key) }
    }

    #[test]
    fn a_key_that_is_held_does_not_reach_its_server_until_it_is_written() {
        let canned = canned(r#""entries": 4, "fresh_ms": 36000000"#);
        canned.answers("a=found:x");
        for (op, reaches) in [
            (Op::Get, true),
            (Op::Get, false),
            (Op::Gets, true),
            (Op::Get, false),
            (Op::Set, true),
            (Op::Get, true),
            (Op::Get, false),
            (Op::Delete, true),
            (Op::Get, true),
            (Op::Incr, true),
            (Op::Get, true),
            (Op::FlushAll, true),
            (Op::Get, true),
            (Op::Touch, true),
            (Op::Get, false),
        ] {
            let reply = canned.ask(&of(op));
            assert_eq!(reply.value, "x", "{op:?}");
            assert_eq!(!canned.asked().is_empty(), reaches, "{op:?}");
        }
    }

    #[test]
    fn a_write_by_any_way_to_the_servers_is_known() {
        let hot = r#"{"type": "HotCacheRoute", "target": "PoolRoute|a", "entries": 4, "fresh_ms": 36000000}"#;
        let renamed = format!(
            r#"{{"type": "ModifyKeyRoute", "target": {hot}, "ensure_key_prefix": "app:"}}"#
        );
        let around =
            r#"{"type": "ModifyKeyRoute", "target": "PoolRoute|a", "ensure_key_prefix": "app:"}"#;
        for (here, there, written) in [
            (hot, r#""PoolRoute|a""#, "/b/b/k"),
            (hot, r#""PoolRoute|a""#, "/a/a/k"),
            (hot, r#""PoolRoute|a""#, "/*/*/k"),
            (&renamed[..], r#""PoolRoute|a""#, "/b/b/app:k"),
            (&renamed[..], around, "/b/b/k"),
        ] {
            let config = format!(
                r#"{{ {}, "routes": [{{"aliases": ["/a/a/"], "route": {here}}}, {{"aliases": ["/b/b/"], "route": {there}}}] }}"#,
                pools("a")
            );
            let settings = crate::settings::Settings {
                default_route: "/a/a/".into(),
                ..crate::settings::Settings::default()
            };
            let canned = Canned::with(&config, &settings).unwrap();
            canned.answers("a=found:x");
            for expected in [1, 0] {
                canned.ask(&of(Op::Get));
                assert_eq!(canned.asked().len(), expected);
            }
            canned.ask(&Request::new(Op::Delete, written));
            canned.wait(Duration::from_secs(1));
            canned.asked();
            canned.ask(&of(Op::Get));
            assert_eq!(canned.asked().len(), 1, "{written} in {config}");
        }
    }

    #[test]
    fn a_broadcast_write_is_under_way_until_its_last_copy_is_answered() {
        let hot = r#"{"type": "HotCacheRoute", "target": "PoolRoute|a", "entries": 4, "fresh_ms": 36000000}"#;
        let config = format!(
            r#"{{ {}, "routes": [{{"aliases": ["/a/a/"], "route": "PoolRoute|b"}}, {{"aliases": ["/a/c/"], "route": "PoolRoute|a"}}, {{"aliases": ["/b/b/"], "route": {hot}}}] }}"#,
            pools("a b")
        );
        let settings = crate::settings::Settings {
            default_route: "/a/a/".into(),
            ..crate::settings::Settings::default()
        };
        let canned = Canned::with(&config, &settings).unwrap();
        canned.answers("a=found:x b=deleted");
        canned.delay("a", Duration::from_secs(600));
        canned.ask(&Request::new(Op::Delete, "/a/*/k"));
        canned.delay("a", Duration::ZERO);
        let get = Request::new(Op::Get, "/b/b/k");
        canned.asked();
        for _ in 0..2 {
            canned.ask(&get);
            assert_eq!(canned.asked(), ["a get k"], "its copy is still under way");
        }
        // Each request takes a minute of simulated time.
        (0..10).for_each(|_| drop(canned.ask(&get)));
        canned.asked();
        canned.ask(&get);
        assert_eq!(canned.asked().len(), 0, "it is over");
    }

    /// An entry must copy its key and value: a shared slice would keep the whole read buffer alive.
    #[test]
    fn an_entry_keeps_nothing_of_what_was_read() {
        use crate::hot_cache::{Found, HotCache, Limits, Stripes};
        let (stripes, now) = (Stripes::new(), Instant::now());
        let limits = Limits { entries: 2, fresh: FRESH, value_bytes_max: 100 };
        let mut cache = HotCache::new(limits);
        let read = bytes::Bytes::from(b"get key VALUE v".to_vec());
        let (key, value) = (read.slice(4..7), read.slice(14..));
        let Found::Ask(Some(asked)) = cache.get(&key, &stripes, now) else { panic!("it is hot") };
        let reply = Reply { value, ..Reply::new(Outcome::Found) };
        cache.offer((&key, asked), &reply, &stripes, now);
        assert!(matches!(cache.get(b"key", &stripes, now), Found::Reply(_)));
        drop((key, reply));
        assert!(read.is_unique(), "nobody else holds it");
    }

    #[test]
    fn misses_and_failures_are_not_held_and_what_is_held_grows_old() {
        let canned = canned(r#""servers": 3"#);
        for answer in ["a=notfound", "a=timeout", "a=found:x", "a=found:x"] {
            canned.answers(answer);
            canned.ask(&of(Op::Get));
            // A minute has passed since the last request.
            assert_eq!(canned.asked().len(), 1, "{answer}");
        }
    }

    #[test]
    fn a_configuration_without_a_size_says_what_to_give() {
        let target = r#"{"type": "HotCacheRoute", "target": "PoolRoute|a"}"#;
        let config = format!("{{ {}, \"route\": {target} }}", pools("a"));
        let refused = Canned::with(&config, &crate::settings::Settings::default()).err().unwrap();
        assert!(refused.to_string().contains("guira plan"), "{refused}");
    }
}
