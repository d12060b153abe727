//! libsasl's configuration for memcached: only the settings that name the checker of passwords and the
//! mechanisms offered.

use crate::settings::{EXIT_VALUE, Refusal};
use std::path::PathBuf;

/// Returns the names of the mechanisms that libsasl's `memcached.conf` offers, as typed; `None` if it doesn't name any.
///
/// # Errors
/// The configuration names a checker of passwords that Guira doesn't support.
pub(super) fn mechanisms() -> Result<Option<Vec<String>>, Refusal> {
    let given = std::env::var_os("SASL_CONF_PATH").map(PathBuf::from);
    let places = match given {
        Some(path) => vec![path.join("memcached.conf"), path],
        None => PLACES.map(PathBuf::from).to_vec(),
    };
    let text = places.iter().find_map(|path| std::fs::read_to_string(path).ok());
    parse(&text.unwrap_or_default())
}

fn parse(text: &str) -> Result<Option<Vec<String>>, Refusal> {
    let mut mechanisms = None;
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.trim() {
            "mech_list" => {
                mechanisms = Some(value.split_whitespace().map(str::to_owned).collect());
            }
            "pwcheck_method" if !value.split_whitespace().any(|m| m == "auxprop") => {
                let message = format!(
                    "-S: pwcheck_method {value} is not in this build: name a file of user:password lines by \
                     MEMCACHED_SASL_PWDB, and remove pwcheck_method"
                );
                return Err(Refusal::new(EXIT_VALUE, message));
            }
            _ => {}
        }
    }
    Ok(mechanisms)
}

/// The paths where the configuration is searched for if `SASL_CONF_PATH` isn't set.
const PLACES: [&str; 3] =
    ["/etc/sasl/memcached.conf", "/etc/sasl2/memcached.conf", "/usr/lib/sasl2/memcached.conf"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mechanisms_are_read_and_other_checkers_refused() {
        let text = "# ours\nmech_list: plain cram-md5\nlog_level: 5\nsasldb_path: /a/b.db\n";
        assert_eq!(parse(text).unwrap().unwrap(), ["plain", "cram-md5"]);
        assert_eq!(parse("pwcheck_method: auxprop\n").unwrap(), None);
        assert!(parse("pwcheck_method: saslauthd\n").is_err());
    }
}
