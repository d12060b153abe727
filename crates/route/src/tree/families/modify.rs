//! `ModifyExptimeRoute`: sets or limits the expiry of values that are stored or touched.
//!
//! `ModifyKeyRoute`: changes the routing prefix, and the beginning or the end of keys.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use guira_client::{Op, Outcome, Reply, Request};

use super::{
    BoxFuture, Builder, ConfigError, Context, Fields, I32, Node, Result, Route, Shape, Takes,
    field, needed, words,
};
use crate::key;

/// Changes the expiry of requests to its target. The exptime of a delete is a hold-off, and stays as it is.
#[derive(Debug)]
struct ModifyExptime {
    target: Node,
    exptime: i64,
    action: Action,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Set,
    /// The smaller one of both, where 0 is the largest.
    Min,
}

impl ModifyExptime {
    /// The expiry for the target, if it differs from the request's.
    fn changed(&self, request: &Request) -> Option<i64> {
        let has_exptime =
            request.op.is_update() || matches!(request.op, Op::Touch | Op::Gat | Op::Gats);
        let changes = match self.action {
            Action::Set => request.exptime != self.exptime,
            Action::Min => request.exptime == 0 || request.exptime > self.exptime,
        };
        (has_exptime && changes).then_some(self.exptime)
    }
}

impl Route for ModifyExptime {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let Some(exptime) = self.changed(request) else {
            return self.target.route(request, context);
        };
        let request = Request { exptime, ..request.clone() };
        Box::pin(async move { self.target.route(&request, context).await })
    }

    fn name(&self) -> Cow<'_, str> {
        let action = match self.action {
            Action::Set => "set",
            Action::Min => "min",
        };
        format!("modify-exptime|{action}|exptime={}", self.exptime).into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        match self.changed(request) {
            Some(exptime) => visitor(&*self.target, &Request { exptime, ..request.clone() }),
            None => visitor(&*self.target, request),
        }
    }

    fn next(&self, request: &Request, _: &Context) -> Option<&dyn Route> {
        self.changed(request).is_none().then_some(&*self.target)
    }

    fn choice(&self, request: &Request) -> Option<usize> {
        self.target.choice(request)
    }

    fn failure_domain(&self) -> u32 {
        self.target.failure_domain()
    }
}

/// Returns a route to `target` that limits the expiry to `exptime` seconds; 0: no limit.
pub(super) fn at_most(target: Node, exptime: i64) -> Node {
    if exptime == 0 {
        return target;
    }
    Rc::new(ModifyExptime { target, exptime, action: Action::Min })
}
pub(super) static EXPTIME: Shape = Shape {
    name: "ModifyExptimeRoute",
    fields: &[&[
        needed("target", Takes::Route, "where requests go"),
        needed("exptime", Takes::Whole(-I32 - 1, I32), "seconds to live"),
        field(
            "action",
            Takes::Word(|| words(&["set", "min"])),
            "`set` it, or take the `min` of both (set)",
        ),
    ]],
};

/// `ModifyExptimeRoute`
pub(super) fn build_exptime(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let target = builder.one(fields.required("target")?)?;
    let exptime = fields.integer("exptime")?;
    let exptime = exptime.ok_or_else(|| fields.error("no exptime"))?;
    Ok(vec![match fields.string("action")? {
        None | Some("set") => Rc::new(ModifyExptime { target, exptime, action: Action::Set }),
        Some("min") => at_most(target, exptime),
        Some(_) => return Err(fields.error("action should be 'set' or 'min'")),
    }])
}

/// Changes the keys of requests to its target.
#[derive(Debug)]
struct ModifyKey {
    target: Node,
    routing_prefix: Option<String>,
    /// The text with which each key begins, after the routing prefix.
    beginning: String,
    /// Overwrite the first bytes of the key with the beginning, instead of inserting it.
    is_inplace: bool,
    /// The old beginning, which `beginning` replaces.
    replaced: Option<String>,
    suffix: String,
}

impl ModifyKey {
    /// The key for the target, if it differs from the request's.
    fn changed(&self, whole: &[u8]) -> Option<Bytes> {
        let old_prefix = key::prefix(whole);
        let rest = key::without_prefix(whole);
        let prefix = self.routing_prefix.as_deref().map_or(old_prefix, str::as_bytes);
        let (beginning, suffix) = (self.beginning.as_bytes(), self.suffix.as_bytes());
        let replaced = self.replaced.as_deref().and_then(|old| rest.strip_prefix(old.as_bytes()));
        if let Some(rest) = replaced {
            return Some(key::concat(&[prefix, beginning, rest, suffix]));
        }
        if !rest.starts_with(beginning) {
            let covered = if self.is_inplace { rest.get(beginning.len()..) } else { None };
            return Some(key::concat(&[prefix, beginning, covered.unwrap_or(rest), suffix]));
        }
        (prefix != old_prefix || !suffix.is_empty()).then(|| key::concat(&[prefix, rest, suffix]))
    }
}

impl Route for ModifyKey {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let Some(key) = self.changed(&request.key) else {
            return self.target.route(request, context);
        };
        let bytes = key::without_prefix(&key).len();
        if bytes == 0 || bytes > KEY_BYTES_MAX {
            let what = if bytes == 0 { "missing" } else { "too long" };
            let message = format!("ModifyKeyRoute: invalid key: invalid key: {what}");
            return Box::pin(std::future::ready(Reply::failure(Outcome::LocalError, message)));
        }
        let request = Request { key, ..request.clone() };
        let Some(write) = &context.write else {
            return Box::pin(async move { self.target.route(&request, context).await });
        };
        let context = Context { write: Some(write.also(&request.key)), ..context.clone() };
        Box::pin(async move { self.target.route(&request, &context).await })
    }

    fn name(&self) -> Cow<'_, str> {
        "modify-key".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        match self.changed(&request.key) {
            Some(key) => visitor(&*self.target, &Request { key, ..request.clone() }),
            None => visitor(&*self.target, request),
        }
    }
}

/// The longest key that servers accept.
pub(super) const KEY_BYTES_MAX: usize = 250;
pub(super) static KEY: Shape = Shape {
    name: "ModifyKeyRoute",
    fields: &[&[
        needed("target", Takes::Route, "where requests go"),
        field("set_routing_prefix", Takes::Text, "the routing prefix, empty: none"),
        field("ensure_key_prefix", Takes::Text, "how keys begin"),
        field("replace_key_prefix", Takes::Text, "the beginning that is replaced by it"),
        field("set_key_suffix", Takes::Text, "how keys end"),
        field("modify_inplace", Takes::Bool, "the beginning overwrites as much of the key"),
    ]],
};

/// `ModifyKeyRoute`
pub(super) fn build_key(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let target = builder.one(fields.required("target")?)?;
    let routing_prefix = match fields.string("set_routing_prefix")? {
        None | Some("") => fields.string("set_routing_prefix")?.map(str::to_owned),
        Some(prefix) => Some(crate::tree::prefix::normal(prefix)?),
    };
    let text = |name| Ok::<_, ConfigError>(fields.string(name)?.map(str::to_owned));
    let beginning = text("ensure_key_prefix")?.unwrap_or_default();
    let is_inplace = fields.boolean("modify_inplace")?.unwrap_or(false);
    let (replaced, suffix) =
        (text("replace_key_prefix")?, text("set_key_suffix")?.unwrap_or_default());
    Ok(vec![Rc::new(ModifyKey { target, routing_prefix, beginning, is_inplace, replaced, suffix })])
}
