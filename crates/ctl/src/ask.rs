//! One request each, with the reply on standard output.

use std::fmt;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use guira_client::{Client, Expiry, Failure, Got, Outcome, Stat};
use serde::Serializer as _;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::args::{Delete, Get, Incr, Key, Ping, Server, Set, Stats, bytes};
use crate::trouble::Trouble;

pub(crate) async fn ping(args: &Ping) -> Result<(), Trouble> {
    let Server { server, timeout, .. } = &args.server;
    let until = Instant::now() + args.wait.unwrap_or_default();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let deadline = args.wait.map_or(*timeout, |_| left.min(*timeout).max(DEADLINE_MIN));
        match version(&args.server.client(deadline)?).await {
            Ok((version, took)) => {
                let ms = took.as_secs_f64() * 1e3;
                return print(format_args!("{server} answers in {ms:.2} ms: version {version}\n"));
            }
            Err(failure) if left.is_zero() => return Err(Trouble::of(server)(failure)),
            Err(_) => sleep(PAUSE.min(left)).await,
        }
    }
}

/// Returns the server's version, and how long the reply took over an established connection.
async fn version(client: &Client) -> Result<(String, Duration), Failure> {
    let ask = async || {
        let none = Failure { outcome: Outcome::LocalError, message: String::new() };
        client.version().await.pop().map_or(Err(none), |(_, version)| version)
    };
    ask().await?;
    let asked = Instant::now();
    Ok((ask().await?, asked.elapsed()))
}

pub(crate) async fn get(args: &Get) -> Result<(), Trouble> {
    let Server { server, timeout, .. } = &args.server;
    match args.server.client(*timeout)?.get(&args.key.0).await {
        Got::Hit(item) => {
            let mut out = io::stdout().lock();
            let end: &[u8] = if out.is_terminal() { b"\n" } else { b"" };
            let written = out.write_all(&item.value).and_then(|()| out.write_all(end));
            written.and_then(|()| out.flush()).map_err(output)
        }
        Got::Miss => Err(absent(&args.key)),
        Got::Failed(failure) => Err(Trouble::of(server)(failure)),
    }
}

pub(crate) async fn set(args: &Set) -> Result<(), Trouble> {
    let Server { server, timeout, .. } = &args.server;
    let value = match bytes(&args.value) {
        b"-" => {
            let mut value = Vec::new();
            let read = io::stdin().lock().read_to_end(&mut value);
            read.map_err(|error| Trouble::Stream("standard input", error))?;
            value
        }
        value => value.to_vec(),
    };
    let expiry = args.ttl.map_or(Expiry::Never, Expiry::In);
    let stored = args.server.client(*timeout)?.set(&args.key.0, value, expiry).await;
    stored.map_err(Trouble::of(server))
}

pub(crate) async fn delete(args: &Delete) -> Result<(), Trouble> {
    let Server { server, timeout, .. } = &args.server;
    let deleted = args.server.client(*timeout)?.delete(&args.key.0).await;
    match deleted.map_err(Trouble::of(server))? {
        true => Ok(()),
        false => Err(absent(&args.key)),
    }
}

pub(crate) async fn incr(args: &Incr) -> Result<(), Trouble> {
    let Server { server, timeout, .. } = &args.server;
    let (client, key, by) = (args.server.client(*timeout)?, &args.key, args.by.unsigned_abs());
    let counted = match args.by {
        0.. => client.incr(&key.0, by).await,
        _ => client.decr(&key.0, by).await,
    };
    match counted.map_err(Trouble::of(server))? {
        Some(number) => print(format_args!("{number}\n")),
        None => Err(absent(key)),
    }
}

pub(crate) async fn stats(args: &Stats) -> Result<(), Trouble> {
    let Server { server, timeout, .. } = &args.server;
    let client = args.server.client(*timeout)?;
    let name = args.name.join(" ");
    let stats = client.stats(&name).await.pop().map_or(Ok(Vec::new()), |all| all.1);
    let stats = stats.map_err(|failure| match is_about_the_name(&failure) && !name.is_empty() {
        true => Trouble::NoStatistics(server.clone(), name),
        false => Trouble::of(server)(failure),
    })?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = if args.json {
        json(&mut out, &stats)
    } else {
        stats.iter().try_for_each(|(name, value)| writeln!(out, "{name} {value}"))
    };
    written.and_then(|()| out.flush()).map_err(output)
}

/// Whether a server refused to tell statistics because it has none of that name: servers say `ERROR`, routers
/// that the command is bad.
fn is_about_the_name(failure: &Failure) -> bool {
    match failure.outcome {
        Outcome::BadCommand => !failure.is_for_room(),
        Outcome::ClientError => failure.message.contains("bad stats command"),
        _ => false,
    }
}

/// Writes one object in the server's order; values that are numbers become JSON numbers.
fn json(out: &mut impl io::Write, stats: &[Stat]) -> io::Result<()> {
    let value = |text: &String| match serde_json::from_str(text) {
        Ok(number @ Value::Number(_)) => number,
        _ => Value::from(text.as_str()),
    };
    let mut lines = serde_json::Serializer::pretty(&mut *out);
    lines.collect_map(stats.iter().map(|(name, text)| (name, value(text))))?;
    writeln!(out)
}

fn absent(key: &Key) -> Trouble {
    Trouble::Not(format!("{} is not there", String::from_utf8_lossy(&key.0)))
}

fn print(line: fmt::Arguments<'_>) -> Result<(), Trouble> {
    io::stdout().lock().write_fmt(line).map_err(output)
}

/// The error of output that couldn't be written.
pub(crate) fn output(error: io::Error) -> Trouble {
    Trouble::Stream("standard output", error)
}

/// The pause between two attempts of `--wait`.
const PAUSE: Duration = Duration::from_millis(50);

/// The least time for the last attempt of `--wait`.
const DEADLINE_MIN: Duration = Duration::from_millis(50);
