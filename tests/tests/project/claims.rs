//! What documents claim is checked. Each promise of SECURITY.md names the test that keeps it. Each number of SECURITY.md,
//! CONTRIBUTING.md and ARCHITECTURE.md is the one that the code has. Each sentence of CHANGELOG.md has a
//! test. What ARCHITECTURE.md says a crate never does, it doesn't do.

use guira_tests::server::workspace;
use guira_tests::tidy::{
    EDGES, LINES_MAX, LINES_OF_FUNCTION_MAX, SENTENCE_WORDS_MAX, UNSAFE_FILES, WORDS_MAX,
    check_references,
};
use std::fs;

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Sentences with numbers, made from what the numbers stand for.
fn claims() -> Vec<(&'static str, String)> {
    let words = ["none", "one", "two", "three", "four", "five", "six"];
    let unsafe_files = words[UNSAFE_FILES.len()];
    let counted = read("tests/count/expected.txt");
    let kinds = counted.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(kinds, 12, "CONTRIBUTING.md says twelve kinds of request");
    let run = read("tests/count/run");
    let tolerance = run.lines().find_map(|line| line.strip_prefix("TOLERANCE_PERCENT = "));
    let tolerance: f64 = tolerance.and_then(|it| it.parse().ok()).expect("the tolerance");
    let pages = format!("{},{:03}", WORDS_MAX / 1000, WORDS_MAX % 1000);
    assert!(
        read("crates/index/src/bucket.rs")
            .contains("const SLOTS: usize = if cfg!(loom) { 2 } else { 12 };"),
        "ARCHITECTURE.md says twelve tags"
    );
    let indexes = read("crates/index/src/any.rs");
    assert!(
        indexes.contains("pub const ALL: [Self; 3]"),
        "ARCHITECTURE.md and CHANGELOG.md say three"
    );
    vec![
        ("ARCHITECTURE.md", "two buckets, the twelve tags of each compared at once".to_owned()),
        ("ARCHITECTURE.md", "hash to location, by one of three tables".to_owned()),
        ("CHANGELOG.md", "three concurrent indexes under one contract".to_owned()),
        ("CHANGELOG.md", format!("pages over {pages} words, sentences over {SENTENCE_WORDS_MAX},")),
        ("CHANGELOG.md", format!("{} % of LRU's misses", gains())),
        ("CHANGELOG.md", router_memory()),
        ("SECURITY.md", format!("`unsafe` code stands in {unsafe_files} files:")),
        ("CONTRIBUTING.md", "counts the instructions of twelve kinds of request.".to_owned()),
        ("CONTRIBUTING.md", format!("by more than {tolerance} %, either way.")),
        ("CONTRIBUTING.md", format!("files of at most {LINES_MAX} lines")),
        ("CONTRIBUTING.md", format!("functions of at most {LINES_OF_FUNCTION_MAX},")),
        (
            "CONTRIBUTING.md",
            format!(
                "pages of at most {pages} words, in sentences of at most {SENTENCE_WORDS_MAX},"
            ),
        ),
    ]
}

/// The least and the most that S3-CLOCK gains on LRU, by the table of the traces: `7 to 11`.
fn gains() -> String {
    let traces = read("docs/explained/traces.md");
    let row = traces.lines().find(|line| line.starts_with("| **`s3-clock`**")).expect("a row");
    let cells = row.split('|').map(|cell| cell.trim().trim_matches('*').parse::<f64>());
    let means: Vec<f64> = cells.filter_map(Result::ok).filter(|&gain| gain > 0.0).collect();
    assert_eq!(means.len(), 3, "{row}");
    let (least, most) = means.iter().fold((f64::MAX, 0.0_f64), |(l, m), &g| (l.min(g), m.max(g)));
    format!("{least:.0} to {most:.0}")
}

/// What the router's flags for memory are by default.
fn router_memory() -> String {
    let flags = read("docs/reference/flags.md");
    let default = |flag: &str| {
        let row = flags.lines().find(|line| line.starts_with(&format!("| `{flag} <SIZE>` |")));
        row.and_then(|row| row.split('|').nth(2)).expect(flag).trim().replace('m', " MB")
    };
    let (all, each) = (default("--client-memory"), default("--client-memory-each"));
    format!("{all} for all (`--client-memory`), {each} for one (`--client-memory-each`)")
}

/// Sentences of CHANGELOG.md's section "Unreleased": a part of each, and the tests that keep it.
fn kept() -> Vec<(String, Vec<String>)> {
    let table = read("tests/tests/changes.txt");
    let rows = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let row = |row: &str| {
        let (part, tests) = row.rsplit_once(" | ").expect("a part of a sentence | its tests");
        (part.to_owned(), tests.split(", ").map(str::to_owned).collect())
    };
    rows.map(row).collect()
}

/// The sentences under "Unreleased" that say what the programs do, lines joined.
fn sentences(changes: &str) -> Vec<String> {
    let unreleased = changes.split_once("## Unreleased").map_or("", |(_, rest)| rest);
    let done = unreleased.split("### Not yet").next().unwrap_or_default();
    let lines = done.lines().skip_while(|line| !line.starts_with('-'));
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).map(str::trim).collect();
    let text = lines.join(" ");
    let bullets = text.split(" - ").flat_map(|bullet| bullet.split(". "));
    let parts = bullets.map(|part| part.trim_start_matches("- ").trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

/// Sentences that no row of the table covers.
fn untested(changes: &str, kept: &[(String, Vec<String>)]) -> Vec<String> {
    let is_covered = |sentence: &String| kept.iter().any(|(part, _)| sentence.contains(part));
    sentences(changes).into_iter().filter(|sentence| !is_covered(sentence)).collect()
}

/// How a claim about what a crate never does is kept.
enum Kept {
    /// It may depend on none of these crates of the workspace; on none at all, if there are none.
    Apart(&'static [&'static str]),
    /// No crate, or not this one, may depend on it.
    Unnamed(&'static str),
    /// Its sources name none of these.
    Without(&'static [&'static str]),
    /// No file of it may have unsafe code.
    Safe,
    /// By this file, or this function of it.
    Test(&'static str),
}

/// What ARCHITECTURE.md says a crate never does.
const NEVER: &[(&str, &str, Kept)] = &[
    (
        "proto",
        "does I/O",
        Kept::Without(&["std::net", "std::fs", "std::os", "std::process", "rustix"]),
    ),
    ("proto", "reads past `used`", Kept::Test("crates/proto/tests/laws.rs")),
    ("index", "reads an item", Kept::Apart(&[])),
    ("policy", "holds an item", Kept::Apart(&[])),
    ("policy", "reads a clock", Kept::Without(&["std::time", "Instant::now", "SystemTime"])),
    ("filter", "is linked by the server", Kept::Unnamed("guira-serve")),
    ("cache", "knows a protocol", Kept::Apart(&["guira-proto"])),
    ("cache", "reads a clock", Kept::Without(&["Instant::now", "SystemTime"])),
    ("client", "knows routes", Kept::Apart(&["guira-route"])),
    ("route", "links the server", Kept::Apart(&["guira-serve", "guira-cache"])),
    (
        "config",
        "knows its programs",
        Kept::Apart(&["guira-front", "guira-invalidate", "guira-route"]),
    ),
    ("etcd", "knows its programs", Kept::Apart(&["guira-chain", "guira-front", "guira-route"])),
    ("invalidate", "has unsafe code", Kept::Safe),
    ("disk", "knows a record", Kept::Apart(&[])),
    ("flash", "knows a protocol", Kept::Apart(&["guira-proto"])),
    ("flash", "reads a clock", Kept::Without(&["Instant::now", "SystemTime"])),
    ("store", "knows a protocol", Kept::Apart(&["guira-proto"])),
    ("chain", "reads a clock", Kept::Without(&["Instant::now", "SystemTime"])),
    ("cluster", "has unsafe code", Kept::Safe),
    ("node", "has unsafe code", Kept::Safe),
    (
        "log",
        "blocks or panics because of its descriptor",
        Kept::Test(
            "tests/serve/log.rs::no_client_and_no_reader_of_standard_error_can_end_or_hold_up_the_server",
        ),
    ),
    ("serve", "has unsafe code", Kept::Safe),
    (
        "front",
        "knows its programs",
        Kept::Apart(&["guira-cache", "guira-node", "guira-route", "guira-serve"]),
    ),
    (
        "ctl",
        "prints anything but the answer to standard output",
        Kept::Test("tests/commands/ctl.rs::a_conversation_has_its_answers_and_exit_codes"),
    ),
    ("bench", "links the server", Kept::Apart(&["guira-serve", "guira-cache"])),
    ("lab", "is linked by the server", Kept::Unnamed("guira-serve")),
    ("guira", "is linked by another crate", Kept::Unnamed("")),
    ("tests", "links the other crates", Kept::Apart(&[])),
];

/// The crates and claims of the code map's column *never*.
fn nevers(architecture: &str) -> Vec<(&str, &str)> {
    let rows = architecture.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let cells = rows.take_while(|line| line.starts_with('|')).map(|row| {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        (cells[0].trim_matches('`'), cells[cells.len() - 1])
    });
    cells.flat_map(|(name, never)| never.split("; ").map(move |claim| (name, claim))).collect()
}

/// What speaks against a claim; `None`: it holds.
fn broken(name: &str, kept: &Kept) -> Option<String> {
    let package = if name == "guira" { name.to_owned() } else { format!("guira-{name}") };
    let edges = |of: &str| EDGES.iter().find(|(it, _)| *it == of).map_or(&[][..], |it| it.1);
    match kept {
        Kept::Apart([]) => edges(&package).first().map(|&it| it.to_owned()),
        Kept::Apart(from) => {
            edges(&package).iter().find(|it| from.contains(it)).map(|&it| it.to_owned())
        }
        Kept::Unnamed(by) => {
            let names = |(it, named): &&(&str, &[&str])| {
                (by.is_empty() || it == by) && named.contains(&&*package)
            };
            EDGES.iter().find(names).map(|it| it.0.to_owned())
        }
        Kept::Without(words) => {
            let sources = sources(&format!("crates/{name}/src"));
            assert!(!sources.is_empty(), "{name} has no sources");
            sources.iter().find_map(|(path, text)| {
                let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let found =
                    lines.flat_map(|line| words.iter().filter(|word| line.contains(**word)));
                found.map(|word| format!("{path} names {word}")).next()
            })
        }
        Kept::Safe => {
            let below = format!("crates/{name}/");
            UNSAFE_FILES.iter().find(|file| file.starts_with(&below)).map(|&it| it.to_owned())
        }
        Kept::Test(test) => missing(test),
    }
}

/// The Rust files below a directory that are no tests, with their text.
fn sources(below: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(workspace().join(below)).expect(below).flatten() {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = format!("{below}/{name}");
        if entry.path().is_dir() {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && !name.contains("tests") && !name.contains("models") {
            found.push((path.clone(), read(&path)));
        }
    }
    found
}

/// What is missing of a test: `file.rs` or `file.rs::function` below tests/ or the root, or a script below the root.
fn missing(test: &str) -> Option<String> {
    if !test.contains(".rs") {
        return (!workspace().join(test).is_file()).then(|| format!("there is no file {test}"));
    }
    let path = if test.starts_with("crates/") { test.to_owned() } else { format!("tests/{test}") };
    check_references(&workspace(), "claims", &format!("`{path}`")).pop()
}

/// Whether a document has the sentence, however its lines break.
fn has(text: &str, sentence: &str) -> bool {
    text.split_whitespace().collect::<Vec<_>>().join(" ").contains(sentence)
}

/// Rows of SECURITY.md's table of promises that name no test. Tidy checks that the files and functions exist.
fn unproven(text: &str) -> Vec<&str> {
    let rows = text.lines().skip_while(|line| !line.starts_with("| Guira promises |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let proves = |row: &&str| {
        let proof = row.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or_default();
        proof.contains("`tests/tests/") || proof.contains("`crates/")
    };
    rows.filter(|row| !proves(row)).collect()
}

#[test]
fn each_number_of_the_documents_is_the_codes() {
    for (path, sentence) in claims() {
        assert!(has(&read(path), &sentence), "{path} must say: {sentence}");
    }
}

#[test]
fn each_promise_names_its_test() {
    let security = read("SECURITY.md");
    assert!(security.contains("| Guira promises |"), "the table of promises is gone");
    let unproven = unproven(&security);
    assert!(unproven.is_empty(), "no test is named:\n{}", unproven.join("\n"));
}

#[test]
fn each_sentence_of_the_changes_has_a_test() {
    let (changes, kept) = (read("CHANGELOG.md"), kept());
    let untested = untested(&changes, &kept);
    assert!(untested.is_empty(), "enter these in changes.txt:\n{}", untested.join("\n"));
    let missing: Vec<String> =
        kept.iter().flat_map(|(_, tests)| tests).filter_map(|test| missing(test)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let sentences = sentences(&changes);
    let is_gone = |part: &&String| !sentences.iter().any(|sentence| sentence.contains(*part));
    let gone: Vec<&String> = kept.iter().map(|(part, _)| part).filter(is_gone).collect();
    assert!(gone.is_empty(), "CHANGELOG.md has no such sentence: {gone:?}");
}

#[test]
fn what_a_crate_never_does_it_does_not_do() {
    let architecture = read("ARCHITECTURE.md");
    let claimed = nevers(&architecture);
    let known: Vec<(&str, &str)> = NEVER.iter().map(|(name, claim, _)| (*name, *claim)).collect();
    assert_eq!(claimed, known, "each claim of the code map has its check in NEVER");
    for (name, claim, kept) in NEVER {
        assert_eq!(broken(name, kept), None, "{name} never {claim}");
    }
}

#[test]
fn a_planted_never_is_seen() {
    assert!(broken("serve", &Kept::Apart(&["guira-cache"])).is_some());
    assert!(broken("serve", &Kept::Apart(&[])).is_some());
    assert!(broken("cache", &Kept::Unnamed("guira-serve")).is_some());
    assert!(broken("index", &Kept::Unnamed("")).is_some());
    assert!(broken("serve", &Kept::Without(&["std::net"])).is_some());
    assert!(broken("index", &Kept::Safe).is_some());
    assert!(broken("log", &Kept::Test("tests/serve/log.rs::no_such_test")).is_some());
    let planted = read("ARCHITECTURE.md").replace("| does I/O;", "| fails; does I/O;");
    assert!(nevers(&planted).contains(&("proto", "fails")));
    let planted = "## Unreleased\n### One\n- It takes 3 MB.\n  It has `4` words.\n\n### Not yet\n";
    let row = |part: &str| vec![(part.to_owned(), vec!["tests/serve/log.rs".to_owned()])];
    assert_eq!(untested(planted, &row("words")), ["It takes 3 MB"]);
    assert_eq!(untested(planted, &row("takes")), ["It has `4` words"]);
    assert!(missing("tests/fresh-ubuntu").is_some());
    assert_eq!(missing("tests/fresh-debian"), None);
}

#[test]
fn a_planted_claim_is_seen() {
    let contributing = read("CONTRIBUTING.md");
    for (path, sentence) in claims().iter().filter(|(path, _)| *path == "CONTRIBUTING.md") {
        let number = |c: char| c.is_ascii_digit();
        let planted = contributing.replace(number, "9").replace("twelve", "ten");
        assert!(!has(&planted, sentence), "{path}: {sentence}");
    }
    let security = read("SECURITY.md");
    let row = "| Guira promises | checked by |\n|---|---|\n";
    let planted = security.replace(row, &format!("{row}| Guira never fails | everybody |\n"));
    assert_eq!(unproven(&planted), ["| Guira never fails | everybody |"]);
}
