//! What operators want, written into the register: nodes without copies, the number of copies, a pause.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use guira_chain::{Group, Member, NodeId, Ranges};

use crate::counted::counted;
use crate::facts::is_refused;
use crate::register::Register;
use crate::snapshot::RegisterSnapshot;
use crate::trouble::Trouble;

/// Wants a node to have no copies, or again to have its share. `place`: the cluster's, as it was typed. Returns the node's
/// number, and what that means.
pub(crate) fn drain(
    (register, place): (&Register, &str),
    node: &str,
    is_undone: bool,
) -> Result<(NodeId, String), Trouble> {
    let snapshot = register.snapshot()?;
    // The one that is gone may be meant: draining the other would move copies away from the node that has them.
    let id = only(&snapshot, node, &named(&snapshot, node))?;
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
    if !snapshot.nodes.contains_key(&id) {
        let words = format!(
            "{name} is gone, and given up: other nodes get the copies of its {slots}{paused}\n"
        );
        return Ok((id, words));
    }
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
    let mut had = Had::default();
    loop {
        let snapshot = register.snapshot()?;
        let (name, slots) = (name_of(&snapshot, id), slots_of(&snapshot, id));
        if slots == 0 {
            return emptied(&snapshot, id, &had);
        }
        had.look(&snapshot, id);
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

/// What a node had while it was waited for.
#[derive(Debug, Default)]
struct Had {
    /// The process that was to become empty.
    run: Option<String>,
    /// The slots that it served.
    slots: Ranges,
}

impl Had {
    fn look(&mut self, snapshot: &RegisterSnapshot, id: NodeId) {
        let view = &snapshot.seen.view;
        if self.run.is_none() {
            self.run = view.nodes.get(&id).map(|it| it.run.clone());
        }
        let serves = |group: &&Group| group.serving.contains(&id);
        for group in view.groups.iter().filter(serves) {
            self.slots = self.slots.union(&group.slots);
        }
    }
}

/// What to say of a node that is in no chain. One that died left its chains before others had its copies.
fn emptied(snapshot: &RegisterSnapshot, id: NodeId, had: &Had) -> Result<String, Trouble> {
    let name = name_of(snapshot, id);
    let process = snapshot.nodes.get(&id).filter(|it| !is_refused(snapshot, id, &it.run));
    let is_same = |run: &String| had.run.as_ref().is_none_or(|before| before == run);
    let lacking = match process.is_some_and(|it| is_same(&it.run)) {
        true => 0,
        false => lacking(snapshot, &had.slots),
    };
    match (lacking, process) {
        (0, Some(_)) => Ok(format!("{name} has no copies any more: it may be stopped\n")),
        (0, None) => Ok(format!("{name} is gone, and has no copies any more\n")),
        _ => Err(Trouble::Unfinished(format!(
            "{name} died while it had copies that others lack: {} until others are filled; guira cluster plan shows how far that is",
            counted(lacking, "slot lacks a copy", "slots lack a copy")
        ))),
    }
}

/// How many of these slots have fewer copies than are wanted.
fn lacking(snapshot: &RegisterSnapshot, slots: &Ranges) -> usize {
    let is_short = |group: &&Group| {
        u32::try_from(group.serving.len()).is_ok_and(|it| it < snapshot.wish.replicas)
    };
    let short = snapshot.seen.view.groups.iter().filter(is_short);
    short.map(|group| slots.len() - slots.minus(&group.slots).len()).sum()
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

/// The node that an operator names, by name or by number. A node with a new disk has a new number, and the name of the former
/// one: the one that lives is meant.
pub(crate) fn find(snapshot: &RegisterSnapshot, text: &str) -> Result<NodeId, Trouble> {
    let named = named(snapshot, text);
    let living: Vec<_> =
        named.iter().copied().filter(|id| snapshot.nodes.contains_key(id)).collect();
    only(snapshot, text, if living.len() == 1 { &living } else { &named })
}

/// The nodes with this name, in the order of their numbers.
fn named(snapshot: &RegisterSnapshot, name: &str) -> Vec<NodeId> {
    let members = snapshot.seen.view.nodes.iter().chain(&snapshot.nodes);
    let named: BTreeSet<NodeId> = members.filter(|it| it.1.name == name).map(|it| *it.0).collect();
    named.into_iter().collect()
}

/// The only one of the nodes with the name `text`; the node with the number `text` if none has that name.
fn only(snapshot: &RegisterSnapshot, text: &str, named: &[NodeId]) -> Result<NodeId, Trouble> {
    let is_known = |id: &NodeId| {
        let (view, now) = (&snapshot.seen.view.nodes, &snapshot.nodes);
        view.contains_key(id) || now.contains_key(id) || snapshot.wish.drain.contains(id)
    };
    let state = |id: &NodeId| match snapshot.nodes.contains_key(id) {
        true => format!("{id} (it lives)"),
        false => format!("{id} (it is gone)"),
    };
    match named {
        [id] => Ok(*id),
        [] => text.parse().ok().filter(is_known).ok_or_else(|| {
            Trouble::Refused(format!(
                "the cluster has no node {text}: guira cluster status shows the names and numbers"
            ))
        }),
        several => Err(Trouble::Refused(format!(
            "several nodes have the name {text}: name one by its number, {}",
            several.iter().map(state).collect::<Vec<_>>().join(" or ")
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

/// Whether a node lives as the process that the view names. `serving`: as for [`only_copies`].
pub(crate) fn lives(snapshot: &RegisterSnapshot, serving: &BTreeSet<NodeId>, id: NodeId) -> bool {
    let view = &snapshot.seen.view;
    serving.contains(&id) || snapshot.nodes.get(&id).is_some_and(|now| view.names(id, &now.run))
}

/// How many slots have too few living copies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shortage {
    /// Slots without any: their requests fail.
    pub lost: usize,
    /// Slots with fewer than a write needs.
    pub read_only: usize,
    /// Slots with fewer than are wanted, and enough for writes.
    pub degraded: usize,
}

impl Shortage {
    /// Of a register's view. `serving`: nodes that serve though the register has no key of them.
    pub(crate) fn of(snapshot: &RegisterSnapshot, serving: &BTreeSet<NodeId>) -> Self {
        let view = &snapshot.seen.view;
        let mut found = Self::default();
        for group in &view.groups {
            let living = group.serving.iter().filter(|id| lives(snapshot, serving, **id)).count();
            let is_under = |most: u32| u32::try_from(living).is_ok_and(|it| it < most);
            let sum = match living {
                0 => &mut found.lost,
                _ if is_under(view.min_write) => &mut found.read_only,
                _ if is_under(view.replicas) => &mut found.degraded,
                _ => continue,
            };
            *sum += group.slots.len();
        }
        found
    }
}

/// How many slots of a node's chains have no node that lives: nobody else has what it has. `serving`: nodes that serve
/// though the register has no key of them.
pub(crate) fn only_copies(
    snapshot: &RegisterSnapshot,
    serving: &BTreeSet<NodeId>,
    id: NodeId,
) -> usize {
    let lives = |it: &NodeId| lives(snapshot, serving, *it);
    let is_lost = |group: &&Group| group.serving.contains(&id) && !group.serving.iter().any(lives);
    snapshot.seen.view.groups.iter().filter(is_lost).map(|it| it.slots.len()).sum()
}

pub(crate) fn slots_of(snapshot: &RegisterSnapshot, id: NodeId) -> usize {
    let has = |group: &&Group| group.members().any(|it| it == id);
    snapshot.seen.view.groups.iter().filter(has).map(|it| it.slots.len()).sum()
}

/// How often the register is read for what is waited for.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{member, snapshot};

    const ALL: [(NodeId, &str); 3] = [(1, "first"), (2, "first"), (3, "first")];

    /// The snapshot with this chain, and what its node 2 had before.
    fn after(living: &[(NodeId, &str)], chain: &[NodeId]) -> (RegisterSnapshot, Had) {
        let mut had = Had::default();
        had.look(&snapshot(&ALL), 2);
        let mut seen = snapshot(living);
        let mut view = (*seen.seen.view).clone();
        view.groups[0].serving = chain.to_vec();
        seen.seen.view = view.into();
        (seen, had)
    }

    fn said((seen, had): (RegisterSnapshot, Had)) -> String {
        match emptied(&seen, 2, &had) {
            Ok(text) => text,
            Err(Trouble::Unfinished(text)) => format!("3: {text}"),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_node_that_died_before_others_had_its_copies_is_not_said_to_be_empty() {
        let may = "store-2 (2) has no copies any more: it may be stopped\n";
        assert_eq!(said(after(&[&ALL[..], &[(4, "first")]].concat(), &[1, 3, 4])), may);
        let died = "3: store-2 (2) died while it had copies that others lack: 16384 slots lack a copy until";
        assert!(said(after(&[ALL[0], ALL[2]], &[1, 3])).starts_with(died));
        let restarted = [ALL[0], (2, "second"), ALL[2]];
        assert!(said(after(&restarted, &[1, 3])).starts_with(died), "another process of it");
        // Its lease lasts, and two others find nobody at its address.
        let mut refused = after(&ALL, &[1, 3]);
        refused.0.suspects.insert(2, [("first".to_owned(), 1), ("first".to_owned(), 3)].into());
        assert!(said(refused).starts_with(died));
        // It died once others had all; or long before, as one whose disk is gone.
        let gone = "store-2 (2) is gone, and has no copies any more\n";
        assert_eq!(said(after(&[ALL[0], ALL[2], (4, "first")], &[1, 3, 4])), gone);
        let (seen, _) = after(&[ALL[0], ALL[2]], &[1, 3]);
        assert_eq!(said((seen, Had::default())), gone);
        // Others died meanwhile: it may be stopped all the same.
        assert_eq!(said(after(&[ALL[0], ALL[1]], &[1])), may);
    }

    #[test]
    fn of_two_nodes_with_one_name_the_living_one_is_found_and_neither_is_drained() {
        let mut seen = snapshot(&ALL[..2]);
        seen.nodes.insert(4, Member { name: "store-3".to_owned(), ..member(4, "first") });
        let told = |found: Result<NodeId, Trouble>| match found {
            Ok(id) => id.to_string(),
            Err(Trouble::Refused(words)) => words,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(told(find(&seen, "store-3")), "4");
        let both = named(&seen, "store-3");
        let which = "several nodes have the name store-3: name one by its number, 3 (it is gone) or 4 (it lives)";
        assert_eq!(told(only(&seen, "store-3", &both)), which);
        assert_eq!(told(only(&seen, "3", &named(&seen, "3"))), "3");
        assert!(told(find(&seen, "5")).starts_with("the cluster has no node 5"));
    }

    #[test]
    fn copies_are_the_only_ones_while_nobody_lives_who_serves_the_slot() {
        let none = BTreeSet::new();
        assert_eq!(only_copies(&snapshot(&ALL[..1]), &none, 2), 0);
        assert_eq!(only_copies(&snapshot(&[]), &none, 2), 16_384);
        assert_eq!(only_copies(&snapshot(&[(1, "second")]), &none, 2), 16_384, "it isn't named");
        assert_eq!(only_copies(&snapshot(&[]), &[3].into(), 2), 0);
        assert_eq!(only_copies(&snapshot(&[]), &none, 4), 0, "it is in no chain");
    }
}
