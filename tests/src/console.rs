//! The commands on a page, run as a reader would type them, and what they print compared with what the page shows.
//!
//! ```text
//! page      a page's blocks and the marks before them
//! matching  may this output stand where the page shows that one?
//! shell     one bash per page, in a fresh directory and a network of its own
//! ```
//! A ` ```sh ` block is for copying: each command must succeed, and what it prints is not compared. A ` ```console ` block
//! shows commands after `$ ` and their output below; a command without output below must print nothing.
//!
//! # Marks
//! A comment that readers don't see, `<!-- test: MARK -->`, before a block or, for `given`, anywhere:
//!
//! | mark | effect |
//! |---|---|
//! | `skip REASON` | the next block is not run; the test counts and lists it |
//! | `numbers vary` | in the next block a number stands for any number |
//! | `stays` | the last command of the next block goes on, as in a terminal of its own; `$terminal` is its process |
//! | `file NAME` | the next block, of any language, is written to NAME |
//! | `given COMMAND` | what the page expects to be there: this command makes it |
//!
//! # Invariants
//! 1. Each block of the two languages is run or listed as skipped; an unknown mark is an error.
//! 2. What a command prints later, in the background, goes to a file of its own: it can't get into another's output.
//! 3. Everything that a page starts ends with its shell.
//!
//! # Weaknesses
//! Of a pipeline only the last command must succeed.
//! A program that a page starts as a daemon leaves the shell's process group, and stays. Exit codes of a console block are
//! not compared, because a reader doesn't see them.

mod matching;
mod page;
mod shell;

pub use matching::matches;
pub use page::{Step, steps};
pub use shell::{Place, Ran, Shell};

use std::fs;
use std::thread;
use std::time::Duration;

/// How often the output of a program in the background is looked at, 20 ms apart, until it is what the page shows.
const LOOKS: usize = 3000;

/// What a page's commands came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Commands and blocks that were run.
    pub run: usize,
    /// Blocks that were not run: their line and the reason.
    pub skipped: Vec<(usize, String)>,
}

/// Runs the commands of the page `text` at `place`.
///
/// # Errors
/// The line of the first command whose output is not the page's, with both outputs.
pub fn check(text: &str, place: Place) -> Result<Outcome, String> {
    let steps = steps(text)?;
    let mut outcome = Outcome::default();
    if steps.iter().all(|step| matches!(step, Step::Skipped { .. } | Step::File { .. })) {
        outcome.skipped = steps.into_iter().filter_map(skipped).collect();
        return Ok(outcome);
    }
    let mut shell = Shell::start(place)?;
    for step in steps {
        let line = step.line();
        let done = perform(&mut shell, &step, &mut outcome);
        done.map_err(|why| format!("line {line}: {why}"))?;
    }
    Ok(outcome)
}

fn skipped(step: Step) -> Option<(usize, String)> {
    match step {
        Step::Skipped { line, reason } => Some((line, reason)),
        _ => None,
    }
}

fn perform(shell: &mut Shell, step: &Step, outcome: &mut Outcome) -> Result<(), String> {
    match step {
        Step::Skipped { line, reason } => outcome.skipped.push((*line, reason.clone())),
        Step::File { name, text, .. } => {
            fs::write(shell.directory().join(name), text)
                .map_err(|why| format!("{name}: {why}"))?;
        }
        Step::Copied { script, stays, .. } => {
            outcome.run += 1;
            let ran = shell.run(script, *stays)?;
            if let Some(failed) = &ran.failed {
                return Err(format!("{failed}; it printed\n{}", ran.output()));
            }
        }
        Step::Shown { command, shown, numbers_vary, stays, .. } => {
            outcome.run += 1;
            let ran = shell.run(command, *stays)?;
            let is_shown = |ran: &Ran| matches(shown, &ran.output(), *numbers_vary);
            for _ in 0..if ran.goes_on { LOOKS } else { 0 } {
                if is_shown(&ran) {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
            if !is_shown(&ran) {
                let output = ran.output();
                return Err(format!("`{command}`, the page shows\n{shown}and it prints\n{output}"));
            }
        }
    }
    Ok(())
}
