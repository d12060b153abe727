//! The examples of `docs/route-types.md` and `docs/route-types-caches.md` can be built.

use super::canned::Canned;
use super::families::KINDS;
use crate::settings::Settings;

const DOCS: [&str; 2] = [
    include_str!("../../../../docs/route-types.md"),
    include_str!("../../../../docs/route-types-caches.md"),
];

#[test]
fn each_example_is_a_configuration_and_each_type_has_one() {
    let examples = DOCS.iter().flat_map(|page| page.split("```json\n").skip(1));
    let examples: Vec<&str> = examples.map(|rest| rest.split("```").next().unwrap()).collect();
    for example in &examples {
        let pool = r#"{"servers": ["a:1", "b:1"]}"#;
        let text = format!(
            r#"{{"pools": {{"A": {pool}, "B": {pool}, "C": {pool}}}, "route": {example} }}"#
        );
        let built = Canned::with(&text, &Settings::default());
        assert!(built.is_ok(), "{example}: {}", built.err().unwrap());
    }
    let missing: Vec<&str> = KINDS
        .iter()
        .map(|(shape, _)| shape.name)
        .filter(|name| !examples.iter().any(|example| example.contains(&format!("\"{name}\""))))
        .collect();
    assert!(missing.is_empty(), "without an example: {missing:?}");
}
