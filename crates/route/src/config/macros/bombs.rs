//! Short texts that expand to very much. Each is refused, in little time and memory, and without a stack overflow.

use std::collections::BTreeMap;
use std::thread;

use super::preprocess;
use crate::config::Sources;
use guira_config::ConfigFindings;
use guira_config::budget::{BUDGET_BYTES, Budget, STACK_BYTES};

/// Files whose text is made from their names.
struct Files(fn(&str) -> String);

impl Sources for Files {
    fn read(&mut self, path: &str) -> Result<String, String> {
        Ok(self.0(path))
    }
}

fn refused(text: &str, files: fn(&str) -> String) -> String {
    let budget = Budget::new(BUDGET_BYTES);
    let expanded = preprocess(
        text,
        BTreeMap::new(),
        (&mut Files(files), &budget, &mut ConfigFindings::default()),
    );
    expanded.expect_err(&text[..text.len().min(200)]).to_string()
}

fn none(_: &str) -> String {
    "1".to_owned()
}

/// Makes `count` constants, each of which refers to the previous one.
fn constants(count: usize, first: &str, next: impl Fn(usize) -> String) -> String {
    let mut all = format!("\"c0\": {{\"type\": \"constDef\", \"result\": {first}}}");
    for n in 1..count {
        all.push_str(&format!(
            ", \"c{n}\": {{\"type\": \"constDef\", \"result\": {}}}",
            next(n - 1)
        ));
    }
    all
}

#[test]
fn what_doubles_is_refused_before_it_is_there() {
    let budget = "takes more than 64 MB: --config-budget";
    let arrays = constants(60, "[1]", |n| format!("[\"%c{n}%\", \"%c{n}%\"]"));
    let strings = constants(60, "\"xxxxxxxx\"", |n| format!("\"%c{n}%%c{n}%\""));
    let merged = constants(60, "[1]", |n| {
        format!("{{\"type\": \"merge\", \"params\": [\"%c{n}%\", \"%c{n}%\"]}}")
    });
    let of_objects =
        constants(60, "{\"a\": 1}", |n| format!("{{\"a\": \"%c{n}%\", \"b\": \"%c{n}%\"}}"));
    for macros in [arrays, strings, merged, of_objects] {
        let text = format!("{{\"macros\": {{{macros}}}, \"x\": \"%c59%\"}}");
        assert!(refused(&text, none).contains(budget), "{macros}");
    }
    let double =
        r#"{"macros": {"d": {"type": "macroDef", "params": ["x"], "result": ["%x%", "%x%"]}},
        "x": "#
            .to_owned();
    let calls = (0..40).fold("@int(1)".to_owned(), |inner, _| format!("@d({inner})"));
    assert!(refused(&format!("{double} \"{calls}\"}}"), none).contains(budget));
    for endless in [
        r#"{"type": "process", "dictionary": "@range(@int(1),@int(100000))", "initialValue": [1],
            "transform": ["%value%", "%value%"]}"#,
        r#"{"type": "transform", "dictionary": "@range(@int(1),@int(100000))", "itemTransform":
            {"type": "transform", "dictionary": "@range(@int(1),@int(100000))", "itemTransform": 1}}"#,
        r#"{"type": "foreach", "from": "@range(@int(1),@int(200000))", "where": "@bool(0)", "use":
            [1], "noMatchResult": {"type": "foreach", "from": "@range(@int(1),@int(200000))", "use":
            {"type": "foreach", "from": "@range(@int(1),@int(200000))", "where": "@bool(0)"}}}"#,
    ] {
        let error = refused(&format!("{{\"x\": {endless}}}"), none);
        assert!(error.contains(budget) || error.contains("deep"), "{error}");
    }
}

#[test]
fn what_nests_is_refused_before_the_stack_ends() {
    on_a_stack_as_the_router_has(|| {
        let nested = constants(20_000, "[1]", |n| format!("[\"%c{n}%\"]"));
        let used: Vec<String> = (0..20_000).map(|n| format!("\"%c{n}%\"")).collect();
        let text = format!("{{\"macros\": {{{nested}}}, \"x\": [{}]}}", used.join(","));
        assert!(refused(&text, none).contains("nested more than 256 deep"));
        let text = format!("{{\"macros\": {{{nested}}}, \"x\": \"%c19999%\"}}");
        assert!(refused(&text, none).contains("Too many nested macros"));
        let brackets = "[".repeat(1_000_000);
        assert!(
            refused(&format!("{{\"x\": {brackets}"), none).contains("nested more than 256 deep")
        );
        let calls = "@int(".repeat(100_000);
        let error = refused(&format!("{{\"x\": \"{calls}1{}\"}}", ")".repeat(100_000)), none);
        assert!(error.contains("Too many nested macros"), "{}", &error[error.len() - 200..]);
    });
}

/// Runs a test with the stack size of threads that read configurations. A test's own stack has an eighth of it.
fn on_a_stack_as_the_router_has(test: fn()) {
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(test).expect("a thread");
    thread.join().expect("the test holds");
}

#[test]
fn imports_that_never_end_are_refused() {
    let own = |_: &str| "[\"@import(own)\", \"@import(own)\"]".to_owned();
    assert!(refused("{\"x\": \"@import(own)\"}", own).contains("it imports itself"));
    let chain = |path: &str| format!("[\"@import({path}a)\"]");
    assert!(refused("{\"x\": \"@import(a)\"}", chain).contains("Too many nested macros"));
    let forgiven = |_: &str| "[\"@import(own,1)\", \"@import(own,1)\"]".to_owned();
    let budget = Budget::new(BUDGET_BYTES);
    let expanded = preprocess(
        "{\"x\": \"@import(own)\"}",
        BTreeMap::new(),
        (&mut Files(forgiven), &budget, &mut ConfigFindings::default()),
    );
    assert_eq!(expanded.map(|json| json.to_string()), Ok("{\"x\":[\"1\",\"1\"]}".to_owned()));
    let huge = |_: &str| format!("\"{}\"", "x".repeat(15 << 20));
    let many: Vec<String> = (0..20).map(|n| format!("\"@import(f{n})\"")).collect();
    assert!(refused(&format!("{{\"x\": [{}]}}", many.join(",")), huge).contains("64 MB"));
}

#[test]
fn a_file_of_very_many_values_is_refused_and_one_of_many_is_read() {
    let many = |count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!("\"m{n}\":{n}")).collect();
        format!("{{\"x\": {{{}}}}}", members.join(","))
    };
    assert!(refused(&many(1_000_000), none).contains("64 MB"));
    assert!(refused(&format!("{{\"x\": [{}1]}}", "1,".repeat(8_000_000)), none).contains("64 MB"));
    let budget = Budget::new(BUDGET_BYTES);
    assert!(
        preprocess(
            &many(100_000),
            BTreeMap::new(),
            (&mut Files(none), &budget, &mut ConfigFindings::default())
        )
        .is_ok()
    );
}
