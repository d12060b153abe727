//! Where a path leads: through child modules, `use` and re-exports, to the module of the definition.

use super::modules::{Crate, ModuleId, Named, ROOT};

/// Re-exports of re-exports, at most.
const DEPTH: usize = 32;

/// One module uses another.
#[derive(Debug)]
pub(super) struct Arrow {
    pub from: ModuleId,
    pub to: ModuleId,
    pub is_reexport: bool,
    /// The path as it is written.
    pub text: String,
    /// File and line.
    pub place: String,
}

/// All arrows between two modules of the crate, in the order of the text.
pub(super) fn arrows(of: &Crate) -> Vec<Arrow> {
    let mut arrows = Vec::new();
    for (from, module) in of.modules.iter().enumerate() {
        for used in &module.used {
            if let Some(to) = lead(of, from, &used.path, DEPTH).filter(|to| *to != from) {
                arrows.push(Arrow {
                    from,
                    to,
                    is_reexport: used.is_reexport,
                    text: used.path.join("::"),
                    place: format!("{}:{}", module.file, used.line),
                });
            }
        }
    }
    arrows
}

/// The module that defines the type of an `impl`.
pub(super) fn home(of: &Crate, from: ModuleId, path: &[String]) -> Option<ModuleId> {
    lead(of, from, path, DEPTH)
}

/// The module of what `path` names, as seen from `from`; none where it leads out of the crate.
fn lead(of: &Crate, from: ModuleId, path: &[String], depth: usize) -> Option<ModuleId> {
    let mut at = from;
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        at = match first.as_str() {
            "crate" => ROOT,
            "self" => at,
            "super" => of.modules[at].parent?,
            _ => break,
        };
        rest = after;
    }
    let is_rooted = rest.len() < path.len();
    step(of, at, rest, is_rooted, depth)
}

/// Goes on from a module. A first name that isn't the module's own leads out of the crate, unless `is_inside`.
fn step(
    of: &Crate,
    at: ModuleId,
    path: &[String],
    is_inside: bool,
    depth: usize,
) -> Option<ModuleId> {
    let Some((first, after)) = path.split_first() else { return Some(at) };
    if let Some(child) = of.child(at, first) {
        return step(of, child, after, true, depth);
    }
    let names = of.modules[at].names.get(first).map_or(&[][..], Vec::as_slice);
    let follow = |named: &Named| match named {
        Named::Item => Some(at),
        Named::Alias(path) if path[0] == *first || depth == 0 => None,
        Named::Alias(path) => {
            let path: Vec<_> = path.iter().chain(after).cloned().collect();
            lead(of, at, &path, depth - 1)
        }
    };
    if names.is_empty() {
        // Made by a macro, or a variant's or an associated item's name.
        return is_inside.then_some(at);
    }
    names.iter().find_map(follow)
}
