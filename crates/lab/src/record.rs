//! The stored result of a run: `ID.json`, with the measurements and without conclusions.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::experiment::Experiment;
use crate::machine::Machine;
use crate::outcome::Findings;
use crate::scale::Scale;

/// A run of one experiment: its circumstances and what it measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The experiment's id.
    pub(crate) id: String,
    /// The run of `guira lab run` that it belongs to: the same for all experiments of that run.
    pub(crate) run: String,
    /// The scale of the run.
    pub(crate) scale: Scale,
    /// The seed of its random numbers.
    pub(crate) seed: u64,
    /// The command that repeats the run.
    pub(crate) command: String,
    /// Guira's version.
    pub(crate) version: String,
    /// The commit of the build, if it is a release build from a repository.
    pub(crate) commit: Option<String>,
    /// The machine that it ran on.
    pub(crate) machine: Machine,
    /// All attempts: another one is made while checks fail or can't be judged.
    pub(crate) attempts: Vec<Attempt>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// How long it took, seconds.
    pub(crate) duration_s: f64,
    /// Processor time of all its threads meanwhile, seconds.
    pub(crate) cpu_s: f64,
    /// The average number of processes that wanted a processor in the minute before, including those of a previous
    /// experiment.
    pub(crate) load_before: Option<f64>,
    /// What it measured.
    pub(crate) data: Data,
}

impl Record {
    /// Writes it as JSON.
    ///
    /// # Errors
    /// If the file can't be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self)? + "\n";
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

    /// Returns the joined measurements of all attempts.
    pub(crate) fn data(&self) -> Data {
        Data::join(self.attempts.iter().map(|attempt| &attempt.data))
    }

    /// Returns the findings of all attempts together.
    pub(crate) fn outcome(&self, experiment: &Experiment) -> Findings {
        (experiment.judge)(&self.data())
    }

    /// Returns the findings of each attempt alone.
    pub(crate) fn outcomes(&self, experiment: &Experiment) -> Vec<Findings> {
        self.attempts.iter().map(|attempt| (experiment.judge)(&attempt.data)).collect()
    }
}

/// Names of the files of `id`'s `plots` plots: `ID.svg`, `ID-2.svg`, …
pub(crate) fn plot_files(id: &str, plots: usize) -> impl Iterator<Item = String> {
    (1..=plots).map(move |n| if n == 1 { format!("{id}.svg") } else { format!("{id}-{n}.svg") })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::planted::measured;

    /// A record of a run that measured 2.
    pub(crate) fn record(id: &str) -> Record {
        Record {
            id: id.into(),
            run: "2026-01-02 03:04:05 UTC".into(),
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
            attempts: vec![attempt(2.0)],
        }
    }

    /// An attempt that measured `gain`.
    pub(crate) fn attempt(gain: f64) -> Attempt {
        Attempt { duration_s: 1.25, cpu_s: 1.75, load_before: Some(0.25), data: measured(gain) }
    }

    #[test]
    fn what_is_written_is_read_back_even_if_it_is_no_number() {
        let written = record("a");
        let text = serde_json::to_string(&written).unwrap();
        let read: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(read.data().line("cuckoo").median(4.0).is_nan());
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
