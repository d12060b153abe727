//! The examples of `docs/route-types.md` and `docs/route-types-caches.md` can be built.

use std::borrow::Cow;
use std::rc::Rc;

use guira_client::{Outcome, Reply, Request};
use guira_route::{
    BoxFuture, Context, LeafSpec, Leaves, Route, RouteConfig, Settings, Sources, Tree,
};

const DOCS: [&str; 2] = [
    include_str!("../../../docs/route-types.md"),
    include_str!("../../../docs/route-types-caches.md"),
];

#[derive(Debug)]
struct Leaf;

impl Route for Leaf {
    fn route<'a>(&'a self, _: &'a Request, _: &'a Context) -> BoxFuture<'a, Reply> {
        Box::pin(std::future::ready(Reply::new(Outcome::NotFound)))
    }

    fn name(&self) -> Cow<'_, str> {
        "leaf".into()
    }

    fn visit(&self, _: &Request, _: &mut dyn FnMut(&dyn Route, &Request)) {}
}

struct Servers;

impl Leaves for Servers {
    fn leaf(&self, _: &LeafSpec) -> Rc<dyn Route> {
        Rc::new(Leaf)
    }
}

impl Sources for Servers {
    fn read(&mut self, path: &str) -> Result<String, String> {
        Err(format!("no file {path}"))
    }
}

#[tokio::test]
async fn each_example_is_a_configuration_and_each_type_has_one() {
    let examples = DOCS.iter().flat_map(|page| page.split("```json\n").skip(1));
    let examples: Vec<&str> = examples.map(|rest| rest.split("```").next().unwrap()).collect();
    for example in &examples {
        let pool = r#"{"servers": ["a:1", "b:1"]}"#;
        let text = format!(
            r#"{{"pools": {{"A": {pool}, "B": {pool}, "C": {pool}}}, "route": {example} }}"#
        );
        let built = RouteConfig::read(&text, &Settings::default(), &mut Servers)
            .and_then(|config| Tree::build(&config, &Settings::default(), &Servers));
        assert!(built.is_ok(), "{example}: {}", built.unwrap_err());
    }
    let missing: Vec<&str> = guira_route::types()
        .filter(|name| !examples.iter().any(|example| example.contains(&format!("\"{name}\""))))
        .collect();
    assert!(missing.is_empty(), "without an example: {missing:?}");
}
