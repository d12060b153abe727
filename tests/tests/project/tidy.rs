//! The repository keeps its own rules: sizes, heads, crate edges, unsafe, links, words.
//!
//! The rules are functions of `guira_tests::tidy`; the second half feeds each of them what it must refuse.

use guira_tests::server::{Program, Server, guira, own_directory, workspace};
use guira_tests::tidy::{
    BANNED, LINES_MAX, LINES_OF_FUNCTION_MAX, SENTENCE_WORDS_MAX, UNSAFE_FILES, WORDS_MAX,
    check_document, check_edges, check_english, check_hops, check_length, check_mentions,
    check_names, check_references, check_rust, check_sentences, check_words, log_events, log_page,
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
fn one_thing_has_one_name() {
    let files = files();
    let is_source = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    let sources = files.iter().filter(|(path, _)| ends_with(path, "rs") && is_source(path));
    let found = check_names(sources.map(|(path, text)| (&**path, &**text)));
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
fn documents_name_files_and_functions_that_are_there() {
    let root = workspace();
    let files = files();
    // The changes tell of files that were there then.
    let documents = files.iter().filter(|(p, _)| ends_with(p, "md") && p != "CHANGELOG.md");
    let found: Vec<String> =
        documents.flat_map(|(path, text)| check_references(&root, path, text)).collect();
    expect_none(&found);
}

#[test]
fn each_hop_of_a_get_is_called_by_one_before_it() {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    for (section, files_max) in [("A get, hop by hop", 20), ("A get through the router", 12)] {
        let (_, hops) = text.split_once(&format!("\n## {section}\n")).expect(section);
        let hops = hops.split("\n## ").next().unwrap_or_default();
        expect_none(&check_hops(&workspace(), hops));
        let files: BTreeSet<&str> =
            hops.lines().filter_map(|line| line.strip_prefix("| `")?.split("::").next()).collect();
        assert!(files.len() <= files_max, "{section}: it touches {} files", files.len());
    }
}

#[test]
fn security_names_each_file_with_unsafe_code() {
    let text = fs::read_to_string(workspace().join("SECURITY.md")).unwrap();
    expect_none(&check_mentions("SECURITY.md", &text, UNSAFE_FILES));
}

/// What the program or the lab writes.
fn is_generated(path: &str) -> bool {
    path.starts_with("docs/reference/") || path.starts_with("docs/lab")
}

/// The cells of the first row of `text` that begins with `begin`.
fn cells(text: &str, begin: &str) -> Vec<String> {
    let row = text.lines().find(|line| line.starts_with(begin));
    let row = row.unwrap_or_else(|| panic!("no row {begin}"));
    row.trim_matches('|').split('|').map(|cell| cell.trim().replace('*', "")).collect()
}

/// The number that a cell begins with.
fn number(cell: &str) -> &str {
    cell.split(' ').next().unwrap_or_default()
}

#[test]
fn the_readme_has_the_figures_of_the_pages() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).unwrap();
    let (readme, measured) = (read("README.md"), read("docs/performance.md"));
    let traces = read("docs/explained/traces.md");
    let version = &cells(&readme, "| what |")[2];
    for (what, head, row) in [
        ("| processor time", "| row |", "| `get50` |"),
        ("| memory per item", "| | items", "| `-m 1024` |"),
    ] {
        let shown = cells(&readme, what);
        let (head, row) = (cells(&measured, head), cells(&measured, row));
        let is = |cell: &str, name: &str| cell == name || cell.ends_with(&format!("item: {name}"));
        let column = |name: &str| head.iter().position(|cell| is(cell, name)).expect(name);
        assert_eq!(number(&shown[1]), row[column("Guira")], "{what}");
        assert_eq!(number(&shown[2]), row[column(version)], "{what}");
    }
    let shown = cells(&readme, "| misses on");
    assert_eq!(number(&shown[1]), number(&cells(&traces, "| `guira serve -m 64` |")[2]));
    assert_eq!(number(&shown[2]), number(&cells(&traces, "| memcached 1.6.18, `-m 64` |")[2]));
}

#[test]
fn documents_can_be_read_at_once() {
    let files = files();
    // The lab's pages quote papers. The reference has the sentences of each `--help`.
    let pages = files.iter().filter(|(p, _)| ends_with(p, "md") && !p.starts_with("docs/lab"));
    let complaints = |(path, text): &(String, String)| {
        let mut found = check_english(path, text);
        // The changes are read by the point, and merged from many hands.
        if !is_generated(path) && path != "CHANGELOG.md" {
            found.extend(check_sentences(path, text));
        }
        if !is_generated(path) && path != "CHANGELOG.md" {
            found.extend(check_length(path, text));
        }
        found
    };
    expect_none(&pages.flat_map(complaints).collect::<Vec<_>>());
}

#[test]
fn nothing_names_a_place_of_one_machine() {
    let found: Vec<String> = files().iter().flat_map(|(p, text)| check_words(p, text)).collect();
    expect_none(&found);
}

#[test]
fn the_reference_is_what_the_program_writes() {
    let dir = own_directory();
    let written = Command::new(guira()).args(["generate", "reference"]).arg(&dir).status().unwrap();
    assert!(written.success());
    let mut pages = 0;
    for page in fs::read_dir(&dir).unwrap() {
        let name = page.unwrap().file_name();
        let made = fs::read_to_string(dir.join(&name)).unwrap();
        let there = fs::read_to_string(workspace().join("docs/reference").join(&name));
        let there = there.unwrap_or_default();
        let wrong = made.lines().zip(there.lines()).find(|(is, says)| is != says);
        assert!(
            made == there,
            "{name:?} differs: run `guira generate reference docs/reference`: {wrong:?}"
        );
        pages += 1;
    }
    assert_eq!(pages, 11);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_page_of_the_log_is_what_the_source_can_say() {
    let files = files();
    let mut events = Vec::new();
    for (path, text) in &files {
        let of = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        let Some((library, file)) = of else { continue };
        // The sessions of `front` are the router's and the store's.
        let programs: &[&str] = match (library, file) {
            ("front", "systemd.rs") => &["invalidate", "route", "serve", "store"],
            ("front", _) => &["route", "store"],
            ("node", _) => &["store"],
            ("serve", _) => &["serve"],
            ("route", _) => &["route"],
            ("invalidate", _) => &["invalidate"],
            _ => continue,
        };
        if ends_with(file, "rs") && !file.ends_with("tests.rs") {
            for (level, message) in log_events(path, text) {
                events.extend(programs.iter().map(|program| (*program, level, message.clone())));
            }
        }
    }
    let made = log_page(events);
    assert!(made.lines().count() > 40, "{made}");
    let there = fs::read_to_string(workspace().join("docs/reference/log.md")).unwrap_or_default();
    if made != there {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("log.md");
        fs::write(&path, made).unwrap();
        panic!("docs/reference/log.md differs: copy {} there", path.display());
    }
}

#[test]
fn events_of_the_log_are_found_in_the_source() {
    let text = "fn a() {\n    tracing::warn!(\n        \"{path}: no \\\"room\\\" \\\n         for {}\",\n        b\n    );\n    \
                tracing::error!(\"{words}\");\n    tracing::info!(\"news\");\n}\n\n#[cfg(test)]\nmod tests {\n    \
                fn c() { tracing::warn!(\"in a test\") }\n}\n";
    let found = log_events("a.rs", text);
    let expected = [("ERROR", "{words}"), ("WARN", "{path}: no \"room\" for {}")];
    assert_eq!(found, expected.map(|(level, message)| (level, message.to_owned())));
    let page = log_page(found.into_iter().map(|(level, message)| ("serve", level, message)));
    let rows: Vec<&str> = page.lines().filter(|line| line.contains("guira serve` |")).collect();
    assert_eq!(rows, ["| `guira serve` | WARN | `{path}: no \"room\" for …` |"]);
    let same = ["{}: gone", "{name}: gone"].map(|message| ("serve", "WARN", message.to_owned()));
    let page = log_page(same);
    assert!(page.ends_with("|---|\n| `guira serve` | WARN | `{name}: gone` |\n"), "{page}");
}

#[test]
fn no_table_of_flags_is_written_by_hand() {
    let files = files();
    let by_hand = files.iter().filter(|(p, _)| {
        ends_with(p, "md") && p.starts_with("docs/") && !p.starts_with("docs/reference/")
    });
    for (path, text) in by_hand {
        for head in [
            "| flag | default |",
            "| `-o` setting |",
            "| signal |",
            "| exit code |",
            "| `stats` line |",
            "| metric |",
            "| line |",
        ] {
            assert!(!text.contains(head), "{path}: {head} belongs to docs/reference");
        }
    }
}

#[test]
fn each_stat_is_documented() {
    let server = Server::start(Program::Guira, &[]);
    let stats = server.connect().ask("stats");
    let names: Vec<&str> = stats.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert!(names.len() > 40, "{stats}");
    let path = "docs/reference/statistics.md";
    let text = fs::read_to_string(workspace().join(path)).unwrap();
    expect_none(&check_mentions(path, &text, names));
}

#[test]
fn each_stat_of_a_router_is_documented_in_its_order() {
    let dir = own_directory();
    fs::create_dir_all(&dir).unwrap();
    let pools = dir.join("pools.json");
    fs::write(&pools, "{\"stats_enabled_pools\": [\"POOL\"]}").unwrap();
    let pools = pools.display().to_string();
    let router = Server::start_router(&[
        "--config",
        "{\"route\": \"NullRoute\"}",
        "--pool-stats-config-file",
        &pools,
    ]);
    let stats = router.connect().ask("stats all");
    let names: Vec<&str> = stats.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let path = "docs/reference/router-statistics.md";
    let text = fs::read_to_string(workspace().join(path)).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(names, rows.collect::<Vec<_>>());
    fs::remove_dir_all(dir).unwrap();
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
fn a_name_of_two_things_is_seen() {
    let one = (
        "crates/one/src/a.rs",
        "pub struct Request<'a> {}\npub(crate) enum Reply {}\nstruct Key;\n",
    );
    let two =
        ("crates/two/src/b.rs", "/// pub struct Key\npub enum Request {}\npub trait Reply {}\n");
    let seen = "Request is declared by crates/one/src/a.rs, crates/two/src/b.rs";
    assert_eq!(check_names([one, two]), [seen]);
    assert!(check_names([one]).is_empty());
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
    assert!(check_rust("crates/cache/src/memory/arena.rs", &good).is_empty());
    assert_eq!(check_rust("crates/cache/src/reader.rs", &good).len(), 1);
    for bad in ["", "    // SAFETY: safe.\n", "    // It is safe because it is.\n"] {
        assert_eq!(check_rust("crates/cache/src/memory/arena.rs", &text(bad)).len(), 1, "{bad:?}");
    }
    let two_lines = text("    // SAFETY: invariant 2\n    // keeps it.\n");
    assert!(check_rust("crates/cache/src/memory/arena.rs", &two_lines).is_empty());
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
fn each_banned_phrase_is_seen() {
    let complaints = |text: &str| check_english("x.md", text).len();
    for (phrase, _) in BANNED {
        assert_eq!(
            complaints(&format!("# T\n\nA page, {phrase}, with a phrase.\n")),
            1,
            "{phrase}"
        );
        let broken = phrase.replacen(' ', "\n", 1);
        assert_eq!(complaints(&format!("It is\n{broken} so.\n")), 1, "{phrase}");
        assert_eq!(complaints(&format!("```\n{phrase}\n```\nand `{phrase}` too\n")), 0, "{phrase}");
    }
    for bad in [
        "Who has no limit has no permits.",
        "It ends. Who waits is served.",
        "- Who waits is served.",
        "one a thread",
        "a user a line",
        "a key\na bucket",
        "5.6 bytes an item",
        "| microseconds an operation |",
    ] {
        assert_eq!(complaints(bad), 1, "{bad}");
    }
    for good in [
        "Who reads this page? You.",
        "clients who read",
        "a thread, a key, and a bucket",
        "one per thread",
        "a second thread",
        "the marshall of looks, up to him",
    ] {
        assert_eq!(complaints(good), 0, "{good}");
    }
}

#[test]
fn a_long_page_is_seen_and_code_does_not_count() {
    let page = |words: usize| format!("# T\n{}", "word - | ".repeat(words - 1));
    assert!(check_length("x.md", &page(WORDS_MAX)).is_empty());
    assert_eq!(check_length("x.md", &page(WORDS_MAX + 1)).len(), 1);
    let code = format!("{}\n```\n{}\n```\n", page(WORDS_MAX), "word ".repeat(9));
    assert!(check_length("x.md", &code).is_empty());
}

#[test]
fn a_long_sentence_is_seen_and_what_stands_apart_is_none() {
    let found = |text: &str| check_sentences("x.md", text).len();
    let words = |count: usize| "word ".repeat(count);
    let most = SENTENCE_WORDS_MAX;
    assert_eq!(found(&format!("# T\n\n{}.\n", words(most + 1))), 1);
    assert_eq!(
        found(&format!("A page. {}", words(most).replacen("word word", "word\nword", 1))),
        0
    );
    for apart in [". ", ": ", "; ", "\n\n", "\n- ", "\n# ", " | ", " `code code` . "] {
        let (before, after) = (words(most - 1), words(most - 1));
        assert_eq!(found(&format!("{}{apart}{after}", before.trim_end())), 0, "{apart:?}");
    }
    assert_eq!(found(&format!("# {}\n{}\n", words(most), words(most))), 0);
    assert_eq!(found(&format!("{}`{}`", words(most), words(9))), 0);
}

#[test]
fn a_file_or_function_that_is_gone_is_seen() {
    let root = workspace();
    let check = |name: &str| check_references(&root, "x.md", &format!("see `{name}` there")).len();
    for gone in
        ["serve/src/nowhere.rs", "serve/src/transport/worker.rs::tur", "tests/src/tidy.rs::none"]
    {
        assert_eq!(check(gone), 1, "{gone}");
    }
    for there in
        ["serve/src/transport/worker.rs::turn", "tests/src/tidy.rs", "x.rs", "a/*.rs", "std::fs"]
    {
        assert_eq!(check(there), 0, "{there}");
    }
}

#[test]
fn a_hop_that_nothing_calls_is_seen() {
    let check = |hops: [&str; 2]| {
        let row = |name| format!("| `route/src/proxy/asking.rs::{name}` | x |\n");
        check_hops(&workspace(), &hops.map(row).concat()).len()
    };
    assert_eq!(check(["begin", "ask"]), 0);
    assert_eq!(check(["ask", "begin_keys"]), 1);
    assert_eq!(check(["begin", "gone"]), 1);
    assert_eq!(check_hops(&workspace(), "no table").len(), 1);
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
    assert!(check_words("a.rs", "// see docs/explained/memory.md\n").is_empty());
}
