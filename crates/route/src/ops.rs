//! Commands, by the names that configurations, logs and operators have for them.

use guira_client::Op;

/// What configurations and logs call a command.
pub(crate) fn op_name(op: Op) -> &'static str {
    let named = OPS.iter().find(|(_, known)| *known == op);
    named.map_or("version", |(name, _)| name)
}

/// The command that goes by a name.
pub(crate) fn op_named(name: &str) -> Option<Op> {
    OPS.iter().find(|(known, _)| *known == name).map(|(_, op)| *op)
}

/// Commands by the names that configurations have for them.
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

/// What `version` says after `VERSION`: the memcached spoken first, as clients read it from there, and refuse a version 0.
pub(crate) const VERSION: &str = concat!("1.6.45-guira-", env!("CARGO_PKG_VERSION"));
/// What `--version` prints, as `guira serve` has it.
pub(crate) const SPOKEN: &str = concat!("1.6.45 (guira ", env!("CARGO_PKG_VERSION"), ")");
