//! Every text and meta command over a real socket: what is sent, what must come back.
//!
//! The tables lie in tests/tables. Each is played twice: every step in one piece, and byte by byte, for
//! where a reply may not depend on how its request was cut.

use guira_tests::script::{Pace, Script};
use guira_tests::server::{Program, Server, workspace};

/// Plays a table against Guira; all steps that answer something else, in one message.
fn play(name: &str, pace: Pace) {
    let path = workspace().join("tests/tables").join(name);
    let text = std::fs::read_to_string(&path).expect("the table is there");
    let script = Script::parse(&text);
    let flags: Vec<&str> = script.flags.iter().map(String::as_str).collect();
    let shared = Server::start(Program::Guira, &flags);
    let mut wrong = Vec::new();
    for case in &script.cases {
        let own = case.flags.as_ref().map(|flags| {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            Server::start(Program::Guira, &flags)
        });
        let server = own.as_ref().unwrap_or(&shared);
        wrong.extend(case.settled(|case| {
            server.connect().exchange(b"flush_all\r\n");
            case.play(&mut server.connect(), pace)
        }));
    }
    assert!(
        wrong.is_empty(),
        "{name}: {} of {} cases\n{}",
        wrong.len(),
        script.cases.len(),
        wrong.join("\n")
    );
}

guira_tests::play_tables!(storage, retrieval, arithmetic, errors, meta_get, meta_set, meta_change);
