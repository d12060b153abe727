//! What happens to keys after a revision: an answer that goes on for as long as the watch does.

use std::io::{BufRead, BufReader, Read};
use std::time::Instant;

use ureq::http::Response;
use ureq::{Body, BodyReader};

use crate::access::{ANSWER_BYTES_MAX, words_of_io};
use crate::error::Error;
use crate::wire::{self, EtcdKeys, Events, Unwatched};

/// An open watch. It ends after its time limit, because a connection whose other end has gone stays silent.
pub struct Watch {
    keys: EtcdKeys,
    endpoint: String,
    lines: BufReader<BodyReader<'static>>,
    ends: Instant,
}

impl Watch {
    pub(crate) fn new(
        keys: &EtcdKeys,
        endpoint: String,
        answer: Response<Body>,
        ends: Instant,
    ) -> Self {
        let lines = BufReader::new(answer.into_body().into_reader());
        Self { keys: keys.clone(), endpoint, lines, ends }
    }

    /// Waits until something happens; `None` once the watch's time is over.
    ///
    /// # Errors
    /// etcd ends the watch, the connection ends, or a line is no answer.
    pub fn next_events(&mut self) -> Result<Option<Events>, Error> {
        let endpoint = || self.endpoint.clone();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut self.lines).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line);
            let is_over = Instant::now() >= self.ends;
            match read {
                Err(_) | Ok(0) if is_over => return Ok(None),
                Err(error) => {
                    return Err(Error::Away { endpoint: endpoint(), words: words_of_io(&error) });
                }
                Ok(0) => {
                    let words = "the connection of the watch ended".to_owned();
                    return Err(Error::Away { endpoint: endpoint(), words });
                }
                Ok(_) => {}
            }
            match wire::watched(&self.keys, &line) {
                Ok(Some(events)) => return Ok(Some(events)),
                // The line only says that the watch has begun, or goes on.
                Ok(None) if is_over => return Ok(None),
                Ok(None) => {}
                Err(Unwatched::Unreadable(words)) => {
                    return Err(Error::Unreadable { endpoint: endpoint(), words });
                }
                Err(Unwatched::Ended(words)) => {
                    return Err(Error::Ended { endpoint: endpoint(), words });
                }
            }
        }
    }
}
