//! The router's flags. Each is declared once, here. The declaration defines the command line, its help, the start-up
//! options in statistics, and the constants that a configuration can read.
//!
//! Names, short names and defaults are mcrouter's, so that its command lines and unit files work unchanged. Flags of
//! parts that this router lacks (fibers, thrift, Meta's own services) are accepted and have no effect.
//! `--validate-config` lists them.

mod table;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueEnum};
use guira_log::Format;

pub(crate) use table::FLAGS;
use table::{Flag, FlagKind, NUMBERS_IGNORED, SWITCHES_IGNORED, TEXTS_IGNORED};

/// What `--validate-config` does after a good configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Validate {
    Exit,
    Run,
}

/// Adds the flags to a command.
pub(crate) fn augment(command: Command) -> Command {
    command
        .args_override_self(true)
        .args(FLAGS.iter().map(argument))
        .arg(validate())
        .arg(schema())
        .args(ignored())
        .arg(Arg::new("flavor").hide(true).num_args(0..))
        .after_help(EXAMPLES)
}

/// The spelling of a flag on the command line.
pub(crate) fn typed_as(name: &str) -> String {
    let flag = FLAGS.iter().find(|flag| flag.name == name);
    format!("--{}", flag.map_or(name, |flag| flag.long))
}

/// Flags without effect, which are parsed but not shown.
fn ignored() -> impl Iterator<Item = Arg> {
    let hidden = |long: &&'static str| Arg::new(*long).long(*long).hide(true);
    let switches = SWITCHES_IGNORED.iter().map(move |long| hidden(long).action(ArgAction::SetTrue));
    let others = NUMBERS_IGNORED.iter().chain(TEXTS_IGNORED);
    switches.chain(others.map(move |long| hidden(long).allow_hyphen_values(true)))
}

/// As [`augment`], for a command whose help shows mainly its own arguments.
pub(crate) fn augment_quietly(command: Command) -> Command {
    let command = command.args_override_self(true).arg(validate().hide(true));
    let shown = ["config", "config_file", "config_str", "default_route", "config_params"];
    command
        .args(FLAGS.iter().map(|flag| argument(flag).hide(!shown.contains(&flag.name))))
        .args(ignored())
}

fn argument(flag: &'static Flag) -> Arg {
    let mut arg = Arg::new(flag.name).long(flag.long).help(flag.help).help_heading(flag.group);
    if let [short] = flag.short {
        arg = arg.short(*short);
    }
    if flag.name == "num_proxies" {
        arg = arg.visible_alias("proxy-threads");
    }
    if !flag.default.is_empty() {
        arg = arg.default_value(flag.default);
    }
    match flag.kind {
        FlagKind::Switch => arg.action(ArgAction::SetTrue),
        FlagKind::Number => {
            let number = clap::value_parser!(i64);
            arg.value_name(flag.value_or("NUM")).allow_negative_numbers(true).value_parser(number)
        }
        FlagKind::Size => arg.value_name(flag.value_or("SIZE")).value_parser(size),
        FlagKind::Text => arg.value_name(flag.value_or("TEXT")).allow_hyphen_values(true),
        FlagKind::Format => {
            arg.value_name(flag.value_or("FORMAT")).value_parser(clap::value_parser!(Format))
        }
    }
}

/// Parses a size. Units are powers of two, as in `guira serve`.
fn size(text: &str) -> Result<i64, String> {
    let bytes = guira_front::size::parse(text)?;
    i64::try_from(bytes).map_err(|_| format!("{text} is too much"))
}

fn validate() -> Arg {
    Arg::new("validate_config")
        .long("validate-config")
        .value_name("exit|run")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("exit")
        .value_parser(clap::value_parser!(Validate))
        .help("Read the configuration, print what is wrong with it, and exit; with run, start if it is good")
        .help_heading("Configuration")
}

fn schema() -> Arg {
    Arg::new("schema")
        .long("schema")
        .action(ArgAction::SetTrue)
        .help("Print a JSON Schema of configurations, and exit")
        .help_heading("Configuration")
}

/// The values from the command line, by the flags' names.
#[derive(Clone, Debug)]
pub(crate) struct Typed(ArgMatches);

impl Typed {
    pub(crate) fn new(matches: ArgMatches) -> Self {
        Self(matches)
    }

    pub(crate) fn switch(&self, name: &str) -> bool {
        self.0.get_flag(name)
    }

    /// Whether the flag is on the command line.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.0.value_source(name) == Some(ValueSource::CommandLine)
    }

    /// The value, or the default; empty if there is neither.
    pub(crate) fn text(&self, name: &str) -> String {
        self.0.get_one::<String>(name).cloned().unwrap_or_default()
    }

    /// The first word without a flag. mcrouter's flavors are accepted, and not read.
    pub(crate) fn stray(&self) -> Option<&str> {
        self.0.try_get_one::<String>("flavor").ok().flatten().map(String::as_str)
    }

    /// The value, or the default; `None` if there is neither.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.0.get_one::<i64>(name).copied()
    }

    /// The format of log lines.
    pub(crate) fn log_format(&self) -> Format {
        self.0.get_one("log_format").copied().unwrap_or_default()
    }

    /// The value of a flag as text: `1` and `0` for switches.
    pub(crate) fn shown(&self, flag: &Flag) -> String {
        match flag.kind {
            FlagKind::Switch => u8::from(self.switch(flag.name)).to_string(),
            FlagKind::Number | FlagKind::Size => {
                self.number(flag.name).map(|n| n.to_string()).unwrap_or_default()
            }
            FlagKind::Text => self.text(flag.name),
            FlagKind::Format => self.log_format().to_string(),
        }
    }

    /// The value of `--validate-config`, if it was given.
    pub(crate) fn validates(&self) -> Option<Validate> {
        self.0.get_one("validate_config").copied()
    }

    /// The flags that were given although they have no effect.
    pub(crate) fn without_effect(&self) -> Vec<&'static str> {
        let all = [SWITCHES_IGNORED, NUMBERS_IGNORED, TEXTS_IGNORED];
        let all = all.into_iter().flatten().copied();
        all.filter(|long| self.is_given(long)).collect()
    }
}

const EXAMPLES: &str = "\
Examples:
  guira route -p 5000 -f /etc/guira/route.json                 listen on 5000, route as the file says
  guira route -f route.json --validate-config                  check the configuration
  guira route explain --config route.json get user:1           print where this key would go, and why
  guira route -p 5000 --config '{\"pools\":{\"A\":{\"servers\":[\"10.0.0.1:11211\",\"10.0.0.2:11211\"]}},
                                \"route\":\"PoolRoute|A\"}'
  ln -s guira mcrouter; ./mcrouter …                           takes mcrouter's command line";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_have_a_unit_and_a_number_alone_is_bytes() {
        let typed = |size: &str| {
            let line = ["route", "--big-value-split-threshold", size];
            let matches = augment(Command::new("route")).try_get_matches_from(line)?;
            Ok(Typed::new(matches).number("big_value_split_threshold"))
        };
        let typed = |size: &str| typed(size).map_err(|error: clap::Error| error.to_string());
        assert_eq!(typed("512k"), Ok(Some(512 << 10)));
        assert_eq!(typed("1m"), Ok(Some(1 << 20)));
        assert_eq!(typed("1000"), Ok(Some(1000)));
        assert!(typed("1q").unwrap_err().contains("512k, 4m, 1g"));
        assert!(typed("-1").is_err());
    }
}
