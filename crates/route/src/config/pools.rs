//! Pools: named lists of servers. A pool can inherit the fields of another.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::fields::Fields;
use super::shape::{Field, NUMBER, Shape, Takes, U32, field, ignored, words};
use crate::server::{LeafSpec, Server};
use crate::settings::Settings;
use guira_config::budget::Budget;
use guira_config::{ConfigError, Json, Object, Result, Value, perhaps};

/// Pools by name. Their fields are completed at their first use.
#[derive(Debug)]
pub(crate) struct Pools {
    pools: BTreeMap<String, State>,
    /// The number of pools that wait for those that they inherit from.
    nested: u32,
}

#[derive(Debug)]
enum State {
    Raw(Json),
    Inheriting,
    Complete(Rc<Json>),
}

impl Pools {
    /// Creates the pools from a configuration's `pools`.
    pub(crate) fn new(pools: Option<&Json>) -> Self {
        let members = pools.and_then(Json::as_object).into_iter().flat_map(Object::iter);
        let raw = members.map(|(name, pool)| (name.to_owned(), State::Raw(pool.clone())));
        Self { pools: raw.collect(), nested: 0 }
    }

    /// The name and fields of a pool, which is given by name or as an object.
    pub(crate) fn get(&mut self, pool: &Json, budget: &Budget) -> Result<(Rc<str>, Rc<Json>)> {
        if let Some(name) = pool.as_str() {
            return Ok((name.into(), self.named(name, pool.line, budget)?));
        }
        let name = Fields::new(pool, &SHAPE).string("name")?;
        let name =
            name.ok_or_else(|| ConfigError::at(pool.line, "Pool should have string 'name'"))?;
        self.pools.entry(name.to_owned()).or_insert_with(|| State::Raw(pool.clone()));
        Ok((name.into(), self.named(name, pool.line, budget)?))
    }

    fn named(&mut self, name: &str, line: u32, budget: &Budget) -> Result<Rc<Json>> {
        if self.nested == INHERITED_MAX {
            let message = format!("Pools inherit more than {INHERITED_MAX} deep");
            return Err(ConfigError::at(line, message));
        }
        self.nested += 1;
        let pool = self.completed(name, line, budget);
        self.nested -= 1;
        pool
    }

    fn completed(&mut self, name: &str, line: u32, budget: &Budget) -> Result<Rc<Json>> {
        let Some(state) = self.pools.get_mut(name) else {
            let known: Vec<&str> = self.pools.keys().map(|known| &**known).collect();
            let message = format!("Can not read pool: {name}{}", perhaps(name, &known));
            return Err(ConfigError::at(line, message));
        };
        let mut pool = match std::mem::replace(state, State::Inheriting) {
            State::Complete(pool) => {
                *state = State::Complete(Rc::clone(&pool));
                return Ok(pool);
            }
            State::Inheriting => {
                return Err(ConfigError::at(line, format!("Cycle in pool inheritance: {name}")));
            }
            State::Raw(pool) => pool,
        };
        if let Some(parent) = Fields::named(&pool, name, &SHAPE).string("inherit")? {
            let parent = self.named(parent, pool.line, budget)?;
            budget.charge_copy(&parent)?;
            if let (Value::Object(own), Some(inherited)) = (&mut pool.value, parent.as_object()) {
                own.remove("inherit");
                for (field, value) in inherited.iter() {
                    if own.get(field).is_none() {
                        own.insert(field, value.clone());
                    }
                }
            }
        }
        let pool = Rc::new(pool);
        self.pools.insert(name.to_owned(), State::Complete(Rc::clone(&pool)));
        Ok(pool)
    }
}

/// A place in a pool: a server, or a route used instead of one.
pub(crate) enum Place<'j> {
    Server(LeafSpec),
    Route(&'j Json),
}
/// A pool.
pub(crate) static SHAPE: Shape =
    Shape { name: "pool", fields: &[&SERVERS, &SECURITY, &TIMES, &HASHING, &MCROUTERS] };

static SERVERS: [Field; 5] = [
    field(
        "servers",
        Takes::List(&Takes::OneOf(&[Takes::Text, Takes::Route])),
        "`HOST:PORT`, `unix:/PATH`, `srv:NAME`, `all:HOST:PORT`; or a route in a server's place",
    ),
    field("name", Takes::Text, "the pool's name, where it is written at its use"),
    field("inherit", Takes::Text, "the pool whose fields this one has too"),
    field("hostnames", Takes::List(&Takes::Any), "one per server, for people"),
    field(
        "failure_domains",
        Takes::List(&Takes::OneOf(&[Takes::Whole(0, U32), Takes::Text])),
        "one per server",
    ),
];

static SECURITY: [Field; 9] = [
    field("protocol", Takes::Word(protocols), "how servers are spoken to (`ascii`)"),
    field("use_ssl", Takes::Bool, "over TLS"),
    field("security_mech", SECURED, "the same: `ssl`, or `plain`"),
    field("security_mech_within_dc", SECURED, "in our region"),
    field("security_mech_cross_dc", SECURED, "in another"),
    field("port_override", PORT, "instead of the servers' port"),
    field("port_override_within_dc", PORT, "in our region"),
    field("port_override_cross_dc", PORT, "in another"),
    field("enable_compression", Takes::Bool, "shown in names; nothing is compressed in text"),
];

const SECURED: Takes = Takes::Word(|| words(crate::server::SECURITIES));
const PORT: Takes = Takes::Whole(1, 65535);

fn protocols() -> Vec<String> {
    words(crate::server::PROTOCOLS)
}

static TIMES: [Field; 9] = [
    field("server_timeout", Takes::Whole(1, U32), "milliseconds for a reply"),
    field(
        "connect_timeout",
        Takes::Whole(1, U32),
        "milliseconds for a connection (as for a reply)",
    ),
    field("region", Takes::Text, "where the servers are"),
    field("cluster", Takes::Text, "where in the region"),
    field("keep_routing_prefix", Takes::Bool, "servers see keys with their routing prefix"),
    field("qos", Takes::Object(&QOS), "how packets are marked"),
    field("tko_tracker", Takes::Object(&TKO_TRACKER), "how many servers may be marked TKO"),
    field(
        "stale_on_delete",
        Takes::Whole(0, DAY_S),
        "seconds that a deleted value is kept as stale",
    ),
    field("additional_fanout", Takes::Whole(0, 256), "more connections to each server"),
];

static HASHING: [Field; 3] = [
    field("weights", Takes::List(&NUMBER), "of the servers, for `WeightedCh3`"),
    field("tags", Takes::List(&Takes::Text), "the servers' names, for `Rendezvous`"),
    field("error_on_empty", Takes::Bool, "without servers answer with an error (true)"),
];

static MCROUTERS: [Field; 6] = [
    ignored("disable_request_deadline_check"),
    ignored("pool_locality"),
    ignored("props"),
    ignored("service_id_override"),
    ignored("services"),
    ignored("tw_job"),
];

static QOS: Shape = Shape {
    name: "qos",
    fields: &[&[
        field("class", Takes::Whole(0, 4), "the class"),
        field("path", Takes::Whole(0, 3), "the path"),
    ]],
};

static TKO_TRACKER: Shape = Shape {
    name: "tko_tracker",
    fields: &[&[
        field(
            "num_tko_threshold_upper",
            Takes::Whole(0, U32),
            "most servers marked TKO; when one more fails, none is marked for a while",
        ),
        field(
            "percent_tko_threshold_upper",
            Takes::Whole(0, 100),
            "the same, in per cent of the pool's servers",
        ),
        field(
            "num_tko_threshold_lower",
            Takes::Whole(0, U32),
            "servers are marked again when no more than this many are",
        ),
        field(
            "percent_tko_threshold_lower",
            Takes::Whole(0, 100),
            "the same, in per cent of the pool's servers",
        ),
    ]],
};

/// The contents of each place of a pool.
pub(crate) fn places<'j>(
    name: &Rc<str>,
    pool: &'j Json,
    settings: &Settings,
) -> Result<Vec<Place<'j>>> {
    let of = format!("Pool {name}");
    let fields = Fields::named(pool, &of, &SHAPE);
    let servers = fields.array("servers")?.and(pool.get("servers")).and_then(Json::as_array);
    let servers = servers.ok_or_else(|| fields.error("servers not found"))?;
    let domains = fields.array("failure_domains")?;
    for (array, field) in [(domains, "failure_domains"), (fields.array("hostnames")?, "hostnames")]
    {
        if array.is_some_and(|array| array.len() != servers.len()) {
            return Err(fields.error(format!("{field} expected to be of the same size as servers")));
        }
    }
    let (timeout, connect_timeout) = timeouts(fields, settings)?;
    let wanted = LeafSpec {
        server: defaults(fields, settings)?,
        timeout,
        connect_timeout,
        keep_routing_prefix: fields.boolean("keep_routing_prefix")?.unwrap_or(false),
        pool: Rc::clone(name),
        index: 0,
        dscp: dscp(fields, settings)?,
        fail_open: fail_open(fields, servers.len())?,
        failure_domain: 0,
        stale_on_delete_s: fields.integer("stale_on_delete")?.unwrap_or(0),
        connections: 1 + fields.integer("additional_fanout")?.unwrap_or(0),
    };
    let place = |(index, json): (usize, &'j Json)| {
        let Some(text) = json.as_str() else {
            let message = format!("server #{index} is not a string/object");
            return json
                .as_object()
                .map(|_| Place::Route(json))
                .ok_or_else(|| fields.error(message));
        };
        let server = Server::parse(text, &wanted.server);
        let server =
            server.map_err(|message| ConfigError::at(json.line, format!("{of}: {message}")))?;
        if let Some(words) = unreachable(&server, settings) {
            return Err(ConfigError::at(json.line, format!("{of}: server '{text}' {words}")));
        }
        if wanted.stale_on_delete_s > 0 && !server.speaks_meta() {
            let words = format!("{of}: stale_on_delete needs \"protocol\": \"meta\" at '{text}'");
            return Err(ConfigError::at(json.line, words));
        }
        let failure_domain = domains.map_or(0, |domains| domain(&domains[index]));
        Ok(Place::Server(LeafSpec { server, index, failure_domain, ..wanted.clone() }))
    };
    servers.iter().enumerate().map(place).collect()
}

/// Why a server that uses TLS can't be reached.
fn unreachable(server: &Server, settings: &Settings) -> Option<&'static str> {
    match (server.is_secured(), server.is_unix, settings.has_tls) {
        (true, true, _) => Some("is a unix socket, which takes no TLS: leave one of them out"),
        (true, false, false) => {
            Some("wants TLS: say by --pem-ca-path who signs servers' certificates")
        }
        _ => None,
    }
}

/// The timeouts for a reply and for a connection.
fn timeouts(fields: Fields<'_>, settings: &Settings) -> Result<(Duration, Duration)> {
    let mut timeout = fields.milliseconds("server_timeout")?.unwrap_or(settings.server_timeout);
    let connect_timeout = fields.milliseconds("connect_timeout")?.unwrap_or(timeout);
    let flag = match locality(fields, settings)? {
        Some((true, true)) => settings.within_cluster_timeout,
        Some((true, false)) => settings.cross_cluster_timeout,
        Some((false, _)) => settings.cross_region_timeout,
        None => Duration::ZERO,
    };
    if !flag.is_zero() {
        timeout = flag;
    }
    Ok((timeout, connect_timeout))
}

/// Whether the pool is in the router's region, and in its cluster; `None` if the pool doesn't name both.
fn locality(fields: Fields<'_>, settings: &Settings) -> Result<Option<(bool, bool)>> {
    let (Some(region), Some(cluster)) = (fields.string("region")?, fields.string("cluster")?)
    else {
        return Ok(None);
    };
    let (our_region, our_cluster) = settings.region_and_cluster();
    Ok(Some((region == our_region, cluster == our_cluster)))
}

/// The properties that all servers of the pool share.
fn defaults(fields: Fields<'_>, settings: &Settings) -> Result<Server> {
    let mut server = Server::default();
    if let Some(protocol) = fields.string("protocol")? {
        if !crate::server::PROTOCOLS.contains(&protocol) {
            return Err(fields.error(format!("Unknown protocol '{protocol}'")));
        }
        protocol.clone_into(&mut server.protocol);
    }
    let is_local = fields.string("region")?.map(|region| region == settings.region_and_cluster().0);
    let suffix = match is_local {
        Some(true) => "_within_dc",
        Some(false) => "_cross_dc",
        None => "",
    };
    if fields.boolean("use_ssl")?.unwrap_or(false) {
        "ssl".clone_into(&mut server.security);
    }
    for name in ["security_mech".to_owned(), format!("security_mech{suffix}")] {
        if let Some(security) = fields.string(&name)? {
            let security = crate::server::checked_security(security);
            security.map_err(|words| fields.error(words))?.clone_into(&mut server.security);
        }
    }
    for name in ["port_override".to_owned(), format!("port_override{suffix}")] {
        server.port = fields.integer(&name)?.unwrap_or(server.port);
    }
    server.is_compressed = fields.boolean("enable_compression")?.unwrap_or(false);
    Ok(server)
}

/// The class and path as the byte that marks packets: class · 0x20 + path · 4.
fn dscp(fields: Fields<'_>, settings: &Settings) -> Result<u8> {
    let Some((mut class, mut path)) = settings.qos else { return Ok(0) };
    if let Some(qos) = fields.object("qos")? {
        let qos = Fields::new(qos, &QOS);
        class = qos.integer("class")?.unwrap_or(class);
        path = qos.integer("path")?.unwrap_or(path);
    }
    Ok(class << 5 | path << 2)
}

/// More than any pools need.
const INHERITED_MAX: u32 = 64;
/// The longest time in seconds for which stale values are kept.
const DAY_S: i64 = 24 * 60 * 60;

fn fail_open(fields: Fields<'_>, servers: usize) -> Result<Option<(usize, usize)>> {
    let Some(tracker) = fields.object("tko_tracker")? else { return Ok(None) };
    let tracker = Fields::new(tracker, &TKO_TRACKER);
    let threshold = |end: &str| -> Result<usize> {
        let number = tracker.integer(&format!("num_tko_threshold_{end}"))?;
        let percent: Option<usize> = tracker.integer(&format!("percent_tko_threshold_{end}"))?;
        Ok(number.or(percent.map(|percent| percent * servers / 100)).unwrap_or(0))
    };
    let (upper, lower) = (threshold("upper")?, threshold("lower")?);
    if upper == 0 || lower == 0 {
        return Err(tracker.error("Both tko threshold upper and lower must be configured"));
    }
    if lower > upper {
        return Err(tracker.error("tko upper threshold must be greater than or equal to lower"));
    }
    Ok(Some((upper, lower)))
}

/// A domain's number, or one made from its name.
fn domain(json: &Json) -> u32 {
    match &json.value {
        Value::Int(number) => u32::try_from(*number).unwrap_or(0),
        Value::String(name) => {
            let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            });
            hash.max(1)
        }
        _ => 0,
    }
}
