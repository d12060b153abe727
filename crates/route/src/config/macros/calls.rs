//! The loops `transform`, `process` and `foreach`. Their bodies see each key and item, under names of their choice.

use std::rc::Rc;

use super::expand::{Built, Macros};
use super::scope::{Local, Scope};
use guira_config::{ConfigError, Json, Object, Result, Value};

/// All loops. The fields of a definition are checked where it is defined.
pub(super) const BUILT: &[Built] = &[
    // A definition stays unexpanded until it is called.
    ("macroDef", defined, &[]),
    ("constDef", defined, &[]),
    (
        "transform",
        transform,
        &["dictionary", "itemName", "itemTransform", "keyName", "keyTransform"],
    ),
    (
        "process",
        process,
        &["dictionary", "initialValue", "itemName", "keyName", "transform", "valueName"],
    ),
    ("foreach", foreach, &["from", "item", "key", "noMatchResult", "top", "use", "where"]),
];

fn defined(_: &mut Macros<'_>, object: Object, _: &Scope<'_>) -> Result<Json> {
    Ok(Value::Object(object).into())
}

/// Whether the value was an object, and the key and item of each member or element.
fn entries(value: Value, what: &str) -> Result<(bool, Vec<(Json, Json)>)> {
    match value {
        Value::Object(object) => {
            let entries = object.into_iter().map(|(name, item)| (name.into(), item)).collect();
            Ok((true, entries))
        }
        Value::Array(array) => {
            let index = |index: usize| i64::try_from(index).unwrap_or(i64::MAX).into();
            let entries = array.into_iter().enumerate().map(|(at, item)| (index(at), item));
            Ok((false, entries.collect()))
        }
        _ => Err(ConfigError::new(format!("{what} is not array/object"))),
    }
}

fn name_of(object: &Object, field: &str, default: &str) -> Result<String> {
    let Some(name) = object.get(field) else { return Ok(default.to_owned()) };
    let message = || format!("{field} is {}, string expected", name.type_name());
    name.as_str().map(str::to_owned).ok_or_else(|| ConfigError::at(name.line, message()))
}

fn expand_field(
    macros: &mut Macros<'_>,
    object: &mut Object,
    field: &str,
    scope: &Scope<'_>,
) -> Result<Json> {
    let value = object.remove(field);
    let value = value.ok_or_else(|| ConfigError::new(format!("'{field}' not found")))?;
    macros.expand(value, scope)
}

fn transform(macros: &mut Macros<'_>, mut object: Object, scope: &Scope<'_>) -> Result<Json> {
    let dictionary = expand_field(macros, &mut object, "dictionary", scope)?;
    let (is_object, entries) = entries(dictionary.value, "dictionary")?;
    let item_name = name_of(&object, "itemName", "item")?;
    let key_name = name_of(&object, "keyName", "key")?;
    let of_item = object.get("itemTransform");
    let of_key = object.get("keyTransform").filter(|_| is_object);
    if !is_object && of_item.is_none() && !entries.is_empty() {
        return Err(ConfigError::new("itemTransform is required for array"));
    }
    let inner = Scope::inside(scope);
    let (mut array, mut members) = (Vec::new(), Object::default());
    for (key, item) in entries {
        inner.set(&key_name, Local::Expanded(Rc::new(macros.copy(&key)?)));
        inner.set(&item_name, Local::Expanded(Rc::new(macros.copy(&item)?)));
        let key = match of_key {
            Some(transform) => macros.expand(macros.copy(transform)?, &inner)?,
            None => key,
        };
        let item = match of_item {
            Some(transform) => macros.expand(macros.copy(transform)?, &inner)?,
            None => item,
        };
        if !is_object {
            array.push(item);
            continue;
        }
        let names = match key.value {
            Value::Array(names) => names,
            value => vec![value.into()],
        };
        for name in names {
            let Value::String(name) = name.value else {
                return Err(ConfigError::new("Transformed key is not array/string"));
            };
            members.insert(name, macros.copy(&item)?);
        }
    }
    Ok(if is_object { members.into() } else { array.into() })
}

fn process(macros: &mut Macros<'_>, mut object: Object, scope: &Scope<'_>) -> Result<Json> {
    let dictionary = expand_field(macros, &mut object, "dictionary", scope)?;
    let mut value = expand_field(macros, &mut object, "initialValue", scope)?;
    let (_, entries) = entries(dictionary.value, "dictionary")?;
    let transform = object.get("transform");
    let transform = transform.ok_or_else(|| ConfigError::new("'transform' not found"))?;
    let item_name = name_of(&object, "itemName", "item")?;
    let key_name = name_of(&object, "keyName", "key")?;
    let value_name = name_of(&object, "valueName", "value")?;
    let inner = Scope::inside(scope);
    for (key, item) in entries {
        inner.set(&key_name, Local::Expanded(Rc::new(key)));
        inner.set(&item_name, Local::Expanded(Rc::new(item)));
        inner.set(&value_name, Local::Expanded(Rc::new(value)));
        value = macros.expand(macros.copy(transform)?, &inner)?;
    }
    Ok(value)
}

fn foreach(macros: &mut Macros<'_>, mut object: Object, scope: &Scope<'_>) -> Result<Json> {
    let from = expand_field(macros, &mut object, "from", scope)?;
    let (is_object, entries) = entries(from.value, "from")?;
    let item_name = name_of(&object, "item", "item")?;
    let key_name = name_of(&object, "key", "key")?;
    let top = top(macros, &mut object, scope)?;
    let inner = Scope::inside(scope);
    let mut result = None;
    let mut found = 0;
    for (key, item) in entries {
        if found == top {
            break;
        }
        inner.set(&key_name, Local::Expanded(Rc::new(macros.copy(&key)?)));
        inner.set(&item_name, Local::Expanded(Rc::new(macros.copy(&item)?)));
        if let Some(condition) = object.get("where") {
            let condition = macros.expand(macros.copy(condition)?, &inner)?.as_bool();
            if !condition.ok_or_else(|| ConfigError::new("expanded 'where' is not boolean"))? {
                continue;
            }
        }
        found += 1;
        let used = match object.get("use") {
            Some(body) => macros.expand(macros.copy(body)?, &inner)?,
            None if is_object => {
                let name = key.as_str().unwrap_or_default().to_owned();
                Object::from_iter([(name, item)]).into()
            }
            None => vec![item].into(),
        };
        append(&mut result, used)?;
    }
    match (result, object.remove("noMatchResult")) {
        (Some(result), _) => Ok(result),
        (None, Some(other)) => macros.expand(other, scope),
        (None, None) if is_object => Ok(Object::default().into()),
        (None, None) => Ok(Vec::new().into()),
    }
}

/// The number of entries that a `foreach` uses.
fn top(macros: &mut Macros<'_>, object: &mut Object, scope: &Scope<'_>) -> Result<usize> {
    let Some(top) = object.remove("top") else { return Ok(usize::MAX) };
    let top = macros.expand(top, scope)?.as_int().and_then(|top| usize::try_from(top).ok());
    top.ok_or_else(|| ConfigError::new("top should be a non-negative integer"))
}

/// Merges the result of one iteration into the results of the earlier ones.
fn append(result: &mut Option<Json>, used: Json) -> Result<()> {
    let fail = |message: &str| Err(ConfigError::new(message));
    match (result.as_mut().map(|result| &mut result.value), used.value) {
        (None, used @ (Value::Object(_) | Value::Array(_))) => *result = Some(used.into()),
        (None, _) => return fail("expanded item is not object/array"),
        (Some(Value::Object(members)), Value::Object(used)) => {
            for (name, value) in used {
                members.insert(name, value);
            }
        }
        (Some(Value::Array(elements)), Value::Array(used)) => elements.extend(used),
        (Some(_), _) => return fail("expanded items are not all objects or all arrays"),
    }
    Ok(())
}
