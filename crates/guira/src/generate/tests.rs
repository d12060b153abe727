//! Tests of completions: in each shell, each flag with a closed set of values offers them.
//!
//! The expected values come from the same declarations as the completions. bash, which is installed
//! everywhere, is asked as a user would ask it. For zsh and fish, the scripts are parsed.

use super::*;
use clap::builder::PossibleValue;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command as Process, Stdio};

/// A flag that takes only certain values.
#[derive(Debug)]
struct Closed {
    /// The words of the command, beginning with `guira`.
    command: Vec<String>,
    long: String,
    values: Vec<PossibleValue>,
}

impl Closed {
    /// Returns all such flags of all commands.
    fn all() -> Vec<Closed> {
        let mut root = crate::commands::guira();
        root.build();
        let mut found = Vec::new();
        collect(&root, &[], &mut found);
        found
    }

    fn names(&self) -> Vec<&str> {
        self.values.iter().map(PossibleValue::get_name).collect()
    }

    /// The command and the flag, as typed.
    fn typed(&self) -> String {
        format!("{} --{}", self.command.join(" "), self.long)
    }
}

fn collect(command: &Command, above: &[String], found: &mut Vec<Closed>) {
    let words = [above, &[command.get_name().to_owned()]].concat();
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long().filter(|_| arg.get_action().takes_values()) else {
            continue;
        };
        let values = arg.get_possible_values();
        if !values.is_empty() {
            found.push(Closed { command: words.clone(), long: long.to_owned(), values });
        }
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        collect(below, &words, found);
    }
}

fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::commands::guira(), "guira", &mut script);
    String::from_utf8(script).expect("UTF-8")
}

#[test]
fn choices_are_closed_sets() {
    let typed: Vec<String> = Closed::all().iter().map(Closed::typed).collect();
    let choices = [
        "guira serve --eviction",
        "guira serve --slabs",
        "guira serve --index",
        "guira serve --protocol",
        "guira serve --log-format",
        "guira route --log-format",
        "guira route --validate-config",
        "guira bench --preset",
        "guira bench --workload",
        "guira bench compare --preset",
        "guira lab run --scale",
        "guira lab trace --policy",
        "guira lab trace --format",
    ];
    let open: Vec<&str> =
        choices.into_iter().filter(|choice| !typed.iter().any(|it| it == choice)).collect();
    assert!(open.is_empty(), "{open:?} are not among {typed:#?}");
}

#[test]
fn bash_completes_each_choice() {
    let all = Closed::all();
    let mut script = completions(Shell::Bash);
    // bash passes these for a word after a flag: the command, the typed part of the word, and the word before.
    script.push_str(
        "\nask() { COMP_WORDS=(\"$@\" ''); COMP_CWORD=$#; _guira guira '' \"${@: -1}\"; echo \"${COMPREPLY[*]}\"; }\n",
    );
    for closed in &all {
        let _ = writeln!(script, "ask {}", closed.typed());
    }
    let mut bash = Process::new("bash")
        .args(["--norc", "--noprofile", "-s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash is there");
    bash.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("bash reads");
    let output = bash.wait_with_output().expect("bash ends");
    let answers = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), all.len(), "{answers:#?}");
    for (closed, answer) in all.iter().zip(answers) {
        assert_eq!(answer, closed.names().join(" "), "{}", closed.typed());
    }
}

#[test]
fn zsh_completes_each_choice() {
    let script = completions(Shell::Zsh);
    let offered: Vec<(&str, Vec<&str>)> = script.split("\n'").filter_map(offer_of_zsh).collect();
    let all = Closed::all();
    for closed in &all {
        // The script doesn't name an argument's command, so the numbers of equal arguments are compared
        // with those in the tree.
        let of_zsh =
            offered.iter().filter(|(long, names)| *long == closed.long && *names == closed.names());
        let same = |other: &&Closed| other.long == closed.long && other.names() == closed.names();
        assert_eq!(of_zsh.count(), all.iter().filter(same).count(), "{}", closed.typed());
    }
}

/// Returns the flag and the values of an argument in zsh's form: `--long=[help]:NAME:(one two)` or, for
/// values with help, `((one\:"help"` with one line per value.
fn offer_of_zsh(argument: &str) -> Option<(&str, Vec<&str>)> {
    let (long, rest) = argument.trim_start_matches('*').strip_prefix("--")?.split_once("=[")?;
    let names = match rest.split_once("((") {
        Some((_, list)) => {
            list.lines().filter_map(|line| Some(line.split_once("\\:")?.0)).collect()
        }
        None => rest.rsplit_once('(')?.1.split(')').next()?.split(' ').collect(),
    };
    Some((long, names))
}

#[test]
fn fish_completes_each_choice() {
    let script = completions(Shell::Fish);
    for closed in Closed::all() {
        let place = match &closed.command[1..] {
            [first] => vec![format!("__fish_guira_using_subcommand {first}")],
            [first, second] => vec![
                format!("__fish_guira_using_subcommand {first}; and"),
                format!("and __fish_seen_subcommand_from {second}\""),
            ],
            deeper => panic!("fish completes no {deeper:?}"),
        };
        let values = closed.names().into_iter().map(|name| format!("{name}\\t'"));
        let expected: Vec<String> =
            place.into_iter().chain([format!(" -l {} ", closed.long)]).chain(values).collect();
        let is_offered = |line: &str| expected.iter().all(|part| line.contains(part));
        assert!(script.split("\ncomplete ").any(is_offered), "{}: {expected:?}", closed.typed());
    }
}
