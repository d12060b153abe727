//! `guira cluster restart`: a node leaves its chains before its process is stopped, so that no request waits for it.
//!
//! The command writes down which process is to leave. The controller takes it out of its chains, once each of its slots has
//! all its other copies.
//!
//! # Invariants
//! 1. A node is said to be free once no chain has it, and where it was the reader all the others know that, and its promises
//!    are over.
//! 2. A command that gives up before the node has left takes back what it wrote.

use std::thread;
use std::time::{Duration, Instant};

use guira_chain::{Group, NodeId};

use crate::counted::counted;
use crate::facts::short_without;
use crate::register::Register;
use crate::snapshot::RegisterSnapshot;
use crate::trouble::Trouble;
use crate::wishes::{LOOK_EVERY, find, name_of, slots_of};

/// Has a node leave its chains, and waits for that.
pub(crate) fn restart(register: &Register, node: &str, limit: Duration) -> Result<String, Trouble> {
    let begun = Instant::now();
    let snapshot = register.snapshot()?;
    let id = find(&snapshot, node)?;
    let name = name_of(&snapshot, id);
    let Some(run) = snapshot.nodes.get(&id).map(|it| it.run.clone()) else {
        return Err(Trouble::Refused(format!("{name} doesn't run: start it on its directory")));
    };
    if let Some(why) = never(&snapshot, id) {
        return Err(Trouble::Refused(format!("{name} can't leave its chains: {why}")));
    }
    register.change_restarts(|restarts| {
        // Those that were stopped since need nothing any more.
        restarts.retain(|id, run| snapshot.nodes.get(id).is_some_and(|it| it.run == *run));
        restarts.insert(id, run.clone());
    })?;
    loop {
        let snapshot = register.snapshot()?;
        // Without a lease it may have been stopped, or etcd is slow: the view tells.
        if snapshot.nodes.get(&id).is_some_and(|it| it.run != run) {
            return Ok(format!("{name} has been restarted meanwhile\n"));
        }
        if snapshot.seen.view.groups.iter().all(|group| !reckons(group, id)) {
            return Ok(format!(
                "{name} serves no slot any more, others do: stop it and start it again. Once it is back it is filled; after ten minutes without it others get its copies\n"
            ));
        }
        if begun.elapsed() >= limit {
            return Err(give_up(register, &snapshot, (id, &name), limit));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Takes it back: the node gets its slots again.
pub(crate) fn undo(register: &Register, node: &str) -> Result<String, Trouble> {
    let snapshot = register.snapshot()?;
    let id = find(&snapshot, node)?;
    take_back(register, id)?;
    Ok(format!("{} stays: it is filled, and serves again\n", name_of(&snapshot, id)))
}

fn take_back(register: &Register, id: NodeId) -> Result<(), Trouble> {
    register.change_restarts(|restarts| {
        restarts.remove(&id);
    })?;
    Ok(())
}

/// Whether a chain has the node, or may still reckon with it.
fn reckons(group: &Group, id: NodeId) -> bool {
    group.past.contains(&id) || group.members().any(|it| it == id)
}

/// Why the node can't leave, however long one waits.
fn never(snapshot: &RegisterSnapshot, id: NodeId) -> Option<String> {
    let (replicas, least) = (snapshot.wish.replicas, snapshot.seen.view.min_write.max(1));
    let is_needed = slots_of(snapshot, id) > 0 && replicas <= least;
    is_needed.then(|| {
        format!(
            "of {replicas} copies a write needs {least}: want more copies first (guira cluster set --replicas), or drain it (guira cluster drain)"
        )
    })
}

fn give_up(
    register: &Register,
    snapshot: &RegisterSnapshot,
    (id, name): (NodeId, &str),
    limit: Duration,
) -> Trouble {
    let seconds = limit.as_secs();
    if slots_of(snapshot, id) == 0 {
        return Trouble::Unfinished(format!(
            "{name} has left its chains, and the others don't all know that after {seconds} s: guira cluster check shows why, and --undo takes it back"
        ));
    }
    if let Err(trouble) = take_back(register, id) {
        return trouble;
    }
    let runs = |it: &&NodeId| **it != id && !snapshot.is_to_restart(**it);
    let others = snapshot.nodes.iter().filter(|it| runs(&it.0));
    let others = others.map(|(it, member)| (*it, &*member.run)).collect();
    let mut why = match short_without(snapshot, id, &others) {
        0 => "the controller hasn't taken it out yet".to_owned(),
        slots => {
            let slots = counted(slots, "slot", "slots");
            format!("{slots} would have too few copies without it")
        }
    };
    let first = snapshot.nodes.keys().find(|it| **it != id && snapshot.is_to_restart(**it));
    if let Some(first) = first {
        why += &format!(", and {} is to be restarted first", name_of(snapshot, *first));
    }
    Trouble::Unfinished(format!(
        "{name} stays after {seconds} s: {why}: guira cluster plan and check show what is waited for"
    ))
}
