//! The load generator as a program of its own, for those who build only this crate:
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
