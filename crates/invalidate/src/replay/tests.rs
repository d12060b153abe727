//! Where a replay begins, and what it reports about a journal with holes.

use super::*;
use crate::config::{JournalLimits, WhenFull};
use crate::entry::{LogPlace, Origin};
use crate::key::Key;
use crate::line::Line;
use crate::rule::Delete;

const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

/// Writes a journal of [`ENTRIES`] entries with stamps, each a second after the one before, in several files.
fn journal(folder: &Path, stamp: impl Fn(u32) -> String) {
    let keep = Duration::from_secs(3600);
    let limits = JournalLimits { bytes: 1 << 30, keep, when_full: WhenFull::Taint };
    let (line, _) = Line::open("db", folder, &["c1"], limits, 1 << 20).unwrap();
    for number in 1..=ENTRIES {
        let place = LogPlace { file: "b.000001".into(), offset: number.into() };
        let key = Key::new(format!("k{number}").as_bytes()).unwrap();
        let deletes = Errand::Deletes(vec![Delete { key, how: None, to: None }]);
        let origin = Origin { place, stamp: stamp(number).into(), at_s: number };
        line.append(origin, deletes).unwrap();
    }
    line.advance(&stamp(ENTRIES).parse().unwrap(), None);
    line.store().unwrap();
}

/// Returns the numbers that would be sent, and what the journal lacks.
fn dry(folder: &Path, from: From) -> Result<(Vec<u32>, String), String> {
    let text = format!(
        r#"{{"state": "{}", "sources": {{"db": {{"kind": "mariadb", "hosts": ["/s"], "user": "guira", "server_id": 2}}}},
            "rules": [{{"table": "a.b", "keys": ["k"]}}], "destinations": {{"c1": {{"routers": ["r"]}}}} }}"#,
        folder.display()
    );
    let config = crate::config::parse(&text).unwrap();
    let (until_s, source, to, prefix, rate) = (None, None, None, None, None);
    let wanted = Replay { from, until_s, source, to, prefix, rate, is_dry: true };
    let mut out = Vec::new();
    let done = replay(&config, &wanted, &mut out)?;
    let text = String::from_utf8(out).unwrap();
    let number = |line: &str| line.split(' ').nth(2)?[1..].strip_suffix(':')?.parse().ok();
    Ok((text.lines().filter_map(number).collect(), done.lacks.join("|")))
}

#[test]
fn a_position_of_each_kind_is_a_beginning_in_its_own_journal_only() {
    let of: [fn(u32) -> String; 3] =
        [|n| format!("0-1-{n}"), |n| format!("0/{n:X}"), |n| format!("{UUID}:{n}")];
    let beginnings = ["0-1-4", "0/5", &format!("{UUID}:1-4")];
    for (ours, stamp) in of.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        journal(folder.path(), stamp);
        for (theirs, position) in beginnings.iter().enumerate() {
            let from = From::Position(position.parse().unwrap());
            let told = dry(folder.path(), from);
            if ours == theirs {
                assert_eq!(told, Ok(((5..=ENTRIES).collect(), String::new())), "{position}");
            } else {
                let words = told.unwrap_err();
                assert!(words.contains("is another database's position"), "{words}");
            }
        }
        let (all, _) = dry(folder.path(), From::Position("".parse().unwrap())).unwrap();
        assert_eq!(all, (1..=ENTRIES).collect::<Vec<_>>());
    }
}

#[test]
fn what_the_journal_lacks_is_told_if_it_may_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    journal(folder.path(), |n| format!("0-1-{n}"));
    let of = folder.path().join("db");
    let firsts = segment::firsts(&of).unwrap();
    assert!(firsts.len() >= 4, "{firsts:?}");
    let time = |from| dry(folder.path(), From::Time(from)).unwrap();
    let number = |first: u64| u32::try_from(first).unwrap();
    // A flipped bit in the second file.
    let path = segment::path(&of, firsts[1]);
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[60] ^= 1;
    std::fs::write(&path, &flipped).unwrap();
    let hole = format!("lacks its entries {} to {}:", firsts[1], firsts[2] - 1);
    let (sent, lacks) = time(2);
    let expected = (2..number(firsts[1])).chain(number(firsts[2])..=ENTRIES);
    assert_eq!(sent, expected.collect::<Vec<_>>());
    assert!(lacks.contains(&hole), "{lacks}");
    // No entry of the hole is asked for: no report.
    assert_eq!(time(number(firsts[2]) + 1).1, "");
    // The file is gone, as when a daemon removes it meanwhile.
    std::fs::remove_file(&path).unwrap();
    assert!(time(2).1.contains(&hole));
    // The next file is gone, too: one hole.
    std::fs::remove_file(segment::path(&of, firsts[2])).unwrap();
    let (_, lacks) = time(2);
    assert!(lacks.contains(&format!("lacks its entries {} to {}:", firsts[1], firsts[3] - 1)));
    std::fs::write(&path, &whole).unwrap();
    // The last entries, which the stored position counts, are missing.
    let last = *firsts.last().unwrap();
    std::fs::remove_file(segment::path(&of, last)).unwrap();
    let (_, lacks) = time(ENTRIES);
    assert!(lacks.contains(&format!("lacks its entries {last} to {ENTRIES}:")), "{lacks}");
}

const ENTRIES: u32 = 150;

#[test]
fn a_time_is_a_date_a_number_or_so_long_ago() {
    assert_eq!(time("2026-07-01T10:00:00Z"), Ok(1_782_900_000));
    assert_eq!(at(1_782_900_000).to_string(), "2026-07-01T10:00:00Z");
    assert_eq!(time("1782900000"), Ok(1_782_900_000));
    let now = u32::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let ago = time("90m").unwrap();
    assert!((now - 5402..=now - 5398).contains(&ago), "{ago} {now}");
    for text in ["", "yesterday", "5x", "-1", "99999999999", "1950-01-01T00:00:00Z", "9999999d"] {
        assert!(time(text).is_err(), "{text}");
    }
}
