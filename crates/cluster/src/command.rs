//! `guira cluster`: makes a cluster, and shows its state.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command};
use guira_etcd::EtcdFlags;

use crate::dev::{self, Dev};
use crate::fault::Fault;
use crate::register::{Register, first_view};
use crate::status::Status;

/// The command line.
#[must_use]
pub fn command() -> Command {
    Command::new("cluster")
        .about(ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(InitArgs::augment_args(Command::new("init")).about(INIT))
        .subcommand(StatusArgs::augment_args(Command::new("status")).about(STATUS))
        .subcommand(DevArgs::augment_args(Command::new("dev")).about(DEV))
}

/// Runs the command line.
#[must_use]
pub fn run(matches: &ArgMatches) -> ExitCode {
    let done = match matches.subcommand() {
        Some(("init", matches)) => with(matches, init),
        Some(("status", matches)) => with(matches, status),
        Some(("dev", matches)) => with(matches, dev),
        _ => Err(Trouble::Usage("write guira cluster init, status or dev".to_owned())),
    };
    let (words, code) = match done {
        Ok(text) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Trouble::Usage(words)) => (words, USAGE),
        Err(Trouble::Refused(words)) => (words, REFUSED),
    };
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "guira cluster: {words}");
    ExitCode::from(code)
}

enum Trouble {
    Usage(String),
    Refused(String),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Refused(fault.to_string())
    }
}

#[derive(Args, Debug)]
struct PlaceArgs {
    /// The cluster: etcd:HOST:PORT/NAME, or more of HOST:PORT, with commas (etcds: over TLS)
    #[arg(value_name = "PLACE")]
    place: String,

    #[command(flatten)]
    etcd: EtcdArgs,
}

/// How etcd lets us in.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdArgs {
    /// Root certificates in PEM that etcd's certificate is checked against; etcds: needs it
    #[arg(long, value_name = "FILE")]
    pub etcd_cacert: Option<PathBuf>,

    /// Our certificate chain in PEM, shown to an etcd that asks for one
    #[arg(long, value_name = "FILE")]
    pub etcd_cert: Option<PathBuf>,

    /// Key of --etcd-cert [default: in the same file]
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    pub etcd_key: Option<PathBuf>,

    /// Log in at etcd with the line user:password in this file
    #[arg(long, value_name = "FILE")]
    pub etcd_auth_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = INIT_EXAMPLES)]
struct InitArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Copies of each slot, on as many nodes; it can be changed later
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    replicas: u32,

    /// Refuse writes to slots with fewer serving copies [default: 2, or 1 with --replicas 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    min_write: Option<u32>,
}

#[derive(Args, Debug)]
#[command(after_help = STATUS_EXAMPLES)]
struct StatusArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = DEV_EXAMPLES)]
struct DevArgs {
    /// Nodes to start
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=i64::from(dev::NODES_MAX)))]
    nodes: u16,

    /// Copies of each item, if there are as many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=16))]
    replicas: u32,

    /// Directory for items and logs; it is made, and kept at the end
    #[arg(short = 'd', long, value_name = "DIR", default_value = "guira-dev")]
    directory: PathBuf,

    /// Port of the router on 127.0.0.1; etcd and the nodes have ports up to 69 above it
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 21300, value_parser = clap::value_parser!(u16).range(1..=i64::from(dev::PORT_MAX)))]
    port: u16,
}

fn with<A: Args>(
    matches: &ArgMatches,
    does: impl FnOnce(&A) -> Result<String, Trouble>,
) -> Result<String, Trouble> {
    does(&A::from_arg_matches(matches).map_err(|error| Trouble::Usage(error.to_string()))?)
}

fn init(args: &InitArgs) -> Result<String, Trouble> {
    let register = open(&args.place)?;
    let replicas = args.replicas;
    let min_write = args.min_write.unwrap_or(replicas.min(2));
    if min_write > replicas {
        return Err(Trouble::Usage(format!(
            "--min-write {min_write} is more than --replicas {replicas}: no write would ever be taken"
        )));
    }
    let name = register.name();
    let view = first_view(name, replicas, min_write).map_err(Trouble::Refused)?;
    register.create(&view)?;
    Ok(format!(
        "cluster {name} is made: {replicas} copies of each slot, {min_write} needed for a write\n"
    ))
}

fn status(args: &StatusArgs) -> Result<String, Trouble> {
    let status = Status::of(&open(&args.place)?.snapshot()?);
    Ok(if args.json { status.json() + "\n" } else { status.to_string() })
}

fn dev(args: &DevArgs) -> Result<String, Trouble> {
    let DevArgs { nodes, replicas, directory, port } = args;
    let dev = Dev {
        nodes: *nodes,
        replicas: (*replicas).min(u32::from(*nodes)),
        directory: directory.clone(),
        port: *port,
    };
    dev.run().map_err(Trouble::Refused)?;
    Ok("All parts have ended.\n".to_owned())
}

fn open(args: &PlaceArgs) -> Result<Register, Trouble> {
    args.etcd.register(&args.place).map_err(Trouble::Usage)
}

impl EtcdArgs {
    /// The register at `place`, in the form that [`Register::open`] takes. Nothing is asked yet.
    ///
    /// # Errors
    /// A sentence: the place has another form, or a flag is missing.
    pub fn register(&self, place: &str) -> Result<Register, String> {
        let flags = EtcdFlags {
            cacert: self.etcd_cacert.clone(),
            cert: self.etcd_cert.clone(),
            key: self.etcd_key.clone(),
            auth_file: self.etcd_auth_file.clone(),
        };
        let access = flags.access(place.starts_with("etcds:"))?;
        Register::open(place, access).map_err(|fault| fault.to_string())
    }
}

/// Each exit code of `guira cluster`, and when.
pub const EXIT_CODES: [(u8, &str); 3] = [
    (0, "done"),
    (USAGE, "an unknown flag, or a value that can't be used"),
    (
        REFUSED,
        "etcd can't be asked; the cluster exists already (`init`), or there is none (`status`); a part doesn't start (`dev`)",
    ),
];

const USAGE: u8 = 1;
const REFUSED: u8 = 2;

const ABOUT: &str = "Make a cluster of stores in etcd, and tell how it is";
const INIT: &str = "Make a cluster in etcd, to which no node belongs yet";
const STATUS: &str = "Tell what etcd knows of a cluster: nodes, copies that are missing, who leads";

const DEV: &str = "Start etcd, nodes and a router on this machine, to learn and to test with";

const EXAMPLES: &str = "\
Examples:
  guira cluster init etcd:127.0.0.1:2379/c1           make the cluster c1, with three copies of all
  guira cluster status etcd:127.0.0.1:2379/c1         its nodes, their slots, and what is degraded
  guira cluster dev --nodes 5                         five nodes, etcd and a router, here and now";

const INIT_EXAMPLES: &str = "\
Examples:
  guira cluster init etcd:127.0.0.1:2379/c1               three copies, two needed for a write
  guira cluster init etcd:10.0.0.1:2379,10.0.0.2:2379/c1 --replicas 2 --min-write 1
                                                          two copies; one is enough, an etcd of two members to ask";

const DEV_EXAMPLES: &str = "\
Examples:
  guira cluster dev                          three nodes in ./guira-dev, behind a router on port 21300
  guira cluster dev --nodes 5 -d /tmp/birds  five nodes, each item on three of them

Any memcached client may ask the router. Each part is a process of its own: kill one, and see what happens. Ctrl-C ends all, and
the same command goes on with the same items. etcd must be installed (Debian: etcd-server).";

const STATUS_EXAMPLES: &str = "\
Examples:
  guira cluster status etcd:127.0.0.1:2379/c1                         for people
  guira cluster status etcd:127.0.0.1:2379/c1 --json | jq .slots      for programs

A slot is degraded while fewer of its copies live than are wanted, and read-only while they are too few for a write. A node is a
member once the view names its process, waiting if it lives and isn't named, gone if it hasn't renewed its lease.";
