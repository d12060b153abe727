//! One name for one thing: a public type's name occurs once in the workspace.
//!
//! A reader who meets `Request` has to know which one; a search for it finds one definition. What is private to its
//! module may be called as is best there. Only lines that begin with `pub` are looked at: rustfmt indents nothing else
//! that is public and stands in a file of its own.

use std::collections::BTreeMap;

/// What declares a type.
const KINDS: [&str; 5] = ["struct ", "enum ", "trait ", "type ", "union "];

/// The names of public types in a file of Rust.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let public = line.strip_prefix("pub ")?;
        let name = KINDS.iter().find_map(|kind| public.strip_prefix(kind))?;
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        Some(&name[..end])
    })
}

/// Complains of each name that several files declare: `files` are paths with their text.
#[must_use]
pub fn check_names<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Vec<String> {
    let mut all = BTreeMap::<&str, Vec<&str>>::new();
    for (path, text) in files {
        names(text).for_each(|name| all.entry(name).or_default().push(path));
    }
    let several = all.into_iter().filter(|(_, paths)| paths.len() > 1);
    several.map(|(name, paths)| format!("{name} is declared by {}", paths.join(", "))).collect()
}
