//! Passes the commit of release builds to the program, so that results can name it.
//!
//! Debug builds don't ask for it: they would be rebuilt after each commit, and their figures shouldn't be trusted.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) else {
        return;
    };
    println!("cargo::rerun-if-changed={log}");
    println!("cargo::rerun-if-changed=src");
    if let Some(commit) =
        git(&["describe", "--always", "--dirty=, changed since", "--abbrev=12", "--exclude=*"])
    {
        println!("cargo::rustc-env=GUIRA_COMMIT={commit}");
    }
}
