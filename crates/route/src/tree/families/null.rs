//! Routes that answer without asking: `NullRoute`, `DevNullRoute`, which also counts, and `ErrorRoute`, which returns
//! an error.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Outcome, Reply, Request};

use super::{BoxFuture, Builder, Context, Fields, Node, Result, Route, Shape, Takes, field};
use crate::counters::Counter;
use crate::outcome;
use crate::outcome::default_reply;

/// Answers as if nothing was found or stored.
#[derive(Debug)]
struct Null {
    is_counting: bool,
}

impl Route for Null {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if self.is_counting {
            context.count(Counter::DevNull);
        }
        Box::pin(std::future::ready(default_reply(request)))
    }

    fn name(&self) -> Cow<'_, str> {
        if self.is_counting { "devnull" } else { "null" }.into()
    }

    fn visit(&self, _: &Request, _: &mut dyn FnMut(&dyn Route, &Request)) {}
}

/// Returns a route that answers as if nothing was found or stored.
pub(crate) fn node() -> Node {
    Rc::new(Null { is_counting: false })
}
pub(super) static SHAPE: Shape = Shape { name: "NullRoute", fields: &[] };
pub(super) static DEV_NULL: Shape = Shape { name: "DevNullRoute", fields: &[] };

/// `NullRoute`
pub(super) fn build(_: Fields<'_>, _: &mut Builder<'_>) -> Result<Vec<Node>> {
    Ok(vec![node()])
}

/// `DevNullRoute`
pub(super) fn build_dev_null(_: Fields<'_>, _: &mut Builder<'_>) -> Result<Vec<Node>> {
    Ok(vec![Rc::new(Null { is_counting: true })])
}

/// Makes a node over several children. A single child is returned itself; without children the result is a `NullRoute`.
pub(super) fn over(mut children: Vec<Node>, make: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match children.len() {
        0 => node(),
        1 => children.remove(0),
        _ => make(children),
    }
}

#[derive(Debug)]
struct Failing {
    outcome: Outcome,
    message: String,
    is_logged: bool,
}

impl Route for Failing {
    fn route<'a>(&'a self, _: &'a Request, _: &'a Context) -> BoxFuture<'a, Reply> {
        let message = self.message.as_bytes().to_vec();
        Box::pin(std::future::ready(Reply::failure(self.outcome, message)))
    }

    fn name(&self) -> Cow<'_, str> {
        let log = if self.is_logged { "log" } else { "no-log" };
        let mut name = format!("error|{log}|mc_res_{}", outcome::name(self.outcome));
        if !self.message.is_empty() {
            name.push('|');
            name.push_str(&self.message);
        }
        name.into()
    }

    fn visit(&self, _: &Request, _: &mut dyn FnMut(&dyn Route, &Request)) {}
}

/// Returns a route that fails with this message.
pub(crate) fn error(message: String) -> Node {
    Rc::new(Failing { outcome: Outcome::LocalError, message, is_logged: true })
}
pub(super) static ERROR: Shape = Shape {
    name: "ErrorRoute",
    fields: &[&[
        field("response", Takes::Text, "the words of the answer"),
        field("result", Takes::Word(outcome::error_names), "which error it is"),
        field("enable_logging", Takes::Bool, "count it as an error of the router"),
    ]],
};

/// `ErrorRoute`, `ErrorRoute|words`
pub(super) fn build_error(fields: Fields<'_>, _: &mut Builder<'_>) -> Result<Vec<Node>> {
    if let Some(message) = fields.json().as_str() {
        return Ok(vec![error(message.to_owned())]);
    }
    let outcome = match fields.string("result")? {
        None => Outcome::LocalError,
        Some(name) => outcome::error_named(name)
            .ok_or_else(|| fields.error(format!("result {name} is not a valid error result")))?,
    };
    let message = fields.string("response")?.unwrap_or_default().to_owned();
    let is_logged = fields.boolean("enable_logging")?.unwrap_or(true);
    Ok(vec![Rc::new(Failing { outcome, message, is_logged })])
}
