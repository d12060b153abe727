//! A client on the command line: `guira ping`, `get`, `set`, `delete`, `incr`, `stats`, `keys`, for any server that
//! speaks the memcached text protocol.
//!
//! ```text
//! args      the arguments, and the checks before anything is sent
//! ask       one request, with its reply on standard output
//! keys      the listing of keys, and the patterns that select from it
//! trouble   errors, as one line with what to do next, and as an exit code
//! ```
//! # Invariants
//! 1. Standard output holds only the reply; misses and failures are lines on standard error.
//! 2. The exit code shows the result: 0 done, 1 a miss or not stored, 2 a mistake on the command line, 3
//!    a failure.
//! 3. A reader that closes the output early ends the program quietly, with exit code 0.

#![forbid(unsafe_code)]

mod keys;
mod ask;
mod args;
mod trouble;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches};

pub use trouble::{EXIT_CODES, USAGE};

use args::{Delete, Get, Incr, Keys, Ping, Set, Stats};
use trouble::Trouble;

/// Defines the commands: the name, the description, the type of the arguments, and the function of each.
macro_rules! commands {
    ($($name:literal, $args:ty, $does:path, $about:literal;)*) => {
        /// The commands. Their arguments are made when they are asked for.
        #[must_use]
        pub fn commands() -> Vec<Command> {
            vec![$(Command::new($name).about($about).defer(with_args::<$args>)),*]
        }

        /// Whether `name` is one of them.
        #[must_use]
        pub fn is_command(name: &str) -> bool {
            [$($name),*].contains(&name)
        }

        /// Does what the command called `name` is asked to do, if it is one of these.
        #[must_use]
        pub fn run(name: &str, matches: &ArgMatches) -> Option<ExitCode> {
            match name {
                $($name => Some(end(with(matches, async |args: &$args| $does(args).await))),)*
                _ => None,
            }
        }
    };
}

commands! {
    "ping", Ping, ask::ping, "Ask a server whether it answers, and how fast";
    "get", Get, ask::get, "Print the value of a key";
    "set", Set, ask::set, "Store a value under a key";
    "delete", Delete, ask::delete, "Delete a key";
    "incr", Incr, ask::incr, "Count up or down, and print the new number";
    "stats", Stats, ask::stats, "Print a server's statistics";
    "keys", Keys, keys::list, "List the keys that a server holds";
}

fn with_args<A: Args>(command: Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    A::augment_args(command).about(about)
}

/// Parses the arguments, and runs the command in a runtime.
fn with<A: FromArgMatches>(
    matches: &ArgMatches,
    does: impl AsyncFnOnce(&A) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let args = A::from_arg_matches(matches).map_err(Trouble::Arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Trouble::Runtime)?.block_on(does(&args))
}

fn end(done: Result<(), Trouble>) -> ExitCode {
    let Err(trouble) = done else { return ExitCode::SUCCESS };
    trouble.say();
    ExitCode::from(trouble.code())
}
