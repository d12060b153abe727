//! Puts a view that etcd has lost back there, from the copies in nodes' directories.
//!
//! # Invariants
//! 1. A view in etcd is never replaced: a process may follow it.
//! 2. All copies must be of one cluster. The newest of them counts; nothing proves that no node knows a newer one.

use std::fs;
use std::path::{Path, PathBuf};

use guira_chain::View;

use crate::counted::counted;
use crate::fault::Fault;
use crate::register::Register;
use crate::trouble::Trouble;

/// The name of the copy of the view in a node's directory.
pub const VIEW_COPY: &str = "view.json";

/// Puts the newest view of these files back. A directory stands for the copy in it. `place`: the cluster's, as it was typed.
pub(crate) fn rescue(
    (register, place): (&Register, &str),
    paths: &[PathBuf],
) -> Result<String, Trouble> {
    let copies: Result<Vec<_>, _> = paths.iter().map(|path| read(path)).collect();
    let (path, view) = newest(register.name(), copies?)?;
    match register.create(&view) {
        Err(Fault::Exists(_)) => return Err(exists(register, place, &view)),
        created => created?,
    }
    let (epoch, path) = (view.epoch, path.display());
    let of = counted(paths.len(), "copy", "copies");
    Ok(format!(
        "cluster {} is put back with the view of epoch {epoch}, from {path}, the newest of {of}. Nodes that run enter it by themselves; start the others. If a log says that a process knows a higher epoch, delete the key view in etcd, and repeat this with that node's copy. What operators wanted is lost: drains, a pause, and a number of copies that wasn't reached yet\n",
        register.name()
    ))
}

fn read(path: &Path) -> Result<(PathBuf, View), Trouble> {
    let path = if path.is_dir() { path.join(VIEW_COPY) } else { path.to_owned() };
    let wrong = |why: String| Trouble::Usage(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| {
        wrong(format!("{error}: name the directory of a node, or its copy of the view"))
    })?;
    let view = View::from_json(&text).map_err(|why| wrong(why.to_string()))?;
    Ok((path, view))
}

/// The newest of some views, which must be of this cluster.
fn newest(name: &str, copies: Vec<(PathBuf, View)>) -> Result<(PathBuf, View), Trouble> {
    let mut best: Option<(PathBuf, View)> = None;
    for (path, view) in copies {
        if view.cluster != name {
            let words = format!("{} is of the cluster {}", path.display(), view.cluster);
            return Err(Trouble::Refused(format!("{words}, not {name}")));
        }
        let Some((before, known)) = &best else {
            best = Some((path, view));
            continue;
        };
        let both = format!("{} and {}", before.display(), path.display());
        if known.seed != view.seed {
            return Err(Trouble::Refused(format!(
                "{both} are of two clusters of the name {name}: leave out what isn't of the one that you want back"
            )));
        }
        if known.epoch == view.epoch && *known != view {
            return Err(Trouble::Refused(format!(
                "{both} are two views of epoch {}: somebody changed one by hand; leave that out",
                view.epoch
            )));
        }
        if view.epoch > known.epoch {
            best = Some((path, view));
        }
    }
    best.ok_or_else(|| Trouble::Usage("name the directory of a node".to_owned()))
}

/// Why nothing was written: etcd has a view.
fn exists(register: &Register, place: &str, view: &View) -> Trouble {
    let name = register.name();
    let has = match register.view() {
        Ok(seen) if seen.view.seed != view.seed => {
            "another cluster of this name, made anew".to_owned()
        }
        Ok(seen) => format!("its view of epoch {}", seen.view.epoch),
        Err(fault) => format!("a key that can't be used ({fault})"),
    };
    Trouble::Refused(format!(
        "etcd has {has}, and the newest copy is of epoch {}: nothing was written. guira cluster check {place} says whether the nodes follow what is there. If they don't, delete it (etcdctl del /guira/{name}/view), and repeat this",
        view.epoch
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::first_view;

    fn copy(path: &str, change: impl FnOnce(&mut View)) -> (PathBuf, View) {
        let mut view = first_view("birds", 3, 2).expect("random numbers");
        view.seed = "c2VlZA==".to_owned();
        change(&mut view);
        (path.into(), view)
    }

    fn chosen(copies: Vec<(PathBuf, View)>) -> String {
        match newest("birds", copies) {
            Ok((path, _)) => path.display().to_string(),
            Err(Trouble::Refused(words) | Trouble::Usage(words)) => words,
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_newest_copy_counts_and_those_that_contradict_each_other_are_refused() {
        let at = |path, epoch| copy(path, |view| view.epoch = epoch);
        assert_eq!(chosen(vec![at("a", 7), at("b", 9), at("c", 8), at("d", 9)]), "b");
        let other = copy("x", |view| view.cluster = "bees".to_owned());
        assert_eq!(chosen(vec![at("a", 7), other]), "x is of the cluster bees, not birds");
        let anew = copy("x", |view| view.seed = "YW5ldw==".to_owned());
        assert!(chosen(vec![at("a", 7), anew]).starts_with("a and x are of two clusters"));
        let edited = copy("x", |view| (view.epoch, view.min_write) = (7, 1));
        assert!(chosen(vec![at("a", 7), edited]).starts_with("a and x are two views of epoch 7"));
        assert_eq!(chosen(vec![]), "name the directory of a node");
    }
}
