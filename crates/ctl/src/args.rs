//! The arguments of each command.
//!
//! The server is a flag, not a word before the key, because `cache-1` may be either.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use guira_client::{Address, Client, ConnectionOptions, Credentials, Tls};

use crate::trouble::Trouble;

/// Which server, and how to talk to it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// The server: HOST, HOST:PORT, [V6]:PORT or unix:PATH
    #[arg(short, long, value_name = "ADDRESS", env = "GUIRA_SERVER", hide_env_values = true)]
    #[arg(default_value = "127.0.0.1:11211")]
    pub(crate) server: Address,

    /// How long to wait for the server, such as 500ms or 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    pub(crate) timeout: Duration,

    /// Use TLS, and trust servers whose certificate is signed by one of the certificates in FILE (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    #[arg(long, value_name = "NAME", help = USER_HELP)]
    pub(crate) user: Option<String>,
}

/// `guira ping`
#[derive(Debug, Args)]
#[command(after_help = PING_EXAMPLES)]
pub(crate) struct Ping {
    /// Keep asking until the server answers, for at most this long, such as 10s
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) wait: Option<Duration>,

    #[command(flatten)]
    pub(crate) server: Server,
}

/// `guira get`
#[derive(Debug, Args)]
#[command(after_help = GET_EXAMPLES)]
pub(crate) struct Get {
    /// The key: up to 250 bytes without blanks
    #[arg(value_parser = OsStringValueParser::new().try_map(Key::read))]
    pub(crate) key: Key,

    #[command(flatten)]
    pub(crate) server: Server,
}

/// `guira set`
#[derive(Debug, Args)]
#[command(after_help = SET_EXAMPLES)]
pub(crate) struct Set {
    /// The key: up to 250 bytes without blanks
    #[arg(value_parser = OsStringValueParser::new().try_map(Key::read))]
    pub(crate) key: Key,

    /// The value; - reads it from standard input
    #[arg(allow_negative_numbers = true)]
    pub(crate) value: OsString,

    /// Time to live, such as 90s, 5m or 7d [default: until it is evicted]
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    pub(crate) ttl: Option<Duration>,

    #[command(flatten)]
    pub(crate) server: Server,
}

/// `guira delete`
#[derive(Debug, Args)]
#[command(after_help = DELETE_EXAMPLES)]
pub(crate) struct Delete {
    /// The key: up to 250 bytes without blanks
    #[arg(value_parser = OsStringValueParser::new().try_map(Key::read))]
    pub(crate) key: Key,

    #[command(flatten)]
    pub(crate) server: Server,
}

/// `guira incr`
#[derive(Debug, Args)]
#[command(after_help = INCR_EXAMPLES)]
pub(crate) struct Incr {
    /// The key: up to 250 bytes without blanks
    #[arg(value_parser = OsStringValueParser::new().try_map(Key::read))]
    pub(crate) key: Key,

    /// Amount to add; a negative amount counts down, but never below 0
    #[arg(default_value = "1", allow_negative_numbers = true, value_parser = amount)]
    pub(crate) by: i64,

    #[command(flatten)]
    pub(crate) server: Server,
}

/// `guira stats`
#[derive(Debug, Args)]
#[command(after_help = STATS_EXAMPLES)]
pub(crate) struct Stats {
    /// Group of statistics, such as settings, items or slabs [default: the general ones]
    pub(crate) name: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) server: Server,
}

/// `guira keys`
#[derive(Debug, Args)]
#[command(after_help = KEYS_EXAMPLES)]
pub(crate) struct Keys {
    /// List only keys of this form: * stands for any bytes, ? for one byte
    #[arg(long = "match", value_name = "PATTERN")]
    pub(crate) pattern: Option<OsString>,

    #[command(flatten)]
    pub(crate) server: Server,
}

/// A key that a server accepts.
#[derive(Clone, Debug)]
pub(crate) struct Key(pub(crate) Vec<u8>);

impl Key {
    fn read(text: OsString) -> Result<Self, String> {
        let bytes = text.into_vec();
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
        match bytes.len() {
            0 => Err("a key has at least one byte".into()),
            1..=KEY_BYTES_MAX if !bytes.iter().any(is_blank) => Ok(Self(bytes)),
            1..=KEY_BYTES_MAX => Err("a key has no blanks and no control characters".into()),
            long => Err(format!("a key has at most {KEY_BYTES_MAX} bytes, this one has {long}")),
        }
    }
}

impl Server {
    /// Returns a client that uses only this server.
    pub(crate) fn client(&self, deadline: Duration) -> Result<Client, Trouble> {
        let options = ConnectionOptions {
            tls: self.tls()?,
            login: self.login()?,
            connect_timeout: deadline,
            backoff: None,
            value_bytes_max: VALUE_BYTES_MAX,
            ..ConnectionOptions::default()
        };
        let client = Client::builder().options(options).deadline(deadline);
        let client = client.server(&self.server.to_string()).and_then(guira_client::Builder::build);
        client.map_err(|error| Trouble::Usage(error.to_string()))
    }

    fn tls(&self) -> Result<Option<Tls>, Trouble> {
        let Some(path) = &self.tls_ca else { return Ok(None) };
        let bad = |why: &dyn std::fmt::Display| {
            Trouble::Usage(format!("--tls-ca {}: {why}", path.display()))
        };
        let pem = fs::read(path).map_err(|error| bad(&error))?;
        Tls::trusting(&pem).map(Some).map_err(|error| bad(&error))
    }

    fn login(&self) -> Result<Option<Credentials>, Trouble> {
        let Some(user) = &self.user else { return Ok(None) };
        let password = std::env::var("GUIRA_PASSWORD").map_err(|_| {
            Trouble::Usage(format!("--user {user}: put the password into GUIRA_PASSWORD"))
        })?;
        Ok(Some(Credentials::new(user, password)))
    }
}

/// The bytes of an `OsString`, as they were typed.
pub(crate) fn bytes(text: &OsString) -> &[u8] {
    text.as_os_str().as_bytes()
}

/// Parses a time with its unit; a number alone means seconds.
fn time(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text)
        .map_err(|_| "a time is a number with a unit: 500ms, 10s, 5m, 2h or 7d".into())
}

fn amount(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("a number, from {} to {}", i64::MIN, i64::MAX))
}

fn ttl(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("nothing would be kept; leave --ttl out to keep it".into()),
        ttl => Ok(ttl),
    }
}

/// memcached's limit.
const KEY_BYTES_MAX: usize = 250;

/// The largest value that `-I` permits.
const VALUE_BYTES_MAX: usize = 1 << 30;

const USER_HELP: &str = "Log in under this name; the password is in the variable GUIRA_PASSWORD";

const PING_EXAMPLES: &str = "\
Examples:
  guira ping                            127.0.0.1:11211 answers in 0.05 ms: version 1.6.45
  guira ping -s cache-1 --wait 10s      wait until it is up, in a start script for example
  guira ping -s unix:/tmp/guira.sock    over a unix socket

The variable GUIRA_SERVER sets the server for ping, get, set, delete, incr, stats and keys.
Exit code: 0 it answers, 2 a mistake on the command line, 3 it does not answer.";

const GET_EXAMPLES: &str = "\
Examples:
  guira get hello                       the value; a newline follows only on a terminal
  guira get -s cache-1:11212 logo > logo.png
  guira get hello || echo \"not there\"

Exit code: 0 found, 1 not found, 2 a mistake on the command line, 3 a failure.";

const SET_EXAMPLES: &str = "\
Examples:
  guira set hello world
  guira set session:7 open --ttl 5m     gone after five minutes
  guira set logo - < logo.png           the value from standard input
  guira set k -- -x                     a value that begins with -

Exit code: 0 stored, 1 not stored, 2 a mistake on the command line, 3 a failure.";

const DELETE_EXAMPLES: &str = "\
Examples:
  guira delete hello

Exit code: 0 deleted, 1 not found, 2 a mistake on the command line, 3 a failure.";

const INCR_EXAMPLES: &str = "\
Examples:
  guira set hits 0 && guira incr hits   1
  guira incr hits 10                    11
  guira incr hits -3                    8

Exit code: 0 counted, 1 not found, 2 a mistake on the command line, 3 a failure, such as a value
that is not a number.";

const STATS_EXAMPLES: &str = "\
Examples:
  guira stats                           a name and a value per line
  guira stats settings
  guira stats --json | jq .get_hits

Exit code: 0 done, 2 a mistake on the command line, 3 a failure.";

const KEYS_EXAMPLES: &str = "\
Examples:
  guira keys                            one key per line, in no particular order
  guira keys --match 'user:*' | head
  guira keys | wc -l

A server makes one listing at a time; a second one fails with BUSY. Routers (guira route, mcrouter) can't list keys.
Keys with special bytes are printed URI-encoded (%0A for a line end).
Exit code: 0 done, 2 a mistake on the command line, 3 a failure.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_in_seconds() {
        for (text, ms) in [("5m", 300_000), ("90", 90_000), ("500ms", 500), ("1h 30m", 5_400_000)] {
            assert_eq!(time(text).unwrap().as_millis(), ms, "{text}");
        }
        for text in ["", "5x", "-1", "m", "1e9"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(ttl("0s").is_err());
    }

    #[test]
    fn what_no_server_takes_as_a_key_is_refused() {
        assert!(Key::read("k".repeat(250).into()).is_ok());
        assert!(Key::read("Größe".into()).is_ok());
        for text in ["", "a b", "a\tb", "a\nb", &"k".repeat(251)] {
            assert!(Key::read(text.into()).is_err(), "{text:?}");
        }
    }
}
