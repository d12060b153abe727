//! Where a trace comes from: a file, or a rule.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use super::format::{self, TraceFormat};
use super::read::{Columns, read};
use super::recorded::{Recorder, Trace};
use super::synthetic::Synthetic;

/// Where a trace comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TraceSource {
    /// A file in one of the formats.
    File(PathBuf),
    /// Made by rule.
    Synthetic(Synthetic),
}

/// How to read a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// Its format, if the name doesn't tell.
    pub format: Option<TraceFormat>,
    /// The columns of a CSV file, if its header doesn't tell.
    pub columns: Option<Columns>,
    /// Maximum number of requests to take.
    pub limit: Option<u64>,
}

impl std::str::FromStr for TraceSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("zipf:") {
            text.parse().map(Self::Synthetic)
        } else {
            Ok(Self::File(text.into()))
        }
    }
}

impl std::fmt::Display for TraceSource {
    /// A file's name without its folder and its extensions; a rule as it is written.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
                f.write_str(name.split('.').next().unwrap_or(&name))
            }
            Self::Synthetic(Synthetic { theta, keys, requests, once, drift }) => {
                write!(f, "zipf:{theta}:{keys}:{requests}")?;
                if *once > 0.0 {
                    write!(f, ":once={once}")?;
                }
                if *drift > 0.0 {
                    write!(f, ":drift={drift}")?;
                }
                Ok(())
            }
        }
    }
}

impl TraceSource {
    /// Reads or makes the whole trace; `progress` hears how many requests there are so far.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
    pub(crate) fn load(&self, reading: &Reading, progress: &dyn Fn(u64)) -> Result<Trace> {
        let mut recorder = Recorder::default();
        let limit = reading.limit.unwrap_or(u64::MAX);
        let mut push = |request| {
            let len = recorder.len() as u64;
            if len < limit {
                recorder.push(request);
            }
            if len.is_multiple_of(PROGRESS_EVERY) {
                progress(len);
            }
        };
        match self {
            Self::Synthetic(made) => {
                let requests = made.requests.min(limit);
                Synthetic { requests, ..made.clone() }.generate(SEED, &mut push);
            }
            Self::File(path) => read_file(path, reading, &mut push)
                .with_context(|| format!("cannot read the trace {}", path.display()))?,
        }
        Ok(recorder.finish())
    }
}

fn read_file(
    path: &Path,
    reading: &Reading,
    push: &mut dyn FnMut(super::request::TraceRequest),
) -> Result<()> {
    let mut input = format::open(path)?;
    let format = match reading.format {
        Some(format) => format,
        None => TraceFormat::detect(path, input.fill_buf()?).ok_or_else(|| {
            anyhow!("neither its name nor its first line tells the format; give --format")
        })?,
    };
    Ok(read(format, reading.columns.as_ref(), &mut input, push)?)
}

/// Requests between two words on progress.
const PROGRESS_EVERY: u64 = 1 << 20;

/// Where the numbers of synthetic traces begin, so that a name is always the same trace.
const SEED: u64 = 42;
