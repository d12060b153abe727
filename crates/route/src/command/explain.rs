//! `guira route explain`: where a key would go, and through which routes.
//!
//! Nothing is sent: each leaf answers a miss.

use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;

use clap::{Arg, ArgMatches, Command};
use guira_client::Request;
use guira_log::Format;
use tokio::runtime;

use super::exit::{TRANSIENT, UNRECOVERABLE, code_of, refuse};
use crate::configure::flags::{self, Typed};
use crate::configure::{Loaded, Nowhere, Options, Refusal};
use crate::context::Context;
use crate::ops::op_named;
use crate::outcome;
use crate::server::{ClusterSpec, LeafSpec};
use crate::servers::Cluster;
use crate::tree::{self, Leaves, Route, Tree};

/// The subcommand.
pub(crate) fn command() -> Command {
    flags::augment_quietly(Command::new("explain"))
        .about(
            "Print where a request for a key would go and through which routes, without sending it",
        )
        .arg(Arg::new("op").required(true).value_name("OP").help("Operation: get, set, delete, …"))
        .arg(
            Arg::new("key")
                .required(true)
                .value_name("KEY")
                .help("The key, with its routing prefix if it has one"),
        )
}

/// Runs the subcommand.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    match explain(matches) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(Failed { words, code }) => refuse(Format::Text, &words, code),
    }
}

/// Why nothing can be explained, and the exit code.
struct Failed {
    words: String,
    code: u8,
}

impl From<String> for Failed {
    fn from(words: String) -> Self {
        Self { words, code: UNRECOVERABLE }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self { words: refusal.to_string(), code: code_of(&refusal) }
    }
}

fn explain(matches: &ArgMatches) -> Result<String, Failed> {
    let options = Options::new(&Typed::new(matches.clone()))?;
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let op = op_named(&text("op"))
        .ok_or_else(|| format!("'{}' is no operation on a key", text("op")))?;
    let request = Request::new(op, text("key"));
    let loaded = Loaded::read(&options)?;
    for mistake in &loaded.findings.mistakes {
        eprintln!("guira route: passed over in the configuration: {mistake}");
    }
    for warning in &loaded.findings.warnings {
        eprintln!("guira route: {warning}");
    }
    let looking = Looking::default();
    let tree = Tree::build(&loaded.config, &options.settings, &looking)
        .map_err(|error| error.to_string())?;
    let record = Rc::new(RefCell::new(Vec::new()));
    let context = Context { record: Some(Rc::clone(&record)), ..Context::default() };
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no event queue: {error}"))?;
    let local = tokio::task::LocalSet::new();
    let reply = local.block_on(&runtime, tree.root.route(&request, &context));
    let reached: Vec<_> = record.borrow().iter().map(|server| format!("  {server}\n")).collect();
    let lacks = looking.lacks.into_inner();
    if reached.is_empty() && !lacks.is_empty() {
        let words = format!("{} can't be explained: {}", text("key"), lacks.join("; "));
        return Err(Failed { words, code: TRANSIENT });
    }
    let possible: Vec<_> =
        tree::servers(&*tree.root, &request).iter().map(|server| format!("  {server}\n")).collect();
    let outline = tree::outline(&*tree.root, &request);
    let outline: String = outline.lines().map(|line| format!("  {line}\n")).collect();
    Ok(format!(
        "sent to, if each server answers:\n{}\
         may be sent to, depending on how servers answer, first choice first:\n{}\
         routes on the way, children below their parents:\n{outline}\
         the answer if nothing is stored anywhere: {}\n",
        or_nobody(&reached),
        or_nobody(&possible),
        outcome::name(reply.outcome)
    ))
}

/// Leaves that send nothing. The view of a cluster of stores is read once.
#[derive(Default)]
struct Looking {
    /// Why the views of some clusters aren't known.
    lacks: RefCell<Vec<String>>,
}

impl Leaves for Looking {
    fn leaf(&self, wanted: &LeafSpec) -> Rc<dyn Route> {
        Nowhere.leaf(wanted)
    }

    fn cluster(&self, wanted: &ClusterSpec) -> Rc<dyn Route> {
        let cluster = Cluster::looking(wanted);
        self.lacks.borrow_mut().extend(cluster.lack());
        cluster
    }
}

fn or_nobody(lines: &[String]) -> String {
    if lines.is_empty() { "  nobody\n".to_owned() } else { lines.concat() }
}
