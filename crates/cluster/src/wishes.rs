//! What operators want, written into the register: nodes without copies, the number of copies, a pause.

use std::thread;
use std::time::{Duration, Instant};

use guira_chain::{Group, Member, NodeId};

use crate::counted::counted;
use crate::register::{Register, RegisterSnapshot};
use crate::trouble::Trouble;

/// Wants a node to have no copies, or again to have its share. `place`: the cluster's, as it was typed. Returns the node's
/// number, and what that means.
pub(crate) fn drain(
    (register, place): (&Register, &str),
    node: &str,
    is_undone: bool,
) -> Result<(NodeId, String), Trouble> {
    let snapshot = register.snapshot()?;
    let id = find(&snapshot, node)?;
    let name = name_of(&snapshot, id);
    if is_undone {
        register.change_wish(|wish| {
            wish.drain.remove(&id);
        })?;
        if snapshot.is_to_restart(id) {
            return Err(Trouble::Usage(format!(
                "{name} is not drained, but it is to be restarted, and gets no slots until then. To take that back: guira cluster restart {place} {node} --undo"
            )));
        }
        return Ok((id, format!("{name} is not drained: it gets its share of slots again\n")));
    }
    let wish = &snapshot.wish;
    let stays =
        |it: &(&NodeId, &Member)| *it.0 != id && it.1.weight > 0 && !wish.drain.contains(it.0);
    let others = snapshot.nodes.iter().filter(stays).count();
    let replicas = wish.replicas;
    if usize::try_from(replicas).is_ok_and(|replicas| others < replicas) {
        return Err(Trouble::Refused(format!(
            "{name} can't be drained: {} that may have copies, and {} wanted: start another node first, or want fewer copies (guira cluster set --replicas)",
            counted(others, "other node lives", "other nodes live"),
            counted(replicas, "copy is", "copies are")
        )));
    }
    register.change_wish(|wish| {
        wish.drain.insert(id);
    })?;
    let slots = counted(slots_of(&snapshot, id), "slot", "slots");
    let paused =
        if wish.is_paused { " once the pause is over (guira cluster set --resume)" } else { "" };
    Ok((
        id,
        format!(
            "{name} is drained: the copies of its {slots} move to other nodes{paused}. It may be stopped once it has none: guira cluster status shows that, and --wait waits for it\n"
        ),
    ))
}

/// Waits until a node is in no chain.
pub(crate) fn wait_until_empty(
    register: &Register,
    id: NodeId,
    limit: Duration,
) -> Result<String, Trouble> {
    let begun = Instant::now();
    loop {
        let snapshot = register.snapshot()?;
        let (name, slots) = (name_of(&snapshot, id), slots_of(&snapshot, id));
        if slots == 0 {
            return Ok(format!("{name} has no copies any more: it may be stopped\n"));
        }
        if begun.elapsed() >= limit {
            return Err(Trouble::Unfinished(format!(
                "{name} still has copies of {} after {} s: guira cluster plan shows what is waited for",
                counted(slots, "slot", "slots"),
                limit.as_secs()
            )));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Wants another number of copies, a pause, or its end. Returns what is wanted from now on.
pub(crate) fn set(
    register: &Register,
    replicas: Option<u32>,
    is_paused: Option<bool>,
) -> Result<String, Trouble> {
    let snapshot = register.snapshot()?;
    let min_write = snapshot.seen.view.min_write;
    if let Some(replicas) = replicas.filter(|it| *it < min_write) {
        return Err(Trouble::Usage(format!(
            "--replicas {replicas} is less than the {min_write} copies that a write needs: no write would ever be taken"
        )));
    }
    let living = snapshot.nodes.len();
    let is_beyond = |it: &u32| usize::try_from(*it).is_ok_and(|it| it > living);
    if let Some(replicas) = replicas.filter(|it| *it > snapshot.wish.replicas && is_beyond(it)) {
        return Err(Trouble::Refused(format!(
            "--replicas {replicas}: only {}, so a slot can have at most {}: start more nodes first",
            counted(living, "node lives", "nodes live"),
            counted(living, "copy", "copies")
        )));
    }
    let wish = register.change_wish(|wish| {
        wish.replicas = replicas.unwrap_or(wish.replicas);
        wish.is_paused = is_paused.unwrap_or(wish.is_paused);
    })?;
    let paused = match wish.is_paused {
        true => "; paused: no copy is begun",
        false => "",
    };
    let copies = counted(wish.replicas, "copy", "copies");
    Ok(format!("cluster {}: {copies} of each slot{paused}\n", register.name()))
}

/// The node that an operator names, by name or by number.
pub(crate) fn find(snapshot: &RegisterSnapshot, text: &str) -> Result<NodeId, Trouble> {
    let members = || snapshot.seen.view.nodes.iter().chain(&snapshot.nodes);
    let mut named: Vec<NodeId> = members().filter(|it| it.1.name == text).map(|it| *it.0).collect();
    named.sort_unstable();
    named.dedup();
    if named.len() > 1 {
        // A node with a new disk has a new number, and the name of the former one.
        named.sort_by_key(|id| !snapshot.nodes.contains_key(id));
        let living = named.iter().filter(|id| snapshot.nodes.contains_key(id)).count();
        named.truncate(if living == 1 { 1 } else { named.len() });
    }
    let number = text.parse().ok();
    let is_known = |id: &NodeId| members().any(|it| it.0 == id) || snapshot.wish.drain.contains(id);
    match &named[..] {
        [id] => Ok(*id),
        [] => number.filter(is_known).ok_or_else(|| {
            Trouble::Refused(format!(
                "the cluster has no node {text}: guira cluster status shows the names and numbers"
            ))
        }),
        several => Err(Trouble::Refused(format!(
            "several nodes have the name {text}: name one of the numbers {several:?}"
        ))),
    }
}

/// What operators call a node, with its number.
pub(crate) fn name_of(snapshot: &RegisterSnapshot, id: NodeId) -> String {
    let member = snapshot.nodes.get(&id).or(snapshot.seen.view.nodes.get(&id));
    match member.map(|it| &*it.name).unwrap_or_default() {
        "" => format!("node {id}"),
        name => format!("{name} ({id})"),
    }
}

pub(crate) fn slots_of(snapshot: &RegisterSnapshot, id: NodeId) -> usize {
    let has = |group: &&Group| group.members().any(|it| it == id);
    snapshot.seen.view.groups.iter().filter(has).map(|it| it.slots.len()).sum()
}

/// How often the register is read for what is waited for.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);
