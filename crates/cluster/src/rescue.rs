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
    let epoch = view.epoch;
    match register.view() {
        Ok(seen) if *seen.view == view => {
            return Ok(format!(
                "etcd has the view of epoch {epoch}, as the newest of these copies: nothing is to be done\n"
            ));
        }
        Err(Fault::NoCluster(_)) => {}
        Ok(_) | Err(Fault::View(_)) => return Err(exists(register, place, &view)),
        Err(fault) => return Err(fault.into()),
    }
    let had_wish = match register.put_back(&view) {
        Err(Fault::Exists(_)) => return Err(exists(register, place, &view)),
        put_back => put_back?,
    };
    let path = path.display();
    let lost = match had_wish {
        true => "",
        false => {
            " What operators wanted is lost: drains, a pause, and a number of copies that wasn't reached yet."
        }
    };
    let of = counted(paths.len(), "copy", "copies");
    Ok(format!(
        "cluster {0} is put back with the view of epoch {epoch}, from {path}, the newest of {of}. Nodes that run enter it by themselves; start the others. If one says that it knows a higher epoch, delete this view (etcdctl del /guira/{0}/view), and repeat this with that node's copy.{lost}\n",
        register.name()
    ))
}

fn read(path: &Path) -> Result<(PathBuf, View), Trouble> {
    let path = if path.is_dir() { path.join(VIEW_COPY) } else { path.to_owned() };
    let wrong = |why: String| Trouble::Usage(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| {
        wrong(format!("{error}: name the directory of a node, or its copy of the view, as a user who may read it"))
    })?;
    let view = View::from_json(&text)
        .map_err(|why| wrong(format!("{why}: leave it out if there are copies of other nodes")))?;
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
                "{both} are two views of epoch {}: somebody changed one by hand, or put an old one back while no process ran. Leave the wrong one out",
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
    Trouble::Refused(match register.view() {
        Ok(seen) => told_of(&seen.view, view, (register.name(), place)),
        Err(fault) => format!(
            "etcd has a view that can't be used ({fault}): nothing was written. {}",
            delete(register.name())
        ),
    })
}

/// What to say of the view that etcd has, beside the newest copy.
fn told_of(has: &View, copy: &View, (name, place): (&str, &str)) -> String {
    let (epoch, newest) = (has.epoch, copy.epoch);
    if has.seed != copy.seed {
        return format!(
            "etcd has another cluster of this name, made anew: nothing was written. {}",
            delete(name)
        );
    }
    if epoch >= newest {
        return format!(
            "etcd has its view of epoch {epoch}, and the newest copy is of epoch {newest}: there is nothing to put back. guira cluster check {place} says what is wrong"
        );
    }
    format!(
        "etcd has its view of epoch {epoch}, and the newest copy is of epoch {newest}: nothing was written, as processes may follow what etcd has. If none does, or they know a higher epoch: {}",
        delete(name)
    )
}

fn delete(name: &str) -> String {
    format!("delete it (etcdctl del /guira/{name}/view), and repeat this")
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

    #[test]
    fn nobody_is_told_to_replace_a_newer_view_by_an_older_one() {
        let at = |epoch| copy("a", |view| view.epoch = epoch).1;
        let told = |has: &View, copy: &View| told_of(has, copy, ("birds", "etcd:h:1/birds"));
        for (has, copy) in [(9, 7), (7, 7)] {
            let told = told(&at(has), &at(copy));
            assert!(
                told.contains("there is nothing to put back") && !told.contains("del"),
                "{told}"
            );
        }
        assert!(told(&at(7), &at(9)).contains("etcdctl del /guira/birds/view"));
        let anew = copy("x", |view| (view.seed, view.epoch) = ("YW5ldw==".to_owned(), 99)).1;
        assert!(told(&anew, &at(9)).starts_with("etcd has another cluster of this name"));
    }
}
