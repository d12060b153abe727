//! Parameters of macros, and their assignment to arguments.

use guira_config::{ConfigError, Json, Object, Result};

/// A parameter of a macro that the configuration defines.
#[derive(Clone)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) is_required: bool,
    pub(super) default: Option<Json>,
}

/// The arguments of a call in a string, in the order of the parameters.
pub(super) fn by_place(params: &[(&str, bool)], arguments: &[&str]) -> Result<Vec<Option<Json>>> {
    let required = params.iter().filter(|(_, is_required)| *is_required).count();
    let count = arguments.len();
    if count < required {
        let message = format!("Too few arguments. Expected at least {required} got {count}");
        return Err(ConfigError::new(message));
    }
    if count > params.len() {
        let message = format!("Too many arguments. Expected at most {} got {count}", params.len());
        return Err(ConfigError::new(message));
    }
    Ok((0..params.len()).map(|index| arguments.get(index).map(|text| (*text).into())).collect())
}

/// The arguments of a call by an object, in the order of the parameters.
pub(super) fn by_name(params: &[(&str, bool)], mut object: Object) -> Result<Vec<Option<Json>>> {
    let take = |(name, is_required): &(&str, bool)| match object.remove(name) {
        None if *is_required => Err(ConfigError::new(format!("'{name}' parameter not found"))),
        value => Ok(value),
    };
    params.iter().map(take).collect()
}

/// Reads the parameters of a definition: names, or objects with a default.
pub(super) fn read(json: Option<&Json>, of: &str) -> Result<Vec<Param>> {
    let Some(json) = json else { return Ok(Vec::new()) };
    let Some(array) = json.as_array() else {
        return Err(ConfigError::at(json.line, format!("'{of}' macroDef params is not an array")));
    };
    let params: Result<Vec<Param>> = array.iter().map(param).collect();
    let params = params?;
    let first_optional = params.iter().position(|param| !param.is_required);
    let last_required = params.iter().rposition(|param| param.is_required);
    if first_optional.is_some_and(|optional| last_required > Some(optional)) {
        let message = "All params after optional/default one should also be optional";
        return Err(ConfigError::at(json.line, format!("Incorrect defaults in '{of}'. {message}")));
    }
    Ok(params)
}

fn param(json: &Json) -> Result<Param> {
    if let Some(name) = json.as_str() {
        return Ok(Param { name: name.to_owned(), is_required: true, default: None });
    }
    let fail = |message: String| ConfigError::at(json.line, message);
    let name = json.get("name").and_then(Json::as_str);
    let name = name.ok_or_else(|| fail("a param is a string, or an object with a name".into()))?;
    let not_bool = || fail(format!("param '{name}': 'optional' is not a boolean"));
    let optional = json.get("optional").map(|optional| optional.as_bool().ok_or_else(not_bool));
    let optional = optional.transpose()?;
    let default = json.get("default").cloned();
    if default.is_some() && optional == Some(false) {
        return Err(fail(format!("param '{name}' has a default, but is not optional")));
    }
    let is_required = default.is_none() && optional != Some(true);
    Ok(Param { name: name.to_owned(), is_required, default })
}
