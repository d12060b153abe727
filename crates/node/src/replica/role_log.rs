//! What a node logs about its part in views, and about how far that has come.
//!
//! An operator who changes a view file waits for these lines: each has one. A controller changes views many times a second
//! while copies move. Then each is a line of `-v` only, and from time to time one line sums them up.

use guira_chain::frames::PeerHello;
use guira_chain::slot::Slot;
use guira_chain::{Chart, Group, NodeId, SLOTS, View};

use super::slots::Slots;

/// See the module's head.
#[derive(Debug)]
pub(super) struct RoleLog {
    /// Views come from a register.
    is_registered: bool,
    /// What is still to be logged about the present view: that this node is filled, and that the nodes that join are ready.
    untold: [bool; 2],
    /// The number of the slots' steps when they were looked at.
    looked_at: Option<u64>,
    summed: Summed,
}

impl RoleLog {
    pub(super) fn of(is_registered: bool) -> Self {
        let (untold, summed) = ([false; 2], Summed::default());
        Self { is_registered, untold, looked_at: None, summed }
    }

    /// Takes note of a view, and logs the node's part in it.
    pub(super) fn learn(&mut self, me: &PeerHello, view: &View, is_member: bool) {
        (self.untold, self.looked_at) = ([is_member; 2], None);
        self.summed.views += 1;
        let epoch = view.epoch;
        if !is_member && !self.is_registered {
            let (run, me) = (&me.run, me.node);
            tracing::warn!(
                "epoch {epoch}: node {me} has no part. This process is run {run}: a view has to name it"
            );
            return;
        }
        self.say(&format!("epoch {epoch}: {} {}", self.name(me), part(me, view)));
    }

    /// Logs what has come about since the last call; `now` in microseconds.
    pub(super) fn tell(&mut self, me: &PeerHello, chart: &Chart, slots: &Slots, now: u64) {
        self.sum_up(me, chart, slots, now);
        if self.untold == [false; 2] || self.looked_at.replace(slots.steps()) == Some(slots.steps())
        {
            return;
        }
        let (epoch, node) = (chart.view.epoch, me.node);
        let own = own(node, chart, slots);
        let joined = own
            .clone()
            .filter(|(group, _)| group.reader() == Some(node) && !group.joining.is_empty());
        if self.untold[0]
            && own.clone().next().is_some()
            && own.clone().all(|(_, slot)| slot.is_filled())
        {
            self.untold[0] = false;
            self.say(&format!("epoch {epoch}: {} is filled", self.name(me)));
        }
        let is_ready = |(group, slot): (&Group, &Slot)| {
            group.joining.iter().all(|node| slot.ready().contains(node))
        };
        if self.untold[1] && joined.clone().next().is_some() && joined.clone().all(is_ready) {
            self.untold[1] = false;
            let name = self.name(me);
            self.say(&format!(
                "epoch {epoch}: those that join have all that {name} has: they may serve"
            ));
        }
    }

    fn sum_up(&mut self, me: &PeerHello, chart: &Chart, slots: &Slots, now: u64) {
        if !self.is_registered {
            return;
        }
        let is_member = chart.view.names(me.node, &me.run);
        let words = || {
            let to_fill = own(me.node, chart, slots).filter(|it| !it.1.is_filled()).count();
            let filled = match to_fill {
                _ if !is_member => String::new(),
                0 => ", all filled".to_owned(),
                count => format!(", {count} of them not filled yet"),
            };
            format!("{}{filled}", part(me, &chart.view))
        };
        if let Some(words) = self.summed.due(is_member, now, words) {
            tracing::info!("epoch {}: {} {words}", chart.view.epoch, self.name(me));
        }
    }

    fn say(&self, words: &str) {
        if self.is_registered {
            tracing::debug!("{words}");
        } else {
            tracing::info!("{words}");
        }
    }

    /// The node, as operators know it: a view file has numbers.
    fn name(&self, me: &PeerHello) -> String {
        match self.is_registered {
            true => format!("{} ({})", me.name, me.node),
            false => format!("node {}", me.node),
        }
    }
}

/// The slots in whose chains the node is.
fn own<'a>(
    node: NodeId,
    chart: &'a Chart,
    slots: &'a Slots,
) -> impl Iterator<Item = (&'a Group, &'a Slot)> + Clone {
    let of = move |slot: u16| Some((chart.group(slot)?, slots.get(slot)?));
    (0..SLOTS).filter_map(of).filter(move |it| it.0.members().any(|it| it == node))
}

/// What a process is in a view.
fn part(me: &PeerHello, view: &View) -> String {
    if !view.names(me.node, &me.run) {
        return "has no part yet".to_owned();
    }
    let count = |is: &dyn Fn(&Group) -> bool| -> usize {
        view.groups.iter().filter(|group| is(group)).map(|group| group.slots.len()).sum()
    };
    format!(
        "is the head of {} slots, the reader of {}, and in the chains of {}",
        count(&|group| group.head() == Some(me.node)),
        count(&|group| group.reader() == Some(me.node)),
        count(&|group| group.members().any(|node| node == me.node)),
    )
}

/// The views since the last line that summed them up.
#[derive(Debug, Default)]
struct Summed {
    views: u64,
    last: Option<Line>,
}

#[derive(Debug)]
struct Line {
    at: u64,
    is_member: bool,
    words: String,
}

impl Summed {
    /// The words of the line that is due, if one is: there was a view, and either the last line is old or the process became a
    /// member, or is none any more.
    fn due(&mut self, is_member: bool, now: u64, words: impl FnOnce() -> String) -> Option<String> {
        let is_due = |it: &Line| it.is_member != is_member || now >= it.at + SUMMED_EVERY;
        if self.views == 0 || !self.last.as_ref().is_none_or(is_due) {
            return None;
        }
        let (words, views) = (words(), std::mem::take(&mut self.views));
        let line = Line { at: now, is_member, words: words.clone() };
        let before = self.last.replace(line);
        let is_same = before.is_some_and(|it| it.words == words);
        let told = match views {
            1 => words,
            _ => format!("{words}, after {views} views"),
        };
        (!is_same).then_some(told)
    }
}

/// Microseconds.
const SUMMED_EVERY: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_views_have_one_line_in_ten_seconds_unless_membership_changes() {
        let mut summed = Summed::default();
        let second = 1_000_000;
        let mut view = |at: u64, is_member, words: &str| {
            summed.views += 1;
            summed.due(is_member, at * second, || words.to_owned())
        };
        assert_eq!(view(1, false, "has no part yet").as_deref(), Some("has no part yet"));
        assert_eq!(view(2, true, "is the head").as_deref(), Some("is the head"));
        for at in 3..12 {
            assert_eq!(view(at, true, "moves"), None);
        }
        assert_eq!(
            view(12, true, "is the reader").as_deref(),
            Some("is the reader, after 10 views")
        );
        assert_eq!(view(30, true, "is the reader"), None, "nothing is new");
        assert_eq!(summed.due(true, 60 * second, String::new), None);
    }
}
