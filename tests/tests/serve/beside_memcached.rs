//! The tables sent to memcached and to Guira, the replies compared byte for byte.
//!
//! Guira follows memcached 1.6.45. Debian 12 brings 1.6.18; where that one answers otherwise, the table
//! says so in a `~` line, and where Guira differs on purpose, in a `!` line; no other step may differ. Numbers that a server makes up (cas, pid) are
//! compared by where they stand and whether they repeat.
//!
//! So this also proves the tables themselves: a reply that memcached does not give fails here.

use guira_tests::client::Reply;
use guira_tests::script::{Case, Numbers, Pace, Script, Step};
use guira_tests::server::{Program, Server, workspace};

/// What the two servers said to a step, where they may not differ and do.
fn compare_step(
    step: &Step,
    reference: (&Reply, &mut Numbers),
    ours: (&Reply, &mut Numbers),
) -> Option<String> {
    let (theirs, their_numbers) = reference;
    let (ours, our_numbers) = ours;
    let mine = step.wanted().take(ours, our_numbers);
    let same = step.expect.take(theirs, their_numbers);
    let as_older = |numbers| step.older.as_ref().map(|older| older.take(theirs, numbers));
    match (mine, same) {
        (Ok(_), Ok(_)) if step.ours.is_some() => None,
        (Ok(mine), Ok(same)) if mine == same => None,
        (Ok(_), Err(_)) if matches!(as_older(their_numbers), Some(Ok(_))) => None,
        (Ok(mine), Ok(_)) if step.expect.text().contains("$*") => {
            // A word that each server makes up; its line's form was compared.
            (mine.is_empty()).then(|| "nothing came".to_owned())
        }
        _ => {
            let older = step.older.as_ref().map(|o| format!(" (or {})", o.text()));
            let (line, want) = (step.line, step.expect.text());
            let older = older.unwrap_or_default();
            Some(format!(
                "line {line}: memcached {theirs:?}\n   guira {ours:?}\n   table {want}{older}"
            ))
        }
    }
}

fn compare_case(case: &Case, memcached: &Server, guira: &Server) -> Vec<String> {
    for server in [memcached, guira] {
        server.connect().exchange(b"flush_all\r\n");
    }
    let mut clients = [memcached.connect(), guira.connect()];
    let mut numbers = [Numbers::new(), Numbers::new()];
    let mut wrong = Vec::new();
    for step in &case.steps {
        let theirs = step.play(&mut clients[0], Pace::Whole, &numbers[0]);
        let ours = step.play(&mut clients[1], Pace::Whole, &numbers[1]);
        let [their_numbers, our_numbers] = &mut numbers;
        if let Some(difference) = compare_step(step, (&theirs, their_numbers), (&ours, our_numbers))
        {
            wrong.push(format!("{:?}, {difference}", case.name));
        }
        if theirs.closed || ours.closed {
            break;
        }
    }
    wrong
}

fn compare_table(name: &str) {
    let path = workspace().join("tests/tables").join(name);
    let script = Script::parse(&std::fs::read_to_string(path).expect("the table is there"));
    let start = |flags: &[String]| {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        [Program::Memcached, Program::Guira].map(|program| Server::start(program, &flags))
    };
    let shared = start(&script.flags);
    let mut wrong = Vec::new();
    for case in &script.cases {
        let own = case.flags.as_deref().map(start);
        let [memcached, guira] = own.as_ref().unwrap_or(&shared);
        wrong.extend(case.settled(|case| compare_case(case, memcached, guira)));
    }
    assert!(wrong.is_empty(), "{name}: {} differences\n{}", wrong.len(), wrong.join("\n"));
}

macro_rules! tables {
    ($($name:ident),*) => {$(
        #[test]
        fn $name() {
            compare_table(concat!(stringify!($name), ".txt"));
        }
    )*};
}

tables!(storage, retrieval, arithmetic, errors, meta_get, meta_set, meta_change);
