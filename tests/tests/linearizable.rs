//! Histories of a replicated store behind `guira route`, recorded while its processes are killed, frozen and cut off: each
//! key is one register, whoever is asked.
//!
//! `make linearizable RUNS=200` records many long ones. `SEED=n` repeats the faults of one, `RUN_SECONDS=n` says how long.

use guira_tests::recorded::{Options, Summary, check, checker_sources, record};
use guira_tests::server::{own_directory, workspace};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect(name))
}

/// Records a history and has it checked. A wrong one is kept, and the words say how to check it again.
fn run(options: Options) -> Result<Summary, String> {
    let directory = own_directory();
    let path = directory.join("history.jsonl");
    let summary = record(options, &path).expect("the history can be written");
    let verdict = check(&path);
    eprint!("seed {}: {}", options.seed, verdict.said);
    if verdict.code == Some(0) {
        fs::remove_dir_all(directory).ok();
        return Ok(summary);
    }
    let kept = workspace().join("target/linearizable");
    fs::create_dir_all(&kept).expect("a directory");
    let hot = if options.is_hot { "-hot" } else { "" };
    let kept = kept.join(format!("seed-{}-routers-{}{hot}.jsonl", options.seed, options.routers));
    fs::copy(&path, &kept).expect("the history can be kept");
    let (again, kept) = (checker_sources(), kept.display());
    Err(format!("check it again: (cd {} && go run . {kept})\n{}", again.display(), verdict.said))
}

fn show(summary: &Summary) {
    eprintln!("{} operations, {} of unknown outcome", summary.operations, summary.unknown);
    for (words, count) in &summary.errors {
        eprintln!("  {count:6} × {words}");
    }
    for (phase, (count, longest)) in &summary.phases {
        eprintln!("  {count:4} × {phase}: the longest wait {:.3} s", longest.as_secs_f64());
    }
}

fn short(routers: usize) -> Options {
    let time = Duration::from_secs(number("GUIRA_RUN_SECONDS", 8));
    Options { seed: number("GUIRA_SEED", 1), routers, time: Some(time), is_hot: false }
}

/// Has one last read of a history tell of an item that was never written.
fn plant(path: &Path, wrong: &Path) {
    let text = fs::read_to_string(path).expect("a history");
    let (before, last) = text.trim_end().rsplit_once('\n').expect("more than one operation");
    assert!(last.contains("\"op\":\"get\""), "the last operation is a read: {last}");
    let (asked, _) = last.split_once("\"said\":").expect("it was answered");
    let planted = format!("{asked}\"said\":\"hit\",\"found\":\"planted\",\"unique\":999999999}}\n");
    fs::write(wrong, format!("{before}\n{planted}")).expect("a file");
}

#[test]
fn the_checker_finds_planted_violations() {
    let mut test = Command::new("go");
    test.args(["test", "-count=1", "./..."]).current_dir(checker_sources());
    let tested = test.output().expect("go runs (apt-get install golang-go)");
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(tested.status.success(), "{said}");
}

#[test]
fn each_key_is_one_register_through_one_router() {
    let directory = own_directory();
    let path = directory.join("history.jsonl");
    let summary = record(short(1), &path).expect("the history can be written");
    show(&summary);
    let verdict = check(&path);
    eprint!("{}", verdict.said);
    assert_eq!(verdict.code, Some(0), "{}", verdict.said);
    let wrong = directory.join("wrong.jsonl");
    plant(&path, &wrong);
    let verdict = check(&wrong);
    assert_eq!(verdict.code, Some(1), "{}", verdict.said);
    assert!(verdict.said.contains("hit planted"), "{}", verdict.said);
    fs::remove_dir_all(directory).ok();
}

#[test]
fn each_key_is_one_register_through_three_routers() {
    match run(short(3)) {
        Ok(summary) => show(&summary),
        Err(words) => panic!("{words}"),
    }
}

/// Routers that keep values of hot keys are one register all the same.
#[test]
fn each_key_is_one_register_through_routers_with_a_hot_cache() {
    for routers in [1, 3] {
        match run(Options { is_hot: true, ..short(routers) }) {
            Ok(summary) => show(&summary),
            Err(words) => panic!("{words}"),
        }
    }
}

/// A node that hangs has requests that it didn't read. When it goes on, others have long answered their repetitions.
#[test]
#[ignore = "a minute: make linearizable"]
fn a_node_that_hung_for_longer_than_results_are_kept_changes_nothing() {
    match run(Options { time: None, ..short(3) }) {
        Ok(summary) => show(&summary),
        Err(words) => panic!("{words}"),
    }
}

#[test]
#[ignore = "many runs of 20 seconds: make linearizable"]
fn many_histories_are_linearizable() {
    let (runs, seed) = (number("GUIRA_RUNS", 10), number("GUIRA_SEED", 1));
    let mut all = Summary::default();
    let mut wrong = Vec::new();
    for seed in seed..seed + runs {
        let routers = if seed % 2 == 0 { 1 } else { 3 };
        let time = Duration::from_secs(number("GUIRA_RUN_SECONDS", 20));
        // Each kind of run has routers with a hot cache and without.
        let is_hot = seed % 4 >= 2;
        match run(Options { seed, routers, time: Some(time), is_hot }) {
            Ok(summary) => all.add(&summary),
            Err(words) => {
                eprintln!("make linearizable RUNS=1 SEED={seed}, or {words}");
                wrong.push(seed);
            }
        }
    }
    show(&all);
    assert!(wrong.is_empty(), "{} of {runs} runs are wrong, with seeds {wrong:?}", wrong.len());
}
