//! The transactions in another host's log, and where a position that was read elsewhere goes on in it.
//!
//! A replica that becomes the primary lacks what the old primary committed and didn't send. The numbers of such
//! transactions are never reused: MariaDB counts on in the domain under another server's number, MySQL under another
//! UUID. So the numbers distinguish the host's log from ours, even after the host has written much more.
//!
//! # Invariants
//! 1. A rewound position is one that the host's log has. Everything after it in that log is read again: what is deleted
//!    twice costs a miss, what isn't deleted stays stale.
//!
//! # Bad at
//! Numbers that were given twice by two servers with the same number. After RESET MASTER that is seen until the server
//! has given as many numbers as were read.

use std::collections::{BTreeMap, BTreeSet};

use crate::gtid::{GtidSet, GtidSource};
use crate::position::GtidPosition;

/// The transactions that a host's log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum History {
    /// MariaDB's `gtid_binlog_state`: the last sequence of each domain and server.
    Domains(BTreeMap<(u32, u32), u64>),
    /// MySQL's set of GTIDs.
    Set(GtidSet),
}

/// By what a host's own transactions are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnName {
    /// MariaDB's `server_id`.
    Server(u32),
    /// MySQL's `server_uuid`.
    Uuid([u8; 16]),
}

/// A transaction to look for in the journal. If it is found, the journal reaches back to before what the host lacks.
///
/// The host has the beginning of the other host's log, because a replica receives it in order. So it also has what
/// comes before a transaction that it has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Witness {
    /// A transaction of this MariaDB domain that the host has.
    OfDomain(u32),
    /// A transaction of this MySQL source with a number below this one.
    OfSource(GtidSource, u64),
    /// Any transaction that the host has.
    Any,
}

impl History {
    /// Parses MariaDB's state, such as `0-1-5,0-2-9`.
    ///
    /// # Errors
    /// The text is no such state.
    pub(crate) fn of_state(text: &str) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            // Parsed one by one: a position has only one transaction per domain.
            let GtidPosition::Domains(domains) = word.parse()? else {
                return Err(format!("'{word}' is no transaction of MariaDB's"));
            };
            all.extend(
                domains.into_iter().map(|(domain, (server, last))| ((domain, server), last)),
            );
        }
        Ok(Self::Domains(all))
    }

    /// Whether the log has everything that was read up to a position.
    pub(crate) fn has(&self, read: &GtidPosition) -> bool {
        match (self, read) {
            (Self::Domains(theirs), GtidPosition::Domains(domains)) => {
                domains.iter().all(|(domain, of)| has_sequence(theirs, *domain, *of))
            }
            (Self::Set(theirs), read) => {
                read.set().is_some_and(|set| theirs.lacks(&set).is_empty())
            }
            _ => false,
        }
    }

    /// Whether the log has lost what it had before. It isn't if only a domain was removed from it.
    pub(crate) fn is_reset(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Domains(theirs), Self::Domains(before)) => {
                let kept = || before.iter().filter_map(|(of, last)| Some((theirs.get(of)?, last)));
                let is_lower = kept().any(|(now, last)| now < last);
                is_lower || (kept().next().is_none() && !before.is_empty())
            }
            (Self::Set(theirs), Self::Set(before)) => !theirs.lacks(before).is_empty(),
            _ => true,
        }
    }

    /// Whether the log went on differently, instead of merely lagging behind what was read.
    pub(crate) fn is_other(&self, read: &GtidPosition) -> bool {
        match (self, read) {
            (Self::Domains(theirs), GtidPosition::Domains(domains)) => {
                domains.iter().any(|(domain, of)| {
                    !has_sequence(theirs, *domain, *of) && has_beyond(theirs, *domain, of.1)
                })
            }
            (Self::Set(theirs), read) => {
                read.set().is_some_and(|set| !set.lacks(theirs).is_empty())
            }
            _ => true,
        }
    }

    /// Whether the host lacks transactions that it made itself, and gives their numbers again. Its log was reset, or lost
    /// its end in a crash. What it changed under numbers that were read already is never sent.
    ///
    /// MariaDB counts on after the highest number of the domain, whoever gave it: a number below that isn't given again.
    pub(crate) fn repeats(&self, read: &GtidPosition, own: &OwnName) -> bool {
        match (self, read, own) {
            (Self::Domains(theirs), GtidPosition::Domains(domains), OwnName::Server(own)) => {
                domains.iter().any(|(domain, of)| {
                    of.0 == *own
                        && !has_sequence(theirs, *domain, *of)
                        && !has_beyond(theirs, *domain, of.1)
                })
            }
            (Self::Set(theirs), read, OwnName::Uuid(own)) => {
                let lost = read.set().unwrap_or_default().without(theirs);
                lost.lowest().any(|(source, _)| source.uuid == *own)
            }
            _ => false,
        }
    }

    /// Returns what must be found in the journal to be sure that it also has what the host lacks of a position.
    pub(crate) fn witnesses(&self, read: &GtidPosition) -> BTreeSet<Witness> {
        match (self, read) {
            (Self::Domains(theirs), GtidPosition::Domains(domains)) => domains
                .iter()
                .filter(|(domain, of)| !has_sequence(theirs, **domain, **of))
                .map(|(domain, _)| Witness::OfDomain(*domain))
                .collect(),
            (Self::Set(theirs), read) => {
                let lost = read.set().unwrap_or_default().without(theirs);
                let of = |(source, lowest): (&GtidSource, u64)| match lowest {
                    1 => Witness::Any,
                    _ => Witness::OfSource(source.clone(), lowest),
                };
                lost.lowest().map(of).collect()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Whether a transaction that the host has is this witness.
    pub(crate) fn is_witness(witness: &Witness, transaction: &GtidPosition) -> bool {
        match (witness, transaction) {
            (Witness::Any, _) => true,
            (Witness::OfDomain(domain), GtidPosition::Domains(domains)) => {
                domains.contains_key(domain)
            }
            (Witness::OfSource(source, lowest), GtidPosition::Set(set)) => {
                set.lowest().any(|(of, number)| of == source && number < *lowest)
            }
            _ => false,
        }
    }

    /// Returns the position from which reading goes on; `None` if both logs have nothing in common.
    ///
    /// If the host doesn't know the last server of a domain, reading goes on after `last_known`, the last transaction
    /// of the journal that the host has.
    pub(crate) fn rewound(
        &self,
        read: &GtidPosition,
        last_known: &BTreeMap<u32, (u32, u64)>,
    ) -> Option<GtidPosition> {
        match (self, read) {
            (Self::Domains(theirs), GtidPosition::Domains(domains)) => {
                let of_domain = |(domain, (server, sequence)): (&u32, &(u32, u64))| {
                    let last = theirs.get(&(*domain, *server));
                    let of_server = last.map(|last| (*server, *last.min(sequence)));
                    let last = of_server.or_else(|| last_known.get(domain).copied())?;
                    Some((*domain, last))
                };
                let rewound = domains.iter().map(of_domain).collect::<Option<_>>()?;
                Some(GtidPosition::Domains(rewound))
            }
            (Self::Set(theirs), read) => {
                let set = read.set()?;
                let common = set.common(theirs);
                let has_some = set.is_empty() || !common.is_empty();
                has_some.then(|| GtidPosition::of_set(common))
            }
            _ => None,
        }
    }
}

fn has_sequence(
    theirs: &BTreeMap<(u32, u32), u64>,
    domain: u32,
    (server, sequence): (u32, u64),
) -> bool {
    theirs.get(&(domain, server)).is_some_and(|last| *last >= sequence)
}

/// Whether some server has given this number of the domain, or a higher one.
fn has_beyond(theirs: &BTreeMap<(u32, u32), u64>, domain: u32, sequence: u64) -> bool {
    theirs.iter().any(|((of, _), last)| *of == domain && *last >= sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn position(text: &str) -> GtidPosition {
        text.parse().unwrap()
    }

    fn set(text: &str) -> History {
        History::Set(text.replace('A', A).replace('B', B).parse().unwrap())
    }

    fn read(text: &str) -> GtidPosition {
        position(&text.replace('A', A).replace('B', B))
    }

    /// Returns whether the log has all, whether it went on differently, and where reading goes on.
    fn told(theirs: &History, ours: &GtidPosition) -> (bool, bool, Option<String>) {
        let known = [(0, (9, 4))].into();
        let rewound = theirs.rewound(ours, &known).map(|it| it.to_string());
        (theirs.has(ours), theirs.is_other(ours), rewound)
    }

    #[test]
    fn a_position_goes_on_where_the_other_log_still_is_the_same() {
        for (theirs, ours, expected) in [
            ("0-1-10", "0-1-10", (true, false, Some("0-1-10"))),
            ("0-1-12,0-2-20", "0-1-10", (true, false, Some("0-1-10"))),
            ("", "", (true, false, Some(""))),
            // It lags, or was promoted and has written nothing yet.
            ("0-1-7", "0-1-10", (false, false, Some("0-1-7"))),
            ("0-1-7,0-2-9", "0-1-10", (false, false, Some("0-1-7"))),
            // What it has written since shows the difference.
            ("0-1-7,0-2-10", "0-1-10", (false, true, Some("0-1-7"))),
            ("0-1-7,0-2-99,1-1-5", "0-1-10,1-1-4", (false, true, Some("0-1-7,1-1-4"))),
            // It has nothing of the last server, but it has transactions of the journal.
            ("0-9-4,0-2-9", "0-1-10", (false, false, Some("0-9-4"))),
            // It has nothing of one domain.
            ("0-1-10", "0-1-10,5-1-3", (false, false, None)),
            ("", "5-1-3", (false, false, None)),
        ] {
            let theirs = History::of_state(theirs).unwrap();
            let told = told(&theirs, &position(ours));
            let (has, is_other, rewound) = expected;
            assert_eq!(told, (has, is_other, rewound.map(str::to_owned)), "{theirs:?} {ours}");
        }
        assert!(History::of_state("0-1").is_err() && History::of_state("0/5").is_err());
    }

    #[test]
    fn a_log_was_reset_if_it_lost_what_it_had_and_not_if_a_domain_was_removed() {
        for (before, now, expected) in [
            ("0-1-10", "0-1-10", false),
            ("0-1-10", "0-1-10,0-2-11", false),
            ("", "0-1-1", false),
            ("0-1-10", "0-1-9", true),
            ("0-1-10,0-2-12", "0-1-9,0-2-12", true),
            ("0-1-10", "", true),
            ("0-1-10", "3-1-1", true),
            ("0-1-10,3-1-7", "0-1-10", false),
        ] {
            let of = |text| History::of_state(text).unwrap();
            assert_eq!(of(now).is_reset(&of(before)), expected, "{before} {now}");
        }
        for (before, now, expected) in [
            ("A:1-9", "A:1-9", false),
            ("A:1-9", "A:1-10,B:1", false),
            ("", "A:1", false),
            ("A:1-9", "A:1-8", true),
            ("A:1-9,B:1", "A:1-9", true),
            ("A:1-9", "", true),
        ] {
            assert_eq!(set(now).is_reset(&set(before)), expected, "{before} {now}");
        }
        assert!(set("A:1").is_reset(&History::of_state("").unwrap()), "another database");
    }

    #[test]
    fn a_set_goes_on_with_what_both_have() {
        for (theirs, ours, expected) in [
            ("A:1-9,B:1-3", "A:1-9", (true, true, Some("A:1-9"))),
            ("A:1-9", "", (true, true, Some(""))),
            ("A:1-7", "A:1-9", (false, false, Some("A:1-7"))),
            ("A:1-7,B:1-3", "A:1-9", (false, true, Some("A:1-7"))),
            ("A:1-7:9", "A:1-9", (false, false, Some("A:1-7:9"))),
            ("B:1-3", "A:1-9", (false, true, None)),
            ("B:1-3", "A:1-9,B:1", (false, true, Some("B:1"))),
        ] {
            let (has, is_other, rewound) = expected;
            let rewound = rewound.map(|it| read(it).to_string());
            assert_eq!(
                told(&set(theirs), &read(ours)),
                (has, is_other, rewound),
                "{theirs} {ours}"
            );
        }
        assert!(!set("A:1-9").has(&position("0-1-5")), "another kind of database");
        assert_eq!(set("A:1-9").rewound(&position("0-1-5"), &BTreeMap::new()), None);
    }

    #[test]
    fn a_host_that_lacks_what_it_made_itself_gives_numbers_again() {
        for (theirs, ours, expected) in [
            ("0-1-6", "0-1-6", false),
            // After RESET MASTER, before and after its first transaction.
            ("", "0-1-6", true),
            ("0-1-1", "0-1-6", true),
            ("1-1-9,0-1-1", "1-1-9,0-1-6", true),
            // Another's, which it never got.
            ("0-2-5", "0-2-9", false),
            // The old primary is a replica again: the new one has counted on.
            ("0-1-4,0-2-6", "0-1-6", false),
            ("0-1-4,0-2-5", "0-1-6", true),
        ] {
            let history = History::of_state(theirs).unwrap();
            assert_eq!(
                history.repeats(&position(ours), &OwnName::Server(1)),
                expected,
                "{theirs} {ours}"
            );
        }
        let own = OwnName::Uuid(A.parse::<GtidSource>().unwrap().uuid);
        for (theirs, ours, expected) in [
            ("A:1-9", "A:1-9,B:1-3", false),
            ("B:1", "A:1-9,B:1", true),
            ("A:1,B:1", "A:1-9,B:1", true),
            ("A:1-9", "A:1-9:tag:1", true),
        ] {
            assert_eq!(set(theirs).repeats(&read(ours), &own), expected, "{theirs} {ours}");
        }
    }

    #[test]
    fn a_witness_is_of_what_is_lost_and_before_it() {
        let theirs = History::of_state("0-1-7,1-1-5,2-1-1").unwrap();
        let witnesses = theirs.witnesses(&position("0-1-10,1-1-5,2-3-9"));
        assert_eq!(witnesses, [Witness::OfDomain(0), Witness::OfDomain(2)].into());
        let is = |witness: &Witness, of: &str| History::is_witness(witness, &read(of));
        assert!(is(&Witness::OfDomain(0), "0-1-7") && !is(&Witness::OfDomain(0), "1-1-5"));
        let witnesses = set("A:1-5").witnesses(&read("A:1-9,B:1-2"));
        let of_a = Witness::OfSource(A.parse().unwrap(), 6);
        assert_eq!(witnesses, [of_a.clone(), Witness::Any].into());
        assert!(is(&of_a, "A:5") && !is(&of_a, "A:6") && !is(&of_a, "B:1"));
        assert!(is(&Witness::Any, "B:1"));
    }
}
