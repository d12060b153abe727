//! The command lines: `guira` with its subcommands, and `memcached`.
//!
//! A subcommand's flags are created only when it is used: otherwise a server would keep the memory of all
//! other subcommands' flags for its whole life.

use clap::{Args, Command};
use guira_serve::{Flags, MEMCACHED_VERSION};

/// The command line of `guira`.
pub(crate) fn guira() -> Command {
    Command::new("guira")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A cache server that replaces memcached, a router that replaces mcrouter, and a store on flash")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve())
        .subcommand(guira_route::command("route"))
        .subcommand(guira_route::replay_command())
        .subcommand(guira_node::command())
        .subcommand(guira_cluster::command())
        .subcommand(guira_invalidate::command())
        .subcommands(guira_ctl::commands())
        .subcommand(bench())
        .subcommand(lab())
        .subcommand(plan())
        .subcommand(crate::generate::command())
}

pub(crate) fn serve() -> Command {
    let about = "Run a cache server: memcached's protocols, flags and statistics";
    Command::new("serve").version(MEMCACHED_VERSION).about(about).defer(with_flags)
}

fn with_flags(command: Command) -> Command {
    // As in memcached, the last value of a repeated flag counts.
    with_args::<Flags>(command).args_override_self(true)
}

/// Adds the arguments, but keeps the command's own description instead of the arguments' type's.
fn with_args<A: Args>(command: Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    A::augment_args(command).about(about)
}

fn bench() -> Command {
    let command = Command::new("bench").about(
        "Measure any server that speaks memcached's protocol: throughput, latency, processor time",
    );
    command.defer(with_args::<guira_bench::BenchArgs>)
}

fn lab() -> Command {
    let command = Command::new("lab")
        .about("Repeat the experiments of the papers behind Guira on this machine");
    command.defer(with_args::<guira_lab::LabArgs>)
}

fn plan() -> Command {
    let command = Command::new("plan")
        .about("Compute how many entries a router's hot cache (HotCacheRoute) needs, so that no server is overloaded whichever keys are popular");
    command.defer(|command| {
        with_args::<guira_route::plan::command::Args>(command)
            .subcommand(plan_regional())
            .subcommand_negates_reqs(true)
            .args_conflicts_with_subcommands(true)
    })
}

fn plan_regional() -> Command {
    let command = Command::new("regional")
        .about("Judge which key families belong into a pool that all clusters of a region share, by what routers have sampled");
    with_args::<guira_route::plan::regional::RegionalArgs>(command)
}

/// The command line of `memcached`: the flags of `guira serve`, without the subcommand.
pub(crate) fn memcached() -> Command {
    with_flags(Command::new("memcached"))
        .version(MEMCACHED_VERSION)
        .about("A cache server that replaces memcached")
}

const EXAMPLES: &str = "\
Examples:
  guira serve                          serve on 127.0.0.1:11211 with 64 MB
  guira serve -m 4096 -l 0.0.0.0 -t 8  4 GB, all addresses, 8 threads
  guira serve -s /tmp/guira.sock       on a unix socket
  guira route -p 5000 -f route.json    many servers as one cache, with a configuration of mcrouter
  guira store -d /var/lib/guira        a store on flash: keys and values outlive the process
  guira cluster status etcd:H:P/NAME   how a cluster of stores is, by what etcd knows
  guira invalidate run -c inv.json     delete keys as a database's log names them
  guira ping                           ask a server whether it answers
  guira set hello world                store an item; guira get hello prints it
  guira bench                          measure the server on 127.0.0.1:11211
  guira plan --servers 85              size of a hot cache in front of 85 servers
  guira lab list                       list the experiments; guira lab run ID runs one
  ln -s guira memcached; ./memcached   takes memcached's command line
  ln -s guira mcrouter; ./mcrouter     takes mcrouter's command line";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands whose help contains marks that only a Markdown page renders.
    fn marked(mut command: Command) -> Vec<String> {
        let mut found = Vec::new();
        let help = command.render_long_help().to_string();
        found.extend(help.lines().filter(|line| line.contains('`')).map(str::to_owned));
        let below: Vec<Command> = command.get_subcommands().cloned().collect();
        found.extend(below.into_iter().flat_map(marked));
        found
    }

    #[test]
    fn no_help_has_backticks() {
        let mut root = guira();
        root.build();
        assert_eq!(marked(root), Vec::<String>::new());
        let about = "Reads `AdaptSize`";
        assert_eq!(marked(Command::new("x").about(about)), [about]);
    }
}
