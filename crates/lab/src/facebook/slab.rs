//! The adaptive slab allocator: hit rates before, during and after value sizes shift.
//!
//! A cache in simulated time gets a number of requests per second, and stores what missed. Half of the requests are for
//! values of one size, whose popularity follows a power law. The others are for keys that never recur, and have small
//! values. Then the popular values change their size, when nearly all pages belong to the old size.
//!
//! Four caches get the same requests. One moves pages by the age of the next victims (ours, and the paper's). One gives
//! a page per second from the class that evicts least to the class that evicts most. One moves no pages. The last is a
//! new cache, from the shift on, which has nothing to move.

use crate::data::{Data, Line};
use crate::figures::{axis, check, least, series, table};
use crate::{Bound, Check, Experiment, Findings, Paper, Plot, Run, Table};
use anyhow::Result;
use guira_bench::{Rng, mix};
use guira_cache::{Automove, Cache, CacheConfig, ClassCounter, Handle, StoreTerms};

/// Section 6.2.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fb-slab",
    paper: Paper::Facebook,
    title: "hit rate while value sizes shift, by how pages move between slab classes",
    claim: "to compare the ages of next victims, and not eviction rates, gives memory to the classes that need it",
    shape: "by age the hit rate comes back to that of a new cache, and is not below that by eviction rate; pages come to rest",
    why: "",
    is_quick: false,
    measure,
    judge,
};

/// How pages are moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    ByAge,
    ByEvictions,
    None,
}

/// The course of a cache.
struct Course {
    /// Hits per hundred popular requests, by second.
    hits: Vec<(f64, f64)>,
    /// Pages moved so far, by second.
    moved: Vec<(f64, f64)>,
}

/// The sizes of the experiment.
#[derive(Clone, Copy)]
struct Size {
    memory_bytes: usize,
    requests_a_second: u64,
    seed: u64,
}

fn measure(run: &Run<'_>) -> Result<Data> {
    let size = Size {
        memory_bytes: run.scale.pick(4 << 20, 16 << 20),
        requests_a_second: run.scale.pick(1000, 4000),
        seed: run.seed,
    };
    let mut data = Data::default();
    for (at, (name, moves, from_s)) in COURSES.into_iter().enumerate() {
        (run.progress)(at as f64 / COURSES.len() as f64, name);
        let course = course(moves, from_s, size)?;
        data.push(Line::of_figures(name, course.hits));
        let moved = Line::of_figures(&moved_of(name), course.moved);
        // The pages that the others move are only shown; the claim is about hits.
        data.push(if name == BY_AGE { moved } else { moved.aside() });
    }
    Ok(data)
}

fn moved_of(name: &str) -> String {
    format!("{name}: pages moved")
}

fn course(moves: Moves, from_s: u32, size: Size) -> Result<Course> {
    let config = CacheConfig {
        memory_bytes: size.memory_bytes,
        hash_seed: Some(size.seed),
        ..CacheConfig::default()
    };
    let cache = Cache::new(&config)?;
    if moves == Moves::ByAge {
        cache.set_automove(Automove { level: 1, ..Automove::default() });
    }
    let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
    let mut rates = Rates::new(&cache);
    let mut course = Course { hits: Vec::new(), moved: Vec::new() };
    for second in from_s..END_S {
        let now = guira_cache::START_S + second;
        let mut rng = Rng::new(mix(size.seed ^ u64::from(second)));
        let (mut asked, mut hits) = (0, 0);
        for n in 0..size.requests_a_second {
            let request = Request::draw(&mut rng, (second, n), size);
            let hit = handle.get(&handle.key(request.key.as_bytes()), now).is_ok();
            if request.is_popular {
                asked += 1;
                hits += u32::from(hit);
            }
            if !hit {
                store(&handle, &request, now);
            }
            handle.quiesce();
            if n % STEP_EVERY == 0 {
                sweeper.step(now);
            } else if n % STEP_EVERY == 1 {
                // A handle that doesn't end its turns keeps memory from being reused.
                sweeper.asleep(|| ());
            }
        }
        if moves == Moves::ByEvictions {
            rates.ask(&cache);
        }
        course.hits.push((f64::from(second), 100.0 * f64::from(hits) / f64::from(asked)));
        course.moved.push((f64::from(second), cache.moves().pages as f64));
    }
    Ok(course)
}

/// A request, and the size of the value that its key has.
struct Request {
    key: String,
    bytes: usize,
    is_popular: bool,
}

impl Request {
    fn draw(rng: &mut Rng, (second, n): (u32, u64), size: Size) -> Request {
        if rng.below(100) < ONCE_PERCENT {
            let key = format!("once-{second:05}-{n:06}");
            return Request { key, bytes: ONCE_BYTES, is_popular: false };
        }
        let bytes = if second < SHIFT_S { BEFORE_BYTES } else { AFTER_BYTES };
        // Twice as many keys as fit: most requests are for the popular half.
        let keys = 2 * size.memory_bytes / bytes;
        let unit = rng.below(1 << 32) as f64 / f64::from(u32::MAX);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place")]
        let place = (keys as f64 * unit.powf(SKEW)) as usize;
        Request { key: format!("{bytes:04}-{place:010}"), bytes, is_popular: true }
    }
}

fn store(handle: &Handle<'_>, request: &Request, now: u32) {
    let value = [b'v'; 4096];
    let key = handle.key(request.key.as_bytes());
    // If there is no memory yet, a server would refuse the store; the next miss stores the value.
    let _ = handle.store(&key, &value[..request.bytes], &StoreTerms::default(), now);
}

/// Moves pages by eviction rates.
struct Rates {
    evicted: Vec<u64>,
}

impl Rates {
    fn new(cache: &Cache) -> Rates {
        Rates { evicted: vec![0; cache.classes()] }
    }

    /// Requests a page of the class that evicted least in the last second, for the class that evicted most.
    fn ask(&mut self, cache: &Cache) {
        let totals = cache.totals();
        let mut classes = Vec::new();
        for (class, before) in self.evicted.iter_mut().enumerate() {
            let evicted = totals.class(ClassCounter::Evicted, class);
            classes.push((evicted - *before, class));
            *before = evicted;
        }
        let Some(&(most, taker)) = classes.iter().max() else { return };
        let donors = classes.iter().filter(|(_, class)| cache.class_stats(*class).pages > 1);
        if let Some(&(least, donor)) = donors.min()
            && least < most
        {
            // If the last move isn't finished, the next second tries again.
            let _ = cache.reassign(Some(donor), Some(taker));
        }
    }
}

/// Returns the average over the seconds `from_s..to_s`; NaN before a course begins.
fn mean(data: &Data, name: &str, from_s: u32, to_s: u32) -> f64 {
    let seconds = f64::from(from_s)..f64::from(to_s);
    let part = data.line(name).medians().filter(|(second, _)| seconds.contains(second));
    let (sum, count) = part.fold((0.0, 0.0), |(sum, count), (_, hits)| (sum + hits, count + 1.0));
    sum / count
}

/// The average over the last seconds before the shift.
fn before(data: &Data, name: &str) -> f64 {
    mean(data, name, SHIFT_S - PART_S, SHIFT_S)
}

/// The average over the last seconds of the run.
fn after(data: &Data, name: &str) -> f64 {
    mean(data, name, END_S - PART_S, END_S)
}

/// The pages moved from a second on.
fn moved(data: &Data, name: &str, from_s: u32) -> f64 {
    let line = data.line(&moved_of(name));
    line.median(f64::from(END_S - 1)) - line.median(f64::from(from_s))
}

fn judge(data: &Data) -> Findings {
    let lines = || COURSES.iter().map(|(name, ..)| data.line(name));
    let shown = |line: &Line| series(&line.name, line.medians().step_by(5));
    Findings {
        plots: vec![Plot {
            title: "Hit rate of the popular keys while their values change size".into(),
            x: axis("seconds"),
            y: axis("hits of a hundred"),
            series: lines().map(shown).collect(),
        }],
        tables: vec![averages(data)],
        checks: checks(data),
        reading: format!(
            "Popular keys hit {:.1} % before the shift. At the end it is {:.1} % by age, {:.1} % by eviction rate and {:.1} % \
             without moves, where a new cache has {:.1} %. By age {:.0} pages moved since the shift, by eviction rate {:.0}.",
            before(data, BY_AGE),
            after(data, BY_AGE),
            after(data, BY_RATE),
            after(data, NO_MOVES),
            after(data, NEW),
            moved(data, BY_AGE, SHIFT_S),
            moved(data, BY_RATE, SHIFT_S),
        ),
    }
}

fn averages(data: &Data) -> Table {
    let cell = |hits: f64| if hits.is_nan() { "–".into() } else { format!("{hits:.1}") };
    let row = |(name, ..): (&str, Moves, u32)| {
        vec![
            name.to_owned(),
            cell(before(data, name)),
            cell(mean(data, name, SHIFT_S, SHIFT_S + PART_S)),
            cell(after(data, name)),
            format!("{:.0}", moved(data, name, SHIFT_S)),
        ]
    };
    table(
        "Hits of a hundred popular requests, on average over 40 seconds",
        &["pages move", "before", "right after the shift", "at the end", "pages moved since"],
        COURSES.map(row).into(),
    )
}

fn checks(data: &Data) -> Vec<Check> {
    let after = |name: &str| after(data, name);
    let first = |name: &str, second: u32| data.line(name).median(f64::from(second));
    let filled = [BY_AGE, BY_RATE, NO_MOVES].map(|name| before(data, name) / first(name, 0));
    let new_filled = after(NEW) / first(NEW, SHIFT_S);
    vec![
        check(
            "by age, the hit rate at the end over that of a new cache",
            after(BY_AGE) / after(NEW),
            Bound::AtLeast(0.97),
            "memory must come to be where a cache without a past has it",
        )
        .paper_or("1", Bound::AtLeast(0.97), after(NO_MOVES) / after(NEW)),
        check(
            "by age over by eviction rate, at the end",
            after(BY_AGE) / after(BY_RATE),
            Bound::AtLeast(1.0),
            "a class that evicts most may be the one that has least use for memory: keys that never come again",
        )
        .paper_exactly("more than 1", Bound::AtLeast(1.0)),
        check(
            "by age over none, at the end",
            after(BY_AGE) / after(NO_MOVES),
            Bound::AtLeast(1.1),
            "without moves the pages of the old size are of no use to the new one",
        )
        .paper("more than 1", Bound::AtLeast(1.1)),
        check(
            "pages that move by age after the shift",
            moved(data, BY_AGE, SHIFT_S),
            Bound::AtLeast(10.0),
            "most of the 64 pages are of the old size",
        ),
        check(
            "pages that still move by age in the last 40 seconds",
            moved(data, BY_AGE, END_S - PART_S),
            Bound::AtMost(20.0),
            "once a balance is found, far fewer than the page a second that may move: 9 were seen, of 64 pages",
        ),
        check(
            "hit rates once caches are filled, over their first second's, at the least",
            least(filled.into_iter().chain([new_filled])),
            Bound::AtLeast(1.5),
            "a cache begins empty",
        ),
    ]
}

/// How pages are moved in each course, and the second at which it begins.
const COURSES: [(&str, Moves, u32); 4] = [
    (BY_AGE, Moves::ByAge, 0),
    (BY_RATE, Moves::ByEvictions, 0),
    (NO_MOVES, Moves::None, 0),
    (NEW, Moves::ByAge, SHIFT_S),
];
const BY_AGE: &str = "by age";
const BY_RATE: &str = "by eviction rate";
const NO_MOVES: &str = "none";
const NEW: &str = "a new cache at the shift";
/// The second at which sizes shift, and the end.
const SHIFT_S: u32 = 60;
const END_S: u32 = 260;
/// The number of seconds that are averaged.
const PART_S: u32 = 40;
/// Requests between two steps of the sweeper.
const STEP_EVERY: u64 = 16;
const BEFORE_BYTES: usize = 300;
const AFTER_BYTES: usize = 900;
/// The percentage of requests for keys that never recur.
const ONCE_PERCENT: u64 = 50;
const ONCE_BYTES: usize = 100;
/// The larger this is, the more requests are for few keys.
const SKEW: f64 = 2.0;
