//! The same configurations for the check and for the schema: both must accept the same ones.

use boon::{Compiler, Draft, Schemas};

use super::*;
use crate::configure::schema::{self, schema};
use guira_config as json;

/// A configuration with two pools, one of which has a single server, and this route.
fn routed(route: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1", "b:1"]}}, "B": {{"servers": ["c:1"]}}}}, "route": {route}}}"#
    )
}

fn pooled(fields: &str) -> String {
    format!(r#"{{"pools": {{"A": {{"servers": ["a:1"], {fields}}}}}, "route": "PoolRoute|A"}}"#)
}

/// Wrong fields of a pool, each with the expected message.
const BAD_POOLS: &[(&str, &str)] = &[
    (r#""use_ssll": true"#, "pools: A: unknown field 'use_ssll', did you mean 'use_ssl'?"),
    (r#""protocl": "meta""#, "did you mean 'protocol'?"),
    (r#""protocol": "asci""#, "'asci' is no such word, did you mean 'ascii'?"),
    (r#""server_timeout": "100""#, "server_timeout is a string, expected a whole number"),
    (r#""server_timeout": 0"#, "server_timeout is 0, expected a whole number from 1"),
    (r#""server_timeout": 1.5"#, "is a number, expected a whole number"),
    (r#""use_ssl": "yes""#, "use_ssl is a string, expected true or false"),
    (r#""security_mech": "sssl""#, "'sssl' is no such word, did you mean 'ssl'?"),
    (r#""qos": {"clas": 1}"#, "qos: unknown field 'clas', did you mean 'class'?"),
    (r#""qos": {"class": 9}"#, "class is 9, expected a whole number from 0 to 4"),
    (r#""qos": 1"#, "qos is a number, expected an object"),
    (r#""tko_tracker": {"num_tko_threshold_uper": 1}"#, "'num_tko_threshold_upper'?"),
    (r#""weights": ["a"]"#, "weights[0] is a string, expected a number"),
    (r#""weights": {"a": 1}"#, "weights is an object, expected an array"),
    (r#""timeout": 100"#, "unknown field 'timeout', did you mean 'server_timeout'?"),
    (r#""Servers": []"#, "unknown field 'Servers', did you mean 'servers'?"),
    (r#""xyzzy": null"#, "pools: A: unknown field 'xyzzy'"),
];

/// Wrong routes, each with the expected message.
const BAD_ROUTES: &[(&str, &str)] = &[
    (r#"{"type": "PoolRoute", "pool": "B", "hash": "crc99"}"#, "'crc99' is no such word"),
    (r#"{"type": "PoolRoute", "pool": "B", "hash": {"hash_func": "Crc3"}}"#, "'Crc32'?"),
    (r#"{"type": "PoolRoute", "pool": "B", "hash": {"slat": "x"}}"#, "hash: unknown field 'slat'"),
    (r#"{"type": "PoolRoute", "pool": "B", "hash": {"salt": 7}}"#, "hash: salt is a number"),
    (r#"{"type": "PoolRoute", "pool": "B", "hash": 3}"#, "hash is a number, expected one of"),
    (r#"{"type": "PoolRoute", "pol": "B"}"#, "unknown field 'pol', did you mean 'pool'?"),
    (r#"{"type": "PoolRoute", "hash": "Ch3"}"#, "PoolRoute: no field 'pool'"),
    (r#"{"type": "PolRoute", "pool": "B"}"#, "unknown type 'PolRoute', did you mean 'PoolRoute'?"),
    (r#"{"pool": "B"}"#, "a route has a 'type', or a 'name'"),
    (r#"{"type": "PoolRoute", "pool": "B", "asynclog": 1}"#, "asynclog is a number"),
    (r#"{"type": "PoolRoute", "pool": "B", "max_outstanding": -1}"#, "max_outstanding is -1"),
    (r#"{"type": "PoolRoute", "pool": "B", "rates": {"get_rate": 1}}"#, "'gets_rate'?"),
    (r#"{"type": "PoolRoute", "pool": "B", "shadows": [{"traget": "NullRoute"}]}"#, "'target'?"),
    (
        r#"{"type": "PoolRoute", "pool": "B", "shadows": [{"target": "NullRoute", "index_range": [0]}]}"#,
        "index_range is an array, expected an array of two",
    ),
    (
        r#"{"type": "PoolRoute", "pool": "B", "shard_splits": {"1": "3"}}"#,
        "expected a whole number",
    ),
    (
        r#"{"type": "PoolRoute", "pool": "B", "shard_splits": {"1": {"old": 3}}}"#,
        "unknown field 'old'",
    ),
    (
        r#"{"type": "FailoverRoute", "children": ["PoolRoute|B"], "failover_error": []}"#,
        "'failover_errors'?",
    ),
    (
        r#"{"type": "FailoverRoute", "children": ["PoolRoute|B"], "failover_errors": ["tkoo"]}"#,
        "'tko'?",
    ),
    (
        r#"{"type": "FailoverRoute", "children": ["PoolRoute|B"], "failover_errors": {"get": []}}"#,
        "failover_errors: unknown field 'get', did you mean 'gets'?",
    ),
    (
        r#"{"type": "FailoverRoute", "children": ["PoolRoute|B"], "failover_policy": {"type": "LeastFailurePolicy"}}"#,
        "'LeastFailuresPolicy'?",
    ),
    (
        r#"{"type": "OperationSelectorRoute", "operation_policies": {"gett": "PoolRoute|B"}}"#,
        "unknown name 'gett', did you mean 'get'?",
    ),
    (
        r#"{"type": "AllSyncRoute", "children": [{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warn": "PoolRoute|B"}]}"#,
        "WarmUpRoute: unknown field 'warn', did you mean 'warm'?",
    ),
    (r#"{"type": "AllSyncRoute", "childern": []}"#, "did you mean 'children'?"),
    (
        r#"{"type": "HotCacheRoute", "target": "NullRoute", "entries": "many"}"#,
        "entries is a string",
    ),
    (r#"{"type": "ErrorRoute", "result": "mc_res_bussy"}"#, "did you mean 'mc_res_busy'?"),
    ("[7]", "route[0] is a number, expected a route"),
    ("true", "route is true or false, expected a route"),
];

/// Wrong configurations, each with the expected message.
const BAD: &[(&str, &str)] = &[
    (
        r#"{"pool": {}, "route": "NullRoute"}"#,
        "config: unknown field 'pool', did you mean 'pools'?",
    ),
    (r#"{"pools": [], "route": "NullRoute"}"#, "pools is an array, expected an object"),
    (r#"{"pools": {"A": {"servers": "a:1"}}, "route": "NullRoute"}"#, "servers is a string"),
    (r#"{"pools": {"A": {"servers": [5]}}, "route": "NullRoute"}"#, "servers[0] is a number"),
    (r#"{"named_handles": {"x": {"type": "NulRoute"}}, "route": "NullRoute"}"#, "'NullRoute'?"),
    (
        r#"{"named_handles": [{"name": "x", "type": "ErrorRoute", "respons": ""}], "route": "NullRoute"}"#,
        "ErrorRoute x: unknown field 'respons', did you mean 'response'?",
    ),
    (r#"{"routes": [{"aliases": ["/a/b/"], "rout": "NullRoute"}]}"#, "did you mean 'route'?"),
    (r#"{"routes": {"/a/b/": {"type": "NullRoute", "x": 1}}}"#, "NullRoute: unknown field 'x'"),
];

/// All wrong examples, as configurations.
fn bad() -> Vec<(String, &'static str)> {
    let pools = BAD_POOLS.iter().map(|(fields, said)| (pooled(fields), *said));
    let routes = BAD_ROUTES.iter().map(|(route, said)| (routed(route), *said));
    let whole = BAD.iter().map(|(text, said)| ((*text).to_owned(), *said));
    pools.chain(routes).chain(whole).collect()
}

fn good() -> Vec<String> {
    let pools = [
        r#""protocol": "meta", "weights": [1, 0.5], "server_timeout": 5, "_why": "a word", "//": 1"#,
        r#""security_mech": "ssl", "failure_domains": [1], "hostnames": ["x"], "inherit": "B""#,
        r#""service_id_override": "x", "disable_request_deadline_check": true"#,
    ];
    let routes = [
        r#""PoolRoute|A""#,
        r#"["PoolRoute|A"]"#,
        r#"{"type": "PoolRoute", "name": "n", "pool": {"name": "C", "servers": ["c:1"]}, "hash": "Crc32"}"#,
        r#"{"type": "PoolRoute", "pool": "A", "hash": {"salt": "x", "load_ttl_ms": 3}, "axonlog": true}"#,
        r#"{"type": "PoolRoute", "pool": "A", "shard_splits": {"1": 3, "2": {"new_split_size": 2}}}"#,
        r#"{"type": "FailoverRoute", "children": "Pool|A", "failover_errors": {"gets": ["mc_res_tko"]}}"#,
        r#"{"type": "PrefixSelectorRoute", "policies": {"a": "PoolRoute|A"}, "wildcard": {"name": "x"}}"#,
        r#"{"type": "HashRoute", "children": [{"type": "Pool", "name": "D", "servers": ["d:1"]}], "salt": ""}"#,
    ];
    let whole = [
        r#"{"routes": [{"aliases": ["/a/b/", "/././"], "route": "NullRoute"}], "routing_options": {}}"#,
        r#"{"routes": {"/a/b/": "NullRoute"}, "named_handles": {"x": ["NullRoute", "ErrorRoute"]}}"#,
    ];
    let pools = pools.map(pooled).into_iter();
    pools.chain(routes.map(routed)).chain(whole.map(str::to_owned)).collect()
}

fn findings(text: &str) -> ConfigFindings {
    let config = json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut look = Look(ConfigFindings::default());
    look.object(&CONFIG, &config, CONFIG.name);
    look.0
}

/// An independent validator, which first checks the schema against the schema of schemas.
struct Validator {
    schemas: Schemas,
    ours: boon::SchemaIndex,
}

impl Validator {
    fn new() -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.set_default_draft(Draft::V2020_12);
        compiler.add_resource("guira.json", schema()).expect("it has a name");
        let ours = compiler.compile("guira.json", &mut schemas).expect("it is a schema");
        Self { schemas, ours }
    }

    fn accepts(&self, text: &str) -> bool {
        let value = serde_json::from_str(text).expect("it is JSON");
        self.schemas.validate(&value, self.ours).is_ok()
    }
}

#[test]
fn a_typo_is_found_and_what_was_meant_is_said() {
    for (text, said) in bad() {
        let found = findings(&text).mistakes;
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|found| found.contains(said)), "{text}: {found:?}");
    }
}

#[test]
fn what_is_no_mistake_is_passed_over() {
    for text in good() {
        assert_eq!(findings(&text).mistakes, [], "{text}");
    }
    let told = findings(&pooled(r#""service_id_override": "x""#)).without_effect;
    assert_eq!(told[0].message, "config: pools: A: 'service_id_override' has no effect here");
}

#[test]
fn the_schema_accepts_and_refuses_the_same() {
    let validator = Validator::new();
    for text in good() {
        assert!(validator.accepts(&text), "{text}");
    }
    for (text, _) in bad() {
        assert!(!validator.accepts(&text), "{text}");
    }
}

#[test]
fn the_schema_lets_macros_stand_for_values() {
    let validator = Validator::new();
    for text in [
        r#"{"macros": {"x": {"type": "constDef", "result": 1}}, "pools": "@import(pools.json)", "route": "%r%"}"#,
        r#"{"pools": {"%name%": {"servers": "%list%", "server_timeout": "@int(%t%)"}}, "route": "NullRoute"}"#,
        r#"{"route": {"type": "if", "condition": "%c%", "is_true": "NullRoute", "is_false": "DevNullRoute"}}"#,
        r#"{"route": {"type": "PoolRoute", "pool": "%p%", "hash": "@f(%x%)", "vars": {"p": "A"}}}"#,
    ] {
        assert!(validator.accepts(text), "{text}");
    }
}

#[test]
fn a_hundred_mistakes_are_enough() {
    let fields: Vec<String> = (0..1000).map(|n| format!("\"f{n}\": 1")).collect();
    assert_eq!(findings(&pooled(&fields.join(", "))).mistakes.len(), 100);
}

#[test]
fn each_object_of_the_schema_has_a_name_of_its_own() {
    let mut names: Vec<&str> = schema::objects().iter().map(|s| s.name).collect();
    names.extend(shapes().map(|shape| shape.name));
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}
