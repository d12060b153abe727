//! Shadows: copies of some requests go to another route, and its replies are discarded.
//!
//! A shadow gets requests to the children in `index_range`, for keys whose hash is in `key_fraction_range`, and of
//! these a random share. Listed keys are copied from all children. A shadow's lease is stored under the token that the
//! client got, so that the client's set finds it.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use guira_client::ring::spooky32;
use guira_client::{Op, Outcome, Reply, Request};
use tokio::sync::oneshot;

use super::{
    BoxFuture, Builder, Context, Field, Fields, I32, Json, Node, Result, Route, SHARE, Shape,
    Takes, begin, detach, field, fields, ignored, needed, words,
};
use crate::key;
use crate::settings::RuntimeVariables;
use crate::tokens::ShadowTokens;

/// A child with the shadows that copy its requests.
#[derive(Debug)]
struct Shadowed {
    normal: Node,
    shadows: Vec<Rc<Shadow>>,
    tokens: Arc<ShadowTokens>,
}

/// A receiver of copies, and the choice of requests that it gets.
#[derive(Debug)]
struct Shadow {
    target: Node,
    /// The indices of its children: from the first to before the second.
    children: (usize, usize),
    keys: Keys,
    /// The share of requests, from 0 to 1.
    share: f64,
}

#[derive(Debug)]
enum Keys {
    Listed(Vec<Vec<u8>>),
    Fraction(f64, f64),
    /// A fraction from a runtime variable, and the fraction until the variable has been read.
    Variable(RuntimeVariables, String, (f64, f64)),
}

impl Shadow {
    fn read(json: &Json, builder: &mut Builder<'_>) -> Result<Self> {
        let fields = Fields::new(json, &SHADOW);
        let target = builder.one(fields.required("target")?)?;
        let children = match pair(fields, "index_range")? {
            Some([from, to]) => (whole(from), whole(to)),
            None => (0, 0),
        };
        if children.0 > children.1 {
            return Err(fields.error("index_range start > end"));
        }
        let fraction = pair(fields, "key_fraction_range")?.unwrap_or([0.0, 0.0]);
        if !(0.0 <= fraction[0] && fraction[0] <= fraction[1] && fraction[1] <= 1.0) {
            return Err(fields.error("invalid key_fraction_range"));
        }
        let keys = match (fields.array("keys_to_shadow")?, fields.string("key_fraction_range_rv")?)
        {
            (Some(listed), _) if !listed.is_empty() => {
                let key = |json: &Json| json.as_str().map(|key| key.as_bytes().to_vec());
                Keys::Listed(listed.iter().filter_map(key).collect())
            }
            (_, Some(name)) => {
                let variables = builder.settings.runtime_variables.clone();
                variables.want(name, (is_range, "an array of two numbers"));
                Keys::Variable(variables, name.to_owned(), (fraction[0], fraction[1]))
            }
            _ => Keys::Fraction(fraction[0], fraction[1]),
        };
        let share = fields.number("requests_fraction")?.unwrap_or(1.0);
        Ok(Self { target, children, keys, share })
    }

    fn is_for_child(&self, index: usize) -> bool {
        (self.children.0..self.children.1).contains(&index) || matches!(self.keys, Keys::Listed(_))
    }

    fn wants(&self, request: &Request) -> bool {
        let key = key::routing_key(&request.key);
        let is_wanted = match &self.keys {
            Keys::Listed(listed) => listed.iter().any(|listed| listed == key),
            Keys::Fraction(from, to) => is_within(key, *from, *to),
            Keys::Variable(variables, name, until_then) => {
                let (from, to) = fraction(variables, name).unwrap_or(*until_then);
                is_within(key, from, to)
            }
        };
        is_wanted
            && (self.share >= 0.99999
                || fastrand::usize(..1 << 20) < whole(self.share * 1_048_576.0))
    }
}

/// Whether a key's hash lies in this share of all hashes, ends included.
fn is_within(key: &[u8], from: f64, to: f64) -> bool {
    let bound = |fraction: f64| (fraction * f64::from(u32::MAX)).trunc();
    (bound(from)..=bound(to)).contains(&f64::from(spooky32(key, 0)))
}

/// Reads a range from runtime variables: a pair, or the upper end that `key_fractions` has under the rest of the name.
fn fraction(variables: &RuntimeVariables, name: &str) -> Option<(f64, f64)> {
    if let Some(fractions) = variables.get("key_fractions").filter(|all| all.as_object().is_some())
    {
        let tier = name.strip_prefix("key_fraction_range_").unwrap_or(name);
        return Some((0.0, fractions.get(tier)?.as_number()?));
    }
    match variables.get(name)?.as_array()? {
        [from, to] => Some((from.as_number()?, to.as_number()?)),
        _ => None,
    }
}

fn is_range(json: &Json) -> bool {
    let numbers = json.as_array().unwrap_or_default();
    numbers.len() == 2 && numbers.iter().all(|number| number.as_number().is_some())
}

fn pair(fields: Fields<'_>, name: &str) -> Result<Option<[f64; 2]>> {
    let Some(array) = fields.array(name)? else { return Ok(None) };
    match array {
        [from, to] => match (from.as_number(), to.as_number()) {
            (Some(from), Some(to)) => Ok(Some([from, to])),
            _ => Err(fields.error(format!("{name} is not of numbers"))),
        },
        _ => Err(fields.error(format!("{name} size is not 2"))),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an `as` saturates, which is meant"
)]
fn whole(number: f64) -> usize {
    number as usize
}

impl Shadowed {
    /// Sends a lease-get to the child and its shadows. When both replies have arrived, the shadow's token is stored
    /// under the client's.
    async fn get_leases(
        &self,
        wanted: Vec<Rc<Shadow>>,
        request: &Request,
        context: &Context,
    ) -> Reply {
        let mut waiting = Vec::with_capacity(wanted.len());
        for shadow in wanted {
            let (request, context, tokens) =
                (request.clone(), of_shadow(context), Arc::clone(&self.tokens));
            let (tell, normal) = oneshot::channel();
            waiting.push(tell);
            begin(Box::pin(async move {
                let reply = shadow.target.route(&request, &context).await;
                // There is no normal token if the client got no lease, or went away.
                if let (true, Ok(normal)) = (is_lease(&reply), normal.await) {
                    tokens.insert(normal, reply.token);
                }
            }));
        }
        let reply = self.normal.route(request, context).await;
        if is_lease(&reply) {
            for tell in waiting {
                // Sending fails if the shadow gave no lease. Then there is nothing to store.
                let _ = tell.send(reply.token);
            }
        }
        reply
    }
}

fn is_lease(reply: &Reply) -> bool {
    reply.outcome == Outcome::NotFound && reply.token > 1
}

fn of_shadow(context: &Context) -> Context {
    Context { is_shadow: true, ..context.clone() }
}

impl Route for Shadowed {
    fn route<'a>(&'a self, request: &'a Request, context: &'a Context) -> BoxFuture<'a, Reply> {
        let wanted = self.shadows.iter().filter(|shadow| shadow.wants(request));
        if request.op == Op::LeaseGet {
            let wanted: Vec<Rc<Shadow>> = wanted.cloned().collect();
            if !wanted.is_empty() {
                return Box::pin(self.get_leases(wanted, request, context));
            }
            return self.normal.route(request, context);
        }
        // Send copies first, so that a client that reads the shadow after the reply finds its write.
        for shadow in wanted {
            let mut copy = request.clone();
            if request.op == Op::LeaseSet {
                copy.token = self.tokens.get(request.token);
            }
            detach(&shadow.target, copy, &of_shadow(context));
        }
        self.normal.route(request, context)
    }

    fn name(&self) -> Cow<'_, str> {
        "shadow".into()
    }

    fn visit(&self, request: &Request, visitor: &mut dyn FnMut(&dyn Route, &Request)) {
        visitor(&*self.normal, request);
        self.shadows.iter().for_each(|shadow| visitor(&*shadow.target, request));
    }

    fn choice(&self, request: &Request) -> Option<usize> {
        self.normal.choice(request)
    }

    fn failure_domain(&self) -> u32 {
        self.normal.failure_domain()
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "ShadowRoute",
    fields: &[
        &[needed("children", Takes::Routes, "what is copied"), ignored("bucketize")],
        &FIELDS,
    ],
};

/// The fields of routes with shadows.
pub(super) static FIELDS: [Field; 3] = [
    field("shadows", Takes::List(&Takes::Object(&SHADOW)), "who gets copies of which requests"),
    field("shadow_policy", Takes::Word(|| words(&["default"])), "mcrouter's open source has one"),
    field(
        "hash",
        Takes::OneOf(&[Takes::Word(fields::functions), Takes::Object(&fields::HASH)]),
        "how keys are hashed",
    ),
];

static SHADOW: Shape = Shape {
    name: "shadows",
    fields: &[&[
        needed("target", Takes::Route, "who gets them"),
        field(
            "index_range",
            Takes::Pair(&Takes::Whole(0, I32)),
            "of which children: from, and up to",
        ),
        field("key_fraction_range", Takes::Pair(&SHARE), "of which keys, by their hash"),
        field("key_fraction_range_rv", Takes::Text, "the runtime variable that says so"),
        field("keys_to_shadow", Takes::List(&Takes::Text), "of these keys"),
        field("requests_fraction", SHARE, "of which share of their requests (1)"),
        ignored("index_range_rv"),
        ignored("shard_splits"),
        ignored("validate_replies"),
    ]],
};

/// `ShadowRoute`: returns its children, each with its shadows.
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    fields.required("children")?;
    let children = builder.children(fields.json())?;
    wrap(fields, children, builder)
}

/// Wraps each of `children` with the shadows that copy its requests.
pub(super) fn wrap(
    fields: Fields<'_>,
    children: Vec<Node>,
    builder: &mut Builder<'_>,
) -> Result<Vec<Node>> {
    let Some(shadows) = fields.array("shadows")? else { return Ok(children) };
    if let Some(policy) = fields.string("shadow_policy")?.filter(|policy| *policy != "default") {
        return Err(fields.error(format!("Invalid shadow policy: {policy}")));
    }
    // Skip a shadow that can't be built: client requests don't depend on it.
    let mut read = Vec::with_capacity(shadows.len());
    for json in shadows {
        match Shadow::read(json, builder) {
            Ok(shadow) => read.push(Rc::new(shadow)),
            Err(error) => builder.settings.log.write(&format!("passed over: {error}")),
        }
    }
    let shadows = read;
    let wrap = |(index, normal): (usize, Node)| {
        let of_child = shadows.iter().filter(|shadow| shadow.is_for_child(index));
        let shadows: Vec<Rc<Shadow>> = of_child.cloned().collect();
        if shadows.is_empty() {
            return normal;
        }
        let tokens = Arc::clone(&builder.settings.shadow_tokens);
        Rc::new(Shadowed { normal, shadows, tokens })
    };
    Ok(children.into_iter().enumerate().map(wrap).collect())
}
