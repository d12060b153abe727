//! The repository keeps its own rules: sizes, heads, crate edges, unsafe, links, words.
//!
//! The rules are functions of `guira_tests::tidy`; the second half feeds each of them what it must refuse.

use guira_tests::server::{guira, workspace};
use guira_tests::tidy::{
    LINES_MAX, LINES_OF_FUNCTION_MAX, check_document, check_edges, check_mentions, check_rust,
    check_words,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The repository's files with their text: what git knows and what it would add.
fn files() -> Vec<(String, String)> {
    let list = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(workspace())
        .output()
        .expect("git is there");
    let paths = String::from_utf8_lossy(&list.stdout);
    assert!(list.status.success() && !paths.is_empty(), "git lists no files");
    let read =
        |path: &str| Some((path.to_owned(), fs::read_to_string(workspace().join(path)).ok()?));
    paths.lines().filter_map(read).collect()
}

fn ends_with(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|e| e == extension)
}

fn expect_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn rust_files_are_tidy() {
    let files = files();
    let rust = files.iter().filter(|(path, _)| ends_with(path, "rs"));
    let found: Vec<String> = rust.flat_map(|(path, text)| check_rust(path, text)).collect();
    expect_none(&found);
}

#[test]
fn crates_depend_only_downwards() {
    let files = files();
    let is_member = |path: &str| path.starts_with("crates/") || path.starts_with("tests/");
    let manifests: Vec<_> =
        files.iter().filter(|(p, _)| p.ends_with("Cargo.toml") && is_member(p)).collect();
    assert!(manifests.len() >= 7, "only {} manifests were found", manifests.len());
    let found: Vec<String> = manifests.iter().flat_map(|(p, text)| check_edges(p, text)).collect();
    expect_none(&found);
}

#[test]
fn documents_have_one_title_and_no_dead_link() {
    let root = workspace();
    let files = files();
    let documents = files.iter().filter(|(path, _)| ends_with(path, "md"));
    let found: Vec<String> =
        documents.flat_map(|(p, text)| check_document(&root, p, text)).collect();
    expect_none(&found);
}

#[test]
fn nothing_names_a_place_of_one_machine() {
    let found: Vec<String> = files().iter().flat_map(|(p, text)| check_words(p, text)).collect();
    expect_none(&found);
}

#[test]
fn each_flag_is_documented() {
    let help = Command::new(guira()).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let flags: BTreeSet<&str> = help
        .split(|c: char| !is_part(c))
        .filter(|word| word.starts_with("--") && word.len() > 3)
        .collect();
    assert!(flags.len() > 15, "the help names {} long flags: {help}", flags.len());
    let path = "docs/operations.md";
    let text = fs::read_to_string(workspace().join(path)).unwrap();
    expect_none(&check_mentions(path, &text, flags));
}

#[test]
fn the_tables_of_flags_are_those_of_the_program() {
    let options = Command::new(guira()).args(["generate", "options"]).output().unwrap();
    let options = String::from_utf8(options.stdout).unwrap();
    assert!(options.contains("| `-m`, `--memory-limit` | 64 |"), "{options}");
    let text = fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let (_, behind) = text.split_once("<!-- guira generate options -->\n").expect("it has a mark");
    let (tables, _) = behind.split_once("<!-- end -->").expect("it has an end");
    let wrong = options.trim().lines().zip(tables.trim().lines()).find(|(is, says)| is != says);
    assert!(
        options.trim() == tables.trim(),
        "replace the tables by what `guira generate options` prints: {wrong:?}"
    );
}

#[test]
fn each_stat_is_documented() {
    use guira_tests::server::{Program, Server};
    let server = Server::start(Program::Guira, &[]);
    let stats = server.connect().ask("stats");
    let names: Vec<&str> = stats.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert!(names.len() > 40, "{stats}");
    let path = "docs/operations.md";
    let text = fs::read_to_string(workspace().join(path)).unwrap();
    expect_none(&check_mentions(path, &text, names));
}

#[test]
fn each_example_is_listed_in_the_readme() {
    let files = files();
    let examples = files.iter().filter_map(|(path, _)| path.strip_prefix("examples/"));
    let examples: Vec<&str> = examples.filter(|name| ends_with(name, "rs")).collect();
    let readme = fs::read_to_string(workspace().join("README.md")).unwrap();
    expect_none(&check_mentions("README.md", &readme, examples));
}

#[test]
fn a_file_that_is_too_long_is_seen() {
    let text = format!("//! Head.\n{}", "const A: u8 = 0;\n".repeat(LINES_MAX));
    assert_eq!(check_rust("a.rs", &text).len(), 1);
    assert!(check_rust("a.rs", &text.replacen("const A: u8 = 0;\n", "", 1)).is_empty());
}

#[test]
fn a_file_without_a_head_is_seen() {
    for text in ["use std::fmt;\n", "\n//! Head.\n", "//!\n", ""] {
        assert_eq!(check_rust("a.rs", text).len(), 1, "{text:?}");
    }
}

#[test]
fn a_long_function_is_seen_and_comments_do_not_count() {
    let of = |line: &str, times: usize| {
        format!("//! Head.\nimpl A {{\n    fn long() {{\n{}    }}\n}}\n", line.repeat(times))
    };
    let most = LINES_OF_FUNCTION_MAX;
    assert_eq!(check_rust("a.rs", &of("        a();\n", most + 1)).len(), 1);
    assert!(check_rust("a.rs", &of("        a();\n", most)).is_empty());
    assert!(check_rust("a.rs", &of("        // why\n", most + 1)).is_empty());
}

#[test]
fn unsafe_out_of_place_or_without_a_reason_is_seen() {
    let text = |above: &str| format!("//! Head.\n\nfn a() {{\n{above}    unsafe {{ b() }}\n}}\n");
    let good = text("    // SAFETY: invariant 2 keeps the chunk mapped.\n");
    assert!(check_rust("crates/cache/src/arena.rs", &good).is_empty());
    assert_eq!(check_rust("crates/cache/src/reader.rs", &good).len(), 1);
    for bad in ["", "    // SAFETY: safe.\n", "    // It is safe because it is.\n"] {
        assert_eq!(check_rust("crates/cache/src/arena.rs", &text(bad)).len(), 1, "{bad:?}");
    }
    let two_lines = text("    // SAFETY: invariant 2\n    // keeps it.\n");
    assert!(check_rust("crates/cache/src/arena.rs", &two_lines).is_empty());
    let only_named =
        "//! Head.\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe { }\"; // unsafe\n";
    assert!(check_rust("a.rs", only_named).is_empty());
}

#[test]
fn unfinished_work_without_a_number_is_seen() {
    let mark = concat!("TO", "DO");
    assert_eq!(check_rust("a.rs", &format!("//! Head.\n// {mark}: later\n")).len(), 1);
    assert!(check_rust("a.rs", &format!("//! Head.\n// {mark}(#12): later\n")).is_empty());
}

#[test]
fn an_edge_upwards_or_sideways_is_seen() {
    let manifest = |name: &str, line: &str| format!("[package]\nname = \"{name}\"\n{line}\n");
    for (name, line) in [
        ("guira-proto", "[dependencies]\nguira-index.workspace = true"),
        ("guira-cache", "[dependencies]\nguira-proto = { path = \"../proto\" }"),
        ("guira-index", "[dev-dependencies]\nguira-cache.workspace = true"),
        ("guira-bench", "[dependencies.guira-cache]\nworkspace = true"),
        ("guira-serve", "[target.'cfg(unix)'.dependencies]\nguira = \"1\""),
        ("guira-newcomer", ""),
    ] {
        assert_eq!(check_edges("Cargo.toml", &manifest(name, line)).len(), 1, "{name} {line}");
    }
    let good =
        manifest("guira-cache", "[dependencies]\nguira-index.workspace = true\nloom = \"0.7\"");
    assert!(check_edges("Cargo.toml", &good).is_empty());
}

#[test]
fn a_dead_link_and_a_second_title_are_seen() {
    let root = workspace();
    let check = |text: &str| check_document(&root, "docs/x.md", text).len();
    assert_eq!(check("# T\n[a](nowhere.md)\n"), 1);
    assert_eq!(check("# T\n# U\n"), 1);
    assert_eq!(check("no title\n"), 1);
    assert_eq!(check("# T\n[a](../Cargo.toml#x) [b](https://example.org) `[c](d)`\n"), 0);
    assert_eq!(check("# T\n```\n# not a title\n[a](b)\n```\n"), 0);
}

#[test]
fn a_missing_mention_is_seen() {
    let missing = |text: &str| check_mentions("x.md", text, ["--port", "-p"]).len();
    assert_eq!(missing("`-p`, `--port` sets it"), 0);
    assert_eq!(missing("`--port` sets it"), 1);
    assert_eq!(missing("`--ports` and `-px`"), 2);
}

#[test]
fn a_path_of_one_machine_is_seen() {
    let path = concat!("/ro", "ot/.cargo");
    assert_eq!(check_words("a.rs", &format!("// see {path}\n")).len(), 1);
    assert!(check_words("a.rs", "// see docs/memory.md\n").is_empty());
}
