//! The expansion of each function, loop and definition, and the text of errors.

use std::collections::BTreeMap;

use super::preprocess;
use crate::config::Sources;
use guira_config::ConfigFindings;
use guira_config::budget::{BUDGET_BYTES, Budget};
use guira_config::{self as json, ConfigError, Json};

struct Files(BTreeMap<&'static str, &'static str>);

impl Sources for Files {
    fn read(&mut self, path: &str) -> Result<String, String> {
        let text = self.0.get(path).map(|text| (*text).to_owned());
        text.ok_or_else(|| format!("no file {path}"))
    }
}

fn expand(text: &str) -> Result<Json, ConfigError> {
    let constants = [("region", "east".into()), ("threads", 4.into())];
    let constants =
        constants.into_iter().map(|(name, value): (&str, Json)| (name.to_owned(), value));
    let files = [("a.json", r#"{"x": "%region%", /* c */ }"#), ("bad.json", "{")];
    let budget = Budget::new(BUDGET_BYTES);
    let mut files = Files(files.into_iter().collect());
    preprocess(text, constants.collect(), (&mut files, &budget, &mut ConfigFindings::default()))
}

/// Expands `expression` as the value of a member, with the tests' macros.
fn value(expression: &str) -> Result<String, String> {
    let macros = r#""macros": {
        "servers": {"type": "macroDef", "params": ["n", {"name": "port", "default": "1"}],
                    "result": ["%n%:%port%"]},
        "both": {"type": "macroDef", "params": ["a", "b"], "result": {"a": "%a%", "b": "%b%"}},
        "seven": {"type": "constDef", "result": "@add(@int(3),@int(4))"},
        "loop": {"type": "macroDef", "result": "@loop"}
    }"#;
    let text = format!("{{ {macros}, \"v\": {expression} }}");
    let json = expand(&text).map_err(|error| error.to_string())?;
    Ok(json.get("v").map(ToString::to_string).unwrap_or_default())
}

#[test]
fn functions_and_macros_expand_as_mcrouter_s_do() {
    for (expression, expected) in [
        (r#""%region%""#, r#""east""#),
        (r#""a-%region%-b""#, r#""a-east-b""#),
        (r#""%threads%""#, "4"),
        (r#""50\\%""#, r#""50%""#),
        (r#""%seven%""#, "7"),
        (r#""@servers(h)""#, r#"["h:1"]"#),
        (r#""@servers(h,2)""#, r#"["h:2"]"#),
        (r#"{"type": "servers", "n": "x", "port": "9"}"#, r#"["x:9"]"#),
        (r#""@both(@int(1),@servers(@str(@int(5)),6))""#, r#"{"a":1,"b":["5:6"]}"#),
        (r#"{"%region%": 1}"#, r#"{"east":1}"#),
        (r#"{"vars": {"p": "%q%1", "q": "a"}, "v": "%p%"}"#, r#"{"v":"a1"}"#),
        (r#""@import(a.json)""#, r#"{"x":"east"}"#),
        (r#""@import(none.json,@int(5))""#, "5"),
        (r#""@select(@import(a.json),x)""#, r#""east""#),
        (r#""@select(@range(@int(3),@int(5)),@int(-1))""#, "5"),
        (r#""@select(@import(a.json),y,d)""#, r#""d""#),
        (r#""@if(@equals(%region%,east),a,@fail(no))""#, r#""a""#),
        (r#""@and(@bool(0),@fail(no))""#, "false"),
        (r#""@or(@less(@int(1),@int(2)),@fail(no))""#, "true"),
        (r#""@not(@defined(nothing))""#, "true"),
        (
            r#"{"vars": {"v1": 1}, "d": "@defined(v1)", "e": "@defined(region)"}"#,
            r#"{"d":true,"e":true}"#,
        ),
        (r#""@merge(@split(a.b.c,.))""#, r#""abc""#),
        (r#"{"type": "merge", "params": [{"a": 1, "b": 2}, {"a": 3}]}"#, r#"{"a":3,"b":2}"#),
        (r#"{"type": "slice", "dictionary": [1, 2, 3, 4], "from": 1, "to": 2}"#, "[2,3]"),
        (
            r#"{"type": "slice", "dictionary": {"a": 1, "b": 2, "c": 3}, "from": "b", "to": "c"}"#,
            r#"{"b":2,"c":3}"#,
        ),
        (r#""@slice(abcde,@int(1),@int(3))""#, r#""bcd""#),
    ] {
        assert_eq!(value(expression), Ok(expected.to_owned()), "{expression}");
    }
}

#[test]
fn functions_over_containers_and_numbers_and_loops_expand_as_mcrouter_s_do() {
    for (expression, expected) in [
        (r#"{"type": "sort", "dictionary": ["b", "c", "a"]}"#, r#"["a","b","c"]"#),
        (r#"{"type": "set", "dictionary": {"a": 1}, "key": "b", "value": 2}"#, r#"{"a":1,"b":2}"#),
        (r#"{"type": "keys", "dictionary": {"a": 1, "b": 2}}"#, r#"["a","b"]"#),
        (r#"{"type": "values", "dictionary": {"a": 1, "b": 2}}"#, "[1,2]"),
        (r#"{"type": "contains", "dictionary": [1, 2], "key": 2}"#, "true"),
        (r#""@contains(abc,bc)""#, "true"),
        (r#""@size(abc)""#, "3"),
        (r#"{"type": "empty", "dictionary": []}"#, "true"),
        (r#""@mod(@mul(@int(7),@int(5)),@sub(@int(9),@int(1)))""#, "3"),
        (r#""@div(@int(7),@int(2))""#, "3"),
        (r#""@bitwiseOr(@bitwiseLeftShift(@int(1),@int(4)),@int(3))""#, "19"),
        (r#""@bitwiseNot(@int(0))""#, "-1"),
        (r#""@isString(a)""#, "true"),
        (r#""@isInt(a)""#, "false"),
        (r#""@isLocalIp(127.0.0.1)""#, "true"),
        (r#""@isLocalIp(192.0.2.1)""#, "false"),
        (r#""@double(1.5)""#, "1.5"),
        (r#""@bool(yes)""#, "true"),
        (
            r#"{"type": "transform", "dictionary": {"a": 1}, "keyTransform": "x%key%", "itemTransform": ["%item%"]}"#,
            r#"{"xa":[1]}"#,
        ),
        (
            r#"{"type": "transform", "dictionary": ["a", "b"], "itemName": "i", "itemTransform": "%i%!"}"#,
            r#"["a!","b!"]"#,
        ),
        (
            r#"{"type": "process", "dictionary": [1, 2, 3], "initialValue": 0, "transform": "@add(%value%,%item%)"}"#,
            "6",
        ),
        (
            r#"{"type": "foreach", "from": {"a": 1, "b": 2, "c": 3}, "where": "@less(@int(1),%item%)", "use": ["%key%"], "top": 1}"#,
            r#"["b"]"#,
        ),
        (
            r#"{"type": "foreach", "from": [], "use": ["%key%"], "noMatchResult": "none"}"#,
            r#""none""#,
        ),
        (r#"{"type": "define", "vars": {"A": "B"}, "result": "%A%"}"#, r#""B""#),
    ] {
        assert_eq!(value(expression), Ok(expected.to_owned()), "{expression}");
    }
}

#[test]
fn what_can_t_be_expanded_says_why() {
    for (expression, part) in [
        (r#""%nothing%""#, "'nothing' not found"),
        (r#""%""#, "Odd number of percent signs"),
        (r#""@nothing()""#, "Macro: 'nothing' not found"),
        (r#""@int(1,2)""#, "Too many arguments"),
        (r#""@add(@int(1))""#, "Too few arguments"),
        (r#""@loop""#, "Too many nested macros"),
        (r#"{"vars": {"a": "%b%", "b": "%a%"}}"#, "needs its own value"),
        (r#""@import(bad.json)""#, "Import 'bad.json'"),
        (r#""@fail(as said)""#, "as said"),
        (r#""@div(@int(1),@int(0))""#, "no result"),
        (r#""@range(@int(0),@int(999999999))""#, "more than"),
        (r#""@if(a,b,c)""#, "expected bool"),
    ] {
        let error = value(expression).expect_err(expression);
        assert!(error.contains(part), "{expression}: {error}");
    }
}

#[test]
fn values_keep_the_line_on_which_they_were_written() {
    let json = expand("{\n\"macros\": {},\n\"a\": {\n \"type\": \"X\"}}").unwrap();
    let kind = json.get("a").and_then(|a| a.get("type")).map(|kind| kind.line);
    assert_eq!(kind, Some(4));
}

#[test]
fn a_seeded_shuffle_is_a_permutation_and_the_same_each_time() {
    let expression = r#"{"type": "shuffle", "dictionary": [1, 2, 3, 4, 5, 6, 7, 8], "seed": 3}"#;
    let shuffled = value(expression).unwrap();
    assert_eq!(value(expression).unwrap(), shuffled);
    assert_ne!(shuffled, "[1,2,3,4,5,6,7,8]");
    let elements = json::parse(&shuffled).unwrap();
    let mut elements: Vec<i64> =
        elements.as_array().unwrap().iter().filter_map(Json::as_int).collect();
    elements.sort_unstable();
    assert_eq!(elements, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn what_no_call_reads_and_what_stands_twice_is_found() {
    for (text, said) in [
        (
            r#"{"macros": {"m": {"type": "macroDef", "parms": ["x"], "result": 1}}}"#,
            "macro 'm': unknown field 'parms', did you mean 'params'?",
        ),
        (
            r#"{"macros": {"m": {"type": "macroDef", "params": ["pool"], "result": 1}},
                "x": {"type": "m", "pool": 1, "poll": 2}}"#,
            "macro 'm': unknown field 'poll', did you mean 'pool'?",
        ),
        (
            r#"{"x": {"type": "transform", "dictionary": [], "itemTransfrom": 1}}"#,
            "built-in 'transform': unknown field 'itemTransfrom', did you mean 'itemTransform'?",
        ),
        (r#"{"x": {"type": "int", "value": 1, "vale": 2}}"#, "did you mean 'value'?"),
        (r#"{"pools": {"A": 1, "A": 2}}"#, "'A' stands twice, and the last one counts"),
    ] {
        let (budget, mut findings) = (Budget::new(BUDGET_BYTES), ConfigFindings::default());
        let mut files = Files(BTreeMap::new());
        preprocess(text, BTreeMap::new(), (&mut files, &budget, &mut findings)).unwrap();
        let found: Vec<&str> = findings.mistakes.iter().map(|found| &*found.message).collect();
        assert!(found.len() == 1 && found[0].contains(said), "{text}: {found:?}");
    }
}
