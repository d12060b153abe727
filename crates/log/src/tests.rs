//! Tests of the whole path from an event to the file.

use super::*;
use crate::rate::LINES_A_SECOND;
use std::fs;

#[test]
fn what_is_said_follows_the_verbosity_as_it_changes() {
    let path = std::env::temp_dir().join(format!("guira-log-{}", std::process::id()));
    let log = Log::to_file(File::create(&path).expect("a file"), Format::Journald, 0);
    let subscriber = tracing_subscriber::registry().with(Lines(log.clone()));
    tracing::subscriber::with_default(subscriber, || {
        for (verbosity, number) in [(0, 1), (1, 2), (2, 3), (0, 4)] {
            log.set_verbosity(verbosity);
            tracing::error!("error {number}");
            tracing::info!("info {number}");
            tracing::debug!("debug {number}");
            tracing::trace!("trace {number}");
            tracing::error!(target: "tokio", "a library's");
        }
        for _ in 0..LINES_A_SECOND + 7 {
            tracing::warn!("again");
        }
    });
    log.flush();
    let said = fs::read_to_string(&path).expect("what was written");
    fs::remove_file(&path).expect("it was there");
    let lines: Vec<_> = said.lines().filter(|line| !line.contains("again")).collect();
    assert_eq!(
        lines,
        [
            "<3>error 1",
            "<6>info 1",
            "<3>error 2",
            "<6>info 2",
            "<7>debug 2",
            "<3>error 3",
            "<6>info 3",
            "<7>debug 3",
            "<7>trace 3",
            "<3>error 4",
            "<6>info 4",
        ]
    );
    assert_eq!(said.lines().count() as u64 - lines.len() as u64, LINES_A_SECOND);
    assert_eq!((log.suppressed(), log.dropped()), (7, 0));
}
