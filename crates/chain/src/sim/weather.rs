//! Random numbers, the conditions of a simulated world that they choose, and a disk.

use crate::slot::{Contents, Decision, Stand, WriteKind, WriteVerdict, decide};
use crate::view::NodeId;
use std::collections::BTreeMap;

pub(super) const NODES: NodeId = 4;

/// A random number generator (`SplitMix64`): it yields the same numbers on each machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn of(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.of(0..100) < chance
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[usize::try_from(self.of(0..of.len() as u64)).unwrap()])
    }
}

/// The conditions of one seed's world. Worlds differ, because a defect that a slow disk reveals seldom needs a lossy
/// network too.
#[derive(Debug, Clone)]
pub(super) struct Weather {
    pub(super) waits_for_disk: bool,
    pub(super) min_write: u32,
    /// The percentage of messages that are lost, and of messages that are late by up to 1.5 s.
    pub(super) loss: u64,
    pub(super) late: u64,
    /// The sender and receiver of one slow link, and by how much each of its messages is late.
    pub(super) slow_link: Option<(u32, u32, u64)>,
    slow_disk: Option<NodeId>,
    pub(super) are_all_disks_slow: bool,
    pub(super) sync_max: u64,
    /// The controller's longest pause; and how often it takes a living node for dead, in percent.
    pub(super) rest_max: u64,
    pub(super) errs: u64,
    /// The percentage of view changes that provoke a fault.
    pub(super) provoked: u64,
    pub(super) harm_rest_max: u64,
    pub(super) first_write: u64,
    /// Whether clients keep values by holds; and how often a client that begins a request stops for a while, in percent.
    pub(super) are_kept: bool,
    pub(super) freezes: u64,
    /// The percentage of view changes after which the clients don't hear the reader for a while.
    pub(super) deafened: u64,
    /// The percentage of replaced readers that don't learn of it, while the next reader is soon replaced, too.
    pub(super) hastened: u64,
}

impl Weather {
    pub(super) fn draw(random: &mut Random, luck: &mut Random) -> Self {
        let pick = |random: &mut Random, of: &[u64]| random.pick(of).unwrap_or(0);
        let node =
            |random: &mut Random| NodeId::try_from(random.of(0..u64::from(NODES))).unwrap() + 1;
        Self {
            waits_for_disk: random.percent(50),
            min_write: 1 + u32::from(random.percent(20)),
            loss: pick(random, &[0, 0, 1, 5, 15]),
            late: pick(random, &[0, 1, 2, 2]),
            slow_link: random.percent(60).then(|| {
                let (from, apart) = (node(random), random.of(1..u64::from(NODES)));
                let to = (u64::from(from) + apart - 1) % u64::from(NODES) + 1;
                (from, u32::try_from(to).unwrap(), random.of(50_000..900_000))
            }),
            slow_disk: random.percent(50).then(|| node(random)),
            are_all_disks_slow: random.percent(15),
            sync_max: pick(random, &[100_000, 400_000, 1_000_000]),
            rest_max: pick(random, &[15_000, 40_000, 300_000]),
            errs: pick(random, &[0, 1, 1, 3]),
            provoked: pick(random, &[0, 30, 60, 90]),
            harm_rest_max: pick(random, &[400_000, 1_200_000, 1_200_000, 4_000_000]),
            first_write: pick(random, &[0, 0, 0, 2_500_000]),
            are_kept: luck.percent(50),
            freezes: pick(luck, &[0, 1, 3]),
            deafened: pick(luck, &[0, 30, 60]),
            hastened: pick(luck, &[0, 0, 30, 60]),
        }
    }

    pub(super) fn is_slow_disk(&self, node: NodeId) -> bool {
        self.are_all_disks_slow || self.slow_disk == Some(node)
    }
}

#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Disk {
    pub(super) last: u64,
    pub(super) items: BTreeMap<Vec<u8>, Stand>,
}

impl Contents for Disk {
    fn get(&self, key: &[u8]) -> Option<Stand> {
        self.items.get(key).cloned()
    }
    fn all(&self, _: bool) -> Option<Vec<(Vec<u8>, Stand)>> {
        Some(self.items.iter().map(|(key, stand)| (key.clone(), stand.clone())).collect())
    }
    /// The only command appends.
    fn decide(&self, now: Option<&Stand>, command: &[u8], seq: u64) -> Decision {
        let (change, verdict) = decide(self, now, WriteKind::Append(command.to_vec()), seq);
        let unique = if verdict == WriteVerdict::Missing { 0 } else { seq };
        (change, WriteVerdict::Said(unique.to_le_bytes().to_vec()))
    }
}
