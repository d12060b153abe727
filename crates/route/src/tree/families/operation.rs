//! `OperationSelectorRoute`, formerly `PrefixPolicyRoute`: chooses a child by command.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Op, Request};

use super::choice::Chooser;
use super::{
    Builder, ConfigError, Context, Field, Fields, Json, Node, Result, Shape, Takes, field, null,
};
use crate::ops::OPS;

/// Chooses a child by the request's command.
#[derive(Debug)]
struct ByOperation {
    policies: Vec<(Op, Node)>,
    default: Node,
}

impl Chooser for ByOperation {
    fn name(&self) -> Cow<'_, str> {
        "operation-selector".into()
    }

    fn choose(&self, request: &Request, _: &Context) -> &Node {
        let found = self.policies.iter().find(|(op, _)| *op == request.op);
        found.map_or(&self.default, |(_, node)| node)
    }
}
pub(super) static SHAPE: Shape = Shape { name: "OperationSelectorRoute", fields: &[&FIELDS] };
pub(super) static PREFIX_POLICY: Shape = Shape { name: "PrefixPolicyRoute", fields: &[&FIELDS] };

static FIELDS: [Field; 2] = [
    field("default_policy", Takes::Route, "where the others go"),
    field(
        "operation_policies",
        Takes::MapOf(operations, &Takes::Route),
        "a route by the command's name",
    ),
];

fn operations() -> Vec<String> {
    let all = OPS.iter().map(|(name, _)| *name).chain(UNROUTED.iter().copied());
    all.map(str::to_owned).collect()
}

/// `OperationSelectorRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    if fields.json().as_object().is_none() {
        return Ok(vec![builder.one(fields.json())?]);
    }
    // Errors name this type, also under the former name.
    let fields = Fields::new(fields.json(), &SHAPE);
    let default = fields.any("default_policy").map(|json| builder.one(json)).transpose()?;
    let Some(policies) = fields.object("operation_policies")?.and_then(Json::as_object) else {
        let message = "needs either 'default_policy' or 'operation_policies'";
        return Ok(vec![default.ok_or_else(|| fields.error(message))?]);
    };
    // Build in the order of names, so that a name defined in one policy can be used in later ones.
    let mut policies: Vec<(&str, &Json)> = policies.iter().collect();
    policies.sort_by_key(|(name, _)| *name);
    let mut chosen = Vec::new();
    for (name, json) in policies {
        let node = builder.one(json)?;
        match OPS.iter().find(|(known, _)| *known == name) {
            Some((_, op)) => chosen.push((*op, node)),
            None if UNROUTED.contains(&name) => {}
            None => {
                let valid: Vec<&str> = OPS.iter().map(|(name, _)| *name).collect();
                let message =
                    format!("Unknown operation: {name}, valid operations: {}", valid.join(","));
                return Err(ConfigError::at(json.line, message));
            }
        }
    }
    let default = default.unwrap_or_else(null::node);
    Ok(vec![Rc::new(ByOperation { policies: chosen, default })])
}

/// Commands that a configuration may name, but that no route ever gets.
const UNROUTED: &[&str] = &["exec", "flushre", "quit", "shutdown", "stats", "version"];
