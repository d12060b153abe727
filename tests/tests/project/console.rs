//! Each command on a page does what the page shows: README.md and docs/, see `guira_tests::console`.

use guira_tests::console::{Outcome, Place, Step, check, matches, steps};
use guira_tests::server::{within, workspace};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Blocks that no test runs: other machines, services of the system, builds, downloads. `--nocapture` lists them. One
/// more is a decision, so it changes this number.
const NOT_RUN: usize = 40;

/// The pages below `root` that have commands, by their paths.
fn pages(root: &Path, directories: &[&str]) -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    let mut left: Vec<String> = directories.iter().map(ToString::to_string).collect();
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(root.join(&directory)).expect("a directory of pages") {
            let entry = entry.expect("an entry");
            let path = format!("{directory}/{}", entry.file_name().display());
            if entry.file_type().expect("its type").is_dir() {
                left.push(path);
            } else if path.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.retain(|path| {
        !steps(&read(path)).unwrap_or_else(|why| panic!("{path}: {why}")).is_empty()
    });
    found
}

fn read(page: &str) -> String {
    fs::read_to_string(workspace().join(page)).expect(page)
}

/// Runs `pages`, some at a time, and returns how many blocks were not run.
fn run(pages: &[String], place: impl Fn() -> Place + Sync) -> usize {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<(&String, Result<Outcome, String>)>> = Mutex::default();
    let threads = thread::available_parallelism().map_or(2, usize::from).min(4);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = check(&read(page), place());
                    outcomes.lock().expect("no thread panics").push((page, outcome));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no thread panics");
    let failed: Vec<_> =
        outcomes.iter().filter_map(|(page, o)| Some((page, o.as_ref().err()?))).collect();
    let texts: Vec<_> = failed.iter().map(|(page, why)| format!("{page}, {why}")).collect();
    assert!(texts.is_empty(), "{} pages are wrong\n\n{}", texts.len(), texts.join("\n\n"));
    let good: Vec<_> =
        outcomes.iter().filter_map(|(page, o)| Some((page, o.as_ref().ok()?))).collect();
    let ran: usize = good.iter().map(|(_, outcome)| outcome.run).sum();
    let mut skipped = 0;
    for (page, outcome) in &good {
        for (line, reason) in &outcome.skipped {
            println!("not run: {page}:{line}: {reason}");
            skipped += 1;
        }
    }
    println!("{} pages, {ran} commands and blocks run, {skipped} blocks not run", pages.len());
    skipped
}

#[test]
fn each_command_on_a_page_does_what_the_page_shows() {
    let only = std::env::var("GUIRA_CONSOLE_PAGES").unwrap_or_default();
    let mut pages = pages(&workspace(), &["docs"]);
    pages.retain(|page| page.contains(&only));
    let skipped = run(&pages, Place::here);
    assert!(
        !only.is_empty() || skipped == NOT_RUN,
        "{skipped} blocks are not run, {NOT_RUN} are known"
    );
}

/// `tests/fresh-debian` runs it, with the root directory in `GUIRA_CONSOLE_ROOT`.
#[test]
#[ignore = "tests/fresh-debian makes the root directory that it needs"]
fn the_first_pages_hold_in_another_root() {
    let root =
        std::env::var("GUIRA_CONSOLE_ROOT").expect("GUIRA_CONSOLE_ROOT names a root directory");
    run(&pages(&workspace(), &["docs/start"]), || Place::inside(Path::new(&root)));
}

/// What is wrong with a page, if anything is.
fn complaint(page: &str) -> Option<String> {
    check(page, Place::here()).err()
}

fn console(lines: &str) -> String {
    format!("# T\n\n```console\n{lines}\n```\n")
}

#[test]
fn a_page_that_shows_what_does_not_come_out_is_seen() {
    let serve = "$ guira serve &\n...\n… ready…\n...\n$ guira set visits 41\n$ guira incr visits\n";
    assert_eq!(complaint(&console(&format!("{serve}42"))), None);
    for wrong in ["43", "42\n42", "fortytwo", ""] {
        let said = complaint(&console(&format!("{serve}{wrong}"))).expect(wrong);
        assert!(said.starts_with("line 9: `guira incr visits`") && said.contains("42"), "{said}");
    }
    for wrong in
        ["$ guira ping\n...\n$ true\nfine", "$ gira ping", "$ echo a\nb", "$ echo a", "$ if"]
    {
        assert!(complaint(&console(wrong)).is_some(), "{wrong}");
    }
    for wrong in ["false", "true\nfalse\ntrue", "guira get nothing", "guira serve --no-such-flag"] {
        let said = complaint(&format!("```sh\n{wrong}\n```\n")).expect(wrong);
        assert!(said.starts_with("line 1: exit code "), "{said}");
    }
    assert_eq!(complaint("```sh\ncd /\nx=1\n```\n\n```console\n$ pwd; echo $x\n/\n1\n```\n"), None);
}

#[test]
fn marks_do_what_they_say_and_no_other_is_taken() {
    let page = "<!-- test: file a.txt -->\n```json\n{}\n```\n<!-- test: given cp a.txt b.txt -->\n\
                <!-- test: numbers vary -->\n```console\n$ cat b.txt; echo 17 of 2,000\n{}\n1 of 3.5\n```\n\
                <!-- test: stays -->\n```sh\nsleep 1000\n```\n<!-- test: skip why -->\n```sh\nfalse\n```\n";
    let outcome = check(page, Place::here()).unwrap();
    assert_eq!((outcome.run, outcome.skipped), (3, vec![(17, "why".to_owned())]));
    for wrong in [
        "<!-- test: skip -->\n```sh\n```\n",
        "<!-- test: slow -->\n```sh\n```\n",
        "<!-- test: stays -->\nText.\n```sh\n```\n",
        "<!-- test: numbers vary -->\n```json\n```\n",
        "<!-- test: stays -->\n",
        "```sh\ntrue\n",
        "```console\ntrue\n```\n",
        "```sh\nfalse && true\necho on\n```\n",
        "<!-- test: given false && true -->\n",
    ] {
        assert!(steps(wrong).is_err(), "{wrong}");
    }
    let continued = steps("```console\n$ a \\\n    b\nc\\\nd\n```\n").unwrap();
    let Step::Shown { command, shown, .. } = &continued[0] else { panic!("{continued:?}") };
    assert_eq!((command.as_str(), shown.as_str()), ("a \\\n    b", "c\\\nd\n"));
}

#[test]
fn an_ellipsis_stands_for_anything_and_a_number_for_itself() {
    for (shown, output, numbers_vary) in [
        ("a\n...\nz\n", "a\nz\n", false),
        ("a\n…\nz\n", "a\nb\nc\nz\n", false),
        ("at … ms, done\n", "at 3 ms, done\n", false),
        ("a  b\n", "a b  \n", false),
        ("7 of 8,000 in 0.1 s\n", "12 of 9 in 1.25 s\n", true),
        ("...\n", "", false),
        ("", "", false),
    ] {
        assert!(matches(shown, output, numbers_vary), "{shown:?} {output:?}");
    }
    for (shown, output, numbers_vary) in [
        ("42\n", "43\n", false),
        ("a\n", "", false),
        ("", "a\n", false),
        ("a b\n", "ab\n", false),
        ("a\n...\nz\n", "a\nb\n", false),
        ("7 sets\n", "7 gets\n", true),
        ("7 sets\n", "x sets\n", true),
        ("127.0.0.1\n", "127.0.0.2\n", false),
    ] {
        assert!(!matches(shown, output, numbers_vary), "{shown:?} {output:?}");
    }
}

#[test]
fn what_a_page_starts_ends_with_the_page() {
    let page = "```sh\nsleep 1000 & echo $! > \"$SLEEPER\"\n```\n";
    let file = std::env::temp_dir().join(format!("guira-sleeper-{}", std::process::id()));
    let page = page.replace("$SLEEPER", file.to_str().unwrap());
    check(&page, Place::here()).unwrap();
    let sleeper = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    // A killed process is seen until its parent has waited for it; here that is init.
    let process = Path::new("/proc").join(sleeper.trim());
    within(10, "the sleeper ends", || !process.exists());
}
