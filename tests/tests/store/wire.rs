//! The text and meta commands of `guira store`: the tables of `guira serve`, whole and byte by byte.

use guira_tests::script::{Pace, Script, Step};
use guira_tests::server::{Program, Server, workspace};

/// Plays a table; all steps that answer something else, in one message.
fn play(name: &str, pace: Pace) {
    let path = workspace().join("tests/tables").join(name);
    let text = std::fs::read_to_string(&path).expect("the table is there");
    let script = Script::parse(&text);
    // A case waits for no disk: what is durable when is another test's.
    let start = |flags: &[String]| {
        let own = ["--durability", "os"].into_iter();
        let flags: Vec<&str> = own.chain(flags.iter().map(String::as_str)).collect();
        Server::start(Program::Store, &flags)
    };
    let shared = start(&script.flags);
    let mut wrong = Vec::new();
    for case in script.cases.iter().filter(|case| case.not_for_store.is_none()) {
        let own = case.flags.as_ref().map(|flags| start(flags));
        let server = own.as_ref().unwrap_or(&shared);
        wrong.extend(case.settled(|case| {
            server.connect().exchange(b"flush_all\r\n");
            case.play_for(&mut server.connect(), pace, Step::wanted_of_store)
        }));
    }
    let cases = script.cases.len();
    assert!(wrong.is_empty(), "{name}: {} of {cases} cases\n{}", wrong.len(), wrong.join("\n"));
}

guira_tests::play_tables!(
    storage,
    retrieval,
    arithmetic,
    errors,
    meta_get,
    meta_set,
    meta_change,
    store
);
