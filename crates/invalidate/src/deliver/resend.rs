//! Deletes without a courier, for a replay. Each batch is waited for.

use std::io;
use std::thread;
use std::time::Duration;

use super::link::{Parcel, RouterLink};
use super::spread::Spread;
use crate::config::DestinationConfig;
use crate::rule::Delete;
use crate::term::now;

/// Sends deletes to one of a destination's routers.
pub(crate) struct Resender {
    config: DestinationConfig,
    link: Option<RouterLink>,
    router: usize,
}

impl Resender {
    pub(crate) fn new(config: DestinationConfig) -> Self {
        Self { config, link: None, router: 0 }
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the deletes that are meant for the destination, and whose keys have this prefix.
    pub(crate) fn parcels(&self, deletes: &[Delete], prefix: &[u8]) -> Vec<Parcel> {
        let is_meant = |delete: &&Delete| {
            let to = delete.to.as_ref();
            to.is_none_or(|to| to.contains(&self.config.name))
                && delete.key.bytes().starts_with(prefix)
        };
        let parcel = |delete: &Delete| Parcel {
            key: delete.key.clone(),
            how: delete.how.unwrap_or(self.config.how),
        };
        deletes.iter().filter(is_meant).map(parcel).collect()
    }

    /// Sends deletes. Returns how many a router refused: each of those was sent alone, and is reported on stderr.
    ///
    /// # Errors
    /// No router answers, though each was asked several times.
    pub(crate) fn send(&mut self, parcels: &[Parcel]) -> Result<u64, String> {
        let mut refused = 0;
        for batch in parcels.chunks(BATCH) {
            if self.ask(|link, prefix| deliver(link, batch, prefix))?.is_none() {
                continue;
            }
            for parcel in batch.chunks(1) {
                if let Some(words) = self.ask(|link, prefix| deliver(link, parcel, prefix))? {
                    refused += 1;
                    eprintln!("destination {}: {} is refused: {words}", self.name(), parcel[0].key);
                }
            }
        }
        Ok(refused)
    }

    /// Flushes all servers of the destination.
    ///
    /// # Errors
    /// No router answers, or one refuses the flush.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        match self.ask(|link, _| link.flush())? {
            None => Ok(()),
            Some(words) => Err(format!(
                "destination {}: a flush is answered '{words}' (a router needs --enable-flush-cmd)",
                self.name()
            )),
        }
    }

    /// Flushes all servers, and once more after `again`: for what readers store late.
    ///
    /// # Errors
    /// As of [`Self::flush`].
    pub(crate) fn flush_twice(&mut self) -> Result<(), String> {
        self.flush()?;
        if !self.config.again.is_zero() {
            thread::sleep(self.config.again);
            self.flush()?;
        }
        Ok(())
    }

    /// Flushes the servers one after the other over `flush_over`, and tells each on stderr. One that fails is tried
    /// again until it doesn't. Where there is no `flush_over`, and where the router doesn't tell its servers, all are
    /// flushed at once.
    ///
    /// # Errors
    /// As of [`Self::flush`], as long as no server's turn has come.
    pub(crate) fn flush_in_turn(&mut self) -> Result<(), String> {
        let over = self.config.flush_over;
        let servers = if over.is_zero() { None } else { self.ask(|link, _| link.servers())? };
        let Some(servers) = servers else { return self.flush_twice() };
        thread::sleep(self.config.again);
        let mut spread = Spread::new(servers, now(), over);
        while let Some(server) = spread.next().map(str::to_owned) {
            let left = spread.left() - 1;
            thread::sleep(spread.wait(now()));
            match self.ask(|link, _| spread.flush(link)) {
                Ok(None) => {
                    spread.note_done();
                    eprintln!("destination {}: {server} is flushed, {left} are left", self.name());
                }
                Ok(Some(words)) | Err(words) => {
                    spread.note_failed(now());
                    eprintln!(
                        "destination {}: a flush of {server} is answered '{words}', and tried again until it isn't (a router needs --enable-flush-cmd)",
                        self.name()
                    );
                }
            }
        }
        Ok(())
    }

    fn ask<A>(
        &mut self,
        ask: impl Fn(&mut RouterLink, &str) -> io::Result<A>,
    ) -> Result<A, String> {
        let routers = &self.config.routers;
        let mut tries = routers.len() * TRIES;
        loop {
            let router = &routers[self.router % routers.len()];
            let link = self.link.take().map_or_else(|| RouterLink::connect(router), Ok);
            let asked = link.and_then(|mut link| {
                let answer = ask(&mut link, &self.config.prefix)?;
                self.link = Some(link);
                Ok(answer)
            });
            match asked {
                Ok(answer) => return Ok(answer),
                Err(error) if tries <= 1 => {
                    return Err(format!(
                        "destination {}: router {router}: {error}",
                        self.config.name
                    ));
                }
                Err(_) => {
                    (tries, self.router) = (tries - 1, self.router + 1);
                    thread::sleep(PAUSE);
                }
            }
        }
    }
}

fn deliver(link: &mut RouterLink, batch: &[Parcel], prefix: &str) -> io::Result<Option<String>> {
    link.send(batch, prefix)?;
    link.answer(batch)
}

/// The most keys of a batch.
const BATCH: usize = 512;
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(300);
