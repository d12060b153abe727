//! Shard splits: hosts use different copies of a hot shard, with keys `p:SHARD:…`, `p:SHARDaa:…`, `p:SHARDba:…` and so
//! on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use guira_client::{Op, Reply, Request};

use super::hashing::shard;
use super::{
    BoxFuture, Builder, ConfigError, Context, Fields, Json, Node, Object, Result, Route, Shape,
    Takes, U32, detach, field, ignored, needed,
};
use crate::key;
use crate::settings::Clock;

/// Chooses this host's copy. Deletes go to all copies if configured.
#[derive(Debug)]
struct ShardSplit {
    target: Node,
    splits: BTreeMap<Vec<u8>, Split>,
    host_id: u32,
    clock: Clock,
}

/// The number of a shard's copies, before and after a migration.
#[derive(Clone, Copy, Debug)]
struct Split {
    old: usize,
    new: usize,
    start_s: i64,
    period_s: i64,
    fans_out_deletes: bool,
}

/// The copies that two letters can name, and the original.
const SPLITS_MAX: i64 = 26 * 26 + 1;
/// The number of steps in which a migration takes over the hosts.
const HOST_STEPS: u32 = 16384;

impl Split {
    fn read(json: &Json, name: &str) -> Result<Self> {
        if let Some(number) = json.as_int() {
            let copies = usize::try_from(number.min(SPLITS_MAX)).ok().filter(|copies| *copies > 0);
            let message = format!("shard_splits value is <= 0 for {name}");
            let new = copies.ok_or_else(|| ConfigError::at(json.line, message))?;
            return Ok(Self { old: new, new, start_s: 0, period_s: 0, fans_out_deletes: true });
        }
        let fields = Fields::new(json, &SPLIT);
        let copies = |field| -> Result<usize> {
            let copies: Option<i64> = fields.integer(field)?;
            Ok(usize::try_from(copies.unwrap_or(1).min(SPLITS_MAX)).unwrap_or(1))
        };
        let seconds = |field| fields.integer(field);
        Ok(Self {
            old: copies("old_split_size")?,
            new: copies("new_split_size")?,
            start_s: seconds("split_start")?.unwrap_or(0),
            period_s: seconds("migration_period")?.unwrap_or(0),
            fans_out_deletes: fields.boolean("fanout_deletes")?.unwrap_or(false),
        })
    }

    /// The number of copies that this host uses now.
    fn copies(&self, host_id: u32, now_s: i64) -> usize {
        let since = now_s - self.start_s;
        if since < 0 {
            return self.old;
        }
        let taken_over = i64::from(host_id % HOST_STEPS).saturating_mul(self.period_s)
            < since.saturating_mul(i64::from(HOST_STEPS));
        if since > self.period_s || taken_over { self.new } else { self.old }
    }
}

impl ShardSplit {
    /// Returns the shard's split, the number of its copies, and the key's parts before and after the end of the shard's
    /// name. `None` if the shard has no further copies.
    fn split<'k>(&self, whole: &'k [u8]) -> Option<(Split, usize, &'k [u8], &'k [u8])> {
        let routing_key = key::routing_key(whole);
        let shard = shard(routing_key)?;
        let split = *self.splits.get(shard)?;
        let copies = split.copies(self.host_id, self.clock.unix_s());
        let colon = routing_key.iter().position(|byte| *byte == b':')?;
        let (before, behind) = whole.split_at(key::prefix(whole).len() + colon + 1 + shard.len());
        (copies > 1).then_some((split, copies, before, behind))
    }
}

/// The key of a copy. `copy` must be at least 1, because copy 0 has the original key.
fn copy_key(before: &[u8], behind: &[u8], copy: usize) -> Bytes {
    let letter = |number: usize| b'a' + u8::try_from(number % 26).unwrap_or(0);
    let suffix = [letter(copy - 1), letter((copy - 1) / 26)];
    key::concat(&[before, &suffix, behind])
}

impl Route for ShardSplit {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let Some((split, copies, before, behind)) = self.split(&request.key) else {
            return self.target.route(request, context);
        };
        let copied = |copy| Request { key: copy_key(before, behind, copy), ..request.clone() };
        if request.op == Op::Delete && split.fans_out_deletes {
            (1..copies).for_each(|copy| detach(&self.target, copied(copy), context));
            return self.target.route(request, context);
        }
        match self.host_id as usize % copies {
            0 => self.target.route(request, context),
            copy => {
                let request = copied(copy);
                Box::pin(async move { self.target.route(&request, context).await })
            }
        }
    }

    fn name(&self) -> Cow<'_, str> {
        "shard-split".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        let Some((split, copies, before, behind)) = self.split(&request.key) else {
            return visitor(&*self.target, request);
        };
        let own = self.host_id as usize % copies;
        let is_all = request.op == Op::Delete && split.fans_out_deletes;
        for copy in (0..copies).filter(|copy| is_all || *copy == own) {
            match copy {
                0 => visitor(&*self.target, request),
                _ => {
                    let key = copy_key(before, behind, copy);
                    visitor(&*self.target, &Request { key, ..request.clone() });
                }
            }
        }
    }
}
/// `shard_splits`
pub(super) const SPLITS: Takes =
    Takes::Map(&Takes::OneOf(&[Takes::Whole(1, i64::MAX), Takes::Object(&SPLIT)]));

static SPLIT: Shape = Shape {
    name: "shard_splits",
    fields: &[&[
        field("old_split_size", Takes::Whole(1, U32), "how many copies there were (1)"),
        field("new_split_size", Takes::Whole(1, U32), "how many there will be (1)"),
        field(
            "split_start",
            Takes::Whole(0, i64::MAX),
            "when that begins, in seconds since 1970 (0)",
        ),
        field(
            "migration_period",
            Takes::Whole(0, i64::MAX),
            "in how many seconds hosts follow (0)",
        ),
        field("fanout_deletes", Takes::Bool, "deletes go to all copies"),
    ]],
};

/// Returns a route to `target` with the splits in `json`.
pub(super) fn node(target: Node, json: &Json, builder: &Builder<'_>) -> Result<Node> {
    let splits = json.as_object();
    let message = "ShardSplitter: config is not an object";
    let splits = splits.ok_or_else(|| ConfigError::at(json.line, message))?;
    let read =
        |(name, json): (&str, &Json)| Ok((name.as_bytes().to_vec(), Split::read(json, name)?));
    let splits: Result<_> = Object::iter(splits).map(read).collect();
    let (host_id, clock) = (builder.settings.host_id, builder.settings.clock);
    Ok(Rc::new(ShardSplit { target, splits: splits?, host_id, clock }))
}
pub(super) static SHAPE: Shape = Shape {
    name: "ShardSplitRoute",
    fields: &[&[
        needed("destination", Takes::Route, "where the copies are"),
        needed("shard_splits", SPLITS, "copies by the shard's name"),
        ignored("split_shard_fanout"),
    ]],
};

/// `ShardSplitRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let target = builder.one(fields.required("destination")?)?;
    Ok(vec![node(target, fields.required("shard_splits")?, builder)?])
}
