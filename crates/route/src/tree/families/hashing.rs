//! Hash functions: they map a key to the index of a child.

pub(super) mod continuum;

use guira_client::ring::{Rendezvous, WEIGHTED_CH3_TRIES, ch3, crc32, weighted_ch3};

use super::{Builder, ConfigError, Fields, Json};
use crate::settings::RuntimeVariables;
use continuum::Continuum;
pub(crate) use continuum::KeyHash;

/// A hash function with its parameters.
#[derive(Debug)]
pub(super) enum Function {
    Ch3,
    Crc32,
    /// The number between the first two colons. Keys without one use Ch3.
    ConstShard,
    WeightedCh3(Vec<f64>),
    /// As `WeightedCh3`, with weights from a runtime variable.
    WeightedCh3Rv(RuntimeVariables, String),
    Rendezvous(Rendezvous, &'static str),
    /// Ketama or Modula, compatible with twemproxy.
    Continuum(Box<Continuum>),
}

impl Function {
    /// Reads `hash_func` and the fields that the function needs.
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

    pub(super) fn name(&self) -> &'static str {
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

    /// The index for a key, below `children`.
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

/// The weight of a child that has none in the configuration.
const WEIGHT_DEFAULT: f64 = 0.5;

/// The weights of all children, from 0 to 1.
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

/// The tags of all children.
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

/// The number `5` in `x:5:rest`.
fn const_shard(key: &[u8]) -> Option<usize> {
    std::str::from_utf8(shard(key)?).ok()?.parse().ok()
}

/// The text between the first two colons, if it ends in a digit.
pub(super) fn shard(key: &[u8]) -> Option<&[u8]> {
    let mut parts = key.splitn(3, |byte| *byte == b':');
    let (_, shard, _) = (parts.next()?, parts.next()?, parts.next()?);
    shard.last().is_some_and(u8::is_ascii_digit).then_some(shard)
}

/// Additional memory per child for the points on the circle.
const CONTINUUM_BYTES: usize = 2048;
