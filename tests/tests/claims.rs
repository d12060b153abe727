//! What SECURITY.md and CONTRIBUTING.md claim is checked: each promise names the test that keeps it, each number is the one
//! that the code has.

use guira_tests::server::workspace;
use guira_tests::tidy::{
    LINES_MAX, LINES_OF_FUNCTION_MAX, SENTENCE_WORDS_MAX, UNSAFE_FILES, WORDS_MAX,
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
    vec![
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
