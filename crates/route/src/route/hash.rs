//! `HashRoute`: the child whose number the key hashes to.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::Request;

use super::choice::Chooser;
use super::{Node, error, null};
use crate::build::Builder;
use crate::config::fields::Fields;
use crate::config::{ConfigError, Json};
use crate::{Context, hash, key};

/// A child by the routing key.
#[derive(Debug)]
struct Hashed {
    children: Vec<Node>,
    function: Function,
    salt: Vec<u8>,
}

/// How a key becomes a number.
#[derive(Debug)]
enum Function {
    Ch3,
}

impl Function {
    fn name(&self) -> &'static str {
        match self {
            Self::Ch3 => "Ch3",
        }
    }

    fn index(&self, key: &[u8], children: usize) -> usize {
        match self {
            Self::Ch3 => hash::ch3(key, children),
        }
    }
}

impl Hashed {
    fn child(&self, request: &Request) -> usize {
        let key = key::routing_key(&request.key);
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

    fn choose(&self, request: &Request, _: &Context) -> &Node {
        &self.children[self.child(request)]
    }

    fn index(&self, request: &Request) -> Option<usize> {
        Some(self.child(request))
    }
}

/// `HashRoute`
pub(super) fn build(json: &Json, builder: &mut Builder<'_>) -> Result<Vec<Node>, ConfigError> {
    let children = builder.children(json)?;
    Ok(vec![node(json, children)?])
}

/// One of `children`, by what `json` says of salt, function, weights and tags.
pub(super) fn node(json: &Json, mut children: Vec<Node>) -> Result<Node, ConfigError> {
    let fields = Fields::new(json, "HashRoute");
    let salt = fields.string("salt")?.unwrap_or_default().as_bytes().to_vec();
    let function = fields.string("hash_func")?.unwrap_or("Ch3");
    match children.len() {
        0 if fields.boolean("error_on_empty")?.unwrap_or(true) => {
            let name = fields.string("name")?.unwrap_or_default();
            return Ok(error::node(format!("HashRoute with empty children, name: {name}")));
        }
        0 => return Ok(null::node()),
        1 => return Ok(children.remove(0)),
        _ => {}
    }
    let function = match function {
        "Ch3" => Function::Ch3,
        _ => return Err(fields.error(format!("Unknown hash function: {function}"))),
    };
    Ok(Rc::new(Hashed { children, function, salt }))
}
