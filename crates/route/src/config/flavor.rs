//! Flavors: the second routers that a `CarbonLookasideRoute` can name, with flags and configuration in files.
//!
//! ```text
//! {"options": {"config": "file:/etc/mcrouter/cache.json", "server_timeout_ms": "250", …}}
//! ```
//! mcrouter starts a second instance for it, with threads and connections of its own. Here it is a second tree in the
//! same threads. So only those options count that a tree depends on: the configuration, the default route, and
//! timeouts. The configuration of a flavor has no flavors, so none can name itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::macros::{self, Reading};
use crate::settings::Settings;
use guira_config::{self as json, ConfigError, Json, Object, Result, Value};

/// Flavors by their names in routes.
pub(crate) type Flavors = BTreeMap<String, Flavor>;

/// The configuration of a second router, and its options.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flavor {
    /// The configuration without macros.
    pub(crate) json: Json,
    options: BTreeMap<String, String>,
}

/// Reads the flavors that the routes of a configuration name.
pub(crate) fn read_all(
    config: &Json,
    settings: &Settings,
    (sources, budget, findings): Reading<'_>,
) -> Result<Flavors> {
    let mut flavors = Flavors::new();
    let mut left = vec![config];
    while let Some(json) = left.pop() {
        match &json.value {
            Value::Array(array) => left.extend(array),
            Value::Object(object) => {
                left.extend(object.iter().map(|(_, member)| member));
                if let Some((name, line)) = named_by(object)
                    && !flavors.contains_key(name)
                {
                    let flavor = Flavor::read(name, settings, (&mut *sources, budget, findings));
                    let within = |error: ConfigError| {
                        ConfigError { line, ..error }.within(format!("flavor '{name}'"))
                    };
                    flavors.insert(name.to_owned(), flavor.map_err(within)?);
                }
            }
            _ => {}
        }
    }
    Ok(flavors)
}

fn named_by(object: &Object) -> Option<(&str, u32)> {
    let is_lookaside = object.get("type").and_then(Json::as_str) == Some("CarbonLookasideRoute");
    let flavor = object.get("flavor").filter(|_| is_lookaside)?;
    Some((flavor.as_str()?, flavor.line))
}

impl Flavor {
    fn read(
        path: &str,
        settings: &Settings,
        (sources, budget, findings): Reading<'_>,
    ) -> Result<Self> {
        let text = sources.read(path).map_err(ConfigError::new)?;
        let flavor = json::parse_within(&text, budget, findings);
        let flavor = flavor.map_err(|error| error.in_file(path.trim_start_matches("file:")))?;
        let named = flavor.get("options").and_then(Json::as_object);
        let named = named.ok_or_else(|| ConfigError::new("no object 'options'"))?;
        let options: BTreeMap<_, _> =
            named.iter().map(|(name, value)| (name.to_owned(), plain(value))).collect();
        let given = ["config", "config_file", "config_str"]
            .into_iter()
            .find_map(|name| options.get(name).map(|value| (name, value)));
        let text = match given {
            Some(("config_file", path)) => sources.read(&format!("file:{path}")),
            Some((_, value)) if value.starts_with("file:") => sources.read(value),
            Some((_, text)) => Ok(text.clone()),
            None => Err("no option 'config'".to_owned()),
        };
        let text = text.map_err(ConfigError::new)?;
        let settings = tuned(&options, settings)?;
        let json = macros::preprocess(&text, settings.constants(), (sources, budget, findings))?;
        Ok(Self { json, options })
    }

    /// The settings for building the flavor's tree.
    pub(crate) fn settings(&self, of_router: &Settings) -> Result<Settings> {
        tuned(&self.options, of_router)
    }
}

/// The router's settings, overridden by the flavor's options. `allow_only_gets` is off, because replies must be stored.
fn tuned(options: &BTreeMap<String, String>, of_router: &Settings) -> Result<Settings> {
    let mut settings =
        Settings { allow_only_gets: false, is_logging_route_enabled: false, ..of_router.clone() };
    if let Some(route) = options.get("default_route") {
        settings.default_route.clone_from(route);
    }
    for (name, timeout) in [
        ("server_timeout_ms", &mut settings.server_timeout),
        ("within_cluster_timeout_ms", &mut settings.within_cluster_timeout),
        ("cross_cluster_timeout_ms", &mut settings.cross_cluster_timeout),
        ("cross_region_timeout_ms", &mut settings.cross_region_timeout),
    ] {
        let Some(text) = options.get(name) else { continue };
        let number = text.parse().map_err(|_| {
            ConfigError::new(format!("option '{name}' is '{text}', expected milliseconds"))
        });
        *timeout = Duration::from_millis(number?);
    }
    Ok(settings)
}

/// The value of an option: mcrouter writes numbers and switches as strings, but users may not.
fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_pretty(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;
    use guira_config::ConfigFindings;
    use guira_config::budget::Budget;

    struct Files(BTreeMap<&'static str, &'static str>);

    impl Sources for Files {
        fn read(&mut self, path: &str) -> std::result::Result<String, String> {
            self.0.get(path).map(|text| (*text).to_owned()).ok_or_else(|| format!("no file {path}"))
        }
    }

    fn read(flavor: &'static str) -> Result<Flavors> {
        let config = json::parse(
            "{\n\"route\": [{\"child\": {\n\"type\": \"CarbonLookasideRoute\", \"flavor\": \"file:f\"}}]}",
        )?;
        let files = [("file:f", flavor), ("file:c", r#"{"route": "NullRoute"}"#)];
        let mut files = Files(files.into_iter().collect());
        let (budget, mut findings) = (Budget::new(1 << 20), ConfigFindings::default());
        read_all(&config, &Settings::default(), (&mut files, &budget, &mut findings))
    }

    #[test]
    fn a_flavor_is_read_where_a_route_names_it() {
        let flavor = r#"{"options": {"config": "file:c", "server_timeout_ms": "250", // text
            "cross_region_timeout_ms": 9, "num_proxies": "4"}}"#;
        let flavors = read(flavor).unwrap();
        let settings = flavors["file:f"].settings(&Settings::default()).unwrap();
        assert_eq!(settings.server_timeout, Duration::from_millis(250));
        assert_eq!(settings.cross_region_timeout, Duration::from_millis(9));
    }

    #[test]
    fn a_flavor_that_can_not_be_read_is_named_with_its_line() {
        for (flavor, wrong) in [
            (r#"{"options": {}}"#, "no option 'config'"),
            ("{}", "no object 'options'"),
            (r#"{"options": {"config": "file:none"}}"#, "no file file:none"),
            (r#"{"options": {"config": "{}", "server_timeout_ms": "x"}}"#, "expected milliseconds"),
        ] {
            let error = read(flavor).unwrap_err();
            assert!(error.message.contains(wrong) && error.message.contains("'file:f'"), "{error}");
            assert_eq!(error.line, 3);
        }
    }
}
