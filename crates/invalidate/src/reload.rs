//! SIGHUP: changes rules and destinations while the logs are being read.
//!
//! # Invariants
//! 1. A file that can't be read, or that changes what only a start can change, changes nothing, and is reported.
//! 2. A changed destination goes on where it is: its new courier begins with what the old one's router hasn't
//!    acknowledged. Both may send the same.
//! 3. New destinations are there before the rules are replaced, and removed ones leave after that. The new rules apply
//!    from the next transaction on.
//!
//! # Costs
//! If the rules change, the log is read over a new connection, from the end of the last transaction. An unchanged
//! destination isn't disturbed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::config::{DestinationConfig, InvalidateConfig, read};
use crate::line::Line;
use crate::rule::Rule;
use crate::source::Halt;

/// The configuration in use, and the lines that it applies to.
pub(crate) struct Reload {
    path: PathBuf,
    config: InvalidateConfig,
    lines: Vec<Arc<Line>>,
    /// The seat of each destination, which is the same at all lines.
    seats: Vec<usize>,
}

impl Reload {
    pub(crate) fn new(path: &Path, config: InvalidateConfig, lines: Vec<Arc<Line>>) -> Self {
        let seats = (0..config.destinations.len()).collect();
        Self { path: path.to_owned(), config, lines, seats }
    }

    /// Returns the configuration in use.
    pub(crate) fn into_config(self) -> InvalidateConfig {
        self.config
    }

    /// Reads the file again, and `start`s a courier for each new or changed destination. `None`: the file is refused,
    /// and changes nothing.
    ///
    /// # Errors
    /// A courier can't be started.
    pub(crate) fn reload(
        &mut self,
        start: impl Fn(
            &InvalidateConfig,
            &DestinationConfig,
            usize,
            &Arc<Line>,
        ) -> Result<JoinHandle<()>, Halt>,
    ) -> Result<Option<Vec<JoinHandle<()>>>, Halt> {
        let config = match read(&self.path) {
            Ok(config) => config,
            Err(error) => {
                tracing::error!("SIGHUP: {error}; the configuration stays as it was");
                return Ok(None);
            }
        };
        let differs = self.config.differs_from(&config).join(", ");
        if !differs.is_empty() {
            tracing::error!(
                "SIGHUP: {differs}: a change there takes a restart; the configuration stays as it was, in rules and destinations too"
            );
            return Ok(None);
        }
        let mut started = Vec::new();
        let mut seats = Vec::new();
        for destination in &config.destinations {
            let before = self.seat(&destination.name);
            if let Some((was, seat)) = before
                && was == destination
            {
                seats.push(seat);
                continue;
            }
            let mut seat = 0;
            for line in &self.lines {
                seat = line.take_seat(&destination.name, before.map(|(_, seat)| seat));
                started.push(start(&config, destination, seat, line)?);
            }
            seats.push(seat);
        }
        let rules: Arc<[Rule]> = config.rules.clone().into();
        let are_rules_other = config.rules != self.config.rules;
        for line in &self.lines {
            if are_rules_other {
                line.replace_rules(Arc::clone(&rules));
            }
            for (was, seat) in self.config.destinations.iter().zip(&self.seats) {
                if !config.destinations.iter().any(|it| it.name == was.name) {
                    line.leave_seat(*seat);
                }
            }
        }
        let (of_rules, of_destinations) = (config.rules.len(), config.destinations.len());
        tracing::info!(
            "SIGHUP: the configuration was read again: rules {of_rules}, destinations {of_destinations}, of which {} are new or changed",
            started.len() / self.lines.len().max(1)
        );
        (self.config, self.seats) = (config, seats);
        Ok(Some(started))
    }

    /// Returns a destination and its seat.
    fn seat(&self, name: &str) -> Option<(&DestinationConfig, usize)> {
        let at = self.config.destinations.iter().position(|it| it.name == name)?;
        Some((&self.config.destinations[at], self.seats[at]))
    }
}
