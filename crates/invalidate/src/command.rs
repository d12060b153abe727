//! `guira invalidate`: does what its command line names.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches};
use guira_log::{Format, Log};

use crate::clear;
use crate::config::{InvalidateConfig, OnGap, OnUnknown, SourceConfig, read};
use crate::deliver::Resender;
use crate::explain;
use crate::office::Office;
use crate::position::Stored;
use crate::replay::{self, From, Replay};
use crate::report;
use crate::rule::{OnTruncate, Rule};
use crate::run::{self, Ended};
use crate::source::{self, Begun, UNUSABLE};

mod flags;

pub use flags::command;
use flags::{ClearArgs, ExplainArgs, FileArgs, FlushArgs, ReplayArgs, RunArgs};

/// Runs the command that the command line names.
#[must_use]
pub fn run(matches: &ArgMatches) -> ExitCode {
    let done = match matches.subcommand() {
        Some(("run", matches)) => return run_daemon(matches),
        Some(("check", matches)) => with_config(matches, check),
        Some(("explain", matches)) => explain(matches),
        Some(("positions", matches)) => with_config(matches, positions),
        Some(("audit", matches)) => with_config(matches, audit),
        Some(("replay", matches)) => replay(matches),
        Some(("clear", matches)) => clear(matches),
        Some(("flush", matches)) => flush(matches),
        Some(("init", matches)) => with_config(matches, |config| Ok(init(config))),
        _ => Err((USAGE, "a command is needed: guira invalidate --help lists them".to_owned())),
    };
    match done {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err((code, words)) => refuse(Format::default(), &words, code),
    }
}

type Done = Result<String, (u8, String)>;

fn run_daemon(matches: &ArgMatches) -> ExitCode {
    let args = match RunArgs::from_arg_matches(matches) {
        Ok(args) => args,
        Err(error) => return refuse(Format::default(), &error.to_string(), USAGE),
    };
    let config = match read(&args.file.config) {
        Ok(config) => config,
        Err(error) => return refuse(args.log_format, &error.to_string(), USAGE),
    };
    let log = Log::to_stderr(args.log_format, args.verbose.min(2));
    log.install();
    let ended = run::run(&args.file.config, config);
    log.flush();
    match ended {
        Ok(Ended::Done) => ExitCode::SUCCESS,
        Ok(Ended::Deposed) => {
            let error = begin_anew();
            let words = format!("it can't begin anew, and is to be started again: {error}");
            refuse(args.log_format, &words, UNUSABLE)
        }
        Err(halt) => refuse(args.log_format, &halt.words, halt.code),
    }
}

/// Starts the same program with the same arguments in place of this process. Returns only on an error.
fn begin_anew() -> std::io::Error {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_else(|| "guira".into());
    // The file of the running program may have been replaced.
    let own = PathBuf::from("/proc/self/exe");
    let program = std::env::current_exe().ok().filter(|it| it.exists()).unwrap_or(own);
    std::process::Command::new(program).arg0(name).args(words).exec()
}

fn with_config(matches: &ArgMatches, does: impl Fn(&InvalidateConfig) -> Done) -> Done {
    let args = FileArgs::from_arg_matches(matches).map_err(|error| (USAGE, error.to_string()))?;
    does(&load(&args.config)?)
}

fn load(path: &Path) -> Result<InvalidateConfig, (u8, String)> {
    read(path).map_err(|error| (USAGE, error.to_string()))
}

/// Reports all problems at once. The exit code is that of the first one.
fn check(config: &InvalidateConfig) -> Done {
    let mut good = format!("{}: the configuration is good\n", config.name);
    let mut bad = Vec::new();
    for from in &config.sources {
        let begun = Begun::find(config, &from.name).unwrap_or_else(|words| {
            bad.push((UNUSABLE, words));
            None
        });
        match source::check(from, &config.rules, begun.as_ref()) {
            Ok(words) => good.push_str(&words),
            Err(words) => bad.push((source::BAD, words)),
        }
    }
    for to in &config.destinations {
        let is_flushed = !to.has_markers && flushes(config, &to.name);
        for router in &to.routers {
            let of = format!("destination {}: router {router}", to.name);
            let asks = crate::deliver::Asks { is_flushed, is_spread: !to.flush_over.is_zero() };
            match crate::deliver::check(router, &to.prefix, asks) {
                Ok(()) => good.push_str(&format!("{of} answers\n")),
                Err(error) => bad.push((UNUSABLE, format!("{of}: {error}"))),
            }
        }
    }
    if let Some(etcd) = &config.etcd {
        match Office::new(etcd, &config.name).who() {
            Ok(who) => {
                let who = who.map_or("nobody is".to_owned(), |who| format!("{who} is"));
                good.push_str(&format!("etcd answers: {who} active\n"));
            }
            Err(error) => bad.push((UNUSABLE, error.to_string())),
        }
    }
    let Some((code, _)) = bad.first() else { return Ok(good) };
    let words: Vec<_> = bad.iter().map(|(_, words)| words.as_str()).collect();
    Err((*code, words.join("\n")))
}

/// Whether a gap, an emptied table or an unknown change may flush a destination.
fn flushes(config: &InvalidateConfig, destination: &str) -> bool {
    let is_meant = |rule: &Rule| {
        let to = rule.to.as_ref();
        to.is_none_or(|to| to.iter().any(|name| name == destination))
    };
    let by_rule = |rule: &Rule| rule.on_truncate == OnTruncate::Flush && is_meant(rule);
    let by_source = |source: &SourceConfig| {
        source.on_gap == OnGap::Flush || source.on_unknown == OnUnknown::Flush
    };
    config.sources.iter().any(by_source) || config.rules.iter().any(by_rule)
}

fn explain(matches: &ArgMatches) -> Done {
    let args =
        ExplainArgs::from_arg_matches(matches).map_err(|error| (USAGE, error.to_string()))?;
    let config = load(&args.file.config)?;
    let told = match (&args.table, &args.statement) {
        (Some(table), _) => explain::row(&config, table, args.old.as_deref(), args.new.as_deref()),
        (None, Some(statement)) => Ok(explain::statement(&config, statement)),
        (None, None) => Err("--table or --statement is needed".to_owned()),
    };
    told.map_err(|words| (USAGE, words))
}

fn replay(matches: &ArgMatches) -> Done {
    let args = ReplayArgs::from_arg_matches(matches).map_err(|error| (USAGE, error.to_string()))?;
    let config = load(&args.file.config)?;
    let usage = |words: String| (USAGE, words);
    let from = match (&args.from_position, &args.from_time) {
        (Some(text), _) => From::Position(text.parse().map_err(usage)?),
        (None, Some(text)) => From::Time(replay::time(text).map_err(usage)?),
        (None, None) => return Err(usage("--from-time or --from-position is needed".to_owned())),
    };
    let sources: Vec<&str> = config.sources.iter().map(|it| &*it.name).collect();
    let of_deletes = config.destinations.iter().filter(|it| !it.has_markers);
    let destinations: Vec<&str> = of_deletes.map(|it| &*it.name).collect();
    for (what, named, known) in
        [("source", &args.source, &sources), ("destination", &args.to, &destinations)]
    {
        if let Some(name) = named.as_deref().filter(|name| !known.contains(name)) {
            let perhaps = guira_config::perhaps(name, known);
            return Err(usage(format!("'{name}' is no {what}{perhaps}")));
        }
    }
    if args.source.is_none() && sources.len() > 1 && args.from_position.is_some() {
        let words = "a position is one source's: name it by --source";
        return Err(usage(words.to_owned()));
    }
    let until_s = args.until.as_deref().map(replay::time).transpose().map_err(usage)?;
    let wanted = Replay {
        from,
        until_s,
        source: args.source,
        to: args.to,
        prefix: args.prefix,
        rate: args.rate,
        is_dry: args.dry_run,
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let done = replay::replay(&config, &wanted, &mut out);
    std::io::Write::flush(&mut out).map_err(|error| (UNUSABLE, error.to_string()))?;
    drop(out);
    let done = done.map_err(|words| (UNUSABLE, words))?;
    let would = if wanted.is_dry { "would be" } else { "were" };
    println!(
        "{} deletes and {} flushes of {} entries {would} sent",
        done.deletes - done.refused,
        done.flushes,
        done.entries
    );
    if done.refused > 0 {
        return Err((UNUSABLE, format!("{} deletes were refused", done.refused)));
    }
    match done.lacks.is_empty() {
        true => Ok(String::new()),
        false => Err((source::BAD, done.lacks.join("\n"))),
    }
}

fn positions(config: &InvalidateConfig) -> Done {
    let mut text = String::new();
    if let Some(etcd) = &config.etcd {
        let office = Office::new(etcd, &config.name);
        let who = office.who().map_err(|error| (UNUSABLE, error.to_string()))?;
        text.push_str(&format!("active: {}\n", who.as_deref().unwrap_or("nobody")));
        for source in &config.sources {
            let (shared, _) = office.read(&source.name).map_err(|words| (UNUSABLE, words))?;
            let read =
                shared.as_ref().map_or("nothing yet".to_owned(), |it| format!("'{}'", it.read));
            text.push_str(&format!("source {}: done up to {read}, in etcd\n", source.name));
            for (name, _) in shared.iter().flat_map(|it| &it.couriers).filter(|it| it.1.is_tainted)
            {
                text.push_str(&format!("  destination {name}: given up: tainted\n"));
            }
        }
        text.push_str("what this machine's state folder has:\n");
    }
    for source in &config.sources {
        let stored =
            Stored::read(&config.state.join(&source.name)).map_err(|words| (UNUSABLE, words))?;
        let Some(stored) = stored else {
            text.push_str(&format!("source {}: never read\n", source.name));
            continue;
        };
        let read = match stored.read.to_string() {
            read if read.is_empty() => "its log was empty".to_owned(),
            read => format!("read up to '{read}'"),
        };
        text.push_str(&format!("source {}: {read}\n", source.name));
        for (name, courier) in &stored.couriers {
            let state = if courier.is_tainted { ", given up: tainted" } else { "" };
            let behind = stored.next.saturating_sub(courier.cursor);
            text.push_str(&format!("  destination {name}: {behind} entries behind{state}\n"));
        }
    }
    Ok(text)
}

fn audit(config: &InvalidateConfig) -> Done {
    let code = if config.http.is_some() { UNUSABLE } else { USAGE };
    report::report(config).map_err(|words| (code, words))
}

fn clear(matches: &ArgMatches) -> Done {
    let args = ClearArgs::from_arg_matches(matches).map_err(|error| (USAGE, error.to_string()))?;
    let config = load(&args.file.config)?;
    let _lock = run::lock(&config.state).map_err(|halt| (halt.code, halt.words))?;
    let to = config.destinations.iter().find(|it| it.name == args.destination);
    if args.flush && to.is_some_and(|to| to.has_markers) {
        let words = "has markers, which must not be flushed: leave --flush out";
        return Err((USAGE, format!("{} {words}", args.destination)));
    }
    let text = match (&config.etcd, to) {
        (Some(etcd), Some(to)) => clear::clear_shared(
            &config,
            Office::new(etcd, "guira invalidate clear"),
            to,
            args.flush,
        ),
        _ => clear::clear(&config, &args.destination, args.flush),
    };
    match text.map_err(|words| (UNUSABLE, words))? {
        text if text.is_empty() => {
            Err((USAGE, format!("{} isn't given up by any source", args.destination)))
        }
        text => Ok(text),
    }
}

fn flush(matches: &ArgMatches) -> Done {
    let args = FlushArgs::from_arg_matches(matches).map_err(|error| (USAGE, error.to_string()))?;
    let config = load(&args.file.config)?;
    let name = &args.destination;
    let Some(to) = config.destinations.iter().find(|it| it.name == *name) else {
        let known: Vec<&str> = config.destinations.iter().map(|it| &*it.name).collect();
        let perhaps = guira_config::perhaps(name, &known);
        return Err((USAGE, format!("'{name}' is no destination{perhaps}")));
    };
    if to.has_markers {
        return Err((USAGE, format!("{name} has markers, which must not be flushed")));
    }
    let mut resender = Resender::new(to.clone());
    let done = if args.at_once { resender.flush_twice() } else { resender.flush_in_turn() };
    done.map_err(|words| (UNUSABLE, words))?;
    Ok(format!("destination {name}: all its servers are flushed\n"))
}

fn init(config: &InvalidateConfig) -> String {
    let mut text = String::new();
    for source in &config.sources {
        text.push_str(&format!("-- source {}\n", source.name));
        text.push_str(&source::init(source, &config.rules));
    }
    text
}

fn refuse(format: Format, words: &str, code: u8) -> ExitCode {
    guira_log::refuse(format, &format!("guira invalidate: {words}"));
    ExitCode::from(code)
}

/// Each exit code of `guira invalidate`, and when it is returned.
pub const EXIT_CODES: [(u8, &str); 5] = [
    (0, "ended by a signal; a subcommand did what it was asked"),
    (USAGE, "a flag, a configuration or a value that can't be used"),
    (
        UNUSABLE,
        "the state folder can't be used: another daemon has it, it is damaged, or its device fails; the port of `http` can't be had; a router doesn't answer (`check`, `replay`, `flush`), or refuses a delete (`replay`) or a flush (`flush`); no daemon answers at `http` (`audit`)",
    ),
    (
        source::BAD,
        "the database needs somebody: a gap in its log, a setting, a missing right or column, a wrong password, a certificate that isn't trusted; it can't be reached (`check`: `run` asks again until it is); a journal that lacks what a replay wants",
    ),
    (source::UNREADABLE, "the log has an event that can't be read"),
];

/// Each signal, and what the daemon does, for the documentation.
pub const SIGNALS: [(&str, &str); 3] = [
    (
        "SIGTERM, SIGINT, SIGUSR1",
        "delivers what may be sent, for 5 seconds at most, stores its position, and ends, exit code 0",
    ),
    (
        "SIGHUP",
        "reads the configuration again: other rules and destinations hold from then on; a bad file changes nothing, and neither does one that changes more. Passwords and certificates are read at each connection",
    ),
    ("SIGUSR2", "ignored"),
];

const USAGE: u8 = 1;
