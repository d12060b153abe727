//! `ModifyExptimeRoute`: sets the expiry of whatever is stored or touched, or bounds it.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Op, Reply, Request};

use super::{BoxFuture, Node};
use crate::build::Builder;
use crate::config::fields::Fields;
use crate::config::shape::{I32, Shape, Takes, field, needed, words};
use crate::config::{ConfigError, Json};
use crate::{Context, Route};

/// Changes the expiry on the way to its target; a delete's hold-off is none.
#[derive(Debug)]
struct ModifyExptime {
    target: Node,
    exptime: i64,
    action: Action,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Set,
    /// The smaller of both, where 0 is the largest.
    Min,
}

impl ModifyExptime {
    /// The expiry that the target gets, where it differs.
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

/// `target`, in which nothing lives longer than `exptime` seconds; 0 is no bound.
pub(super) fn at_most(target: Node, exptime: i64) -> Node {
    if exptime == 0 {
        return target;
    }
    Rc::new(ModifyExptime { target, exptime, action: Action::Min })
}
pub(super) static SHAPE: Shape = Shape {
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
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let fields = Fields::new(json, &SHAPE);
    let target = builder.one(fields.required("target")?)?;
    let exptime = fields.integer("exptime")?;
    let exptime = exptime.ok_or_else(|| fields.error("no exptime"))?;
    Ok(vec![match fields.string("action")? {
        None | Some("set") => Rc::new(ModifyExptime { target, exptime, action: Action::Set }),
        Some("min") => at_most(target, exptime),
        Some(_) => return Err(fields.error("action should be 'set' or 'min'")),
    }])
}
