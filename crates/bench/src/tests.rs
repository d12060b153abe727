//! Tests of complete runs, against a real memcached and against a server that lies on purpose.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use indicatif::ProgressBar;

use self::liar::{Liar, Lie};
use self::server::Memcached;
use crate::args::Command;
use crate::crew::Around;
use crate::{BenchArgs, BenchError, Filling, Row, RunResult, compare, memory, plain, report, run};

mod liar;
mod server;
mod wire;

fn parse(line: &str) -> BenchArgs {
    BenchArgs::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"))
}

fn with_around<T>(work: impl FnOnce(&Around<'_>) -> T) -> T {
    let interrupted = Arc::new(AtomicBool::new(false));
    work(&Around { pid: None, bar: &ProgressBar::hidden(), interrupted })
}

/// Executes a run without a subcommand.
fn outcome(line: &str) -> Result<RunResult, BenchError> {
    with_around(|around| plain(&parse(line), around))
}

fn comparison(line: &str) -> Result<Vec<Row>, BenchError> {
    let Some(Command::Compare(args)) = parse(line).command else { panic!("not a comparison") };
    with_around(|around| compare::run(&args, around))
}

fn filling(line: &str) -> Result<Filling, BenchError> {
    let Some(Command::Memory(args)) = parse(line).command else { panic!("not a filling") };
    with_around(|around| memory::run(&args, around))
}

#[test]
fn every_mix_in_every_loop_reads_what_was_written() {
    let server = Memcached::start(&["-m", "64"]);
    for mix in ["a", "b", "c", "d", "f", "set"] {
        for protocol in ["text", "meta"] {
            for (pace, ops) in [("", 3000), ("--busy", 300), ("--rate 1m", 3000)] {
                let run = outcome(&format!(
                    "bench --server {} --load --verify --keys 1000 --value-bytes 1-400 --ops {ops} \
                     --workload {mix} --protocol {protocol} {pace} --pipeline 7 --threads 2 \
                     --seconds 60",
                    server.address()
                ))
                .unwrap_or_else(|error| panic!("{mix} {protocol} {pace}: {error}"));
                let counts = &run.counts;
                assert_eq!(counts.misses, 0, "{mix} {protocol} {pace}");
                assert_eq!(counts.violations() + counts.refused, 0, "{mix} {protocol} {pace}");
                assert!(run.operations >= ops, "{mix} {protocol} {pace}: {}", run.operations);
                if mix != "set" || pace == "--busy" {
                    assert!(counts.checked > 100, "{mix} {protocol} {pace}");
                }
            }
        }
    }
}

#[test]
fn batches_over_tcp_and_unix_sockets_find_every_key() {
    let socket = Memcached::start(&[]);
    let tcp = Memcached::start_tcp(&[]);
    for address in [socket.address(), tcp.address()] {
        for protocol in ["text", "meta"] {
            for pace in ["", "--busy --count bytes", "--busy --count replies"] {
                let run = outcome(&format!(
                    "bench --server {address} --load --verify --keys 500 --workload c --batch 100 \
                     --distribution uniform --protocol {protocol} --ops 50 --seconds 60 {pace}"
                ))
                .unwrap_or_else(|error| panic!("{address} {protocol} {pace}: {error}"));
                // Up to one batch more per connection than asked for, because pipelines are sent completely.
                assert!((5000..5500).contains(&run.operations), "{}", run.operations);
                assert_eq!((run.counts.misses, run.counts.violations()), (0, 0));
            }
        }
    }
}

#[test]
fn misses_are_counted_and_make_busy_mode_look_at_replies() {
    let server = Memcached::start(&[]);
    let line = format!("bench --server {} --keys 1000 --workload c --ops 500", server.address());
    let closed = outcome(&line).unwrap();
    assert_eq!((closed.counts.misses, closed.counts.hits), (500, 0));
    let busy = outcome(&format!("{line} --busy --protocol meta")).unwrap();
    assert_eq!(busy.mode, "busy, counted by replies");
    assert!(busy.operations >= 500);
}

#[test]
fn a_value_too_large_for_the_server_is_refused_loudly() {
    let server = Memcached::start(&[]);
    let line = format!("bench --server {} --keys 10 --value-bytes 1100k", server.address());
    let load = outcome(&format!("{line} --load --ops 10")).unwrap_err();
    assert!(
        matches!(&load, BenchError::Refused { reply } if reply.contains("too large")),
        "{load}"
    );
    let run = outcome(&format!("{line} --workload set --ops 10")).unwrap();
    assert_eq!(run.counts.stored, 0);
    assert!(run.counts.refused >= 10 && run.counts.refusal.unwrap().contains("too large"));
}

#[test]
fn comparisons_have_every_row_server_and_round() {
    let (a, b) = (Memcached::start(&[]), Memcached::start(&[]));
    let rows = comparison(&format!(
        "bench compare a={}@{} b={}@{} --preset all --keys 200 --ops 200 --rounds 2 --seconds 60",
        a.address(),
        a.pid(),
        b.address(),
        b.pid()
    ))
    .unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert_eq!(row.servers.len(), 2);
        for server in row.servers {
            assert_eq!(server.rounds.len(), 2, "{}", row.row);
            assert_eq!((server.misses, server.violations), (0, 0), "{}", row.row);
            assert!(server.cpu_us.is_some() && server.rate.median > 0.0);
            assert!(server.rounds.iter().all(|it| it.mode == "busy, counted by bytes"));
        }
    }
}

#[test]
fn memory_is_divided_by_the_items_the_server_holds() {
    let server = Memcached::start(&["-m", "8"]);
    let place = format!("--server {} --server-pid {}", server.address(), server.pid());
    let some = filling(&format!("bench memory {place} --items 20k")).unwrap();
    assert_eq!((some.stored, some.items, some.evicted), (20_000, 20_000, false));
    let full = filling(&format!("bench memory {place}")).unwrap();
    assert!(full.evicted && full.items < full.stored);
    let bytes = full.bytes_an_item.unwrap();
    assert!(bytes > 48.0, "{bytes} bytes for 48 bytes of the user's");
    assert_eq!(report::notes(&full), ["the server evicts: it is full"]);
    let blind = format!("bench memory --server {} --items 1", server.address());
    let hint = "give --server-pid PID for the memory of the process";
    assert_eq!(report::notes(&filling(&blind).unwrap()).last(), Some(&hint));
}

#[test]
fn what_evicts_nothing_is_not_filled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 64]);
        socket.write_all(b"STAT curr_items 0\r\nEND\r\n").unwrap();
    });
    let error = filling(&format!("bench memory --server {address}")).unwrap_err().to_string();
    assert!(error.contains("a store evicts nothing, and guira stats store tells"), "{error}");
}

#[test]
fn each_lie_is_counted_under_its_name() {
    for protocol in ["text", "meta"] {
        for lie in [None, Some(Lie::OtherKey), Some(Lie::Torn), Some(Lie::Short)] {
            let liar = Liar::start(lie);
            let counts = outcome(&format!(
                "bench --server {} --load --verify --keys 100 --value-bytes 100 --workload a \
                 --ops 2000 --protocol {protocol}",
                liar.address()
            ))
            .unwrap()
            .counts;
            let seen = (counts.wrong_key > 0, counts.torn > 0, counts.wrong_length > 0);
            let told = |one| lie == Some(one);
            let truth = (told(Lie::OtherKey), told(Lie::Torn), told(Lie::Short));
            assert_eq!(seen, truth, "{lie:?} over {protocol}: {counts:?}");
        }
    }
}

#[test]
fn a_lie_ends_the_run_with_an_error() {
    let liar = Liar::start(Some(Lie::Torn));
    for pace in ["", "--busy"] {
        let line = format!(
            "bench --server {} --load --verify --keys 100 --value-bytes 100 --workload a --ops 5000 \
             --json {pace}",
            liar.address()
        );
        assert!(matches!(run(&parse(&line)), Err(BenchError::Violations(1..))), "{pace}");
    }
}

#[test]
fn a_stall_is_in_the_latency_of_every_request_that_it_delayed() {
    let liar = Liar::start(Some(Lie::Stall));
    let line = format!("bench --server {} --keys 10 --workload c -c 1", liar.address());
    // The liar sleeps for 300 ms at its thousandth request. At 2000 requests per second, 400 are due in
    // the first 200 ms of that, and each of them waits for at least 100 ms.
    let run = outcome(&format!("{line} --rate 2k --arrivals even --ops 2000 --seconds 60"));
    let latency = run.unwrap().read_latency.unwrap();
    assert!(latency.p90_us > 100_000.0, "{latency:?}");
    assert_eq!(latency.requests, 2000);
}

/// Requests that were due and not sent were all counted as reads: a run that only wrote had a row of reads.
#[test]
fn requests_that_were_not_sent_wait_among_those_of_their_kind() {
    let server = Memcached::start(&[]);
    // One connection that waits for each reply can't send a million requests a second.
    let run = |mix: &str| {
        let line = format!(
            "bench --server {} --keys 100 --workload {mix} -c 1 --rate 1m --ops 1m --seconds 0.3",
            server.address()
        );
        outcome(&line).expect("it answers")
    };
    let sets = run("set");
    assert_eq!(sets.read_latency, None);
    let writes = sets.write_latency.as_ref().expect("it wrote").requests;
    assert!(sets.unsent > 1000, "{}", sets.unsent);
    // The last request that was sent may be unanswered.
    assert!((0..=1).contains(&(writes - sets.unsent - sets.counts.stored)), "{sets:?}");
    let told = report::counts(&sets, false).join("\n");
    assert!(told.contains(&format!("{} requests were due and not sent", sets.unsent)), "{told}");

    let mixed = run("a");
    let requests = |latency: Option<crate::Summary>| latency.expect("both kinds").requests as f64;
    let share = requests(mixed.read_latency) / requests(mixed.write_latency);
    assert!((0.9..1.1).contains(&share), "half of them read: {share}");
}

#[test]
fn the_run_ends_with_an_error_when_the_server_goes_away() {
    for pace in ["", "--busy", "--rate 10k"] {
        let server = Memcached::start(&[]);
        let line = format!(
            "bench --server {} --keys 10 --workload set --seconds 60 {pace}",
            server.address()
        );
        std::thread::scope(|scope| {
            let run = scope.spawn(|| outcome(&line));
            server.wait_for_traffic();
            drop(server);
            assert!(matches!(run.join().unwrap(), Err(BenchError::Closed)), "{pace}");
        });
    }
}

#[test]
fn nobody_listening_is_said_with_the_address() {
    let error = outcome("bench --server unix:/nonexistent/socket --ops 1").unwrap_err();
    assert!(error.to_string().contains("unix:/nonexistent/socket"), "{error}");
}

#[test]
fn impossible_plans_are_refused_before_anything_is_sent() {
    for (flags, words) in [
        ("--keys 0", "--keys is 1 or more"),
        ("--keys 1m --key-bytes 6", "--key-bytes 6: keys are 2 to 250 bytes"),
        ("--theta 11", "--theta 11"),
        ("--batch 0", "--batch 1 to"),
        ("--seconds 0", "--seconds is above 0"),
        ("--seconds NaN", "--seconds is above 0"),
        ("--warmup NaN", "--warmup is from 0 to"),
    ] {
        let error = outcome(&format!("bench --server unix:/nonexistent {flags}")).unwrap_err();
        assert!(matches!(error, BenchError::Usage(_)), "{flags}: {error}");
        assert!(error.to_string().contains(words), "{flags}: {error}");
    }
}

/// A run of 493 operations reported 691 keys read: it had counted its warm-up as well. Another one of 398
/// reported 397: the reply that arrived as the warm-up ended was counted there, and reported after it.
#[test]
fn what_is_counted_is_what_was_measured() {
    let server = Memcached::start(&["-m", "64"]);
    for pace in ["", "--rate 2000"] {
        let line = format!(
            "bench --server {} --load --keys 1000 --warmup 1 --seconds 0.2 --workload b {pace}",
            server.address()
        );
        let run = outcome(&line).expect("it answers");
        let counted = |counts: &crate::Counts| counts.hits + counts.misses + counts.stored;
        let (measured, before) = (counted(&run.counts), counted(&run.warmup));
        // The last turn of each thread ends after the figure is taken.
        assert!(measured >= run.operations, "{measured} {}", run.operations);
        assert!(measured - run.operations < before, "{measured} {} {before}", run.operations);
        let told = report::counts(&run, true).join("\n");
        assert!(told.contains(&format!("{before} operations before that")), "{told}");
    }
}

#[test]
fn a_server_that_has_to_be_filled_first_is_told_of() {
    let server = Memcached::start(&["-m", "64"]);
    let told = |more: &str| {
        let line = format!("bench --server {} --keys 5000 --ops 2000 {more}", server.address());
        report::counts(&outcome(&line).expect("it answers"), more == "--load").join("\n")
    };
    assert!(told("").contains("--load stores all of them first"));
    let filled = told("--load");
    assert!(!filled.contains("many keys") && filled.contains(" 0 missed"), "{filled}");
}
