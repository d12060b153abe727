//! The command line of `guira store`: serving, and work on a store that isn't being served.

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use guira_log::{Format, Log};

use crate::engine::{Engine, KeepRule};
use crate::options::{Opening, Options, StoreArgs};
use crate::serving::End;
pub use crate::serving::SIGNALS;
use crate::stats::SPOKEN;
use crate::{serving, silt, tools};

/// The command line.
#[must_use]
pub fn command() -> Command {
    Command::new("store").version(SPOKEN).about(ABOUT).defer(|command| {
        StoreArgs::augment_args(command)
            .about(ABOUT)
            .after_help(EXAMPLES)
            .args_override_self(true)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .subcommands(tools::commands())
    })
}

/// Runs the command line.
#[must_use]
pub fn run(matches: &ArgMatches) -> ExitCode {
    match tools::run(matches) {
        None => serve_with(matches, silt::open),
        Some(Ok(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Some(Err(words)) => refuse(Format::default(), &words, REFUSED),
    }
}

/// Serves the store that `open` opens, by the flags of `guira store`.
#[must_use]
pub fn serve_with<E: Engine>(
    matches: &ArgMatches,
    open: impl FnOnce(&Opening, KeepRule) -> Result<E, String> + Send + 'static,
) -> ExitCode {
    let args = match StoreArgs::from_arg_matches(matches) {
        Ok(args) => args,
        Err(error) => return refuse(Format::default(), &error.to_string(), USAGE),
    };
    let format = args.log_format;
    let options = match Options::new(&args) {
        Ok(options) => options,
        Err(words) => return refuse(format, &words, USAGE),
    };
    let log = Log::to_stderr(format, args.verbose.min(2));
    log.install();
    let served = serving::run(options, &log, open);
    log.flush();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(End::Refused(words)) => refuse(format, &words, REFUSED),
        Err(End::Failed) => ExitCode::from(REFUSED),
    }
}

fn refuse(format: Format, words: &str, code: u8) -> ExitCode {
    guira_log::refuse(format, &format!("guira store: {words}"));
    ExitCode::from(code)
}

/// Each exit code of `guira store`, and when.
pub const EXIT_CODES: [(u8, &str); 3] = [
    (0, "ended by a signal or by `shutdown`; a subcommand did what it was asked"),
    (USAGE, "an unknown flag, or a value that can't be used"),
    (
        REFUSED,
        "the store can't be opened: another process has it, it is no store, it is damaged, or its device fails; or the port \
         can't be had, or a certificate can't be used; `verify` found damage; with `--cluster` or `--view`, there is no such \
         cluster, etcd is away at the start, or the device failed or was full while it served",
    ),
];

const USAGE: u8 = 1;
const REFUSED: u8 = 2;

const ABOUT: &str =
    "Run a store: memcached's protocol over keys and values that outlive the process, on flash";

const EXAMPLES: &str = "\
Examples:
  guira store -d /var/lib/guira                    serve on 127.0.0.1:11311
  guira store -d /var/lib/guira --durability interval:100 -l 0.0.0.0 -Y users
                                                   all addresses, logins; 100 ms may be lost
  guira set -s 127.0.0.1:11311 hello world         store a value
  guira get -s 127.0.0.1:11311 hello               print it
  guira store plan --keys 100m --value-bytes 500   what such a store will take
  guira store stats -d /var/lib/guira              what is in it
  guira store verify -d /var/lib/guira             read all of it, and check it";
