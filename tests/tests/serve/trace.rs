//! The server beside the simulator: a trace replayed over the wire misses as often as the policy says it should.

use guira_tests::server::{Address, Program, Server, guira};
use std::process::Command;

/// The last number of the table's row of that name.
fn figure(table: &str, row: &str) -> f64 {
    let line = table.lines().find(|line| line.trim_start().starts_with(row)).unwrap_or_else(|| {
        panic!("no row {row} in\n{table}");
    });
    line.split_whitespace().last().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// One point is what the documents promise; the tuner beside the requests moves S3-CLOCK by some tenths.
#[test]
fn each_eviction_misses_as_the_simulation_says() {
    for eviction in ["s3-clock", "clock", "sieve", "lru"] {
        let flags = ["-m", "4", "-t", "1", "--slabs", "fine", "--eviction", eviction];
        let server = Server::start(Program::Guira, &flags);
        let Address::Unix(path) = server.address() else { panic!("not on a unix socket") };
        let address = format!("unix:{}", path.display());
        let replayed = Command::new(guira())
            .args(["lab", "trace", "zipf:0.9:60000:200000", "--server", &address])
            .args(["--value-bytes", "200", "--policy", eviction])
            .output()
            .expect("guira runs");
        let table = String::from_utf8_lossy(&replayed.stdout).into_owned();
        assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
        let difference = figure(&table, &format!("{eviction} "));
        assert!(difference.abs() < 1.0, "--eviction {eviction}: {difference} points\n{table}");
        assert!(!table.contains("Nothing was evicted"), "{table}");
    }
}
