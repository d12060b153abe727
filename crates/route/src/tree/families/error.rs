//! `ErrorRoute`: answers each request with an error of the configuration's choice.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Outcome, Reply, Request};

use super::{BoxFuture, Node};
use crate::build::Builder;
use crate::config::fields::Fields;
use crate::config::shape::{Shape, Takes, field};
use crate::config::{ConfigError, Json};
use crate::{Context, Route, outcome};

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

/// A route that fails with these words.
pub(crate) fn node(message: String) -> Node {
    Rc::new(Failing { outcome: Outcome::LocalError, message, is_logged: true })
}
pub(super) static SHAPE: Shape = Shape {
    name: "ErrorRoute",
    fields: &[&[
        field("response", Takes::Text, "the words of the answer"),
        field("result", Takes::Word(outcome::error_names), "which error it is"),
        field("enable_logging", Takes::Bool, "count it as an error of the router"),
    ]],
};

/// `ErrorRoute`, `ErrorRoute|words`
pub(super) fn build(json: &Json, _: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    if let Some(message) = json.as_str() {
        return Ok(vec![node(message.to_owned())]);
    }
    let fields = Fields::new(json, &SHAPE);
    let outcome = match fields.string("result")? {
        None => Outcome::LocalError,
        Some(name) => outcome::error_named(name)
            .ok_or_else(|| fields.error(format!("result {name} is not a valid error result")))?,
    };
    let message = fields.string("response")?.unwrap_or_default().to_owned();
    let is_logged = fields.boolean("enable_logging")?.unwrap_or(true);
    Ok(vec![Rc::new(Failing { outcome, message, is_logged })])
}
