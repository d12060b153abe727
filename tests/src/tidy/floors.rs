//! The floors of a crate: which module may use which.
//!
//! The order of `mod` lines is the order of floors, top first. A module uses only what is declared after it:
//!
//! ```text
//! mod server;    // may use worker and output
//! mod worker;    // may use output
//! mod output;    // uses neither
//! ```
//! An arrow from module M to module N is judged at A, the deepest module that holds both. The child of A towards N must
//! stand below the child towards M. Where M is A itself, A is a *roof* (a head that uses its children); where N is A, a
//! *base* (a head whose items its children use). A module may be one of them, not both. Re-exports are neither.
//!
//! An inherent `impl` stands in its type's file, in that file's folder, or in the folder that the file stands in, unless
//! that is `src`. Methods name no path, so without this rule a type could be spread over all floors unseen.
//!
//! # Invariants
//! 1. Pure: text in, complaints out.
//! 2. Items under `cfg(test)` and `cfg(doctest)` are not looked at; every other `cfg` counts as present.
//! 3. An alias is followed to the definition, so no re-export hides an arrow.
//!
//! # Weaknesses
//! Method calls and fields name no module: an arrow that only they make is not seen. A `use` inside a function counts for
//! its whole module.

mod modules;
mod paths;

use modules::{Crate, ModuleId};
use std::collections::{BTreeMap, BTreeSet};

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    /// What is broken, without a line's number: stable while other lines move.
    pub name: String,
    /// The first place that breaks it, and how.
    pub place: String,
}

/// Complaints of one crate: `krate` is its name, `root` the path of its `lib.rs` or `main.rs`, and `files` holds the path
/// and text of each of its files. One breach per name, in the order of names.
#[must_use]
pub fn check_floors(krate: &str, root: &str, files: &[(String, String)]) -> Vec<Breach> {
    let parsed = modules::parse(root, files);
    let mut judge = Judge { krate, of: &parsed, found: BTreeMap::new() };
    for (place, what) in &parsed.refused {
        judge.complain(&format!("{what} in {place}"), place.clone());
    }
    judge.arrows();
    judge.impls();
    judge.found.into_iter().map(|(name, place)| Breach { name, place }).collect()
}

struct Judge<'a> {
    krate: &'a str,
    of: &'a Crate,
    found: BTreeMap<String, String>,
}

impl Judge<'_> {
    fn complain(&mut self, name: &str, place: String) {
        self.found.entry(format!("{}: {name}", self.krate)).or_insert(place);
    }

    fn arrows(&mut self) {
        let (mut roofs, mut bases) = (BTreeMap::new(), BTreeMap::new());
        for arrow in paths::arrows(self.of) {
            let (from, to) = (arrow.from, arrow.to);
            let above = self.of.common(from, to);
            if above == from || above == to {
                let side = if above == from { &mut roofs } else { &mut bases };
                if !arrow.is_reexport {
                    side.entry(above).or_insert(arrow);
                }
                continue;
            }
            if self.of.rank_below(above, to) < self.of.rank_below(above, from) {
                let names = (self.of.path(from), self.of.path(to));
                self.complain(
                    &format!("{} uses {}", names.0, names.1),
                    format!("{}: `{}` is declared above", arrow.place, arrow.text),
                );
            }
        }
        for (module, roof) in &roofs {
            if let Some(base) = bases.get(module) {
                self.complain(
                    &format!("{} is a roof and a base", self.of.path(*module)),
                    format!("{}: `{}`; {}: `{}`", roof.place, roof.text, base.place, base.text),
                );
            }
        }
    }

    fn impls(&mut self) {
        let mut far: BTreeMap<(String, ModuleId), (BTreeSet<ModuleId>, String)> = BTreeMap::new();
        for (module, block) in self.of.impls() {
            let Some(home) = paths::home(self.of, module, &block.of) else { continue };
            let folder = self.of.modules[home].parent.filter(|it| *it != modules::ROOT);
            let is_near = self.of.is_within(module, home)
                || folder.is_some_and(|it| it != module && self.of.is_within(module, it));
            if !is_near {
                let name = block.of.last().cloned().unwrap_or_default();
                let entry = far.entry((name, home)).or_default();
                entry.0.insert(module);
                entry.1 = format!("{}:{}", self.of.modules[module].file, block.line);
            }
        }
        for ((name, home), (modules, place)) in far {
            for module in modules {
                self.complain(
                    &format!("impl {name} in {}", self.of.path(module)),
                    format!("{place}: its home is {}", self.of.path(home)),
                );
            }
        }
    }
}
