//! The entry points of fuzzers for PostgreSQL: streams, logins and answers.

use std::io::Cursor;

use super::login::Login;
use super::stream::PgStream;
use super::wire::Wire;
use crate::config::{PostgresConfig, SourceKind};
use crate::source::dial::Script;
use crate::source::naming::Naming;

/// Reads a stream. A first byte below 4 selects the constructed one, in which the other bytes change bytes. Otherwise
/// the input is messages: a length of two bytes, a body. After a length of 0 the rest is frames.
pub(in crate::source) fn fuzz_stream(naming: Naming<'_>, input: &[u8]) {
    let Some((choice, mut rest)) = input.split_first() else { return };
    let SourceKind::Postgres(database) = &naming.config.kind else { return };
    let mut said = Vec::new();
    if *choice < 4 {
        let mut messages = messages();
        for change in rest.chunks_exact(3) {
            let at = usize::from(change[0]) % messages.len();
            let message = &mut messages[at];
            let at = usize::from(change[1]) % message.len();
            message[at] = change[2];
        }
        messages.iter().for_each(|message| put_data(&mut said, message));
    } else {
        while let [low, high, after @ ..] = rest {
            let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
            if length == 0 {
                said.extend_from_slice(after);
                break;
            }
            put_data(&mut said, &after[..length]);
            rest = &after[length..];
        }
    }
    run(naming, database, said);
}

fn run(naming: Naming<'_>, database: &PostgresConfig, said: Vec<u8>) {
    let mut wire = Wire::over(Box::new(Script(Cursor::new(said))));
    // The end of the input ends the connection.
    let _ = PgStream::new(naming, database, 0).run(&mut wire);
}

/// Reads the answers of a server to a login and to a statement.
pub(in crate::source) fn fuzz_login(input: &[u8]) {
    for is_private in [false, true] {
        let mut wire = Wire::over(Box::new(Script(Cursor::new(input.to_vec()))));
        let _ = wire.log_in(Login::new("guira", "secret", is_private));
    }
    let mut wire = Wire::over(Box::new(Script(Cursor::new(input.to_vec()))));
    let _ = wire.query("SELECT 1");
}

fn put_data(said: &mut Vec<u8>, message: &[u8]) {
    let length = u32::try_from(message.len() + 29).unwrap_or(0).to_be_bytes();
    said.push(b'd');
    said.extend_from_slice(&length);
    said.extend_from_slice(&[&b"w"[..], &[0; 24]].concat());
    said.extend_from_slice(message);
}

fn messages() -> Vec<Vec<u8>> {
    let id = b"\0\0\0\x07";
    let row = b"\0\x03t\0\0\0\x011t\0\0\0\x01at\0\0\0\x01x";
    let toast = b"\0\x03t\0\0\0\x012un";
    let columns = b"\x01id\0\0\0\0\x17\xff\xff\xff\xff\0name\0\0\0\0\x19\xff\xff\xff\xff\0kind\0\0\0\0\x19\xff\xff\xff\xff";
    vec![
        [&b"B"[..], &[0, 0, 0, 0, 0, 0, 0, 9], &[0; 8], &[0, 0, 2, 1]].concat(),
        [&b"R"[..], id, b"shop\0users\0d\0\x03", columns].concat(),
        [&b"I"[..], id, b"N", row].concat(),
        [&b"U"[..], id, b"N", row].concat(),
        [&b"U"[..], id, b"O", row, b"N", toast].concat(),
        [&b"U"[..], id, b"K", row, b"N", toast].concat(),
        [&b"D"[..], id, b"K", row].concat(),
        [&b"T\0\0\0\x01\0"[..], id].concat(),
        [&b"M\x01"[..], &[0; 8], b"mcinv\0\0\0\0\x0dpage:1,page:2"].concat(),
        [&b"M\0"[..], &[0; 8], b"mcinv\0\0\0\0\x06page:3"].concat(),
        [&b"C\0"[..], &[0; 8], &[0, 0, 0, 0, 0, 0, 1, 0], &[0; 8]].concat(),
    ]
}
