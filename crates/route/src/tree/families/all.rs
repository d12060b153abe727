//! `AllAsyncRoute`: answers at once and asks all children afterwards. `AllInitialRoute`: waits for the first child.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Reply, Request};

use super::{BoxFuture, Node, detach, null};
use crate::build::Builder;
use crate::config::shape::{CHILDREN, Shape};
use crate::config::{ConfigError, Json};
use crate::outcome::default_reply;
use crate::{Context, Route};

/// Asks each child; nobody waits.
#[derive(Debug)]
struct AllAsync {
    children: Vec<Node>,
}

impl Route for AllAsync {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        self.children.iter().for_each(|child| detach(child, request.clone(), context));
        Box::pin(std::future::ready(default_reply(request)))
    }

    fn name(&self) -> Cow<'_, str> {
        "all-async".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        self.children.iter().for_each(|child| visitor(&**child, request));
    }
}

/// Asks the first and waits; asks the others and doesn't.
#[derive(Debug)]
struct AllInitial {
    first: Node,
    others: Vec<Node>,
}

impl Route for AllInitial {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        self.others.iter().for_each(|child| detach(child, request.clone(), context));
        self.first.route(request, context)
    }

    fn name(&self) -> Cow<'_, str> {
        "all-initial".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.first, request);
        self.others.iter().for_each(|child| visitor(&**child, request));
    }
}
pub(super) static SHAPE: Shape = Shape { name: "AllAsyncRoute", fields: &[&CHILDREN] };

/// `AllAsyncRoute`
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let children = builder.children(json)?;
    Ok(vec![if children.is_empty() { null::node() } else { Rc::new(AllAsync { children }) }])
}
pub(super) static INITIAL: Shape = Shape { name: "AllInitialRoute", fields: &[&CHILDREN] };

/// `AllInitialRoute`
pub(super) fn build_initial(
    json: &Json,
    builder: &mut Builder<'_>,
) -> Result<Vec<Node>, ConfigError> {
    Ok(vec![node_initial(builder.children(json)?)])
}

/// Waits for the first of `children` only.
pub(super) fn node_initial(mut children: Vec<Node>) -> Node {
    if children.is_empty() {
        return null::node();
    }
    let first = children.remove(0);
    if children.is_empty() { first } else { Rc::new(AllInitial { first, others: children }) }
}
