//! The loop of every source's thread: it follows the log, and decides what an error means.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::bytes::Broken;
use super::ended::Ended;
use super::halt::{BAD, Halt, UNREADABLE, UNUSABLE};
use crate::config::{OnGap, SourceConfig};
use crate::desk::Desk;
use crate::entry::{Errand, LogPlace, Origin, unix_seconds};
use crate::line::Line;
use crate::position::GtidPosition;
use crate::rule::Rule;

/// What a source's thread needs.
pub(crate) struct Follower {
    pub(crate) config: SourceConfig,
    pub(crate) rules: Arc<[Rule]>,
    pub(crate) line: Arc<Line>,
    /// Set if another daemon may take over.
    pub(crate) desk: Option<Arc<Desk>>,
    /// `None`: the log was never read, and reading begins now.
    pub(crate) read: Option<GtidPosition>,
    /// Selects the host to ask, see [`SourceConfig::at`].
    pub(crate) turn: usize,
    /// The log has a gap, and isn't read on yet.
    pub(crate) has_gap: bool,
    /// What is known of XA transactions that have ended.
    pub(crate) ended: Arc<Mutex<Ended>>,
}

/// Why following ended. `T` is an error of the database's connection.
#[derive(Debug)]
pub(super) enum Stopped<T> {
    Trouble(T),
    /// The log doesn't go on from our position, for this reason.
    Gap(String),
    Journal(io::Error),
    /// Other rules apply: the log must be read on with those.
    OtherRules,
    Halt(Halt),
}

/// The reaction to a connection's trouble.
pub(super) enum Calls<'t> {
    /// Try again.
    Again,
    /// Try again, but only a few times: what the database sent can't be read, for this reason.
    Few(&'t str),
    /// An administrator must act.
    Somebody,
}

/// An error of a database's connection.
pub(super) trait Calling: Display {
    fn calls(&self) -> Calls<'_>;
}

impl Follower {
    /// Tries to follow the log until the line ends. `answer_gap` decides how to go on after a gap. After trouble the
    /// next host is tried. After each round of hosts it waits, finally for `pause_most`.
    ///
    /// # Errors
    /// What an administrator must decide: a gap, a setting, an unknown event.
    pub(super) fn follow<T: Calling>(
        &mut self,
        pause_most: Duration,
        mut try_once: impl FnMut(&mut Self) -> Result<(), Stopped<T>>,
        mut answer_gap: impl FnMut(&mut Self, &str) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let hosts = self.config.hosts.len().max(1);
        let (mut pause, mut broken, mut refused) = (PAUSE_LEAST, 0, 0);
        let mut reached = self.line.read_so_far().0;
        self.share_read();
        while !self.line.is_ended() {
            if let Some(rules) = self.line.take_next_rules() {
                self.rules = rules;
            }
            let before = self.line.counts.transactions.get();
            let stopped = try_once(self);
            let counts = &self.line.counts;
            counts.is_reading.set(0);
            // Each try reads what follows a prepared transaction again. It makes progress if it ends elsewhere than the
            // try before.
            let (read, _) = self.line.read_so_far();
            if counts.transactions.get() > before && read != reached {
                (pause, broken, reached) = (PAUSE_LEAST, 0, read);
            }
            let name = &self.config.name;
            let host =
                if hosts > 1 { format!(", host {}", self.config.host) } else { String::new() };
            refused = if is_refused(&stopped) { refused + 1 } else { 0 };
            match stopped {
                Ok(()) => return Ok(()),
                Err(Stopped::Halt(halt)) => return Err(halt),
                Err(Stopped::OtherRules) => continue,
                Err(Stopped::Gap(words)) => answer_gap(self, &words)?,
                Err(Stopped::Journal(error)) => {
                    if let Some(halt) = unsynced(&self.line) {
                        return Err(halt);
                    }
                    tracing::error!(
                        "source {name}: the journal can't be written: {error}; nothing is read until it can"
                    );
                }
                Err(Stopped::Trouble(trouble)) => {
                    match trouble.calls() {
                        Calls::Again => {}
                        Calls::Few(words) if broken == BROKEN_MAX => {
                            let words = format!(
                                "source {name}: what it sends can't be read, again and again: {words}"
                            );
                            return Err(Halt { code: UNREADABLE, words });
                        }
                        Calls::Few(_) => broken += 1,
                        // While another host may work, this is no reason to end.
                        Calls::Somebody if refused >= hosts => {
                            let words = format!("source {name}{host}: {trouble}");
                            return Err(Halt { code: BAD, words });
                        }
                        Calls::Somebody => {}
                    }
                    let next =
                        if hosts > 1 { "the next one is asked" } else { "it is asked again" };
                    tracing::warn!("source {name}{host}: {trouble}; {next}");
                    self.turn += 1;
                    self.config = self.config.at(self.turn);
                    counts.host.set((self.turn % hosts) as u64);
                    if !self.turn.is_multiple_of(hosts) {
                        continue;
                    }
                }
            }
            thread::sleep(pause);
            pause = (pause * 2).min(pause_most);
        }
        Ok(())
    }

    /// Counts and reports a gap. `first` names the steps to do before the stored position is removed.
    ///
    /// # Errors
    /// `on_gap` is `stop`.
    pub(super) fn note_gap(&mut self, words: &str, first: &str) -> Result<(), Halt> {
        let Self { config, line, desk, has_gap, .. } = self;
        let name = &config.name;
        let position = line.read_position();
        if *has_gap {
            tracing::error!(
                "source {name}: its log can't be read on yet: {words}; it is asked again (on_gap)"
            );
            return Ok(());
        }
        line.counts.gaps.add(1);
        let answer = match config.on_gap {
            OnGap::Stop => {
                let of_etcd = desk.as_ref().map_or_else(String::new, |desk| desk.first(name));
                let first = format!("{of_etcd}{first}");
                let words = format!("source {name}: {}", gap_words(name, &position, words, &first));
                return Err(Halt { code: BAD, words });
            }
            OnGap::Flush => "All destinations are flushed once it is read on, from then",
            OnGap::Now => {
                "What changed since may stay stale; it goes on from the time when it is read on"
            }
        };
        *has_gap = true;
        tracing::error!(
            "source {name}: its log doesn't go on from '{position}': {words}. {answer} (on_gap)"
        );
        Ok(())
    }
}

impl Follower {
    /// Begins to read after a position, where the log is at `place`: at first, or after a gap. Call it only once the
    /// database sends what comes next. Then a database that refuses for long doesn't cause repeated flushes, and the
    /// one flush comes after everything that wasn't read.
    ///
    /// The flush goes into the journal before the position is stored: a crash in between finds the gap again.
    ///
    /// # Errors
    /// The journal can't be written: nothing has begun.
    pub(super) fn begin_at<T>(
        &mut self,
        read: GtidPosition,
        place: LogPlace,
    ) -> Result<(), Stopped<T>> {
        let line = &self.line;
        line.follow_host(self.turn, |_| Some(place.clone()));
        if self.has_gap && self.config.on_gap == OnGap::Flush {
            let (place, stamp) = (place.clone(), read.to_string().into());
            let origin = Origin { place, stamp, at_s: unix_seconds() };
            line.append(origin, Errand::Flush(None)).map_err(Stopped::Journal)?;
            line.counts.flushes.add(1);
        }
        line.begin_at(&read, place);
        line.store().map_err(Stopped::Journal)?;
        // Only now: if the position isn't stored, reading begins anew later in the log, and needs its own flush.
        self.has_gap = false;
        self.read = Some(read);
        // In what wasn't read, their names may have come again, for other keys.
        *self.ended.lock() = Ended::default();
        self.share_first();
        Ok(())
    }
}

impl Follower {
    /// Waits until another daemon could go on from here. Nothing is followed before.
    fn share_first(&self) {
        if let Some(desk) = &self.desk {
            desk.share_first(&self.line);
        }
    }

    /// The same, if something was read before.
    fn share_read(&self) {
        if self.read.is_some() && self.line.store().is_ok() {
            self.share_first();
        }
    }
}

/// Describes a gap, and what to do then.
pub(super) fn gap_words(name: &str, position: &GtidPosition, words: &str, first: &str) -> String {
    format!(
        "its log doesn't go on from '{position}': {words}. Changes since may be cached as they were: {first}\
         remove {name}/position from the state folder, start again, and flush the caches once it reads \
         (guira_invalidate_reading is 1); or set \"on_gap\" to \"flush\" or \"now\""
    )
}

/// Returns why the daemon must end, if a sync of the journal has failed. A second sync wouldn't show what the first one
/// lost.
pub(crate) fn unsynced(line: &Line) -> Option<Halt> {
    let words = line.unsynced()?;
    let words = format!(
        "source {}: the journal can't be made durable: {words}. What the device has of it isn't known: see what the kernel says of the \
         device (dmesg), then start again: the log is read again from the position that was stored",
        line.name
    );
    Some(Halt { code: UNUSABLE, words })
}

/// Whether an administrator must repair the host.
fn is_refused<T: Calling>(stopped: &Result<(), Stopped<T>>) -> bool {
    matches!(stopped, Err(Stopped::Trouble(trouble)) if matches!(trouble.calls(), Calls::Somebody))
}

impl<T> From<Halt> for Stopped<T> {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl<T: From<Broken>> From<Broken> for Stopped<T> {
    fn from(broken: Broken) -> Self {
        Self::Trouble(broken.into())
    }
}

impl<T: From<io::Error>> From<io::Error> for Stopped<T> {
    fn from(error: io::Error) -> Self {
        Self::Trouble(error.into())
    }
}

const PAUSE_LEAST: Duration = Duration::from_millis(100);
const BROKEN_MAX: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{JournalLimits, WhenFull};

    fn follower(folder: &std::path::Path, on_gap: OnGap) -> Follower {
        let keep = Duration::ZERO;
        let limits = JournalLimits { bytes: 1 << 30, keep, when_full: WhenFull::Taint };
        let (line, read) = Line::open("db", folder, &["c1"], limits, 1 << 20).unwrap();
        let config = crate::config::parse(
            r#"{"state": "/nowhere", "rules": [{"table": "a.b", "keys": ["k"]}], "destinations": {"c1": {"routers": ["r"]}},
                "sources": {"db": {"kind": "mariadb", "hosts": ["127.0.0.1:1"], "user": "guira", "server_id": 2}}}"#,
        );
        Follower {
            config: SourceConfig { on_gap, ..config.unwrap().sources.remove(0) },
            rules: Arc::new([]),
            line: Arc::new(line),
            desk: None,
            read,
            turn: 0,
            has_gap: false,
            ended: Arc::default(),
        }
    }

    fn begin(follower: &mut Follower, read: &str) -> Result<(), Stopped<Never>> {
        let place = LogPlace { file: "b.000001".into(), offset: 9 };
        follower.begin_at(read.parse().unwrap(), place)
    }

    /// An error that never occurs.
    #[derive(Debug)]
    enum Never {}

    impl Display for Never {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            match *self {}
        }
    }

    impl Calling for Never {
        fn calls(&self) -> Calls<'_> {
            match *self {}
        }
    }

    /// What the database sent can't be read.
    #[derive(Debug)]
    struct Unreadable;

    impl Display for Unreadable {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an event")
        }
    }

    impl Calling for Unreadable {
        fn calls(&self) -> Calls<'_> {
            Calls::Few("an event")
        }
    }

    #[test]
    fn what_can_not_be_read_ends_it_also_after_a_prepared_transaction_and_not_while_it_gets_on() {
        // Whether each try ends one transaction later than the one before, and the number of tries.
        for (gets_on, expected) in [(false, 3), (true, 6)] {
            let folder = tempfile::tempdir().unwrap();
            let mut follower = follower(folder.path(), OnGap::Stop);
            begin(&mut follower, "0-1-1").unwrap();
            let mut tries = 0;
            let ended = follower.follow(
                Duration::ZERO,
                |follower| {
                    tries += 1;
                    if tries == 6 {
                        return Ok(());
                    }
                    // Transaction 2 is prepared, and read again in each try. The one after `last` can't be read.
                    let last = if gets_on { 2 + tries } else { 3 };
                    let (read, held) = (format!("0-1-{last}"), "0-1-1".parse().unwrap());
                    follower.line.advance(&read.parse().unwrap(), Some(&held));
                    follower.line.counts.transactions.add(2);
                    Err(Stopped::Trouble(Unreadable))
                },
                |_, _| Ok(()),
            );
            assert_eq!(tries, expected);
            match ended {
                Ok(()) => assert!(gets_on),
                Err(halt) => assert_eq!((halt.code, gets_on), (UNREADABLE, false)),
            }
        }
    }

    #[test]
    fn a_gap_that_lasts_is_told_and_flushed_once_and_after_all_that_was_not_read() {
        for (on_gap, flushes) in [(OnGap::Flush, 1), (OnGap::Now, 0)] {
            let folder = tempfile::tempdir().unwrap();
            let mut follower = follower(folder.path(), on_gap);
            begin(&mut follower, "0-1-1").unwrap();
            (0..5).for_each(|_| follower.note_gap("purged", "").unwrap());
            let counts = |follower: &Follower| {
                let counts = &follower.line.counts;
                (counts.gaps.get(), counts.flushes.get(), follower.line.figures().0)
            };
            assert_eq!(counts(&follower), (1, 0, 1));
            begin(&mut follower, "0-1-9").unwrap();
            assert_eq!(counts(&follower), (1, flushes, 1 + flushes));
            begin(&mut follower, "0-1-9").unwrap();
            assert_eq!(counts(&follower), (1, flushes, 1 + flushes), "it is over");
            follower.note_gap("purged", "").unwrap();
            begin(&mut follower, "0-1-10").unwrap();
            assert_eq!(counts(&follower), (2, 2 * flushes, 1 + 2 * flushes));
        }
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path(), OnGap::Stop);
        let halt = follower.note_gap("purged", "").unwrap_err();
        assert!(halt.code == BAD && halt.words.contains("purged. Changes since"), "{halt:?}");
    }

    #[test]
    fn a_flush_whose_position_is_not_stored_is_made_again_where_the_log_is_read_then() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path(), OnGap::Flush);
        begin(&mut follower, "0-1-1").unwrap();
        follower.note_gap("purged", "").unwrap();
        // The new file that is renamed to become the position.
        let new = folder.path().join("db/position.new");
        std::fs::create_dir(&new).unwrap();
        assert!(matches!(begin(&mut follower, "0-1-5"), Err(Stopped::Journal(_))));
        std::fs::remove_dir(&new).unwrap();
        begin(&mut follower, "0-1-9").unwrap();
        assert_eq!(follower.line.counts.flushes.get(), 2);
    }

    #[test]
    fn a_sync_that_failed_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = follower(folder.path(), OnGap::Flush);
        begin(&mut follower, "0-1-1").unwrap();
        follower.note_gap("purged", "").unwrap();
        let line = Arc::clone(&follower.line);
        let file = line.replace_file(None);
        let mut tries = 0;
        let halt = follower.follow(
            PAUSE_LEAST,
            |follower| {
                tries += 1;
                assert_eq!(tries, 1, "it goes on");
                let begun = begin(follower, "0-1-9");
                line.replace_file(Some(Arc::clone(&file)));
                begun
            },
            |_, _| Ok(()),
        );
        let halt = halt.unwrap_err();
        assert!(halt.code == UNUSABLE && halt.words.contains("start again"), "{halt:?}");
    }
}
