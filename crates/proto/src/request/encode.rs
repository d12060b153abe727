//! Encodes requests: what a client or a router sends.
//!
//! The line is canonical: single spaces, `\r\n`, and no words that a server would ignore. The caller appends the body.

use super::{Command, StoreCommand};
use crate::line::Verb;
use crate::number::{append_i64, append_u64};
use crate::{Meta, Words};

impl Command<'_> {
    /// Appends the request's line, its `\r\n` included, without the body of a storage request.
    ///
    /// [`parse`](crate::parse) of the appended bytes returns an equal request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let quiet = match *self {
            Command::Get(get) => {
                let word = match (get.touch, get.cas) {
                    _ if get.lease => "lease-get",
                    (None, false) => "get",
                    (None, true) => "gets",
                    (Some(_), false) => "gat",
                    (Some(_), true) => "gats",
                };
                out.extend_from_slice(word.as_bytes());
                if let Some(exptime) = get.touch {
                    signed(out, exptime.into());
                }
                words(out, get.keys);
                false
            }
            Command::MetaGet(meta) => encode_meta(out, "mg", &meta),
            Command::Store(store) => encode_store(out, &store),
            Command::MetaSet(meta) => encode_meta(out, "ms", &meta),
            Command::Delete { key, hold_off_s, quiet } => {
                keyed(out, "delete", key);
                if hold_off_s > 0 {
                    unsigned(out, hold_off_s.into());
                } else if key == b"noreply" && !quiet {
                    // Alone, `noreply` would be taken for both the key and the flag; the old time
                    // argument separates them.
                    out.extend_from_slice(b" 0");
                }
                quiet
            }
            Command::MetaDelete(meta) => encode_meta(out, "md", &meta),
            Command::Arithmetic(arithmetic) => {
                keyed(out, if arithmetic.decrement { "decr" } else { "incr" }, arithmetic.key);
                unsigned(out, arithmetic.delta);
                arithmetic.quiet
            }
            Command::MetaArithmetic(meta) => encode_meta(out, "ma", &meta),
            Command::Touch { key, exptime, quiet } => {
                keyed(out, "touch", key);
                signed(out, exptime.into());
                quiet
            }
            Command::MetaDebug { key, base64 } => {
                keyed(out, "me", key);
                if base64 {
                    out.extend_from_slice(b" b");
                }
                false
            }
            _ => self.encode_rare(out),
        };
        out.extend_from_slice(if quiet { b" noreply\r\n" } else { b"\r\n" });
    }

    fn encode_rare(&self, out: &mut Vec<u8>) -> bool {
        match *self {
            Command::FlushAll { exptime, quiet } => {
                out.extend_from_slice(b"flush_all");
                if exptime != 0 {
                    signed(out, exptime.into());
                }
                quiet
            }
            Command::Verbosity { level, quiet } => {
                out.extend_from_slice(b"verbosity");
                unsigned(out, level.into());
                quiet
            }
            Command::Stats(arguments) => {
                out.extend_from_slice(b"stats");
                words(out, arguments);
                false
            }
            Command::Admin { command, quiet } => {
                command.encode(out);
                quiet
            }
            Command::MetaNoop => word(out, "mn"),
            Command::Version => word(out, "version"),
            Command::Quit => word(out, "quit"),
            // The caller's match handles the other commands.
            _ => false,
        }
    }
}

fn encode_meta(out: &mut Vec<u8>, command: &str, meta: &Meta<'_>) -> bool {
    keyed(out, command, meta.key());
    if command == "ms" {
        unsigned(out, meta.value_bytes().into());
    }
    for flag in meta.flags() {
        out.push(b' ');
        out.extend_from_slice(flag.text());
    }
    false
}

fn encode_store(out: &mut Vec<u8>, store: &StoreCommand<'_>) -> bool {
    let command = match store.verb {
        Verb::Set => "set",
        Verb::Add => "add",
        Verb::Replace => "replace",
        Verb::Append => "append",
        Verb::Prepend => "prepend",
        Verb::Cas => "cas",
        Verb::Lease => "lease-set",
    };
    keyed(out, command, store.key);
    if store.verb == Verb::Lease {
        unsigned(out, store.cas);
    }
    unsigned(out, store.flags.into());
    signed(out, store.exptime.into());
    unsigned(out, store.value_bytes.into());
    if store.verb == Verb::Cas {
        unsigned(out, store.cas);
    }
    store.quiet
}

fn word(out: &mut Vec<u8>, word: &str) -> bool {
    out.extend_from_slice(word.as_bytes());
    false
}

fn keyed(out: &mut Vec<u8>, command: &str, key: &[u8]) {
    out.extend_from_slice(command.as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
}

fn words(out: &mut Vec<u8>, words: Words<'_>) {
    for word in words {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

fn unsigned(out: &mut Vec<u8>, n: u64) {
    out.push(b' ');
    append_u64(out, n);
}

fn signed(out: &mut Vec<u8>, n: i64) {
    out.push(b' ');
    append_i64(out, n);
}
