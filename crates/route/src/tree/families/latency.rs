//! `LatencyInjectionRoute`: delays a child's replies, to test the routes above it.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use guira_client::{Reply, Request};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    BoxFuture, Builder, Context, Fields, Node, Result, Route, Shape, Takes, field, ignored, needed,
};

/// Waits before the request and after the reply, and until a total time has passed.
#[derive(Debug)]
struct Slow {
    child: Node,
    before: Duration,
    after: Duration,
    total: Duration,
}

impl Route for Slow {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let end = Instant::now() + self.total;
            sleep(self.before).await;
            let reply = self.child.route(request, context).await;
            sleep(self.after).await;
            sleep_until(end).await;
            reply
        })
    }

    fn name(&self) -> Cow<'_, str> {
        let [before, after, total] =
            [self.before, self.after, self.total].map(|wait| wait.as_millis());
        format!("latency-injection|before:{before}ms|after:{after}ms|total:{total}ms").into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.child, request);
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "LatencyInjectionRoute",
    fields: &[&[
        needed("child", Takes::Route, "where requests go"),
        field("before_latency_ms", Takes::Whole(0, 3600000), "wait before"),
        field("after_latency_ms", Takes::Whole(0, 3600000), "wait after"),
        field("total_latency_ms", Takes::Whole(0, 3600000), "answer no earlier"),
        ignored("total_latency_percentile_ms"),
        ignored("request_payload_latency"),
        ignored("max_request_latency_us"),
    ]],
};

/// `LatencyInjectionRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let child = builder.one(fields.required("child")?)?;
    let wait = |name| fields.milliseconds(name).map(Option::unwrap_or_default);
    let (before, after) = (wait("before_latency_ms")?, wait("after_latency_ms")?);
    let total = wait("total_latency_ms")?;
    Ok(vec![Rc::new(Slow { child, before, after, total })])
}
