//! `LoggingRoute`: logs each value that was found or stored, with the client.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Reply, Request};

use super::{BoxFuture, Builder, Context, Fields, Node, Result, Route, Shape, Takes, field, null};
use crate::ops::op_name;
use crate::outcome::{self, is_hit, is_stored};
use crate::settings::LogSink;

/// Logs the hits and stores of its child.
#[derive(Debug)]
struct Logging {
    child: Node,
    log: LogSink,
}

impl Route for Logging {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let reply = self.child.route(request, context).await;
            if is_hit(reply.outcome) || is_stored(reply.outcome) {
                let client = context.client.map_or_else(|| "N/A".to_owned(), |ip| ip.to_string());
                let key = String::from_utf8_lossy(&request.key);
                let (op, outcome) = (op_name(request.op), outcome::name(reply.outcome));
                let bytes = request.value.len().max(reply.value.len());
                self.log.write(&format!(
                    "Key: {key} request name: {op} reply: mc_res_{outcome} bytes: {bytes} user ip: {client}"
                ));
            }
            reply
        })
    }

    fn name(&self) -> Cow<'_, str> {
        "logging".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.child, request);
    }
}

/// Returns a route to `child` that logs hits and stores.
pub(in crate::tree) fn node(child: Node, log: LogSink) -> Node {
    Rc::new(Logging { child, log })
}
pub(super) static SHAPE: Shape = Shape {
    name: "LoggingRoute",
    fields: &[&[field("target", Takes::Route, "where requests go")]],
};

/// `LoggingRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let json = fields.json();
    let child = match (json.as_str(), json.get("target")) {
        (Some(_), _) => builder.one(json)?,
        (None, Some(target)) => builder.one(target)?,
        (None, None) => null::node(),
    };
    Ok(vec![node(child, builder.settings.log.clone())])
}
