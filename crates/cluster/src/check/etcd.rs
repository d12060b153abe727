//! What is found about etcd itself: members that don't answer, complain, are slow or full.

use std::collections::BTreeSet;
use std::time::Duration;

use guira_etcd::{Error, EtcdMember};

use super::findings::{Findings, list};

pub(super) fn find(found: &mut Findings, members: &[(String, Result<EtcdMember, Error>)]) {
    let mut versions = BTreeSet::new();
    for (url, member) in members {
        let member = match member {
            Ok(member) => member,
            Err(error) => {
                found.problem(
                    error.to_string(),
                    "start that etcd: while too few answer, no view changes",
                );
                continue;
            }
        };
        versions.insert(&*member.version);
        for words in &member.errors {
            found.problem(
                format!("etcd at {url} complains: {words}"),
                "for NOSPACE: etcdctl compact, then defrag, then alarm disarm; otherwise see its log",
            );
        }
        if member.took > SLOW {
            found.warning(
                format!("etcd at {url} took {} ms", member.took.as_millis()),
                "give it a faster disk or a processor of its own: leases of nodes end after 3 s",
            );
        }
        if member.db_bytes > DB_BYTES {
            found.warning(
                format!("etcd's database at {url} has {} MiB", member.db_bytes >> 20),
                "let etcd compact it (--auto-compaction-retention=1h), and run etcdctl defrag: at 2 GiB it takes no more",
            );
        }
    }
    if versions.len() > 1 {
        found.warning(
            format!("members of etcd have different versions: {}", list(&versions)),
            "finish the upgrade",
        );
    }
}

const SLOW: Duration = Duration::from_millis(500);
const DB_BYTES: u64 = 3 << 29;
