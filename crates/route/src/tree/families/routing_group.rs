//! `RoutingGroupRoute`: chooses a child by the kind of command: get, store, delete or arithmetic.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Op, Request};

use super::choice::Chooser;
use super::{Builder, Context, Fields, Json, Node, Result, Shape, Takes, field, null, words};

/// Chooses a child by the kind of command.
#[derive(Debug)]
struct ByGroup {
    /// In the order of [`GROUPS`].
    policies: [Option<Node>; 4],
    default: Node,
}

const GROUPS: [&str; 4] = ["get_like", "update_like", "delete_like", "arithmetic_like"];

impl Chooser for ByGroup {
    fn name(&self) -> Cow<'_, str> {
        "routing-group".into()
    }

    fn choose(&self, request: &Request, _: &Context) -> &Node {
        let group = match request.op {
            Op::Delete => Some(2),
            op if op.is_get() => Some(0),
            op if op.is_update() => Some(1),
            op if op.is_arithmetic() => Some(3),
            _ => None,
        };
        group.and_then(|group| self.policies[group].as_ref()).unwrap_or(&self.default)
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "RoutingGroupRoute",
    fields: &[&[
        field("default_policy", Takes::Route, "where the others go"),
        field(
            "routing_group_policies",
            Takes::MapOf(|| words(&GROUPS), &Takes::Route),
            "a route by the group of commands",
        ),
    ]],
};

/// `RoutingGroupRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    if fields.json().as_object().is_none() {
        return Ok(vec![builder.one(fields.json())?]);
    }
    let default = fields.any("default_policy").map(|json| builder.one(json)).transpose()?;
    let groups = fields.object("routing_group_policies")?.and_then(Json::as_object);
    let Some(groups) = groups else {
        let message = "needs either 'default_policy' or 'routing_group_policies'";
        return Ok(vec![default.ok_or_else(|| fields.error(message))?]);
    };
    let mut policies = [const { None }; 4];
    for (name, json) in groups.iter() {
        let group = GROUPS.iter().position(|known| *known == name);
        let message = format!("{name} is not a valid routing group.");
        let group = group.ok_or_else(|| fields.error(message))?;
        policies[group] = Some(builder.one(json)?);
    }
    Ok(vec![Rc::new(ByGroup { policies, default: default.unwrap_or_else(null::node) })])
}
