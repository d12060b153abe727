//! Gives deletes the name under which they are logged if their destination fails.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Op, Reply, Request};

use super::{BoxFuture, Context, Node, Route};

/// Sets [`Context::asynclog`] for deletes. Other requests pass unchanged.
#[derive(Debug)]
struct Asynclog {
    target: Node,
    name: Rc<str>,
}

impl Route for Asynclog {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        if request.op != Op::Delete {
            return self.target.route(request, context);
        }
        Box::pin(async move {
            let context = Context { asynclog: Some(Rc::clone(&self.name)), ..context.clone() };
            self.target.route(request, &context).await
        })
    }

    fn name(&self) -> Cow<'_, str> {
        format!("asynclog:{}", self.name).into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.target, request);
    }

    fn next(&self, request: &Request, _: &Context) -> Option<&dyn Route> {
        (request.op != Op::Delete).then_some(&*self.target)
    }

    fn choice(&self, request: &Request) -> Option<usize> {
        self.target.choice(request)
    }
}

/// Returns a route to `target` whose failed deletes are logged under `name`.
pub(super) fn node(target: Node, name: Rc<str>) -> Node {
    Rc::new(Asynclog { target, name })
}
