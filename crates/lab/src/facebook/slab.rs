//! The adaptive slab allocator: hit rates before, during and after value sizes shift.
//!
//! A cache in simulated time: so many requests a second, and whatever is missed is stored. Half of the requests are for
//! values of one size, by a power law; the others are for keys that never come again, and have small values. Then the
//! popular values change their size. Nearly all pages are of the old size by then.
//!
//! The same requests go to a cache that moves pages by the age of next victims (ours, and the paper's), to one that gives a
//! page a second to the class that evicts most from the one that evicts least, to one that moves none, and, from the
//! shift on, to a new cache, which has nothing to move.

use crate::figures::{axis, check, series, table};
use crate::{Bound, Check, Experiment, Outcome, Paper, Plot, Run, Verdict};
use anyhow::Result;
use guira_bench::{Rng, mix};
use guira_cache::{Automove, Cache, ClassCounter, Config, Handle, Store};

/// Section 6.2.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "fb-slab",
    paper: Paper::Facebook,
    title: "hit rate while value sizes shift, by how pages move between slab classes",
    claim: "to compare the ages of next victims, and not eviction rates, gives memory to the classes that need it",
    shape: "by age the hit rate comes back to that of a new cache, and is not below that by eviction rate; pages come to rest",
    verdict: Verdict::Reproduced,
    is_quick: false,
    run,
};

/// How pages move.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moves {
    ByAge,
    ByEvictions,
    None,
}

/// What a cache came to.
struct Course {
    name: &'static str,
    /// Hits of a hundred popular requests, second by second.
    hits: Vec<f64>,
    /// Pages moved up to each second.
    moved: Vec<u64>,
}

/// How large it all is.
#[derive(Clone, Copy)]
struct Size {
    memory_bytes: usize,
    requests_a_second: u64,
    seed: u64,
}

fn run(run: &Run<'_>) -> Result<Outcome> {
    let size = Size {
        memory_bytes: run.scale.pick(4 << 20, 16 << 20),
        requests_a_second: run.scale.pick(1000, 4000),
        seed: run.seed,
    };
    let mut courses = Vec::new();
    for (n, (name, moves, from_s)) in [
        ("by age", Moves::ByAge, 0),
        ("by eviction rate", Moves::ByEvictions, 0),
        ("none", Moves::None, 0),
        ("a new cache at the shift", Moves::ByAge, SHIFT_S),
    ]
    .into_iter()
    .enumerate()
    {
        (run.progress)(n as f64 / 4.0, name);
        courses.push(course(name, moves, from_s, size)?);
    }
    Ok(outcome(&courses))
}

fn course(name: &'static str, moves: Moves, from_s: u32, size: Size) -> Result<Course> {
    let config =
        Config { memory_bytes: size.memory_bytes, hash_seed: Some(size.seed), ..Config::default() };
    let cache = Cache::new(&config)?;
    if moves == Moves::ByAge {
        cache.set_automove(Automove { level: 1, ..Automove::default() });
    }
    let (mut handle, mut sweeper) = (cache.handle(), cache.sweeper());
    let mut rates = Rates::new(&cache);
    let mut course = Course { name, hits: vec![f64::NAN; from_s as usize], moved: Vec::new() };
    course.moved.resize(from_s as usize, 0);
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
                // A handle that ends no turns holds up everybody's memory.
                sweeper.asleep(|| ());
            }
        }
        if moves == Moves::ByEvictions {
            rates.ask(&cache);
        }
        course.hits.push(100.0 * f64::from(hits) / f64::from(asked));
        course.moved.push(cache.moves().pages);
    }
    Ok(course)
}

/// One request, and the value that its key has.
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
        // Twice what fits: the hot half is asked for most.
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
    // Where there is no memory yet, as a server would tell its client: the next miss stores it.
    let _ = handle.store(&key, &value[..request.bytes], &Store::default(), now);
}

/// Moves pages by eviction rates.
struct Rates {
    evicted: Vec<u64>,
}

impl Rates {
    fn new(cache: &Cache) -> Rates {
        Rates { evicted: vec![0; cache.classes()] }
    }

    /// Asks for a page of the class that evicted least in the last second for the one that evicted most.
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
            // Busy with the last one: then the next second.
            let _ = cache.reassign(Some(donor), Some(taker));
        }
    }
}

/// The average of the seconds from one to another.
fn mean(course: &Course, from_s: u32, to_s: u32) -> f64 {
    let part = &course.hits[from_s as usize..to_s as usize];
    part.iter().sum::<f64>() / part.len() as f64
}

fn outcome(courses: &[Course]) -> Outcome {
    let [age, rate, none, new] = courses else { unreachable!("four courses") };
    let after = |course: &Course| mean(course, END_S - PART_S, END_S);
    let moved = |course: &Course, from_s: u32| {
        course.moved[END_S as usize - 1] - course.moved[from_s as usize]
    };
    let rows = courses.iter().map(|course| {
        let part = |from_s, to_s| match mean(course, from_s, to_s) {
            hits if hits.is_nan() => "–".into(),
            hits => format!("{hits:.1}"),
        };
        vec![
            course.name.into(),
            part(SHIFT_S - PART_S, SHIFT_S),
            part(SHIFT_S, SHIFT_S + PART_S),
            part(END_S - PART_S, END_S),
            moved(course, SHIFT_S).to_string(),
        ]
    });
    let points = |course: &Course| {
        let places = course.hits.iter().enumerate().step_by(5);
        let shown = places.filter(|(_, hits)| !hits.is_nan()).map(|(s, &hits)| (s as f64, hits));
        shown.collect::<Vec<_>>()
    };
    let last_moves = moved(age, END_S - PART_S) as f64;
    Outcome {
        plots: vec![Plot {
            title: "Hit rate of the popular keys while their values change size".into(),
            x: axis("seconds"),
            y: axis("hits of a hundred"),
            series: courses.iter().map(|course| series(course.name, points(course))).collect(),
        }],
        tables: vec![table(
            "Hits of a hundred popular requests, on the average of 40 seconds",
            &["pages move", "before", "right after the shift", "at the end", "pages moved since"],
            rows.collect(),
        )],
        checks: checks([age, rate, none, new], last_moves),
        reading: format!(
            "Popular keys hit {:.1} % before the shift. At the end it is {:.1} % by age, {:.1} % by eviction rate and {:.1} % \
             without moves, where a new cache has {:.1} %. By age {} pages moved since the shift, by eviction rate {}.",
            mean(age, SHIFT_S - PART_S, SHIFT_S),
            after(age),
            after(rate),
            after(none),
            after(new),
            moved(age, SHIFT_S),
            moved(rate, SHIFT_S),
        ),
    }
}

fn checks([age, rate, none, new]: [&Course; 4], last_moves: f64) -> Vec<Check> {
    let after = |course: &Course| mean(course, END_S - PART_S, END_S);
    vec![
        check(
            "by age, the hit rate at the end over that of a new cache",
            after(age) / after(new),
            Bound::AtLeast(0.97),
            "memory must come to be where a cache without a past has it",
        ),
        check(
            "by age over by eviction rate, at the end",
            after(age) / after(rate),
            Bound::AtLeast(1.0),
            "who evicts most may be who has least use for memory: keys that never come again",
        ),
        check(
            "by age over none, at the end",
            after(age) / after(none),
            Bound::AtLeast(1.1),
            "without moves the pages of the old size are of no use to the new one",
        ),
        check(
            "pages that still move by age in the last 40 seconds",
            last_moves,
            Bound::AtMost(20.0),
            "once a balance is found, far fewer than the page a second that may move: 9 were seen, of 64 pages",
        ),
    ]
}

/// When sizes shift, and when it ends.
const SHIFT_S: u32 = 60;
const END_S: u32 = 260;
/// The seconds that are averaged.
const PART_S: u32 = 40;
/// Requests between two steps of the sweeper.
const STEP_EVERY: u64 = 16;
const BEFORE_BYTES: usize = 300;
const AFTER_BYTES: usize = 900;
/// Of a hundred requests so many are for keys that never come again.
const ONCE_PERCENT: u64 = 50;
const ONCE_BYTES: usize = 100;
/// The larger, the more of the requests are for few keys.
const SKEW: f64 = 2.0;
