//! Clients that ask for one key at a time, and wait.

use crate::live::{Answer, Client, pause};
use crate::measure::now;
use anyhow::{Result, ensure};
use guira_bench::Rng;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

/// What the clients do.
pub(super) struct Load<'l> {
    /// The port of the router that they ask.
    pub(super) port: u16,
    pub(super) clients: u64,
    pub(super) seed: u64,
    /// So many keys are asked for once before all others: a cache with room keeps them.
    pub(super) first: u64,
    /// The time before the measurement.
    pub(super) warm: Duration,
    /// The time of the measurement.
    pub(super) lasts: Duration,
    /// Chooses the next key.
    pub(super) next: &'l (dyn Fn(&mut Rng) -> u64 + Sync),
}

/// The name of a key.
pub(super) fn key(number: u64) -> String {
    format!("key-{number:08}")
}

impl Load<'_> {
    /// Returns the queries per second that were answered, and what `look` returned at the begin and at the end of the
    /// measurement.
    ///
    /// # Errors
    /// If one was not answered.
    pub(super) fn run<T>(&self, look: impl Fn() -> T) -> Result<(f64, [T; 2])> {
        let (answers, failures) = (AtomicU64::new(0), AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let client = |place: u64| -> Result<()> {
            let mut rng = Rng::new(self.seed * self.clients + place);
            let mut client = Client::connect(self.port)?;
            let mut firsts = (place..self.first).step_by(usize::try_from(self.clients)?);
            while !stop.load(Relaxed) {
                let number = firsts.next().unwrap_or_else(|| (self.next)(&mut rng));
                match client.get(&key(number))? {
                    Answer::Value(_) => answers.fetch_add(1, Relaxed),
                    Answer::Miss | Answer::Error => failures.fetch_add(1, Relaxed),
                };
            }
            Ok(())
        };
        let result = thread::scope(|scope| {
            let client = &client;
            let spawn = |place| {
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, move || client(place))
            };
            let all = (0..self.clients).map(spawn).collect::<std::io::Result<Vec<_>>>();
            let all = all.inspect_err(|_| stop.store(true, Relaxed))?;
            pause(self.warm);
            let (begun, before, first) = (now(), answers.load(Relaxed), look());
            pause(self.lasts);
            let (answered, last) = (answers.load(Relaxed) - before, look());
            let rate = answered as f64 / begun.elapsed().as_secs_f64();
            stop.store(true, Relaxed);
            for client in all {
                client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok::<_, anyhow::Error>((rate, [first, last]))
        })?;
        ensure!(failures.load(Relaxed) == 0, "{} gets were not answered", failures.load(Relaxed));
        Ok(result)
    }
}

const STACK_BYTES: usize = 128 << 10;
