//! The functions that a configuration can call, by mcrouter's names.
//!
//! Most are eager: they get the values of their arguments. A lazy one decides which of its arguments are expanded.

use std::net::{IpAddr, UdpSocket};
use std::rc::Rc;

use super::expand::{Args, Call, EagerCall, Function, Import, LazyCall, Macros};
use super::scope::Scope;
use guira_config::{self as json, ConfigError, Json, Result, Value};

mod containers;
mod hashing;
mod casts;

use casts::{compare, integer, is_equal, truth};
use hashing::{hash, weighted_hash};

const fn eager(name: &'static str, params: &'static [&'static str], call: EagerCall) -> Function {
    Function { name, params, required: params.len(), call: Call::Eager(call) }
}

const fn lazy(
    name: &'static str,
    params: &'static [&'static str],
    required: usize,
    call: LazyCall,
) -> Function {
    Function { name, params, required, call: Call::Lazy(call) }
}

/// All functions.
pub(super) const FUNCTIONS: &[Function] = &[
    lazy("import", &["path", "default"], 1, import),
    lazy("if", &["condition", "is_true", "is_false"], 3, choose),
    lazy("and", &["A", "B"], 2, |macros, args| both(macros, args, "and", false)),
    lazy("or", &["A", "B"], 2, |macros, args| both(macros, args, "or", true)),
    lazy("defined", &["name"], 1, defined),
    lazy("select", &["dictionary", "key", "default"], 2, containers::select),
    lazy("shuffle", &["dictionary", "seed"], 1, containers::shuffle),
    eager("hash", &["value"], |args| Ok(hash(&args[0])?.cast_signed().into())),
    eager("weightedHash", &["dictionary", "key"], |args| weighted_hash(&args[0], &args[1])),
    eager("int", &["value"], |args| casts::int(&args[0])),
    eager("double", &["value"], |args| casts::double(&args[0])),
    eager("str", &["value"], |args| casts::string(&args[0])),
    eager("bool", &["value"], |args| casts::boolean(&args[0])),
    eager("keys", &["dictionary"], |args| containers::keys(&args[0])),
    eager("values", &["dictionary"], |args| containers::values(&args[0])),
    eager("merge", &["params"], containers::merge),
    eager("slice", &["dictionary", "from", "to"], containers::slice),
    eager("split", &["dictionary", "delim"], |args| containers::split(&args[0], &args[1])),
    eager("range", &["from", "to"], |args| containers::range(&args[0], &args[1])),
    eager("contains", &["dictionary", "key"], |args| containers::contains(&args[0], &args[1])),
    eager("empty", &["dictionary"], |args| Ok((containers::size(&args[0])? == 0).into())),
    eager("size", &["dictionary"], |args| Ok(containers::size(&args[0])?.into())),
    eager("sort", &["dictionary"], containers::sort),
    eager("set", &["dictionary", "key", "value"], containers::set),
    eager("equals", &["A", "B"], |args| Ok(is_equal(&args[0], &args[1]).into())),
    eager("less", &["A", "B"], |args| Ok(compare(&args[0], &args[1])?.is_lt().into())),
    eager("isArray", &["value"], |args| Ok(args[0].as_array().is_some().into())),
    eager("isBool", &["value"], |args| Ok(args[0].as_bool().is_some().into())),
    eager("isInt", &["value"], |args| Ok(args[0].as_int().is_some().into())),
    eager("isDouble", &["value"], |args| Ok(matches!(args[0].value, Value::Double(_)).into())),
    eager("isObject", &["value"], |args| Ok(args[0].as_object().is_some().into())),
    eager("isString", &["value"], |args| Ok(args[0].as_str().is_some().into())),
    eager("isLocalIp", &["ip"], |args| is_local_ip(&args[0])),
    eager("not", &["A"], |args| Ok((!truth(&args[0], "not: A")?).into())),
    eager("add", &["A", "B"], |args| arithmetic(&args, "add", i64::checked_add)),
    eager("sub", &["A", "B"], |args| arithmetic(&args, "sub", i64::checked_sub)),
    eager("mul", &["A", "B"], |args| arithmetic(&args, "mul", i64::checked_mul)),
    eager("div", &["A", "B"], |args| arithmetic(&args, "div", i64::checked_div)),
    eager("mod", &["A", "B"], |args| arithmetic(&args, "mod", i64::checked_rem)),
    eager("bitwiseAnd", &["A", "B"], |args| arithmetic(&args, "bitwiseAnd", |a, b| Some(a & b))),
    eager("bitwiseOr", &["A", "B"], |args| arithmetic(&args, "bitwiseOr", |a, b| Some(a | b))),
    eager("bitwiseXor", &["A", "B"], |args| arithmetic(&args, "bitwiseXor", |a, b| Some(a ^ b))),
    eager("bitwiseNot", &["A"], |args| Ok((!integer(&args[0], "bitwiseNot: A")?).into())),
    eager("bitwiseLeftShift", &["A", "B"], |args| {
        arithmetic(&args, "bitwiseLeftShift", shift_left)
    }),
    eager("bitwiseRightShift", &["A", "B"], |args| {
        arithmetic(&args, "bitwiseRightShift", shift_right)
    }),
    eager("fail", &["msg"], |args| {
        let message = args[0].as_str().map_or_else(|| args[0].to_pretty(), str::to_owned);
        Err(ConfigError::at(args[0].line, message))
    }),
    eager("define", &["result"], |mut args| Ok(args.remove(0))),
];

fn import(macros: &mut Macros<'_>, args: &mut Args<'_>) -> Result<Json> {
    let path = args.take(macros, 0)?;
    let path = path.as_str().ok_or_else(|| ConfigError::new("import path is not a string"))?;
    let value = match macros.imported.get(path) {
        Some(Import::Expanded(known)) => {
            let known = Rc::clone(known);
            return macros.copy(&known);
        }
        Some(Import::Begun) => Err(ConfigError::new("it imports itself")),
        None => {
            macros.imported.insert(path.to_owned(), Import::Begun);
            let value = imported(macros, path);
            macros.imported.remove(path);
            value
        }
    };
    let value = match value {
        Ok(value) => value,
        Err(error) => {
            let default = args.try_take(macros, 1)?;
            default.ok_or_else(|| error.within(format!("Import '{path}'")))?
        }
    };
    let known = Import::Expanded(Rc::new(macros.copy(&value)?));
    macros.imported.insert(path.to_owned(), known);
    Ok(value)
}

fn imported(macros: &mut Macros<'_>, path: &str) -> Result<Json> {
    let text = macros.sources.read(path).map_err(ConfigError::new)?;
    macros.budget.charge(text.len())?;
    let json = json::parse_within(&text, macros.budget, macros.findings);
    let json = json.map_err(|error| error.in_file(path.trim_start_matches("file:")))?;
    drop(text);
    macros.expand(json, &Scope::base())
}

fn choose(macros: &mut Macros<'_>, args: &mut Args<'_>) -> Result<Json> {
    let condition = args.take(macros, 0)?;
    let (index, name) =
        if truth(&condition, "If: condition")? { (1, "is_true") } else { (2, "is_false") };
    args.take(macros, index).map_err(|error| error.within(format!("If '{name}'")))
}

/// Expands `B` only if `A` doesn't decide the result.
fn both(macros: &mut Macros<'_>, args: &mut Args<'_>, name: &str, decides: bool) -> Result<Json> {
    let first = truth(&args.take(macros, 0)?, name)?;
    Ok(if first == decides { first } else { truth(&args.take(macros, 1)?, name)? }.into())
}

fn defined(macros: &mut Macros<'_>, args: &mut Args<'_>) -> Result<Json> {
    let name = args.take(macros, 0)?;
    let name = name.as_str().ok_or_else(|| ConfigError::new("Defined: name is not a string"))?;
    Ok((args.scope.contains(name) || macros.constants.contains_key(name)).into())
}

fn arithmetic(args: &[Json], name: &str, of: fn(i64, i64) -> Option<i64>) -> Result<Json> {
    let a = integer(&args[0], &format!("{name}: A"))?;
    let b = integer(&args[1], &format!("{name}: B"))?;
    let result =
        of(a, b).ok_or_else(|| ConfigError::new(format!("{name}: no result for {a}, {b}")))?;
    Ok(result.into())
}

fn shift_left(a: i64, bits: i64) -> Option<i64> {
    a.cast_unsigned().checked_shl(u32::try_from(bits).ok()?).map(u64::cast_signed)
}

/// Shifts in zeros, whatever the sign.
fn shift_right(a: i64, bits: i64) -> Option<i64> {
    a.cast_unsigned().checked_shr(u32::try_from(bits).ok()?).map(u64::cast_signed)
}

/// An address is local if a socket can be bound to it.
fn is_local_ip(ip: &Json) -> Result<Json> {
    let ip = ip.as_str().ok_or_else(|| ConfigError::new("isLocalIp: ip is not a string"))?;
    let is_local = ip.parse::<IpAddr>().is_ok_and(|ip| UdpSocket::bind((ip, 0)).is_ok());
    Ok(is_local.into())
}
