//! Truth under pressure: many connections on a cache that evicts all the time, every answer judged.
//!
//! `GUIRA_TORTURE_SECONDS` makes the runs against real servers longer (5 by default, 60 before a release),
//! `GUIRA_TORTURE_SEED` repeats one. The checker itself is tested by planting faults in a small server:
//! each must be seen, and memcached and the server without a fault must come out clean.

use guira_tests::server::{Address, Program, Server, own_directory};
use guira_tests::torture::mutant::{self, Fault};
use guira_tests::torture::{Kind, Options, Report, run};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect(name))
}

fn options() -> Options {
    Options {
        time: Duration::from_secs(number("GUIRA_TORTURE_SECONDS", 5)),
        seed: number("GUIRA_TORTURE_SEED", 1),
        ..Options::default()
    }
}

fn expect_truth(program: Program, flags: &[&str], options: Options) -> u64 {
    let mut server = Server::start(program, flags);
    let seed = options.seed;
    let report = run(server.address(), options);
    let said = server.said();
    assert!(server.is_running(), "it died: {said}");
    assert!(report.violations.is_empty(), "seed {seed}: {report:#?}");
    assert!(report.hits > 1_000 && report.misses > 100, "it wasn't put under pressure: {report:?}");
    let evictions = server.connect().stat("evictions");
    println!("{program:?} {flags:?}: {evictions} evictions, {report:?}");
    evictions
}

/// Guira's own slab classes, which a small server doesn't have by default.
const FINE: &[&str] = &["-m", "16", "-t", "4", "--slabs", "fine"];

#[test]
fn guira_tells_the_truth_while_it_evicts() {
    let evictions = expect_truth(Program::Guira, FINE, options());
    assert!(evictions > EVICTIONS_MIN, "only {evictions} items were evicted");
}

#[test]
fn guira_tells_the_truth_on_few_hot_keys() {
    let few =
        Options { registers: 20, shared: 2, value_bytes_max: 100_000, depth: 16, ..options() };
    expect_truth(Program::Guira, FINE, few);
}

#[test]
fn guira_tells_the_truth_while_pages_move_between_classes() {
    for flags in [FINE, &["-m", "64", "-t", "4", "--slabs", "memcached"]] {
        let mut server = Server::start(Program::Guira, flags);
        let (mut mover, address) = (server.connect(), server.address());
        let options = Options { time: Duration::from_secs(3), ..options() };
        let seed = options.seed;
        let is_over = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                // From the class with the most to each in turn, the pool between them.
                for to in (1..39).flat_map(|class| [class, 0]).cycle() {
                    mover.ask(&format!("slabs reassign -1 {to}"));
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let report = run(address, options);
            is_over.store(true, Ordering::Relaxed);
            report
        });
        assert!(server.is_running(), "it died: {}", server.said());
        assert!(report.violations.is_empty(), "seed {seed}: {report:#?}");
        let moved = server.connect().stat("slabs_moved");
        assert!(moved > 0, "no page moved");
    }
}

#[test]
fn memcached_passes_the_same_checker() {
    let options = Options { time: Duration::from_secs(3), ..options() };
    let evictions = expect_truth(Program::Memcached, &["-m", "16", "-t", "4"], options);
    assert!(evictions > EVICTIONS_MIN, "only {evictions} items were evicted");
}

/// Runs the checker against a server with one planted fault.
fn with_fault(fault: Fault, seconds: u64) -> Report {
    let dir = own_directory();
    let socket = dir.join("mutant");
    mutant::serve(&socket, fault);
    let options = Options {
        time: Duration::from_secs(seconds),
        // With few keys a fault is seen soon. An item that never expires is seen only if nobody overwrites it first.
        registers: if fault == Fault::Expired { 2_000 } else { 40 },
        shared: 3,
        value_bytes_max: 2_000,
        ..Options::default()
    };
    let report = run(&Address::Unix(socket), options);
    std::fs::remove_dir_all(dir).ok();
    report
}

#[test]
fn a_server_without_a_fault_comes_out_clean() {
    let report = with_fault(Fault::None, 3);
    assert!(report.violations.is_empty(), "{report:#?}");
    assert!(report.requests > 10_000, "{report:?}");
}

macro_rules! faults {
    ($($name:ident: $fault:ident is $($kind:ident)|+;)*) => {$(
        #[test]
        fn $name() {
            let report = with_fault(Fault::$fault, 30);
            let first = report.violations.first();
            let seen = matches!(first.map(|v| v.kind), Some($(Kind::$kind)|+));
            assert!(seen, "{:?} was not seen: {report:#?}", Fault::$fault);
        }
    )*};
}

// A fault may show first in what a client does next: a stale read of a cell lets it swap by an old number, a bit
// turned in a list or a counter reads as an entry or a number that is lost, doubled, old or of the future.
faults! {
    a_torn_value_is_seen: Torn is Torn | Stale | Future;
    a_turned_bit_is_seen: Bitflip is Torn | WrongKey | OutOfStep | Stale | Future | LostAppend | DoubleAppend;
    another_keys_value_is_seen: WrongKey is WrongKey | Torn | Stale | Future | LostAppend | DoubleAppend | LostCas;
    a_reply_under_another_name_is_seen: SwappedReply is OutOfStep;
    a_short_length_is_seen: ShortLength is Torn | Stale | LostAppend;
    a_dropped_reply_is_seen: DroppedReply is OutOfStep;
    a_stale_read_is_seen: StaleRead is Stale | LostAppend | Resurrected | LostCas;
    a_lost_set_is_seen: LostSet is Stale | Resurrected;
    a_lost_delete_is_seen: LostDelete is Stale;
    a_lost_cas_is_seen: LostCas is LostCas | Stale;
    a_lost_increment_is_seen: LostIncrement is LostIncrement | Stale;
    a_lost_append_is_seen: LostAppend is LostAppend;
    a_doubled_append_is_seen: DoubleAppend is DoubleAppend;
    a_resurrected_value_is_seen: Resurrected is Resurrected;
    a_value_past_its_time_is_seen: Expired is Expired;
}

/// What tells a run under pressure from one that never filled the cache; on a busy machine five seconds bring few hundreds.
const EVICTIONS_MIN: u64 = 100;
