//! The load generator as a separate program, for builds of this crate alone:
//! `cargo run --release -p guira-bench --example load -- --help`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match guira_bench::run(&guira_bench::BenchArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let usage = matches!(error, guira_bench::BenchError::Usage(_));
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}
