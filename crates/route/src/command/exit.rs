//! The beginning and the end of a router's process: limits, exit codes and last messages.

use std::collections::BTreeSet;
use std::process::ExitCode;

use guira_log::Format;

use crate::configure::Refusal;
use crate::deletes::counted;
use crate::deletes::debts::Debts;
use crate::servers::Servers;

pub(super) fn refuse(format: Format, words: &str, code: u8) -> ExitCode {
    guira_log::refuse(format, &format!("guira route: {words}"));
    ExitCode::from(code)
}

/// The exit code if there is no configuration.
pub(super) fn code_of(refusal: &Refusal) -> u8 {
    if refusal.is_passing() { TRANSIENT } else { UNRECOVERABLE }
}

/// Raises the limit of file descriptors to the highest that the system allows.
pub(super) fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, fewer connections are possible.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Warns about servers that are owed deletes but get none, because the configuration lacks them.
pub(super) fn tell_of_owed_strangers(servers: &Servers) {
    let known: BTreeSet<_> = servers.links().iter().map(|link| link.server.host_port()).collect();
    for (name, waiting) in
        servers.debts.owed().into_iter().filter(|(name, _)| !known.contains(name))
    {
        let deletes_wait = counted(waiting, [" waits", " wait"]);
        tracing::warn!(
            "{deletes_wait} in the spool for {name}, which the configuration lacks: name it there again, or send \
             them with guira replay"
        );
    }
}

/// Logs the last line: why the process ends, and how many deletes it leaves.
pub(super) fn tell_end(why: &str, debts: &Debts) {
    match debts.waiting() {
        0 => tracing::info!("stopped by {why}"),
        waiting => {
            let deletes_are = counted(waiting, [" is", " are"]);
            tracing::info!("stopped by {why}; {deletes_are} left in the spool");
        }
    }
}

/// Each exit code of a router with its meaning, for the documentation.
pub const EXIT_CODES: [(u8, &str); 4] = [
    (
        0,
        "ended by a signal or by `shutdown`; the configuration is good (`--validate-config`, `explain`)",
    ),
    (1, "an unknown flag, or a value that can't be read, such as a number with letters"),
    (
        TRANSIENT,
        "the configuration can't be read, and no last good one of the same source is kept (`--validate-config` and \
         `explain` use none); or, for `explain`, a cluster's view",
    ),
    (
        UNRECOVERABLE,
        "the configuration is bad, and no last good one of the same source is kept; or something else that won't do \
         next time either: another flag's value, its file, a port that another program has",
    ),
];

/// Each exit code of `guira route convert` with its meaning.
pub const CONVERT_EXIT_CODES: [(u8, &str); 3] = [
    (0, "the configuration is printed"),
    (1, "no file is named"),
    (UNRECOVERABLE, "the file can't be read, or has what can't be kept"),
];

/// The configuration couldn't be read.
pub(super) const TRANSIENT: u8 = 2;
/// The same command line would fail again.
pub(super) const UNRECOVERABLE: u8 = 3;
