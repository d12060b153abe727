//! `stat`: the text protocol's statistics, a packet each, and one without name or value at the end.
//!
//! The name takes the words that stand behind `stats` in text. There is one answer in the server, in
//! text; here it is cut into packets, so both protocols tell the same. But a listing has to be made at once, as one of prefixes
//! is one packet: it ends after a MiB.

use super::Executor;
use super::operator;
use guira_proto::Words;
use guira_proto::binary::{Request, Status, reply};

impl Executor<'_> {
    pub(super) fn stat_packets(&mut self, request: &Request<'_>, name: &[u8]) {
        let mut words = Words::new(name);
        if words.clone().next() == Some(b"cachedump") {
            return self.fail(request, Status::NotFound);
        }
        let before = std::mem::take(&mut self.output.bytes);
        let can_be_fed = std::mem::take(&mut self.can_be_fed);
        operator::stats(self, words);
        self.can_be_fed = can_be_fed;
        let text = std::mem::replace(&mut self.output.bytes, before);
        let (kind, detail) = (words.next(), words.next());
        let is_refused = [&b"ERROR"[..], b"CLIENT_ERROR"].iter().any(|e| text.starts_with(e));
        if is_refused {
            return self.fail(request, Status::NotFound);
        }
        let out = &mut self.output.bytes;
        if (kind, detail) == (Some(b"detail"), Some(b"dump")) {
            reply::stat(out, request.echo, b"detailed", &text);
        }
        for line in text.split(|&b| b == b'\n') {
            let Some(line) = line.strip_prefix(b"STAT ") else { continue };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let name_bytes = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
            let (name, value) = line.split_at(name_bytes);
            reply::stat(out, request.echo, name, value.strip_prefix(b" ").unwrap_or(value));
        }
        reply::stat(out, request.echo, b"", b"");
    }
}
