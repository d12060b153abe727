//! `guira cluster`: makes a cluster, shows and checks its state, and writes what operators want.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, Args, Command};
use guira_etcd::EtcdFlags;

use crate::ask::{Keyless, leader};
use crate::check::Check;
use crate::counted::counted;
use crate::dev::{self, Dev};
use crate::draft::first_view;
use crate::plan::Plan;
use crate::register::Register;
use crate::rescue;
use crate::restart;
use crate::status::Status;
use crate::trouble::{Trouble, WITHOUT_ETCD};
use crate::wishes;

mod help;

/// The command line.
#[must_use]
pub fn command() -> Command {
    Command::new("cluster")
        .about(help::ABOUT)
        .after_help(help::EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(InitArgs::augment_args(Command::new("init")).about(help::INIT))
        .subcommand(StatusArgs::augment_args(Command::new("status")).about(help::STATUS))
        .subcommand(DevArgs::augment_args(Command::new("dev")).about(help::DEV))
        .subcommand(PlanArgs::augment_args(Command::new("plan")).about(help::PLAN))
        .subcommand(CheckArgs::augment_args(Command::new("check")).about(help::CHECK))
        .subcommand(DrainArgs::augment_args(Command::new("drain")).about(help::DRAIN))
        .subcommand(RestartArgs::augment_args(Command::new("restart")).about(help::RESTART))
        .subcommand(SetArgs::augment_args(Command::new("set")).about(help::SET))
        .subcommand(RescueArgs::augment_args(Command::new("rescue")).about(help::RESCUE))
}

/// Runs the command line.
#[must_use]
pub fn run(matches: &ArgMatches) -> ExitCode {
    let done = match matches.subcommand() {
        Some(("init", matches)) => with(matches, init),
        Some(("status", matches)) => with(matches, status),
        Some(("dev", matches)) => with(matches, dev),
        Some(("plan", matches)) => with(matches, plan),
        Some(("check", matches)) => with(matches, check),
        Some(("drain", matches)) => with(matches, drain),
        Some(("restart", matches)) => with(matches, restart),
        Some(("set", matches)) => with(matches, set),
        Some(("rescue", matches)) => with(matches, rescue),
        _ => Err(Trouble::Usage("name what to do: guira cluster --help lists it".to_owned())),
    };
    let (words, code) = match done {
        Ok(text) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Trouble::Usage(words)) => (words, USAGE),
        Err(Trouble::Refused(words)) => (words, REFUSED),
        Err(Trouble::Unfinished(words)) => (words, UNFINISHED),
    };
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "guira cluster: {words}");
    ExitCode::from(code)
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
#[command(after_help = help::INIT_EXAMPLES)]
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
#[command(after_help = help::STATUS_EXAMPLES)]
struct StatusArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = help::DEV_EXAMPLES)]
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

#[derive(Args, Debug)]
#[command(after_help = help::PLAN_EXAMPLES)]
struct PlanArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = help::CHECK_EXAMPLES)]
struct CheckArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// For programs: one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = help::DRAIN_EXAMPLES)]
struct DrainArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// The node's name or number, as guira cluster status shows them
    #[arg(value_name = "NODE")]
    node: String,

    /// Give the node its share of slots again
    #[arg(long, conflicts_with = "wait")]
    undo: bool,

    /// Wait until the node has no copies, for so many seconds at most
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,
}

#[derive(Args, Debug)]
#[command(after_help = help::RESTART_EXAMPLES)]
struct RestartArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// The node's name or number, as guira cluster status shows them [default: this host's name, as a node has it]
    #[arg(value_name = "NODE")]
    node: Option<String>,

    /// Wait for so many seconds at most
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait: u64,

    /// Take it back: the node stays, and gets its slots again
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
}

#[derive(Args, Debug)]
#[command(after_help = help::SET_EXAMPLES)]
struct SetArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Copies of each slot from now on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    replicas: Option<u32>,

    /// Begin no copy until --resume: nothing is filled, moved or drained
    #[arg(long, conflicts_with = "resume")]
    pause: bool,

    /// End the pause
    #[arg(long)]
    resume: bool,
}

#[derive(Args, Debug)]
#[command(after_help = help::RESCUE_EXAMPLES)]
struct RescueArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Directories of nodes, or copies of the view from there
    #[arg(value_name = "DIR", required = true)]
    copies: Vec<PathBuf>,
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
    // No node of it runs yet, so there is nothing to say of nodes.
    register.create(&view).map_err(|fault| {
        let advice =
            if fault.is_of_etcd_away() { ": start etcd, or correct its address" } else { "" };
        Trouble::Refused(format!("{fault}{advice}"))
    })?;
    Ok(format!(
        "cluster {name} is made: {} of each slot, {min_write} needed for a write\n",
        counted(replicas, "copy", "copies")
    ))
}

fn status(args: &StatusArgs) -> Result<String, Trouble> {
    let snapshot = open(&args.place)?.snapshot()?;
    let status = Status::of(&snapshot, &Keyless::of(&snapshot), leader(&snapshot));
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

fn plan(args: &PlanArgs) -> Result<String, Trouble> {
    let snapshot = open(&args.place)?.snapshot()?;
    let plan = Plan::of(&snapshot, &Keyless::of(&snapshot), leader(&snapshot));
    Ok(if args.json { plan.json() + "\n" } else { plan.to_string() })
}

fn check(args: &CheckArgs) -> Result<String, Trouble> {
    let check = Check::of(&open(&args.place)?)?;
    let text = if args.json { check.json() + "\n" } else { check.to_string() };
    if check.is_well() {
        return Ok(text);
    }
    print!("{text}");
    Err(match check.is_blind() {
        true => Trouble::Refused(format!("etcd doesn't answer: {WITHOUT_ETCD}")),
        false => Trouble::Unfinished(counted(check.count(), "finding", "findings")),
    })
}

fn drain(args: &DrainArgs) -> Result<String, Trouble> {
    let register = open(&args.place)?;
    let (id, said) = wishes::drain((&register, &args.place.place), &args.node, args.undo)?;
    match args.wait {
        None => Ok(said),
        Some(seconds) => wishes::wait_until_empty(&register, id, Duration::from_secs(seconds)),
    }
}

fn restart(args: &RestartArgs) -> Result<String, Trouble> {
    let register = open(&args.place)?;
    let node = args.node.clone().unwrap_or_else(host_name);
    if args.undo {
        return restart::undo(&register, &node);
    }
    restart::restart(&register, &node, Duration::from_secs(args.wait))
}

fn set(args: &SetArgs) -> Result<String, Trouble> {
    let is_paused = (args.pause || args.resume).then_some(args.pause);
    if args.replicas.is_none() && is_paused.is_none() {
        let words = "name what is to change: --replicas N, --pause or --resume";
        return Err(Trouble::Usage(words.to_owned()));
    }
    wishes::set(&open(&args.place)?, args.replicas, is_paused)
}

fn rescue(args: &RescueArgs) -> Result<String, Trouble> {
    rescue::rescue((&open(&args.place)?, &args.place.place), &args.copies)
}

/// This host's name, which a node has unless it is given another one.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
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
pub const EXIT_CODES: [(u8, &str); 4] = [
    (0, "done"),
    (
        USAGE,
        "an unknown flag, or a value that can't be used; the node is to be restarted (`drain --undo`)",
    ),
    (
        REFUSED,
        "etcd can't be asked; the cluster exists already (`init`, `rescue`), or there is none (the others); copies of two clusters (`rescue`); there is no such node, or too few others (`drain`, `restart`, `set`); a part doesn't start (`dev`)",
    ),
    (
        UNFINISHED,
        "`check` found something; `drain --wait`, `restart`: the node isn't free yet, or died",
    ),
];

const USAGE: u8 = 1;
const REFUSED: u8 = 2;
const UNFINISHED: u8 = 3;
