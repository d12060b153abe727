//! Which transactions another host's log has, and where a position that was read elsewhere goes on in it.
//!
//! A replica that became the primary lacks what the old one committed and didn't send. The numbers of such a transaction are never
//! given again: MariaDB counts on in the domain under another server's number, MySQL under another uuid. So the host's log is told
//! from ours by them, also after it has written much more.
//!
//! # Invariants
//! 1. A position that is rewound is one that the host's log has, and all that comes after it there is read again: what is
//!    deleted twice costs a miss, what isn't deleted stays stale.
//!
//! Bad at: numbers that were given twice, after RESET MASTER or by two servers of one number.

use std::collections::{BTreeMap, BTreeSet};

use crate::gtid::{GtidSet, GtidSource};
use crate::position::GtidPosition;

/// What a host's log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum History {
    /// MariaDB's `gtid_binlog_state`: of each domain and server the last sequence.
    Domains(BTreeMap<(u32, u32), u64>),
    /// MySQL's set.
    Set(GtidSet),
}

/// What is looked for in the journal: whether it reaches back to before what the host lacks.
///
/// The host has the beginning of the other's log, as a replica gets it. So what comes before something that it has, it has, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Witness {
    /// A transaction of MariaDB's domain that the host has.
    OfDomain(u32),
    /// One of MySQL's source before that number.
    OfSource(GtidSource, u64),
    /// Any transaction that the host has.
    Any,
}

impl History {
    /// Reads MariaDB's state: `0-1-5,0-2-9`.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn of_state(text: &str) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            // One domain at a time: a position has one transaction of each.
            let GtidPosition::Domains(domains) = word.parse()? else {
                return Err(format!("'{word}' is no transaction of MariaDB's"));
            };
            all.extend(
                domains.into_iter().map(|(domain, (server, last))| ((domain, server), last)),
            );
        }
        Ok(Self::Domains(all))
    }

    /// Whether it has all that was read up to a position.
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

    /// Whether it went on otherwise, and doesn't merely lag behind what was read.
    pub(crate) fn is_other(&self, read: &GtidPosition) -> bool {
        match (self, read) {
            (Self::Domains(theirs), GtidPosition::Domains(domains)) => {
                let has_beyond = |domain: u32, sequence: u64| {
                    theirs.iter().any(|((of, _), last)| *of == domain && *last >= sequence)
                };
                domains.iter().any(|(domain, of)| {
                    !has_sequence(theirs, *domain, *of) && has_beyond(*domain, of.1)
                })
            }
            (Self::Set(theirs), read) => {
                read.set().is_some_and(|set| !set.lacks(theirs).is_empty())
            }
            _ => true,
        }
    }

    /// What must be found in the journal, so that what the host lacks of a position is in there, too.
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

    /// Whether a transaction that the host has is what is looked for.
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

    /// Where reading goes on. Of a domain whose last server the host doesn't know it is after `last_known`, the last transaction in
    /// the journal that the host has. `None`: nothing is common to both.
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

    /// Has, is other, goes on after.
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
            // What it has written since tells.
            ("0-1-7,0-2-10", "0-1-10", (false, true, Some("0-1-7"))),
            ("0-1-7,0-2-99,1-1-5", "0-1-10,1-1-4", (false, true, Some("0-1-7,1-1-4"))),
            // Nothing of the last server, though of the journal's transactions.
            ("0-9-4,0-2-9", "0-1-10", (false, false, Some("0-9-4"))),
            // Nothing of a domain at all.
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
