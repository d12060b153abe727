//! libsasl's configuration for memcached, as far as it says where passwords are and which mechanisms to offer.

use crate::settings::{EXIT_VALUE, Refusal};
use std::path::{Path, PathBuf};

/// What `memcached.conf` says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    /// `saslpasswd2`'s database.
    pub(super) sasldb: Option<PathBuf>,
    /// Names of mechanisms, as typed.
    pub(super) mechanisms: Option<Vec<String>>,
}

impl Config {
    /// Reads what memcached's libsasl would read; nothing there is nothing said.
    ///
    /// # Errors
    /// Passwords are to be checked by something that Guira doesn't speak to.
    pub(super) fn read() -> Result<Config, Refusal> {
        let given = std::env::var_os("SASL_CONF_PATH").map(PathBuf::from);
        let places = match given {
            Some(path) => vec![path.join("memcached.conf"), path],
            None => PLACES.map(PathBuf::from).to_vec(),
        };
        let text = places.iter().find_map(|path| std::fs::read_to_string(path).ok());
        let mut config = Config::parse(&text.unwrap_or_default())?;
        if config.sasldb.is_none() && Path::new(SASLDB).exists() {
            config.sasldb = Some(PathBuf::from(SASLDB));
        }
        Ok(config)
    }

    fn parse(text: &str) -> Result<Config, Refusal> {
        let mut config = Config::default();
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.trim() {
                "sasldb_path" => config.sasldb = Some(PathBuf::from(value)),
                "mech_list" => {
                    config.mechanisms = Some(value.split_whitespace().map(str::to_owned).collect());
                }
                "pwcheck_method" if !value.split_whitespace().any(|m| m == "auxprop") => {
                    let message = format!(
                        "-S: pwcheck_method {value} is not in this build: auxprop with saslpasswd2's \
                         database is, or a file of user:password lines named by MEMCACHED_SASL_PWDB"
                    );
                    return Err(Refusal::new(EXIT_VALUE, message));
                }
                _ => {}
            }
        }
        Ok(config)
    }
}

/// Where the configuration is looked for without `SASL_CONF_PATH`.
const PLACES: [&str; 3] =
    ["/etc/sasl/memcached.conf", "/etc/sasl2/memcached.conf", "/usr/lib/sasl2/memcached.conf"];
/// Where `saslpasswd2` writes unless told otherwise.
const SASLDB: &str = "/etc/sasldb2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_and_the_mechanisms_are_read_and_other_checkers_refused() {
        let text = "# ours\nmech_list: plain cram-md5\nlog_level: 5\nsasldb_path: /a/b.db\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.sasldb, Some(PathBuf::from("/a/b.db")));
        assert_eq!(config.mechanisms.unwrap(), ["plain", "cram-md5"]);
        assert!(Config::parse("pwcheck_method: saslauthd\n").is_err());
        assert!(Config::parse("pwcheck_method: auxprop\n").is_ok());
    }
}
