//! `guira`: one program with a subcommand for each of its functions.
//!
//! Under the name `memcached` it takes memcached's command line unchanged and serves; under the name
//! `mcrouter` it takes mcrouter's and routes. In unit files, container commands and scripts, only the
//! target of the name has to change.

#![forbid(unsafe_code)]

mod commands;
mod generate;
mod reference;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, FromArgMatches};
use guira_serve::Flags;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Requests, replies and buffers are allocated by the million; the server's items have a separate
/// mapping. Huge pages are not used: with them, a server with few items is ten to twenty megabytes
/// larger.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    end_without_a_reader();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let name = arguments
        .first()
        .and_then(|path| Path::new(path).file_name())
        .map_or_else(|| "guira".to_owned(), |name| name.to_string_lossy().into_owned());
    let is_server = ["memcached", "memcached-debug", "mcrouter"].contains(&name.as_str());
    if is_server
        || arguments.get(1).is_some_and(|it| it == "serve" || it == "route" || it == "store")
    {
        purge_early(&arguments);
    }
    if name == "memcached" || name == "memcached-debug" {
        return as_memcached(&arguments, &name);
    }
    if name == "mcrouter" {
        return as_mcrouter(&arguments);
    }
    let is_ctl = arguments.get(1).and_then(|it| it.to_str()).is_some_and(guira_ctl::is_command);
    let matches = match commands::guira().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        // For these commands, exit code 1 means a miss.
        Err(error) if is_ctl && error.use_stderr() => {
            usage(error);
            return ExitCode::from(guira_ctl::USAGE);
        }
        Err(error) => return usage(error),
    };
    if let Some((name, matches)) = matches.subcommand()
        && let Some(code) = guira_ctl::run(name, matches)
    {
        return code;
    }
    let done = match matches.subcommand() {
        Some(("serve", matches)) => return serve(matches, &name),
        Some(("route", matches)) => return guira_route::run("route", matches),
        Some(("store", matches)) => return guira_node::run(matches),
        Some(("cluster", matches)) => return guira_cluster::run(matches),
        Some(("invalidate", matches)) => return guira_invalidate::run_command(matches),
        Some(("replay", matches)) => return guira_route::replay(matches),
        Some(("bench", matches)) => bench(matches),
        Some(("lab", matches)) => lab(matches),
        Some(("plan", matches)) => plan(matches),
        Some(("generate", matches)) => generate::run(matches, commands::guira()),
        _ => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guira: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Makes mimalloc return freed memory to the system early: a long buffer at once, the rest after a
/// millisecond instead of a second. To that end the program starts itself again in the same process,
/// because the allocator reads its settings before `main`.
///
/// A router frees what passes through it. With long values, what it frees within a second is more than
/// all clients together may use: 20 clients that set 30 MB each took it to 530 MB, of which 290 were
/// used. The millisecond's delay only ends with the next page that is freed, which may come late if each
/// page is a long value: 12 clients that set 20 MB took 50 MB more than were used. A long buffer is
/// therefore a separate mapping, which is unmapped when it is freed.
///
/// A server's input buffers grow while a long line arrives, and each growth frees the former buffer. 100
/// clients with 8 MB each took `serve -m 1024` to 250 MB, of which it used 104. The memory was kept after
/// the clients had left.
///
/// The allocator also keeps metadata for the address space that it reserves, by default a gigabyte at a
/// time. With a sixteenth of that, the metadata are 150 kB smaller, a tenth of a byte per item of a
/// server with `-m 64`.
///
/// Settings in the operator's environment are left alone. If the program can't be started again, it continues as it is.
fn purge_early(arguments: &[OsString]) {
    use std::os::unix::process::CommandExt as _;
    if ALLOCATOR_SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return;
    }
    let (Some(name), Ok(program)) = (arguments.first(), std::env::current_exe()) else { return };
    let mut again = std::process::Command::new(program);
    let _ = again.arg0(name).args(&arguments[1..]).envs(ALLOCATOR_SETTINGS).exec();
}

/// The delay in milliseconds, the largest object that is kept, and the address space reserved at a time.
const ALLOCATOR_SETTINGS: [(&str, &str); 3] = [
    ("MIMALLOC_PURGE_DELAY", "1"),
    ("MIMALLOC_ARENA_MAX_OBJECT_SIZE", "4M"),
    ("MIMALLOC_ARENA_RESERVE", "64M"),
];

/// Makes output that can't be written end the program without a panic. If the reader has closed the pipe,
/// as `head` does, the program ends quietly; any other error, such as a full disk, is reported by a
/// sentence.
///
/// `print!` reports errors only by a panic. No thread of a server prints to standard output.
fn end_without_a_reader() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let words =
            panic.payload_as_str().and_then(|w| w.strip_prefix("failed printing to stdout: "));
        match words {
            Some(words) if words.starts_with("Broken pipe") => std::process::exit(0),
            Some(words) => {
                // Standard error may be closed as well.
                let _ = writeln!(io::stderr(), "guira: standard output: {words}");
                std::process::exit(1)
            }
            None => report(panic),
        }
    }));
}

/// Runs as memcached: no subcommand, and memcached's exit codes.
fn as_memcached(arguments: &[OsString], name: &str) -> ExitCode {
    match commands::memcached().try_get_matches_from(arguments) {
        Ok(matches) => serve(&matches, name),
        Err(error) => usage(error),
    }
}

/// Runs as mcrouter: no subcommand.
fn as_mcrouter(arguments: &[OsString]) -> ExitCode {
    match guira_route::command("mcrouter").try_get_matches_from(arguments) {
        Ok(matches) => guira_route::run("mcrouter", &matches),
        Err(error) => usage(error),
    }
}

/// Prints the error in a command line, or the help that it asked for.
fn usage(mut error: clap::Error) -> ExitCode {
    // A tip to write `-- --typo` would turn a typo into an argument that is ignored.
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    // Where other programs have them.
    let unknown = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string);
    if matches!(unknown.as_deref(), Some("completions" | "completion")) {
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = StyledStr::from("guira generate completions SHELL prints them");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    let printed = error.print();
    if error.use_stderr() {
        return ExitCode::FAILURE;
    }
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            // Standard error may be closed as well.
            let _ = writeln!(io::stderr(), "guira: standard output: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn serve(matches: &ArgMatches, name: &str) -> ExitCode {
    let flags = match Flags::from_arg_matches(matches) {
        Ok(flags) => flags,
        Err(error) => return usage(error),
    };
    if flags.license {
        println!(
            "Guira is free software under the MIT licence or the Apache licence 2.0, as you choose."
        );
        return ExitCode::SUCCESS;
    }
    match guira_serve::run(&flags, name) {
        Ok(code) => ExitCode::from(code),
        Err(refusal) => {
            refusal.say(flags.log_format);
            ExitCode::from(refusal.code)
        }
    }
}

fn bench(matches: &ArgMatches) -> anyhow::Result<()> {
    let arguments = guira_bench::BenchArgs::from_arg_matches(matches)?;
    Ok(guira_bench::run(&arguments)?)
}

fn lab(matches: &ArgMatches) -> anyhow::Result<()> {
    guira_lab::run(&guira_lab::LabArgs::from_arg_matches(matches)?)
}

fn plan(matches: &ArgMatches) -> anyhow::Result<()> {
    let plan = match matches.subcommand() {
        Some((_, matches)) => {
            guira_route::plan::regional::plan(&FromArgMatches::from_arg_matches(matches)?)?
        }
        None => guira_route::plan::command::plan(&FromArgMatches::from_arg_matches(matches)?)?,
    };
    println!("{plan}");
    Ok(())
}
