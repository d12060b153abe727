//! Errors: one line on standard error that says what to do, and an exit code.

use std::fmt;
use std::io;

use guira_client::{Address, Failure, Outcome};

/// The exit code for invalid arguments.
pub const USAGE: u8 = 2;

/// Each exit code with its meaning, for the documentation.
pub const EXIT_CODES: [(u8, &str); 4] = [
    (0, "done"),
    (1, "the key is not there, or its value was not stored"),
    (USAGE, "a mistake on the command line"),
    (FAILURE, "the server fails, or none answers"),
];

/// The exit code for a command that couldn't be executed.
const FAILURE: u8 = 3;

/// The reason why a command didn't end with exit code 0.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A miss, or a value that wasn't stored: the message.
    Not(String),
    /// A mistake in the arguments, or in a file that they name.
    Usage(String),
    /// The arguments can't be parsed.
    Arguments(clap::Error),
    /// The server failed, or doesn't run.
    Failed(Address, Failure),
    /// The server knows no statistics of this name.
    NoStatistics(Address, String),
    /// An error of standard input or output.
    Stream(&'static str, io::Error),
    /// The system can't create an event queue.
    Runtime(io::Error),
}

impl Trouble {
    /// Returns a function that turns a failure of `server` into a [`Trouble`].
    pub(crate) fn of(server: &Address) -> impl FnOnce(Failure) -> Trouble + use<'_> {
        |failure| Trouble::Failed(server.clone(), failure)
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            _ if self.is_enough() => 0,
            Trouble::Not(_) => 1,
            Trouble::Usage(_) | Trouble::Arguments(_) => USAGE,
            Trouble::Failed(..)
            | Trouble::NoStatistics(..)
            | Trouble::Stream(..)
            | Trouble::Runtime(_) => FAILURE,
        }
    }

    /// Prints the message; ignores errors, since standard error may be closed too.
    pub(crate) fn say(&self) {
        use io::Write as _;
        if !self.is_enough() {
            let _ = writeln!(io::stderr(), "guira: {self}");
        }
    }

    /// Whether the reader of the output has closed it.
    fn is_enough(&self) -> bool {
        matches!(self, Trouble::Stream(_, error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Not(words) | Trouble::Usage(words) => f.write_str(words),
            Trouble::Arguments(error) => error.fmt(f),
            Trouble::Stream(name, error) => write!(f, "{name}: {error}"),
            Trouble::Runtime(error) => write!(f, "the system gives no event queue: {error}"),
            Trouble::NoStatistics(server, name) => {
                write!(
                    f,
                    "{server}: it has no statistics named \"{name}\"; name others, or none for the general ones"
                )
            }
            Trouble::Failed(server, failure) => {
                write!(f, "{server}: {failure}{}", advice(failure))
            }
        }
    }
}

/// The advice on what to do next.
fn advice(failure: &Failure) -> &'static str {
    match failure.outcome {
        Outcome::ConnectError if failure.message.contains("CaUsedAsEndEntity") => {
            "; the server's certificate is that of an authority: make one with basicConstraints=CA:FALSE"
        }
        Outcome::ConnectError if failure.message.contains("InvalidContentType") => {
            "; the server speaks no TLS there: leave out --tls-ca, or name its port for TLS"
        }
        Outcome::ConnectError if failure.message.contains("it speaks TLS") => {
            "; give --tls-ca FILE, or name its port without TLS"
        }
        Outcome::ConnectError if failure.message.contains("certificate") => {
            "; compare the server's certificate with --tls-ca and the name in -s"
        }
        Outcome::ConnectError if failure.message.contains("login refused") => {
            "; correct --user or GUIRA_PASSWORD"
        }
        Outcome::ConnectError | Outcome::ConnectTimeout => {
            "; start a server (guira serve), or name another (-s ADDRESS)"
        }
        Outcome::Timeout => "; wait longer (--timeout 5s)",
        Outcome::BadCommand if failure.is_for_room() => {
            "; try again later, or raise the server's -c"
        }
        Outcome::ClientError if failure.message.contains("unauthenticated") => {
            "; log in (--user NAME)"
        }
        Outcome::Busy => "; try again later",
        _ if failure.message.contains("too large for cache") => "; raise the server's -I",
        _ if failure.message == "connection closed by the server" => {
            "; does it speak TLS there (--tls-ca FILE)? Its log may say why"
        }
        _ => "",
    }
}
