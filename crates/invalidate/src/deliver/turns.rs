//! A courier's flushes of one server after the other.

use std::io;

use super::spread::Spread;
use super::{Courier, RouterLink};
use crate::term::now;

impl Courier {
    /// Whether a flush is to be sent, or the next server of one that is under way.
    pub(super) fn is_flush_due(&self) -> bool {
        match &self.spread {
            Some(spread) => spread.is_due(now()),
            None => self.flushes.is_due(now()),
        }
    }

    /// Flushes the server whose turn it is, while nothing is on its way.
    pub(super) fn flush_next(&mut self) -> io::Result<()> {
        self.check_term()?;
        let Some(mut spread) = self.spread.take() else { return self.begin_spread() };
        let flushed = self.connect().and_then(|link| turn(link, &spread));
        match &flushed {
            Ok(None) => spread.note_done(),
            Ok(Some(words)) => {
                let server = spread.next().unwrap_or_default().to_owned();
                if spread.note_failed(now()) {
                    tracing::error!(
                        "destination {}: a flush of {server} is answered '{words}', and tried again until it isn't (a router needs --enable-flush-cmd)",
                        self.config.name
                    );
                }
            }
            Err(_) => drop(spread.note_failed(now())),
        }
        self.counts().flushes_left.set(spread.left() as u64);
        if spread.left() == 0 {
            self.flushes.note_over();
            self.counts().flushes.add(1);
            tracing::warn!("destination {}: all its servers are flushed", self.config.name);
        } else {
            self.spread = Some(spread);
        }
        flushed?;
        self.note_cursor();
        Ok(())
    }

    /// A router that doesn't tell its servers is asked to flush all at once.
    fn begin_spread(&mut self) -> io::Result<()> {
        let servers = self.connect().and_then(RouterLink::servers);
        if servers.is_err() {
            self.flushes.note_failed(now());
        }
        let Some(servers) = servers? else { return self.flush() };
        let (name, over) = (&self.config.name, self.config.flush_over);
        tracing::warn!(
            "destination {name}: {} servers are flushed, one after the other over {over:?}",
            servers.len()
        );
        self.counts().flushes_left.set(servers.len() as u64);
        self.spread = Some(Spread::new(servers, now(), over));
        self.flushes.begin();
        Ok(())
    }
}

/// `None`: the server was flushed, or is no more; else what the router answers.
fn turn(link: &mut RouterLink, spread: &Spread) -> io::Result<Option<String>> {
    let Some(server) = spread.next() else { return Ok(None) };
    let Some(words) = link.flush_one(server)? else { return Ok(None) };
    let is_there = link.servers()?.is_none_or(|servers| servers.iter().any(|it| it == server));
    Ok(is_there.then_some(words))
}
