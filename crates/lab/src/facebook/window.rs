//! Section 3.1, figure 4: how long a web server's requests wait, and how many are lost, against the number that may be
//! in flight.
//!
//! It is a simulation. A page asks many servers for many keys at once. The replies meet at the switch's port to the web
//! server, which sends them one after the other and has a small buffer. A reply that doesn't fit is lost, as is one of
//! a thousand anyway; the client notices after a timeout. The adaptive window is the client's own
//! (`guira_client::Window`).

use crate::data::{Data, Line};
use crate::figures::{axis, check, least, series, table};
use crate::{Axis, Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_bench::Rng;
use guira_client::{Permit, Window};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Figure 4.
pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "fb-window",
    paper: Paper::Facebook,
    title: "waiting time and lost answers against the size of a web server's window",
    claim: "with a small window requests wait for each other, with a large one answers are lost in the switch: between them \
            the waiting time has a minimum, and a window that grows slowly and shrinks on a loss finds it",
    shape: "the smallest and the largest window wait at least twice as long as the best; the client's adaptive one at most \
            1.5 times as long, with at most a tenth of the largest one's losses",
    why: "",
    is_quick: true,
    measure,
    judge,
};

/// The observations for a window.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The mean time in milliseconds from when a page asks until it has a reply, or knows that there is none.
    wait_ms: f64,
    /// The share of requests that were lost.
    lost: f64,
    /// The size of the window, on average.
    size: f64,
}

/// By the size of a fixed window.
const WAITS: &str = "fixed window";
const LOSSES: &str = "fixed window, losses";
/// For the adaptive window.
const ADAPTIVE_WAITS: &str = "adaptive window";
const ADAPTIVE_LOSSES: &str = "adaptive window, losses";
const ADAPTIVE_SIZE: &str = "adaptive window, size";

fn measure(run: &Run<'_>) -> Result<Data> {
    let pages = run.scale.pick(400, 10_000);
    let (mut waits, mut losses) = (Vec::new(), Vec::new());
    for (place, &size) in SIZES.iter().enumerate() {
        (run.progress)(place as f64 / SIZES.len() as f64, &format!("{size} requests"));
        let seen = Switch::new(Limit::Fixed { size, out: 0 }, run.seed).serve(pages);
        waits.push((size as f64, seen.wait_ms));
        losses.push((size as f64, seen.lost));
    }
    let most = u32::try_from(SIZES[SIZES.len() - 1]).unwrap_or(u32::MAX);
    let adaptive = Limit::Adaptive(Window::new(FIRST_SIZE, most));
    let adaptive = Switch::new(adaptive, run.seed).serve(pages);
    let mut data = Data::default();
    data.push(Line::of_figures(WAITS, waits));
    data.push(Line::of_figures(LOSSES, losses));
    data.fact(ADAPTIVE_WAITS, adaptive.wait_ms);
    data.fact(ADAPTIVE_LOSSES, adaptive.lost);
    data.fact(ADAPTIVE_SIZE, adaptive.size);
    Ok(data)
}

fn judge(data: &Data) -> Findings {
    let percent = |share: f64| 100.0 * share;
    Findings {
        plots: vec![
            plot(data, "How long a request waits", "milliseconds", [WAITS, ADAPTIVE_WAITS], |it| {
                it
            }),
            plot(
                data,
                "Requests that get no answer",
                "% of the requests",
                [LOSSES, ADAPTIVE_LOSSES],
                percent,
            ),
        ],
        tables: vec![figures(data)],
        checks: checks(data),
        reading: reading(data),
    }
}

/// Returns the least wait of all fixed windows.
fn best(data: &Data) -> f64 {
    least(data.line(WAITS).figures())
}

/// Returns the size of the fixed window with the shortest wait.
fn best_size(data: &Data) -> f64 {
    let shortest = data.line(WAITS).medians().min_by(|one, other| one.1.total_cmp(&other.1));
    shortest.map_or(f64::NAN, |(size, _)| size)
}

/// Returns the sizes of the smallest and the largest window.
fn ends() -> [f64; 2] {
    [SIZES[0], SIZES[SIZES.len() - 1]].map(|size| size as f64)
}

fn checks(data: &Data) -> Vec<Check> {
    let [small, large] = ends().map(|size| data.line(WAITS).median(size) / best(data));
    vec![
        check(
            "waiting with a window of one, over the best",
            small,
            Bound::AtLeast(2.0),
            "each request waits for all before it",
        )
        .paper("more than 1", Bound::AtLeast(1.1)),
        check(
            "waiting with the largest window, over the best",
            large,
            Bound::AtLeast(2.0),
            "most answers of a page find the port full, and their loss is noticed late",
        )
        .paper("more than 1", Bound::AtLeast(1.1)),
        check(
            "waiting with the adaptive window, over the best",
            data.figure(ADAPTIVE_WAITS) / best(data),
            Bound::AtMost(1.5),
            "it grows until something is lost, and is half as large then",
        )
        .paper_or("close to 1", Bound::AtMost(1.5), small.min(large)),
        check(
            "losses with the adaptive window, over those with the largest",
            data.figure(ADAPTIVE_LOSSES) / data.line(LOSSES).median(ends()[1]),
            Bound::AtMost(0.1),
            "a loss now and then tells it where the limit is",
        )
        .paper("few", Bound::AtMost(0.1)),
        check(
            "the adaptive window, on average, over the best of the fixed ones",
            data.figure(ADAPTIVE_SIZE) / best_size(data),
            Bound::Between(0.25, 2.0),
            "it stays where waits are short: between a quarter of the best and twice as much they differ little",
        ),
    ]
}

fn reading(data: &Data) -> String {
    let waits = data.line(WAITS);
    let [small, large] = ends();
    let best_size = waits.medians().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(f64::NAN, |it| it.0);
    format!(
        "The best fixed window has {best_size:.0} requests: a request waits {:.2} ms, with one at a time {:.2} ms, with \
         {large:.0} {:.2} ms, and {:.0} % are lost. The adaptive window has {:.0} on average, waits {:.2} ms and loses \
         {:.1} %.",
        best(data),
        waits.median(small),
        waits.median(large),
        100.0 * data.line(LOSSES).median(large),
        data.figure(ADAPTIVE_SIZE),
        data.figure(ADAPTIVE_WAITS),
        100.0 * data.figure(ADAPTIVE_LOSSES),
    )
}

fn plot(data: &Data, title: &str, unit: &str, lines: [&str; 2], of: fn(f64) -> f64) -> Plot {
    let [fixed, adaptive] = lines;
    let line = data.line(fixed).medians().map(|(size, figure)| (size, of(figure)));
    let across = ends().map(|size| (size, of(data.figure(adaptive))));
    Plot {
        title: title.into(),
        x: Axis { is_log: true, ..axis("requests under way at most") },
        y: axis(unit),
        series: vec![series(WAITS, line), series(ADAPTIVE_WAITS, across)],
    }
}

fn figures(data: &Data) -> Table {
    let row = |name: String, wait_ms: f64, lost: f64| {
        vec![name, format!("{wait_ms:.2}"), format!("{:.2}", 100.0 * lost)]
    };
    let fixed = data
        .line(WAITS)
        .medians()
        .map(|(size, wait_ms)| row(size.to_string(), wait_ms, data.line(LOSSES).median(size)));
    let adaptive = row(
        format!("adaptive, {:.0} on average", data.figure(ADAPTIVE_SIZE)),
        data.figure(ADAPTIVE_WAITS),
        data.figure(ADAPTIVE_LOSSES),
    );
    let title = format!(
        "Pages of {PAGE} keys; a port that sends an answer in {SEND_US} µs and has room for {BUFFER}; a loss is noticed \
         after {TIMEOUT_US} µs"
    );
    let rows = fixed.chain(std::iter::once(adaptive)).collect();
    table(&title, &["window", "waits, ms", "lost, %"], rows)
}

/// The limit of requests in flight.
enum Limit {
    Fixed { size: usize, out: usize },
    Adaptive(Window),
}

impl Limit {
    /// Takes room for one more request, if there is any.
    fn enter(&mut self) -> Option<Option<Permit>> {
        match self {
            Self::Fixed { size, out } => (*out < *size).then(|| {
                *out += 1;
                None
            }),
            Self::Adaptive(window) => window.try_enter().map(Some),
        }
    }

    /// Releases the room of a request that was answered or lost.
    fn leave(&mut self, permit: Option<Permit>, is_answered: bool) {
        if let Self::Fixed { out, .. } = self {
            *out -= 1;
        }
        match permit {
            Some(permit) if is_answered => permit.answered(),
            unanswered => drop(unanswered),
        }
    }

    fn size(&self) -> f64 {
        match self {
            Self::Fixed { size, .. } => *size as f64,
            Self::Adaptive(window) => window.size(),
        }
    }
}

/// An event of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Its reply arrives at the port.
    Arrives,
    /// Its reply has reached the web server.
    Answered,
    /// The client knows that there will be no reply.
    Lost,
}

/// The web server, and the port in front of it; times are in microseconds.
struct Switch {
    limit: Limit,
    rng: Rng,
    now: u64,
    /// The time of each event, and the index of its request in the page.
    events: BinaryHeap<Reverse<(u64, usize, Event)>>,
    /// The requests that wait for the window.
    waiting: VecDeque<usize>,
    permits: Vec<Option<Permit>>,
    /// When the port will have sent the last reply in its buffer.
    port_free_at: u64,
}

impl Switch {
    fn new(limit: Limit, seed: u64) -> Self {
        Self {
            limit,
            rng: Rng::new(seed),
            now: 0,
            events: BinaryHeap::new(),
            waiting: VecDeque::new(),
            permits: Vec::new(),
            port_free_at: 0,
        }
    }

    /// Serves one page after the other.
    fn serve(mut self, pages: u64) -> Seen {
        let (mut waited, mut lost, mut size) = (0, 0, 0.0);
        for _ in 0..pages {
            let begun = self.now;
            size += self.limit.size();
            self.waiting.extend(0..PAGE);
            self.permits = std::iter::repeat_with(|| None).take(PAGE).collect();
            self.send();
            while let Some(Reverse((at, request, event))) = self.events.pop() {
                self.now = at;
                match event {
                    Event::Arrives => self.arrives(request),
                    Event::Answered | Event::Lost => {
                        waited += at - begun;
                        lost += u64::from(event == Event::Lost);
                        let permit = self.permits[request].take();
                        self.limit.leave(permit, event == Event::Answered);
                        self.send();
                    }
                }
            }
            self.now += THINK_US;
        }
        let requests = (pages * PAGE as u64) as f64;
        Seen {
            wait_ms: waited as f64 / requests / 1e3,
            lost: lost as f64 / requests,
            size: size / pages as f64,
        }
    }

    /// Sends as many requests as the window allows.
    fn send(&mut self) {
        while !self.waiting.is_empty()
            && let Some(permit) = self.limit.enter()
            && let Some(request) = self.waiting.pop_front()
        {
            self.permits[request] = permit;
            let takes = SERVER_US.0 + self.rng.below(SERVER_US.1 - SERVER_US.0);
            self.events.push(Reverse((self.now + takes, request, Event::Arrives)));
        }
    }

    fn arrives(&mut self, request: usize) {
        let queued = self.port_free_at.saturating_sub(self.now).div_ceil(SEND_US);
        if queued >= BUFFER || self.rng.below(LOSS_ONE_OF) == 0 {
            self.events.push(Reverse((self.now + TIMEOUT_US, request, Event::Lost)));
            return;
        }
        self.port_free_at = self.port_free_at.max(self.now) + SEND_US;
        self.events.push(Reverse((self.port_free_at, request, Event::Answered)));
    }
}

const SIZES: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// The size at which the adaptive window begins.
const FIRST_SIZE: u32 = 10;
/// Keys per page: the paper's pages have 521 on average.
const PAGE: usize = 521;
/// The range of the time that a server and the network take.
const SERVER_US: (u64, u64) = (100, 300);
/// The time that the port takes to send a reply: 1.2 KB at a gigabit per second.
const SEND_US: u64 = 10;
/// The replies that fit in the port's buffer.
const BUFFER: u64 = 64;
/// The time after which a client gives up on a reply.
const TIMEOUT_US: u64 = 20_000;
const LOSS_ONE_OF: u64 = 1000;
/// The time between pages.
const THINK_US: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_at_a_time_loses_what_chance_takes_and_a_page_at_once_far_more() {
        let lost = |size| Switch::new(Limit::Fixed { size, out: 0 }, 1).serve(50).lost;
        assert!(lost(1) < 0.005, "{}", lost(1));
        assert!(lost(PAGE) > 0.1, "{}", lost(PAGE));
    }
}
