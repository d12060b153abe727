//! What clients did and saw, written as it happens: a line of JSON for each operation. `tests/linearizability` reads it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::wire::{Act, Answer};

/// A history that is being recorded. Its clock is that of all who record.
#[derive(Debug)]
pub(super) struct History {
    began: Instant,
    recorded: Mutex<Recorded>,
}

#[derive(Debug)]
struct Recorded {
    file: BufWriter<File>,
    summary: Summary,
    /// When what began, in nanoseconds.
    phases: Vec<(u64, &'static str)>,
}

/// A history in numbers.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// All operations.
    pub operations: u64,
    /// Of those, changes whose outcome nobody knows.
    pub unknown: u64,
    /// Errors, by their words without numbers.
    pub errors: BTreeMap<String, u64>,
    /// How often each fault was made, and the longest that an operation took that began in it or ended in it.
    pub phases: BTreeMap<&'static str, (u64, Duration)>,
}

/// How an operation ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With an answer.
    Told(Answer),
    /// With an error: it did nothing.
    Nothing(String),
    /// It may happen yet, or has happened.
    Unknown(String),
}

impl History {
    /// Begins a history in a file.
    ///
    /// # Errors
    /// The file can't be written.
    #[expect(
        clippy::disallowed_methods,
        reason = "when clients ask and are told is what is recorded"
    )]
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        let recorded = Recorded {
            file: BufWriter::new(File::create(path)?),
            summary: Summary::default(),
            phases: vec![(0, CALM)],
        };
        Ok(Self { began: Instant::now(), recorded: Mutex::new(recorded) })
    }

    /// Nanoseconds since it began.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("within centuries")
    }

    /// From now on this happens to the cluster.
    pub(super) fn enter(&self, phase: &'static str) {
        let now = self.now();
        let mut recorded = self.lock();
        recorded.phases.push((now, phase));
        recorded.summary.phases.entry(phase).or_default().0 += 1;
    }

    /// Writes an operation that ended just now.
    pub(super) fn note(&self, client: usize, act: &Act, call: u64, outcome: Outcome) {
        let end = self.now();
        let line = line(client, act, (call, end), &outcome);
        let mut recorded = self.lock();
        recorded.file.write_all(line.as_bytes()).expect("the history can be written");
        let phase = recorded.phase((call, end));
        let summary = &mut recorded.summary;
        summary.operations += 1;
        let longest = &mut summary.phases.entry(phase).or_default().1;
        *longest = Duration::from_nanos(end - call).max(*longest);
        match outcome {
            Outcome::Told(_) => {}
            Outcome::Nothing(words) => *summary.errors.entry(words).or_default() += 1,
            Outcome::Unknown(words) => {
                summary.unknown += u64::from(!act.is_get());
                *summary.errors.entry(words).or_default() += 1;
            }
        }
    }

    /// Ends it: the file is whole.
    pub(super) fn end(&self) -> Summary {
        let mut recorded = self.lock();
        recorded.file.flush().expect("the history can be written");
        recorded.summary.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorded {
    /// What happened when an operation began, or else while it waited.
    fn phase(&self, (call, end): (u64, u64)) -> &'static str {
        let at = self.phases.partition_point(|it| it.0 <= call).max(1) - 1;
        let during = self.phases[at..].iter().take_while(|it| it.0 <= end).map(|it| it.1);
        during.clone().find(|it| *it != CALM).unwrap_or(CALM)
    }
}

impl Summary {
    /// Adds another one's numbers.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.unknown += other.unknown;
        for (words, count) in &other.errors {
            *self.errors.entry(words.clone()).or_default() += count;
        }
        for (phase, (count, longest)) in &other.phases {
            let all = self.phases.entry(phase).or_default();
            *all = (all.0 + count, all.1.max(*longest));
        }
    }
}

fn line(client: usize, act: &Act, (call, end): (u64, u64), outcome: &Outcome) -> String {
    let Act { op, key, value, token } = act;
    let op = op.name();
    let asked = format!(
        r#"{{"client":{client},"op":"{op}","key":"{key}","value":"{value}","token":{token},"call":{call}"#
    );
    let told = match outcome {
        Outcome::Told(Answer { said, found, unique }) => format!(
            r#""return":{end},"outcome":"ok","said":"{said}","found":"{found}","unique":{unique}"#
        ),
        Outcome::Nothing(_) => format!(r#""return":{end},"outcome":"nothing""#),
        Outcome::Unknown(_) => r#""outcome":"unknown""#.to_owned(),
    };
    format!("{asked},{told}}}\n")
}

/// Nothing is done to the cluster.
pub(super) const CALM: &str = "nothing";
