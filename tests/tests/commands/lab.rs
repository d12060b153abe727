//! `guira lab` from outside: what it says to those who don't know its names yet.

use guira_tests::server::{guira, own_directory};
use std::fs;
use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    Command::new(guira()).arg("lab").args(arguments).output().expect("guira runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The ids of the list's rows.
fn ids() -> Vec<String> {
    let output = lab(&["list"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = text(&output.stdout);
    let words = rows.lines().filter_map(|line| line.split_whitespace().next());
    words.filter(|word| word.contains('-') && word.is_ascii()).map(Into::into).collect()
}

#[test]
fn the_list_has_experiments_and_the_long_one_their_claims() {
    let ids = ids();
    assert!(ids.iter().any(|id| id.starts_with("memc3-")), "{ids:?}");
    let long = text(&lab(&["list", "--long"]).stdout);
    assert_eq!(long.matches("claim:").count(), ids.len());
    assert_eq!(long.matches("must show:").count(), ids.len());
}

#[test]
fn an_experiment_that_does_not_exist_is_answered_with_the_nearest() {
    let id = &ids()[0];
    let output = lab(&["run", &format!("{id}x")]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains(&format!("did you mean \"{id}\"?")), "{error}");
    assert!(error.contains("guira lab list"), "{error}");
}

#[test]
fn help_teaches_by_examples() {
    for arguments in [&["--help"][..], &["run", "--help"], &["report", "--help"]] {
        let help = text(&lab(arguments).stdout);
        assert!(help.contains("Examples:\n  guira lab "), "{arguments:?}: {help}");
    }
}

#[test]
fn a_report_of_nothing_says_what_to_run() {
    let directory = own_directory();
    let output = lab(&["report", "--out", &directory.to_string_lossy()]);
    fs::remove_dir_all(directory).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("guira lab run all"), "{}", text(&output.stderr));
}
