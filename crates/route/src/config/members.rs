//! Pool entries that stand for several servers, as DNS returns them: `srv:NAME` for the targets of its SRV records,
//! `all:HOST:PORT` for all addresses of a host. They are replaced before a tree is built, so that all threads build the
//! same one.

use super::sources::Sources;
use guira_config::{ConfigError, Json, Object, Value};

/// Replaces such entries in all lists of `servers`.
pub(super) fn expand(json: &mut Json, sources: &mut dyn Sources) -> Result<(), ConfigError> {
    match &mut json.value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| expand(item, sources)),
        Value::Object(object) => {
            let members = std::mem::take(object);
            let mut expanded = Object::default();
            for (name, mut value) in members {
                if name == "servers" {
                    servers(&mut value, sources)?;
                } else {
                    expand(&mut value, sources)?;
                }
                expanded.insert(name, value);
            }
            *object = expanded;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn servers(list: &mut Json, sources: &mut dyn Sources) -> Result<(), ConfigError> {
    let Value::Array(items) = &mut list.value else { return Ok(()) };
    let mut all = Vec::with_capacity(items.len());
    for item in std::mem::take(items) {
        let entry = item.as_str().filter(|text| is_several(text)).map(str::to_owned);
        let Some(entry) = entry else {
            all.push(item);
            continue;
        };
        let found = sources.members(&entry);
        let found =
            found.map_err(|words| ConfigError::at(item.line, format!("{entry}: {words}")))?;
        let found =
            found.into_iter().map(|text| Json { line: item.line, value: Value::String(text) });
        all.extend(found);
    }
    *items = all;
    Ok(())
}

fn is_several(text: &str) -> bool {
    text.starts_with("srv:") || text.starts_with("all:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_config::parse;

    struct Dns;

    impl Sources for Dns {
        fn read(&mut self, path: &str) -> Result<String, String> {
            Err(path.to_owned())
        }

        fn members(&mut self, entry: &str) -> Result<Vec<String>, String> {
            match entry {
                "srv:_m._tcp.x" => Ok(vec!["a:1".to_owned(), "b:2".to_owned()]),
                _ => Err("no such name".to_owned()),
            }
        }
    }

    #[test]
    fn an_entry_stands_for_what_dns_says() {
        let read = |text: &str| parse(text).unwrap();
        let mut json =
            read(r#"{"pools": {"A": {"servers": ["h:9", "srv:_m._tcp.x"]}}, "x": ["srv:y"]}"#);
        assert_eq!(expand(&mut json, &mut Dns), Ok(()));
        let expanded = r#"{"pools": {"A": {"servers": ["h:9", "a:1", "b:2"]}}, "x": ["srv:y"]}"#;
        assert_eq!(json, read(expanded));
        let mut json = read("{\"pool\": {\n\"servers\": [\"all:none:1\"]}}");
        let error = expand(&mut json, &mut Dns).unwrap_err();
        assert_eq!((error.line, &error.message[..]), (2, "all:none:1: no such name"));
    }
}
