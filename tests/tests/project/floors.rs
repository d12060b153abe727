//! Each module stands on a floor of its crate and uses only floors below it.
//!
//! The rule is `guira_tests::tidy::check_floors`; the second half feeds it what it must refuse, and what it must not.

use guira_tests::server::workspace;
use guira_tests::tidy::{Breach, check_floors};
use std::fs;
use std::path::Path;

fn read(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|it| it.expect("an entry").path()) {
        if entry.is_dir() {
            read(&entry, files);
        } else if entry.extension().is_some_and(|it| it == "rs") {
            let name = entry.strip_prefix(workspace()).expect("a path of the workspace");
            let text = fs::read_to_string(&entry).expect("a readable file");
            files.push((name.display().to_string(), text));
        }
    }
}

/// Breaches of every crate.
fn breaches() -> Vec<Breach> {
    let mut found = Vec::new();
    let mut crates: Vec<_> = fs::read_dir(workspace().join("crates"))
        .expect("crates")
        .map(|it| it.expect("an entry").path())
        .collect();
    crates.sort();
    assert!(crates.len() > 10, "only {} crates were found", crates.len());
    for folder in crates {
        let krate = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let mut files = Vec::new();
        read(&folder.join("src"), &mut files);
        for root in ["lib.rs", "main.rs"] {
            let root = format!("crates/{krate}/src/{root}");
            if files.iter().any(|(path, _)| *path == root) {
                found.extend(check_floors(&krate, &root, &files));
            }
        }
    }
    found
}

#[test]
fn modules_use_only_floors_below_them() {
    let found: Vec<_> =
        breaches().iter().map(|it| format!("{}\n    {}", it.name, it.place)).collect();
    assert!(found.is_empty(), "{} breaches:\n{}", found.len(), found.join("\n"));
}

fn check(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> =
        files.iter().map(|(path, text)| (format!("src/{path}"), (*text).to_owned())).collect();
    check_floors("k", "src/lib.rs", &files).into_iter().map(|it| it.name).collect()
}

/// `upper` is declared above `lower`; `lower` has this text.
fn below(text: &str) -> Vec<String> {
    check(&[
        ("lib.rs", "mod upper;\nmod lower;\npub use upper::Up as Shown;"),
        (
            "upper.rs",
            "pub mod deep;\npub struct Up;\npub fn up() {}\n#[macro_export] macro_rules! m { () => {} }",
        ),
        ("upper/deep.rs", "pub struct Deep;"),
        ("lower.rs", text),
    ])
}

#[test]
fn an_arrow_upwards_is_refused_in_each_form() {
    for text in [
        "use crate::upper::Up;",
        "use crate::upper;",
        "use crate::{upper::{self}};",
        "use super::upper::Up as Other;",
        "use crate::Shown;",
        "fn f() { crate::upper::up() }",
        "fn f() { use crate::upper::up; up() }",
        "struct S(crate::upper::Up);",
        "fn f() { println!(\"{:?}\", crate::upper::up()) }",
        "macro_rules! n { () => { $crate::upper::up() } }",
        "impl From<crate::upper::Up> for u8 {}",
        "#[cfg(loom)] use crate::upper::Up;",
        "#[cfg(not(test))] use crate::upper::Up;",
        "mod inner { use super::super::upper::Up; }",
    ] {
        let found = below(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].ends_with(" uses upper"), "{text}: {found:?}");
    }
    assert_eq!(below("fn f() { crate::m!() }"), ["k: lower uses upper"]);
    assert_eq!(below("use crate::upper::deep::Deep;"), ["k: lower uses upper::deep"]);
}

#[test]
fn what_names_no_floor_above_passes() {
    for text in [
        "// use crate::upper::Up;",
        "/// [`crate::upper::Up`]\nfn f() {}",
        "fn f() -> &'static str { \"crate::upper::up()\" }",
        "#[cfg(test)] mod tests { use crate::upper::*; }",
        "#[cfg(all(test, not(loom)))] use crate::upper::Up;",
        "#[cfg(test)] fn f() { crate::upper::up() }",
        "use upper::Up;",
        "use ::upper::Up;",
        "pub(in crate) fn f() {}",
        "enum E { A } fn f() -> E { E::A }",
    ] {
        assert_eq!(below(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn the_order_of_mod_lines_decides() {
    let of = |order: &str| {
        check(&[("lib.rs", order), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")])
    };
    assert_eq!(of("mod a;\nmod b;"), Vec::<String>::new());
    assert_eq!(of("mod b;\nmod a;"), ["k: a uses b"]);
}

#[test]
fn a_head_is_a_roof_or_a_base() {
    let of = |head: &str, child: &str| {
        check(&[("lib.rs", "mod head;"), ("head.rs", head), ("head/child.rs", child)])
    };
    let none = Vec::<String>::new();
    assert_eq!(of("mod child; pub struct H; fn f() { child::g() }", "pub fn g() {}"), none);
    assert_eq!(of("mod child; pub struct H;", "use super::H;"), none);
    assert_eq!(
        of("mod child; pub use child::g; pub struct H;", "use super::H; pub fn g() {}"),
        none
    );
    let both = of("mod child; pub struct H; fn f() { child::g() }", "use super::H; pub fn g() {}");
    assert_eq!(both, ["k: head is a roof and a base"]);
}

#[test]
fn an_impl_far_from_its_type_is_refused() {
    let of = |at: &str| {
        let mut files = vec![
            ("lib.rs", "mod other;\nmod folder;\nmod plain;"),
            ("plain.rs", "mod below;\npub struct Plain;"),
            ("plain/below.rs", ""),
            ("folder.rs", "mod one;\nmod two;\npub use two::Two;"),
            ("folder/one.rs", ""),
            ("folder/two.rs", "pub struct Two;"),
            ("other.rs", ""),
        ];
        let (path, text) = at.split_once(' ').expect("a path and a text");
        files.iter_mut().find(|it| it.0 == path).expect("a file").1 = text;
        check(&files)
    };
    let none = Vec::<String>::new();
    assert_eq!(of("plain/below.rs impl super::Plain {}"), none);
    assert_eq!(of("folder/one.rs use super::two::Two; impl Two {}"), none);
    assert_eq!(of("other.rs impl Clone for crate::plain::Plain {}"), none);
    assert_eq!(of("other.rs use crate::plain::Plain; impl Plain {}"), ["k: impl Plain in other"]);
    assert_eq!(of("other.rs use crate::folder::Two; impl Two {}"), ["k: impl Two in other"]);
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let lib = |text: &str| check(&[("lib.rs", text), ("a.rs", "pub struct A;")]);
    assert_eq!(lib("mod a;\nuse a::*;").len(), 1);
    assert_eq!(lib("#[path = \"a.rs\"]\nmod a;").len(), 1);
    assert_eq!(lib("include!(\"a.rs\");").len(), 1);
    assert_eq!(lib("mod missing;").len(), 1);
    assert_eq!(lib("mod a; fn (").len(), 1);
}
