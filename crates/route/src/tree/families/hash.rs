//! `HashRoute`: chooses the child whose index is the hash of the key.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::Request;

use super::choice::Chooser;
use super::hashing::Function;
use super::{
    Builder, CHILDREN, Context, Fields, Json, Node, Result, Shape, choice, fields, latest, null,
};
use crate::key;

/// Chooses a child by the routing key, or by the key's bucket.
#[derive(Debug)]
struct Hashed {
    children: Vec<Node>,
    function: Function,
    salt: Vec<u8>,
    is_by_bucket: bool,
}

impl Hashed {
    fn child(&self, key: &[u8]) -> usize {
        if self.salt.is_empty() {
            return self.function.index(key, self.children.len());
        }
        self.function.index(&[key, &self.salt].concat(), self.children.len())
    }
}

impl Chooser for Hashed {
    fn name(&self) -> Cow<'_, str> {
        let name = format!("hash|{}", self.function.name());
        if self.salt.is_empty() {
            return name.into();
        }
        format!("{name}|salt={}", String::from_utf8_lossy(&self.salt)).into()
    }

    fn choose(&self, request: &Request, context: &Context) -> &Node {
        let index = match context.bucket.filter(|_| self.is_by_bucket) {
            Some(bucket) => self.child(bucket.to_string().as_bytes()),
            None => self.child(key::routing_key(&request.key)),
        };
        &self.children[index]
    }

    fn index(&self, request: &Request) -> Option<usize> {
        Some(self.child(key::routing_key(&request.key)))
    }
}
pub(super) static SHAPE: Shape = Shape {
    name: "HashRoute",
    fields: &[&CHILDREN, &fields::HASHING, &fields::FAILOVER, &fields::LOAD],
};

/// `HashRoute`
pub(super) fn build(fields: Fields<'_>, builder: &mut Builder<'_>) -> Result<Vec<Node>> {
    let children = builder.children(fields.json())?;
    Ok(vec![node(fields.json(), children, builder)?])
}

/// Returns a route to one of `children`, with the salt, function, weights and tags in `json`.
pub(super) fn node(json: &Json, mut children: Vec<Node>, builder: &Builder<'_>) -> Result<Node> {
    let fields = Fields::new(json, &SHAPE);
    let salt = fields.string("salt")?.unwrap_or_default().as_bytes().to_vec();
    let is_by_bucket = fields.boolean("bucketize")?.unwrap_or(false);
    match children.len() {
        0 if fields.boolean("error_on_empty")?.unwrap_or(true) => {
            let name = fields.string("name")?.unwrap_or_default();
            return Ok(null::error(format!("HashRoute with empty children, name: {name}")));
        }
        0 => return Ok(null::node()),
        1 => return Ok(children.remove(0)),
        _ => builder.charge(json, children.len(), CHILD_BYTES)?,
    }
    match fields.string("hash_func")? {
        Some("Latest") => return latest::node(json, children, builder),
        Some("LoadBalancer") => return Ok(choice::node_random(children)),
        _ => {}
    }
    let function = Function::read(fields, children.len(), builder)?;
    if is_by_bucket && !matches!(function, Function::WeightedCh3(_) | Function::WeightedCh3Rv(..)) {
        let message =
            format!("Bucketization not implemented for this ch type: {}", function.name());
        return Err(fields.error(message));
    }
    Ok(Rc::new(Hashed { children, function, salt, is_by_bucket }))
}

/// Memory for a child: its place, and its weight.
const CHILD_BYTES: usize = 32;
