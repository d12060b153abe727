//! Writes results to standard output, and progress to standard error.

use std::cell::Cell;
use std::io::{self, Write};

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{ContentArrangement, LineStyle, Table};
use indicatif::{ProgressBar, ProgressStyle};

/// Writes to standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes to standard error. Failures are ignored.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Creates an empty table with these headings.
pub(crate) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(head);
    table
}

/// The progress of an experiment: a bar on a terminal, otherwise a line at each quarter.
pub(crate) struct Progress {
    name: String,
    bar: ProgressBar,
    quarters: Cell<u32>,
}

impl Progress {
    /// Creates the progress of the experiment `name`, the `number`th of `all`.
    pub(crate) fn new(name: &str, number: usize, all: usize) -> Self {
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} %  {msg}")
            .expect("the template is a constant");
        let bar = ProgressBar::new(PARTS).with_style(style);
        let name = format!("[{number}/{all}] {name}");
        bar.set_prefix(name.clone());
        let progress = Self { name, bar, quarters: Cell::new(0) };
        progress.line("begun");
        progress
    }

    /// Sets the share that is done, from 0 to 1; `doing` is what comes next.
    pub(crate) fn at(&self, share: f64, doing: &str) {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.bar.set_position(whole(share * PARTS as f64));
        self.bar.set_message(doing.to_owned());
        let quarters = u32::try_from(whole(share * 4.0)).unwrap_or(4);
        if quarters > self.quarters.get() && quarters < 4 {
            self.quarters.set(quarters);
            self.line(&format!("{:3} %  {doing}", quarters * 25));
        }
    }

    /// Prints a separate line of text.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| note(&format!("{}  {text}", self.name)));
    }

    /// Ends the progress with this result.
    pub(crate) fn end(self, result: &str) {
        self.bar.finish_and_clear();
        self.say(result);
    }

    /// Prints a line if there is no bar.
    fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            self.say(text);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "between 0 and 1000")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// Steps of the bar.
const PARTS: u64 = 1000;
