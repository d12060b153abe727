//! The daemon's metrics, whose names begin with `guira_invalidate_`.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use guira_front::exposition::Exposition;
use guira_front::http::Probed;
use guira_front::vitals::{PROCESS_METRICS, Vitals};

use crate::config::AuditConfig;
use crate::counts::{AuditCounts, CourierCounts, Found, Judged, SourceCounts, Unmarked};
use crate::key::Refusal;
use crate::line::Line;
use crate::term::Term;

/// What a monitor sees.
pub(crate) struct Scraped {
    /// Empty before this daemon is active.
    lines: OnceLock<Vec<Arc<Line>>>,
    term: Arc<Term>,
    audit: AuditConfig,
    is_config_refused: AtomicBool,
    vitals: Vitals,
}

impl Scraped {
    pub(crate) fn new(audit: AuditConfig, term: Arc<Term>) -> Self {
        let (lines, is_config_refused) = (OnceLock::new(), AtomicBool::new(false));
        Self { lines, term, audit, is_config_refused, vitals: Vitals::open() }
    }

    /// Sets the lines, once, when their logs are followed.
    pub(crate) fn begin(&self, lines: Vec<Arc<Line>>) {
        let _ = self.lines.set(lines);
    }

    fn lines(&self) -> &[Arc<Line>] {
        self.lines.get().map_or(&[], Vec::as_slice)
    }

    /// Records whether the last configuration that was read was refused.
    pub(crate) fn note_config(&self, is_refused: bool) {
        self.is_config_refused.store(is_refused, Relaxed);
    }

    fn of_audit(&self, all: &mut Exposition, labels: &[(&str, &str)], counts: &AuditCounts) {
        let [found_as, judged_as, followed_as] = OF_AUDITS;
        for (found, label) in Found::ALL {
            let labels = [labels, &[("found", label)]].concat();
            let count = counts.found(found).get();
            all.family(named(found_as.0), found_as.1, found_as.2).add(&labels, count);
        }
        for (at, after) in self.audit.labels().enumerate() {
            for (judged, label) in Judged::ALL {
                let labels = [labels, &[("at", &*after), ("result", label)]].concat();
                let count = counts.judged(at, judged).get();
                all.family(named(judged_as.0), judged_as.1, judged_as.2).add(&labels, count);
            }
        }
        let followed = counts.followed.get();
        all.family(named(followed_as.0), followed_as.1, followed_as.2).add(labels, followed);
    }
}

impl Probed for Scraped {
    fn metrics(&self) -> String {
        let mut all = Exposition::default();
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        all.family(named("build_info"), "gauge", BUILD).add(&version, 1);
        let is_refused = u64::from(self.is_config_refused.load(Relaxed));
        all.family(named(CONFIG.0), "gauge", CONFIG.1).add(&[], is_refused);
        let is_active = u64::from(!self.term.is_over());
        all.family(named(ACTIVE.0), "gauge", ACTIVE.1).add(&[], is_active);
        for line in self.lines() {
            let source = ("source", &*line.name);
            for (name, kind, help, read) in OF_SOURCES {
                all.family(named(name), kind, help).add(&[source], read(&line.counts));
            }
            for (refusal, why, _) in Refusal::ALL {
                let count = line.counts.refused(*refusal).map_or(0, |count| count.get());
                all.family(named(REFUSED.0), "counter", REFUSED.1)
                    .add(&[source, ("why", why)], count);
            }
            let barrier_s = micro(line.counts.barrier_us.get());
            all.family(named(BARRIER.0), "counter", BARRIER.1).add(&[source], barrier_s);
            let (next, bytes, waiting) = line.figures();
            for ((name, kind, help), value) in OF_JOURNALS.into_iter().zip([bytes, waiting]) {
                all.family(named(name), kind, help).add(&[source], value);
            }
            for (number, seat) in line.taken_seats() {
                let counts = &seat.counts;
                let labels = [source, ("destination", &*seat.name)];
                for (name, kind, help, read) in OF_DESTINATIONS {
                    all.family(named(name), kind, help).add(&labels, read(counts));
                }
                let ack_s = micro(counts.ack_ms.get().saturating_mul(1000));
                all.family(named(ACK.0), "counter", ACK.1).add(&labels, ack_s);
                for (how, label) in Unmarked::ALL {
                    let labels = [&labels[..], &[("result", label)]].concat();
                    let count = counts.unmarked(how).get();
                    all.family(named(UNMARKS.0), "counter", UNMARKS.1).add(&labels, count);
                }
                self.of_audit(&mut all, &labels, &counts.audit);
                let courier = line.cursor(number);
                let values = [u64::from(courier.is_tainted), next.saturating_sub(courier.cursor)];
                for ((name, kind, help), value) in OF_CURSORS.into_iter().zip(values) {
                    all.family(named(name), kind, help).add(&labels, value);
                }
            }
        }
        for ((name, kind, help), value) in PROCESS_METRICS.into_iter().zip(self.vitals.metrics()) {
            all.family(name, kind, help).add(&[], value);
        }
        all.into_text()
    }

    fn unready(&self) -> Option<Cow<'static, str>> {
        if self.term.is_over() {
            return Some(Cow::Borrowed("it waits until it is active"));
        }
        let is_read = |line: &Arc<Line>| line.counts.is_reading.get() == 1;
        (!self.lines().iter().all(is_read)).then_some(Cow::Borrowed("a source isn't read"))
    }
}

fn named(name: &str) -> String {
    format!("guira_invalidate_{name}")
}

/// Formats microseconds as seconds.
fn micro(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

type OfSource = (&'static str, &'static str, &'static str, fn(&SourceCounts) -> u64);
type OfDestination = (&'static str, &'static str, &'static str, fn(&CourierCounts) -> u64);

const BUILD: &str = "The version, as a label.";
const CONFIG: (&str, &str) =
    ("config_refused", "1 while the configuration that was last read (SIGHUP) isn't in use.");
const ACTIVE: (&str, &str) = (
    "active",
    "1 while this daemon deletes; 0 while it waits, for another one is active (`etcd`).",
);
const REFUSED: (&str, &str) =
    ("keys_refused_total", "Keys and comments that were refused, by reason.");
const BARRIER: (&str, &str) = ("barrier_seconds_total", "Seconds that asking for snapshots took.");
const ACK: (&str, &str) = (
    "commit_to_ack_seconds_total",
    "Seconds from a change to its batch's acknowledgement; the log has whole seconds.",
);
const UNMARKS: (&str, &str) = (
    "unmarks_total",
    "Marks whose write can be read, by what became of them: cleared, one of many that end together (crowded), not there (missing), over before (late).",
);
const OF_SOURCES: [OfSource; 20] = [
    ("transactions_total", "counter", "Transactions that were read.", |c| c.transactions.get()),
    ("rows_total", "counter", "Changed rows of tables that a rule or the outbox is about.", |c| {
        c.rows.get()
    }),
    ("keys_of_rules_total", "counter", "Keys that rules made.", |c| c.keys_of_rules.get()),
    ("keys_of_comments_total", "counter", "Keys that comments named.", |c| {
        c.keys_of_comments.get()
    }),
    ("keys_of_outbox_total", "counter", "Keys that rows of the outbox named.", |c| {
        c.keys_of_outbox.get()
    }),
    (
        "options_total",
        "counter",
        "Options of comments and of the outbox that have no effect.",
        |c| c.options.get(),
    ),
    ("marks_total", "counter", "Keys that writers of this region had marked.", |c| c.marks.get()),
    (
        "unknown_total",
        "counter",
        "Changes whose keys can't be known: what is cached may be stale.",
        |c| c.unknown.get(),
    ),
    (
        "tables_missing",
        "gauge",
        "Tables of rules and of the outbox that weren't there, or that the user couldn't see, when the log was begun to be read.",
        |c| c.missing.get(),
    ),
    ("connects_total", "counter", "How often the log was begun to be read.", |c| c.connects.get()),
    ("reading", "gauge", "1 while the log is read.", |c| c.is_reading.get()),
    ("read_to_seconds", "gauge", "Unix time of the last event that was read.", |c| {
        c.read_to_s.get()
    }),
    ("barrier_asked_total", "counter", "Snapshots that were asked for.", |c| c.barrier_asked.get()),
    (
        "barrier_passed_by_total",
        "counter",
        "Entries that were sent before the database showed them, and again after it.",
        |c| c.barrier_passed_by.get(),
    ),
    (
        "prepared",
        "gauge",
        "XA transactions that are prepared; the stored position waits for them.",
        |c| c.prepared.get(),
    ),
    ("gaps_total", "counter", "How often the log didn't go on from the position.", |c| {
        c.gaps.get()
    }),
    (
        "lost_transactions_total",
        "counter",
        "Transactions that were read and that another host, now the primary, lacks.",
        |c| c.lost.get(),
    ),
    ("lost_keys_total", "counter", "Keys of lost transactions, which were deleted again.", |c| {
        c.resent.get()
    }),
    ("host", "gauge", "Which of the source's hosts is asked, from 0.", |c| c.host.get()),
    (
        "flushes_wanted_total",
        "counter",
        "Flushes that gaps, emptied tables and unknown changes called for.",
        |c| c.flushes.get(),
    ),
];
const OF_JOURNALS: [(&str, &str, &str); 2] = [
    ("journal_bytes", "gauge", "Bytes of the journal's files."),
    ("entries_waiting", "gauge", "Entries whose change the database hasn't shown yet."),
];
const OF_DESTINATIONS: [OfDestination; 12] = [
    ("deletes_total", "counter", "Deletes that were acknowledged.", |c| c.deletes.get()),
    ("again_total", "counter", "Second deletes that were acknowledged (`again`).", |c| {
        c.again.get()
    }),
    ("batches_total", "counter", "Batches that were acknowledged.", |c| c.batches.get()),
    (
        "batches_failed_total",
        "counter",
        "Batches that were answered with an error, and sent again in parts.",
        |c| c.failed.get(),
    ),
    ("router_connects_total", "counter", "Connections to routers.", |c| c.connects.get()),
    ("router_connected", "gauge", "1 while a router is connected.", |c| c.is_connected.get()),
    (
        "keys_parked",
        "gauge",
        "Keys and markers that routers refuse, and that are tried again.",
        |c| c.parked.get(),
    ),
    ("acks_total", "counter", "Batches that the time to acknowledgement is of.", |c| c.acked.get()),
    ("flushes_total", "counter", "Flushes of all servers that were acknowledged.", |c| {
        c.flushes.get()
    }),
    (
        "flush_due",
        "gauge",
        "1 while a flush of all servers is to be sent, or waits for its time.",
        |c| c.is_flush_due.get(),
    ),
    (
        "flush_servers_left",
        "gauge",
        "Servers whose turn in a flush is still to come (`flush_over`).",
        |c| c.flushes_left.get(),
    ),
    (
        "flush_failing",
        "gauge",
        "Flushes, or servers of one (`flush_over`), that failed, and are tried again.",
        |c| c.flushes_failing.get(),
    ),
];
const OF_AUDITS: [(&str, &str, &str); 3] = [
    (
        "audit_keys_total",
        "counter",
        "Deletes of sampled keys, by what was cached just before: a value, nothing; no answer; or left out, for the key is followed already.",
    ),
    (
        "audit_total",
        "counter",
        "What is cached of a sampled key some time after its delete: nothing (gone), another value (refilled), the one that was to go (survived), no answer.",
    ),
    ("audit_followed", "gauge", "Sampled keys that are looked at again."),
];
const OF_CURSORS: [(&str, &str, &str); 2] = [
    ("tainted", "gauge", "1 if the destination was given up because the journal was full."),
    ("entries_behind", "gauge", "Entries that the destination hasn't acknowledged."),
];

/// Returns the name, type and meaning of each metric, in the order of a scrape.
pub fn invalidate_metric_meanings() -> impl Iterator<Item = (String, &'static str, &'static str)> {
    let own = [("build_info", BUILD), CONFIG, ACTIVE].map(|(name, help)| (name, "gauge", help));
    let own = own.into_iter();
    let own = own
        .chain(OF_SOURCES.iter().map(|(name, kind, help, _)| (*name, *kind, *help)))
        .chain([REFUSED, BARRIER].map(|(name, help)| (name, "counter", help)))
        .chain(OF_JOURNALS)
        .chain(OF_DESTINATIONS.iter().map(|(name, kind, help, _)| (*name, *kind, *help)))
        .chain([ACK, UNMARKS].map(|(name, help)| (name, "counter", help)))
        .chain(OF_AUDITS)
        .chain(OF_CURSORS)
        .map(|(name, kind, help)| (named(name), kind, help));
    own.chain(PROCESS_METRICS.map(|(name, kind, help)| (name.to_owned(), kind, help)))
}

#[cfg(test)]
mod tests {
    use guira_front::sample::KeySample;

    use super::*;
    use crate::config::{JournalLimits, WhenFull};

    #[test]
    fn each_metric_that_is_scraped_is_documented_and_the_other_way_round() {
        let folder = tempfile::tempdir().unwrap();
        let limits = JournalLimits {
            bytes: 1 << 30,
            keep: std::time::Duration::ZERO,
            when_full: WhenFull::Taint,
        };
        let (line, _) = Line::open("db", folder.path(), &["c1"], limits, 0).unwrap();
        let audit = AuditConfig {
            sample: KeySample::of_share(1.0),
            at: vec![std::time::Duration::from_secs(60)],
        };
        let scraped = Scraped::new(audit, Arc::new(Term::endless()));
        scraped.begin(vec![Arc::new(line)]);
        let text = scraped.metrics();
        let survived =
            "audit_total{source=\"db\",destination=\"c1\",at=\"1m\",result=\"survived\"} 0\n";
        assert!(text.contains(survived), "{text}");
        let scraped = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let scraped: Vec<&str> = scraped.filter_map(|line| line.split(' ').next()).collect();
        let documented: Vec<String> = invalidate_metric_meanings().map(|(name, ..)| name).collect();
        assert_eq!(scraped, documented);
        assert!(
            text.contains("guira_invalidate_entries_behind{source=\"db\",destination=\"c1\"} 0\n"),
            "{text}"
        );
    }
}
