//! `WarmUpRoute`: a cold cluster fills itself from a warm one.
//!
//! See section 4.3 of Scaling Memcache at Facebook. A value that the cold cluster lacks comes from the warm one, and is
//! *added* to the cold one. If the add is refused, a client has stored or deleted the key meanwhile, and the value may
//! be stale. The reply is then a miss, so that the client reads the database. mcrouter returns the warm value without
//! waiting for the add. `"strict": false` does the same.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Op, Outcome, Reply, Request};

use super::{
    BoxFuture, Builder, Context, Fields, Node, Result, Route, Shape, Takes, U32, detach, field,
    needed,
};
use crate::outcome::{default_reply, is_hit, is_hot_miss};
use crate::settings::Clock;

mod auto_off;

use auto_off::AutoOff;

/// Sends gets to the cold cluster, and after a miss to the warm one. Other requests go to the cold one.
#[derive(Debug)]
struct WarmUp {
    cold: Node,
    warm: Node,
    /// The expiry of a warm value in the cold cluster. `None`: the time it has left in the warm one.
    exptime: Option<i64>,
    is_strict: bool,
    auto_off: Option<AutoOff>,
    clock: Clock,
}

impl WarmUp {
    /// Whether a reply is a hit. Reports hits to [`AutoOff`].
    fn found(&self, reply: &Reply, is_cold: bool) -> bool {
        let is_hit = is_hit(reply.outcome);
        if let (true, Some(auto_off)) = (is_hit, &self.auto_off) {
            auto_off.found(is_cold);
        }
        is_hit
    }

    async fn get(&self, request: &Request, context: &Context) -> Reply {
        let cold = self.cold.route(request, context).await;
        if self.found(&cold, true) {
            return cold;
        }
        let warm = self.warm.route(request, context).await;
        if !self.found(&warm, false) || request.op == Op::MetaGet {
            return warm;
        }
        let Some(exptime) = self.exptime_for_cold(request, context).await else { return warm };
        let add = carrying(Op::Add, request, &warm, exptime);
        if !self.is_strict || cold.outcome != Outcome::NotFound {
            detach(&self.cold, add, context);
            return warm;
        }
        let added = self.cold.route(&add, context).await;
        if added.outcome == Outcome::NotStored { default_reply(request) } else { warm }
    }

    /// Answers gets that need data of the cold cluster's own item: adds the warm value there, and asks again.
    async fn get_again(&self, request: &Request, context: &Context) -> Reply {
        let cold = self.cold.route(request, context).await;
        if self.found(&cold, true) {
            return cold;
        }
        let warm = self.warm.route(&Request::new(Op::Get, request.key.clone()), context).await;
        if !self.found(&warm, false) {
            return cold;
        }
        let exptime = match request.op {
            Op::Gat | Op::Gats => Some(request.exptime),
            _ => self.exptime_for_cold(request, context).await,
        };
        let Some(exptime) = exptime else { return cold };
        self.cold.route(&carrying(Op::Add, request, &warm, exptime), context).await;
        self.cold.route(request, context).await
    }

    async fn get_lease(&self, request: &Request, context: &Context) -> Reply {
        let cold = self.cold.route(request, context).await;
        if self.found(&cold, true) || is_hot_miss(cold.outcome) {
            return cold;
        }
        let warm = self.warm.route(&Request::new(Op::Get, request.key.clone()), context).await;
        if !self.found(&warm, false) {
            return cold;
        }
        let Some(exptime) = self.exptime_for_cold(request, context).await else { return cold };
        let set = carrying(Op::LeaseSet, request, &warm, exptime);
        detach(&self.cold, Request { token: cold.token, ..set }, context);
        Reply { token: 0, ..warm }
    }

    fn is_off(&self) -> bool {
        self.auto_off.as_ref().is_some_and(AutoOff::is_off)
    }

    async fn exptime_for_cold(&self, request: &Request, context: &Context) -> Option<i64> {
        match self.exptime {
            Some(exptime) => Some(exptime),
            None => rest_of_life(&self.warm, request, context, &self.clock).await,
        }
    }
}

/// The seconds that an item has left; 0: it never expires. `None` if the item is gone.
pub(super) async fn rest_of_life(
    route: &Node,
    request: &Request,
    context: &Context,
    clock: &Clock,
) -> Option<i64> {
    let meta = route.route(&Request::new(Op::MetaGet, request.key.clone()), context).await;
    if meta.outcome == Outcome::BadCommand {
        return rest_by_mg(route, request, context).await;
    }
    if !is_hit(meta.outcome) {
        return None;
    }
    let text = String::from_utf8_lossy(&meta.message).into_owned();
    let exptime = text.split_once("exptime:").map_or("", |(_, rest)| rest.trim_start());
    let end = exptime.find(|character: char| !character.is_ascii_digit() && character != '-');
    match exptime[..end.unwrap_or(exptime.len())].parse::<i64>() {
        Ok(exptime) if exptime > 0 => Some(exptime - clock.unix_s()).filter(|rest| *rest > 0),
        Ok(0) | Err(_) => Some(0),
        Ok(_) => None,
    }
}

/// As [`rest_of_life`], for servers without `metaget`, such as memcached, if they know meta commands.
async fn rest_by_mg(route: &Node, request: &Request, context: &Context) -> Option<i64> {
    let ask = Request { meta: Some((*b"t").into()), ..Request::new(Op::Get, request.key.clone()) };
    let reply = route.route(&ask, context).await;
    let words = reply.meta.filter(|_| is_hit(reply.outcome))?;
    let mut words = words.split(|&byte| byte == b' ');
    let left = words.find_map(|word| word.strip_prefix(b"t"))?;
    match std::str::from_utf8(left).ok()?.parse::<i64>().ok()? {
        -1 => Some(0),
        left => Some(left).filter(|left| *left > 0),
    }
}

/// Returns a request that stores the value that was found.
pub(super) fn carrying(op: Op, request: &Request, found: &Reply, exptime: i64) -> Request {
    let value = found.value.clone();
    Request { value, flags: found.flags, exptime, ..Request::new(op, request.key.clone()) }
}

impl Route for WarmUp {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if let Some(cold) = self.next(request, context) {
            return cold.route(request, context);
        }
        match request.op {
            Op::Get | Op::MetaGet => Box::pin(self.get(request, context)),
            Op::Gets | Op::Gat | Op::Gats => Box::pin(self.get_again(request, context)),
            _ => Box::pin(self.get_lease(request, context)),
        }
    }

    fn name(&self) -> Cow<'_, str> {
        "warm-up".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.cold, request);
        if request.op.is_get() && !self.is_off() {
            visitor(&*self.warm, request);
        }
    }

    fn next(&self, request: &Request, _: &Context) -> Option<&dyn Route> {
        (!request.op.is_get() || self.is_off()).then_some(&*self.cold)
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "WarmUpRoute",
    fields: &[&[
        needed("cold", Takes::Route, "who is asked first, and filled"),
        needed("warm", Takes::Route, "who is asked then"),
        field(
            "exptime",
            Takes::Whole(0, U32),
            "seconds that a copy lives (as long as in the warm one)",
        ),
        field("enable_metaget", Takes::Bool, "ask how long that is (true)"),
        field("strict", Takes::Bool, "wait for the copy before answering (true)"),
        field("auto_off", Takes::Object(&auto_off::SHAPE), "when the warm one is no longer asked"),
    ]],
};

/// `WarmUpRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let warm = builder.one(fields.required("warm")?)?;
    let cold = builder.one(fields.required("cold")?)?;
    let uses_metaget = fields.boolean("enable_metaget")?.unwrap_or(true);
    let exptime = fields.integer("exptime")?;
    let exptime = exptime.or(if uses_metaget { None } else { Some(0) });
    let is_strict = fields.boolean("strict")?.unwrap_or(true);
    let clock = builder.settings.clock;
    let auto_off = fields.object("auto_off")?;
    let auto_off = auto_off.map(|json| AutoOff::read(json, clock, builder.settings.log.clone()));
    let auto_off = auto_off.transpose()?;
    Ok(vec![Rc::new(WarmUp { cold, warm, exptime, is_strict, auto_off, clock })])
}
