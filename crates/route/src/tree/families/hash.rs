//! `HashRoute`: the child whose number the key hashes to.

mod continuum;

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::Request;
use guira_client::ring::{Rendezvous, WEIGHTED_CH3_TRIES, ch3, crc32, weighted_ch3};

pub(crate) use continuum::KeyHash;

use super::choice::Chooser;
use super::{Node, choice, error, failover, latest, null};
use crate::build::Builder;
use crate::config::fields::Fields;
use crate::config::shape::{CHILDREN, Field, NUMBER, Shape, Takes, U32, field, ignored, words};
use crate::config::{ConfigError, Json};
use crate::settings::RuntimeVariables;
use crate::{Context, key};
use continuum::Continuum;

/// A child by the routing key, or by the bucket that the key was put into.
#[derive(Debug)]
struct Hashed {
    children: Vec<Node>,
    function: Function,
    salt: Vec<u8>,
    is_by_bucket: bool,
}

/// How a key becomes a number.
#[derive(Debug)]
pub(super) enum Function {
    Ch3,
    Crc32,
    /// The number between the first two colons, where there is one.
    ConstShard,
    WeightedCh3(Vec<f64>),
    /// With weights from a runtime variable.
    WeightedCh3Rv(RuntimeVariables, String),
    Rendezvous(Rendezvous, &'static str),
    /// As twemproxy has it.
    Continuum(Box<Continuum>),
}

impl Function {
    /// From `hash_func` and what it needs beside it.
    pub(super) fn read(
        fields: Fields<'_>,
        children: usize,
        builder: &Builder<'_>,
    ) -> Result<Self, ConfigError> {
        let name = fields.string("hash_func")?.unwrap_or("Ch3");
        match name {
            "Ch3" => Ok(Self::Ch3),
            "Crc32" => Ok(Self::Crc32),
            "ConstShard" => Ok(Self::ConstShard),
            "WeightedCh3" => Ok(Self::WeightedCh3(weights(fields, children)?)),
            "WeightedCh3Rv" => {
                let variable = fields.string("weights_rv")?;
                let variable = variable.ok_or_else(|| fields.error("no weights_rv"))?.to_owned();
                let variables = builder.settings.runtime_variables.clone();
                variables.want(&variable, (are_numbers, "an array of numbers"));
                Ok(Self::WeightedCh3Rv(variables, variable))
            }
            "Rendezvous" => {
                Ok(Self::Rendezvous(Rendezvous::new(&tags(fields, children)?), "Rendezvous"))
            }
            "WeightedRendezvous" => {
                let weights = fields.array("weights")?.filter(|weights| weights.len() == children);
                let message = "number of weights doesn't match number of end points";
                let weights = weights.ok_or_else(|| fields.error(message))?;
                let weights = weights.iter().map(|weight| weight.as_number().unwrap_or(0.0));
                let servers: Vec<(&str, f64)> =
                    tags(fields, children)?.into_iter().zip(weights).collect();
                Ok(Self::Rendezvous(Rendezvous::weighted(&servers), "WeightedRendezvous"))
            }
            "Ketama" | "Modula" => {
                builder.charge(fields.json(), children, CONTINUUM_BYTES)?;
                Ok(Self::Continuum(Box::new(Continuum::read(fields, children)?)))
            }
            _ => Err(fields.error(format!("Unknown hash function: {name}"))),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Ch3 => "Ch3",
            Self::Crc32 => "Crc32",
            Self::ConstShard => "ConstShard",
            Self::WeightedCh3(_) => "WeightedCh3",
            Self::WeightedCh3Rv(..) => "WeightedCh3Rv",
            Self::Rendezvous(_, name) => name,
            Self::Continuum(continuum) => continuum.name(),
        }
    }

    /// The number of a key, less than `children`.
    pub(super) fn index(&self, key: &[u8], children: usize) -> usize {
        match self {
            Self::Ch3 => ch3(key, children),
            Self::Crc32 => crc32(key, children),
            Self::ConstShard => const_shard(key)
                .filter(|shard| *shard < children)
                .unwrap_or_else(|| ch3(key, children)),
            Self::WeightedCh3(weights) => weighted_ch3(key, weights, WEIGHTED_CH3_TRIES),
            Self::WeightedCh3Rv(variables, name) => {
                let weights = variables.get(name);
                let weights = weights.as_ref().and_then(Json::as_array).unwrap_or_default();
                let weight = |index: usize| weights.get(index).and_then(Json::as_number);
                let weights: Vec<f64> = (0..children)
                    .map(|index| weight(index).unwrap_or(WEIGHT_DEFAULT).clamp(0.0, 1.0))
                    .collect();
                weighted_ch3(key, &weights, WEIGHTED_CH3_TRIES)
            }
            Self::Rendezvous(ring, _) => ring.choose(key),
            Self::Continuum(continuum) => continuum.choose(key),
        }
    }
}

fn are_numbers(json: &Json) -> bool {
    json.as_array().is_some_and(|all| all.iter().all(|number| number.as_number().is_some()))
}

/// What a child without a weight has.
const WEIGHT_DEFAULT: f64 = 0.5;

/// A weight from 0 to 1 for each child.
pub(super) fn weights(fields: Fields<'_>, children: usize) -> Result<Vec<f64>, ConfigError> {
    let weights = fields.array("weights")?.ok_or_else(|| fields.error("no weights"))?;
    let weight = |json: &Json| {
        let number = json.as_number().filter(|weight| (0.0..=1.0).contains(weight));
        number.ok_or_else(|| ConfigError::at(json.line, "weight must be in range [0, 1.0]"))
    };
    let mut weights: Vec<f64> =
        weights.iter().take(children).map(weight).collect::<Result<_, _>>()?;
    weights.resize(children, WEIGHT_DEFAULT);
    Ok(weights)
}

/// A tag for each child.
pub(super) fn tags(fields: Fields<'_>, children: usize) -> Result<Vec<&str>, ConfigError> {
    let tags = fields.array("tags")?;
    let tags = tags.ok_or_else(|| fields.error("tags needed for Rendezvous hash route"))?;
    if tags.len() != children {
        let message = format!(
            "number of tags {} doesn't match number of route handles {children}",
            tags.len()
        );
        return Err(fields.error(message));
    }
    tags.iter().map(|tag| tag.as_str().ok_or_else(|| fields.error("tag is not a string"))).collect()
}

/// `5` of `x:5:rest`.
fn const_shard(key: &[u8]) -> Option<usize> {
    std::str::from_utf8(shard(key)?).ok()?.parse().ok()
}

/// What stands between the first two colons, if it ends in a digit.
pub(super) fn shard(key: &[u8]) -> Option<&[u8]> {
    let mut parts = key.splitn(3, |byte| *byte == b':');
    let (_, shard, _) = (parts.next()?, parts.next()?, parts.next()?);
    shard.last().is_some_and(u8::is_ascii_digit).then_some(shard)
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
pub(super) static SHAPE: Shape =
    Shape { name: "HashRoute", fields: &[&CHILDREN, &FIELDS, &failover::FIELDS, &choice::LOAD] };

/// `hash`, where a route has that.
pub(super) static HASH: Shape = Shape {
    name: "hash",
    fields: &[&FIELDS, &failover::FIELDS, &choice::LOAD, &[ignored("client_fanout")]],
};

/// How a key is hashed.
pub(super) static FIELDS: [Field; 12] = [
    field("hash_func", Takes::Word(functions), "the function (`Ch3`)"),
    field("salt", Takes::Text, "behind each key before it is hashed"),
    field("weights", Takes::List(&NUMBER), "of the children"),
    field("weights_rv", Takes::Text, "the runtime variable with the weights, for `WeightedCh3Rv`"),
    field("tags", Takes::List(&Takes::Text), "the children's names, for `Rendezvous`"),
    field("names", Takes::List(&Takes::Text), "the servers' names, for `Ketama`"),
    field("key_hash", Takes::Word(continuum::key_hashes), "how `Ketama` and `Modula` hash (`md5`)"),
    field("hash_tag", Takes::Text, "two characters, between which a key is hashed"),
    field("bucketize", Takes::Bool, "hash the key's bucket"),
    field("error_on_empty", Takes::Bool, "without children answer an error (true)"),
    field("failover_count", Takes::Whole(0, U32), "for `Latest`: how many children are drawn (5)"),
    field("thread_local_failover", Takes::Bool, "for `Latest`: each thread draws for itself"),
];

/// Functions by name.
pub(super) fn functions() -> Vec<String> {
    words(&[
        "Ch3",
        "ConstShard",
        "Crc32",
        "Ketama",
        "Latest",
        "LoadBalancer",
        "Modula",
        "Rendezvous",
        "WeightedCh3",
        "WeightedCh3Rv",
        "WeightedRendezvous",
    ])
}

/// `HashRoute`
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let children = builder.children(json)?;
    Ok(vec![node(json, children, builder)?])
}

/// One of `children`, by what `json` says of salt, function, weights and tags.
pub(super) fn node(
    json: &Json,
    mut children: Vec<Node>,
    builder: &Builder<'_>,
) -> Result<Node, ConfigError> {
    let fields = Fields::new(json, &SHAPE);
    let salt = fields.string("salt")?.unwrap_or_default().as_bytes().to_vec();
    let is_by_bucket = fields.boolean("bucketize")?.unwrap_or(false);
    match children.len() {
        0 if fields.boolean("error_on_empty")?.unwrap_or(true) => {
            let name = fields.string("name")?.unwrap_or_default();
            return Ok(error::node(format!("HashRoute with empty children, name: {name}")));
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

/// What a child takes: its place, and its weight.
const CHILD_BYTES: usize = 32;
/// What it takes more on a circle of points.
const CONTINUUM_BYTES: usize = 2048;
