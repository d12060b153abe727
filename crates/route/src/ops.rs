//! Commands and their names in configurations, logs and commands of operators.

use guira_client::Op;

/// The name of a command in configurations and logs.
pub(crate) fn op_name(op: Op) -> &'static str {
    let named = OPS.iter().find(|(_, known)| *known == op);
    named.map_or("version", |(name, _)| name)
}

/// The command with this name.
pub(crate) fn op_named(name: &str) -> Option<Op> {
    OPS.iter().find(|(known, _)| *known == name).map(|(_, op)| *op)
}

/// Commands by their names in configurations.
pub(crate) const OPS: &[(&str, Op)] = &[
    ("get", Op::Get),
    ("gets", Op::Gets),
    ("gat", Op::Gat),
    ("gats", Op::Gats),
    ("lease-get", Op::LeaseGet),
    ("metaget", Op::MetaGet),
    ("set", Op::Set),
    ("add", Op::Add),
    ("replace", Op::Replace),
    ("append", Op::Append),
    ("prepend", Op::Prepend),
    ("cas", Op::Cas),
    ("lease-set", Op::LeaseSet),
    ("delete", Op::Delete),
    ("touch", Op::Touch),
    ("incr", Op::Incr),
    ("decr", Op::Decr),
    ("flushall", Op::FlushAll),
];

/// The reply to `version`, without `VERSION`. memcached's version comes first: clients parse it there, and refuse a
/// version 0.
pub(crate) const VERSION: &str = concat!("1.6.45-guira-", env!("CARGO_PKG_VERSION"));
/// The output of `--version`, in the same format as that of `guira serve`.
pub(crate) const SPOKEN: &str = concat!("1.6.45 (guira ", env!("CARGO_PKG_VERSION"), ")");
