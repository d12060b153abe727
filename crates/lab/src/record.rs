//! What is stored of a run: `ID.json`, from which the pages are made.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::scale::Scale;

/// A run of one experiment: its circumstances and what it found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The experiment's id.
    pub(crate) id: String,
    /// How large it was.
    pub(crate) scale: Scale,
    /// Where its random numbers began.
    pub(crate) seed: u64,
    /// The command that does the same.
    pub(crate) command: String,
    /// Guira's version.
    pub(crate) version: String,
    /// The commit of the build, if it is a release build from a repository.
    pub(crate) commit: Option<String>,
    /// What it ran on.
    pub(crate) machine: Machine,
    /// How long it took, the earlier attempts left out, seconds.
    pub(crate) duration_s: f64,
    /// Processor time of all its threads meanwhile, seconds.
    pub(crate) cpu_s: f64,
    /// Processes that wanted a processor in the minute before, on average; those of an experiment before it count too.
    pub(crate) load_before: Option<f64>,
    /// How often it was run until its checks held or attempts ran out: the outcome is the last one's.
    pub(crate) attempts: u32,
    /// The checks that failed in the attempts before the last, with their figures.
    pub(crate) failed_before: Vec<String>,
    /// What it found.
    pub(crate) outcome: Outcome,
}

impl Record {
    /// Writes it as JSON.
    ///
    /// # Errors
    /// If the file can't be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads what was written; `None` if nothing was.
    ///
    /// # Errors
    /// If the file can't be read or isn't a record of this version.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        match fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
            Ok(text) => serde_json::from_str(&text).map(Some).with_context(|| {
                format!("{} isn't a result of this version: run it again", path.display())
            }),
        }
    }

    /// How many checks hold, of how many.
    pub(crate) fn checks_held(&self) -> (usize, usize) {
        let checks = &self.outcome.checks;
        (checks.iter().filter(|check| check.holds()).count(), checks.len())
    }
}

/// Names of the files of `id`'s `plots` plots: `ID.svg`, `ID-2.svg`, …
pub(crate) fn plot_files(id: &str, plots: usize) -> impl Iterator<Item = String> {
    (1..=plots).map(move |n| if n == 1 { format!("{id}.svg") } else { format!("{id}-{n}.svg") })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::planted::outcome;

    /// A record of a run that measured 2.
    pub(crate) fn record(id: &str) -> Record {
        Record {
            id: id.into(),
            scale: Scale::Small,
            seed: 7,
            command: format!("guira lab run {id} --scale small --seed 7"),
            version: "0.1.0".into(),
            commit: Some("0123456789ab".into()),
            machine: Machine {
                cpu: "Some CPU".into(),
                cores: 2,
                memory_bytes: 8 << 30,
                kernel: "Linux 6".into(),
                huge_pages: "madvise".into(),
            },
            duration_s: 1.25,
            cpu_s: 1.75,
            load_before: Some(0.25),
            attempts: 1,
            failed_before: Vec::new(),
            outcome: outcome(2.0),
        }
    }

    #[test]
    fn what_is_written_is_read_back_even_if_it_is_no_number() {
        let mut written = record("a");
        written.outcome.checks[0].measured = f64::NAN;
        let text = serde_json::to_string(&written).unwrap();
        let read: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(read.outcome.plots[0].series[0].points[2].1.is_nan());
        assert!(!read.outcome.checks[0].holds(), "no number holds no bound");
        assert_eq!(read.outcome.checks[0].reason, written.outcome.checks[0].reason);
    }

    #[test]
    fn a_file_of_something_else_is_an_error_and_a_missing_one_is_not() {
        let path =
            std::env::temp_dir().join(format!("guira-lab-record-{}.json", std::process::id()));
        assert!(Record::read(&path).unwrap().is_none());
        fs::write(&path, "{}").unwrap();
        let error = Record::read(&path).unwrap_err();
        fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("run it again"), "{error}");
    }

    #[test]
    fn further_plots_are_numbered() {
        assert_eq!(plot_files("a", 3).collect::<Vec<_>>(), ["a.svg", "a-2.svg", "a-3.svg"]);
    }
}
