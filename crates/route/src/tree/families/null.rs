//! Answers without asking: `NullRoute`, and `DevNullRoute`, which counts.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Reply, Request};

use super::{BoxFuture, Node};
use crate::build::Builder;
use crate::config::shape::Shape;
use crate::config::{ConfigError, Json};
use crate::counters::Counter;
use crate::outcome::default_reply;
use crate::{Context, Route};

/// Nothing is found, nothing is stored.
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

/// A route that answers as if nothing was there.
pub(crate) fn node() -> Node {
    Rc::new(Null { is_counting: false })
}
pub(super) static SHAPE: Shape = Shape { name: "NullRoute", fields: &[] };
pub(super) static DEV_NULL: Shape = Shape { name: "DevNullRoute", fields: &[] };

/// `NullRoute`
pub(super) fn build(_: &Json, _: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    Ok(vec![node()])
}

/// `DevNullRoute`
pub(super) fn build_dev_null(_: &Json, _: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    Ok(vec![Rc::new(Null { is_counting: true })])
}
