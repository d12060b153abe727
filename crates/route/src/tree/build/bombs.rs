//! Small configurations that expand to very many routes, or to very deep ones.

use crate::settings::Settings;
use crate::tree::canned::Canned;

fn refused(config: &str) -> String {
    let built = Canned::with(config, &Settings::default());
    let start = &config[..config.len().min(200)];
    built.err().unwrap_or_else(|| panic!("{start} was built")).to_string()
}

/// Makes `count` named handles, each of which refers to the previous one.
fn named(count: usize, first: &str, next: impl Fn(usize) -> String) -> String {
    let mut all = format!("\"h0\": {first}");
    for n in 1..count {
        all.push_str(&format!(", \"h{n}\": {}", next(n - 1)));
    }
    format!("\"named_handles\": {{{all}}}, \"route\": \"h{}\"", count - 1)
}

const POOL: &str = r#""pools": {"A": {"servers": ["a:1", "b:1"]}}"#;

#[test]
fn a_chain_of_routes_ends_before_the_stack() {
    let short = format!("{}PoolRoute|A", "AllSyncRoute|".repeat(20_000));
    let names = named(20_000, "\"PoolRoute|A\"", |n| format!("\"LoggingRoute|h{n}\""));
    let objects = named(20_000, "\"PoolRoute|A\"", |n| {
        format!("{{\"type\": \"LoggingRoute\", \"target\": \"h{n}\"}}")
    });
    for rest in [format!("\"route\": \"{short}\""), names, objects] {
        assert!(refused(&format!("{{{POOL}, {rest}}}")).contains("nest more than 100 deep"));
    }
    let within = named(90, "\"PoolRoute|A\"", |n| {
        format!("{{\"type\": \"LoggingRoute\", \"target\": \"h{n}\"}}")
    });
    assert!(Canned::with(&format!("{{{POOL}, {within}}}"), &Settings::default()).is_ok());
}

#[test]
fn a_request_that_would_come_to_millions_of_routes_is_none() {
    let message = "routes, were each name written out";
    let lists = named(40, "[\"PoolRoute|A\"]", |n| format!("[\"h{n}\", \"h{n}\"]"));
    let tree = named(40, "\"PoolRoute|A\"", |n| {
        format!("{{\"type\": \"AllSyncRoute\", \"children\": [\"h{n}\", \"h{n}\"]}}")
    });
    // A list is copied wherever it is named, and exceeds the memory budget first.
    for (rest, message) in [(lists, "takes more than 64 MB"), (tree, message)] {
        let said = refused(&format!("{{{POOL}, {rest}}}"));
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn pools_that_are_copied_or_inherited_too_often_are_refused() {
    let inherited: Vec<String> =
        (1..20_000).map(|n| format!("\"p{n}\": {{\"inherit\": \"p{}\"}}", n - 1)).collect();
    let all = inherited.join(",");
    let pools = format!("\"pools\": {{\"p0\": {{\"servers\": [\"a:1\"]}}, {all}}}");
    let said = refused(&format!("{{{pools}, \"route\": \"PoolRoute|p19999\"}}"));
    assert!(said.contains("inherit more than 64 deep"), "{said}");
    let servers: Vec<String> = (0..2000).map(|n| format!("\"a{n}:1\"")).collect();
    let pool = format!("\"pools\": {{\"A\": {{\"servers\": [{}]}}}}", servers.join(","));
    let route = "{\"type\": \"PoolRoute\", \"pool\": \"A\"}";
    let routes = vec![route; 2000].join(",");
    let said = refused(&format!(
        "{{{pool}, \"route\": {{\"type\": \"AllSyncRoute\", \"children\": [{routes}]}}}}"
    ));
    assert!(said.contains("takes more than 64 MB"), "{said}");
    let routes = vec![route; 100].join(",");
    let config =
        format!("{{{pool}, \"route\": {{\"type\": \"AllSyncRoute\", \"children\": [{routes}]}}}}");
    assert!(Canned::with(&config, &Settings::default()).is_ok());
}
