//! `PrefixSelectorRoute`: chooses a route by the beginning of a key. It is allowed at the root of a routing prefix
//! only.

use super::builder::Builder;
use super::route::Node;
use crate::config::fields::Fields;
use crate::config::shape::{Shape, Takes, field};
use guira_config::{ConfigError, Json};

/// Routes by key prefix.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    pub(crate) policies: Vec<(Vec<u8>, Node)>,
    /// For keys that no policy matches.
    pub(crate) wildcard: Option<Node>,
}
pub(crate) static SHAPE: Shape = Shape {
    name: "PrefixSelectorRoute",
    fields: &[&[
        field("policies", Takes::Map(&Takes::Route), "a route by the beginning of the key"),
        field("wildcard", Takes::Route, "where the others go"),
    ]],
};

/// Builds the root of a routing prefix. Any route except `PrefixSelectorRoute` takes all keys.
pub(crate) fn selector(json: &Json, builder: &mut Builder<'_>) -> Result<Selector, ConfigError> {
    let fields = Fields::new(json, &SHAPE);
    if fields.any("type").and_then(Json::as_str) != Some("PrefixSelectorRoute") {
        return Ok(Selector { policies: Vec::new(), wildcard: Some(builder.one(json)?) });
    }
    let policies = fields.object("policies")?.and_then(Json::as_object);
    if policies.is_none() && fields.any("wildcard").is_none() {
        return Err(fields.error("no policies/wildcard"));
    }
    // Build in the order of prefixes, so that a name defined in one policy can be used in later ones.
    let mut sorted: Vec<(&str, &Json)> = policies.into_iter().flat_map(|all| all.iter()).collect();
    sorted.sort_by_key(|(prefix, _)| *prefix);
    let mut policies = Vec::with_capacity(sorted.len());
    for (prefix, json) in sorted {
        policies.push((prefix.as_bytes().to_vec(), builder.one(json)?));
    }
    let wildcard = fields.any("wildcard").map(|json| builder.one(json)).transpose()?;
    Ok(Selector { policies, wildcard })
}

/// Returns the prefix as `/region/cluster/`, with the outer slashes added if they are missing.
pub(super) fn normal(prefix: &str) -> Result<String, ConfigError> {
    let inner = prefix.strip_prefix('/').unwrap_or(prefix);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    match inner.split('/').collect::<Vec<_>>()[..] {
        [region, cluster] if !region.is_empty() && !cluster.is_empty() => {
            Ok(format!("/{region}/{cluster}/"))
        }
        _ => {
            let message = "should be of the form /region/cluster/";
            Err(ConfigError::new(format!("Routing prefix ({prefix}) {message}")))
        }
    }
}

/// A map from prefixes to values. A key gets the value of its longest prefix.
#[derive(Clone, Debug)]
pub(crate) struct PrefixMap<T> {
    /// Sorted by prefix. The index is that of the entry's own longest proper prefix.
    entries: Vec<(Vec<u8>, Option<usize>, T)>,
}

impl<T> PrefixMap<T> {
    /// Builds a map. If a prefix occurs several times, its first value counts.
    pub(crate) fn new(mut values: Vec<(Vec<u8>, T)>) -> Self {
        values.sort_by(|(a, _), (b, _)| a.cmp(b));
        values.dedup_by(|(b, _), (a, _)| a == b);
        let mut entries: Vec<(Vec<u8>, Option<usize>, T)> = Vec::with_capacity(values.len());
        for (prefix, value) in values {
            let mut parent = entries.len().checked_sub(1);
            while let Some(index) = parent.filter(|index| !prefix.starts_with(&entries[*index].0)) {
                parent = entries[index].1;
            }
            entries.push((prefix, parent, value));
        }
        Self { entries }
    }

    /// The value for every key, if the empty prefix is the only one. Most configurations have no policies.
    pub(crate) fn for_all(&self) -> Option<&T> {
        match &self.entries[..] {
            [(prefix, _, value)] if prefix.is_empty() => Some(value),
            _ => None,
        }
    }

    /// The value of the key's longest prefix.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&T> {
        let after = self.entries.partition_point(|(prefix, _, _)| prefix.as_slice() <= key);
        let mut at = after.checked_sub(1);
        while let Some(index) = at {
            let (prefix, parent, value) = &self.entries[index];
            if key.starts_with(prefix) {
                return Some(value);
            }
            at = *parent;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prefix_may_leave_out_its_outer_slashes() {
        for prefix in ["/a/b/", "a/b", "/a/b", "a/b/"] {
            assert_eq!(normal(prefix), Ok("/a/b/".to_owned()));
        }
        for prefix in ["", "/", "a", "/a/", "/a/b/c/", "//a/b/"] {
            assert!(normal(prefix).is_err(), "{prefix}");
        }
    }

    proptest! {
        #[test]
        fn a_key_has_the_value_of_its_longest_prefix(
            prefixes in proptest::collection::btree_set("[ab]{0,4}", 0..12),
            key in "[ab]{0,6}",
        ) {
            let expected =
                prefixes.iter().filter(|prefix| key.starts_with(*prefix)).max_by_key(|prefix| prefix.len());
            let values = prefixes.iter().map(|prefix| (prefix.clone().into_bytes(), prefix.clone()));
            let map = PrefixMap::new(values.collect());
            prop_assert_eq!(map.get(key.as_bytes()), expected);
        }
    }
}
