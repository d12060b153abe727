//! Two routers with a hot cache in front of one cluster: what one of them keeps is never answered after another one has
//! changed it.
#![expect(clippy::disallowed_methods, reason = "how long a client waits is told by a clock")]

use guira_tests::holder::Holder;
use guira_tests::metrics::Scrape;
use guira_tests::replicas::{NAMES, Replicas, told};
use guira_tests::server::{Server, free_port, guira, within};
use rustix::process::Signal;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// A router with a hot cache, and its port for metrics.
struct Router {
    server: Server,
    http: u16,
}

impl Router {
    fn start(cluster: &Replicas) -> Self {
        let (place, http) = (cluster.place(), free_port());
        let config = format!(
            "{{\"route\": {{\"type\": \"ClusterRoute\", \"etcd\": \"{place}\", \"hot_cache\": {{\"entries\": 4}}}}}}"
        );
        let port = http.to_string();
        let flags = ["--config", &config, "--num-proxies", "2", "--http", &port];
        Self { server: Server::start_router(&flags), http }
    }

    /// The number of gets that it answered itself.
    fn hits(&self) -> f64 {
        Scrape::of(self.http).value("guira_route_hot_cache_hits_total")
    }
}

/// A sum over the nodes of a line of `stats cluster`.
fn stat(cluster: &Replicas, name: &str) -> u64 {
    let of = |node: &&str| -> u64 {
        let told = cluster.nodes[*node].connect().ask("stats cluster");
        let found = told.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        found.and_then(|number| number.trim().parse().ok()).expect(name)
    };
    NAMES.iter().map(of).sum()
}

/// A key that counts up, and those who use it through several routers.
#[derive(Default)]
struct Count {
    key: String,
    is_over: AtomicBool,
    /// The last number whose store was answered.
    stored: AtomicU64,
    reads: AtomicU64,
    longest: Mutex<Duration>,
}

impl Count {
    fn of(key: &str) -> Self {
        Self { key: key.to_owned(), ..Self::default() }
    }

    /// Stores one number after the other.
    fn write(&self, router: &Router, pause: Duration) {
        let mut client = router.server.connect();
        for number in 1_u64.. {
            if self.is_over.load(SeqCst) {
                return;
            }
            let began = Instant::now();
            let text = number.to_string();
            let set = format!("set {} 0 0 {}\r\n{text}", self.key, text.len());
            let stored = told(&mut client, &set);
            assert_eq!(stored, "STORED\r\n");
            self.stored.store(number, SeqCst);
            {
                let mut longest = self.longest.lock().expect("no panic");
                *longest = longest.max(began.elapsed());
            }
            thread::sleep(pause);
        }
    }

    /// Reads, and checks that nothing is older than what was stored before, or than what was read before.
    fn read(&self, router: &Router) {
        let mut client = router.server.connect();
        let mut last = 0;
        while !self.is_over.load(SeqCst) {
            let least = self.stored.load(SeqCst).max(last);
            let found = told(&mut client, &format!("get {}", self.key));
            if found != "END\r\n" || least > 0 {
                let value = found.lines().nth(1).and_then(|it| it.parse().ok());
                last = value.unwrap_or_else(|| panic!("{found}"));
                assert!(last >= least, "{last} was read, and {least} was stored or read before");
            }
            self.reads.fetch_add(1, SeqCst);
        }
    }

    fn goes_on(&self) {
        let before = self.stored.load(SeqCst);
        within(60, "numbers are stored", || self.stored.load(SeqCst) > before + 3);
    }
}

struct OnDrop<'a>(&'a Count);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

#[test]
fn no_router_answers_what_another_one_has_changed() {
    let cluster = Replicas::start();
    let routers = [Router::start(&cluster), Router::start(&cluster)];
    let count = Count::of("hot");
    thread::scope(|scope| {
        let (count, one) = (&count, &routers[0]);
        let end = OnDrop(count);
        scope.spawn(move || {
            let _end = OnDrop(count);
            count.write(one, Duration::from_millis(20));
        });
        for router in routers.iter().cycle().take(6) {
            scope.spawn(move || {
                let _end = OnDrop(count);
                count.read(router);
            });
        }
        let is_used = || {
            let is_hit = routers.iter().all(|it| it.hits() > 1000.0);
            count.is_over.load(SeqCst) || (is_hit && count.stored.load(SeqCst) > 100)
        };
        within(120, "both routers answer much, and much is stored", is_used);
        drop(end);
    });
    let hits = [routers[0].hits(), routers[1].hits()];
    let (stored, reads) = (count.stored.into_inner(), count.reads.into_inner());
    let longest = count.longest.into_inner().expect("no panic");
    eprintln!(
        "{stored} stored, the longest in {longest:?}; {reads} read, of them by caches {hits:?}"
    );
    assert!(stat(&cluster, "cluster_holds_asked_granted") > 0);
    // The figures are those of the last second.
    let is_counted = || stat(&cluster, "cluster_invalidations_answered") > 0;
    within(30, "routers said that they dropped values", is_counted);
    // What is deleted isn't found, and a `gets` has the newest unique.
    let [mut one, mut two] = [0, 1].map(|at: usize| routers[at].server.connect());
    for round in 0..20 {
        let number = told(&mut two, "incr hot 1").trim().to_owned();
        for client in [&mut one, &mut two] {
            for _ in 0..20 {
                let found = told(client, "gets hot");
                assert!(found.contains(&format!("\r\n{number}\r\n")), "round {round}: {found}");
            }
        }
        let found = told(&mut two, "gets hot");
        let unique = found.lines().next().and_then(|line| line.rsplit(' ').next());
        let cas = format!("cas hot 0 0 1 {}\r\n1", unique.expect("a unique"));
        assert_eq!(told(&mut one, &cas), "STORED\r\n", "round {round}");
    }
    assert_eq!(told(&mut two, "delete hot"), "DELETED\r\n");
    for client in [&mut one, &mut two] {
        assert_eq!(told(client, "get hot"), "END\r\n");
    }
}

/// The slot of a key, that slot's epoch, and the name of its reader.
fn place_of(cluster: &Replicas, key: &str) -> ((u16, u64), String) {
    let config =
        format!("{{\"route\": {{\"type\": \"ClusterRoute\", \"etcd\": \"{}\"}}}}", cluster.place());
    let told =
        Command::new(guira()).args(["route", "explain", "get", key, "--config", &config]).output();
    let told = String::from_utf8_lossy(&told.expect("guira runs").stdout).into_owned();
    let part = |name: &str| {
        let part = told.split(['|', '\n', ' ']).find_map(|part| part.trim().strip_prefix(name));
        part.unwrap_or_else(|| panic!("{name}: {told}")).to_owned()
    };
    let slot: u16 = part("slot=").parse().expect("a number");
    let view = cluster.etcd.value("/guira/birds/view");
    let groups =
        view.split("{\"slots\":\"").skip(1).map(|group| group.split_once('"').expect("slots"));
    let has = |slots: &str| {
        slots.split(',').any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            (first.parse().expect("a slot")..=last.parse::<u16>().expect("a slot")).contains(&slot)
        })
    };
    let (_, group) = groups.into_iter().find(|it| has(it.0)).expect("a group");
    let (_, epoch) = group.split_once("\"epoch\":").expect("an epoch");
    let epoch = epoch.split(',').next().and_then(|it| it.parse().ok()).expect("a number");
    ((slot, epoch), part("reader="))
}

/// The first change waits until the term of the program that is silent is over. Then it gets no hold, and once another one is
/// silent too, nobody does.
fn programs_that_drop_nothing_delay_two_changes(cluster: &Replicas) {
    let (place, reader) = place_of(cluster, "silent");
    let port = cluster.ports(&reader)[1];
    let [mut one, mut two, mut three] = [(); 3].map(|()| Holder::dial(port, "birds"));
    let gets = |holder: &mut Holder| {
        within(60, "a hold", || holder.ask(place, "silent") > 0);
    };
    let change = |value: &str| {
        let began = Instant::now();
        cluster.set(&reader, "silent", value);
        eprintln!("the change to {value} takes {:?}", began.elapsed());
    };
    // The figures are those of the last second: the routers' last holds that ran out must be in them.
    thread::sleep(Duration::from_secs(3));
    let before = stat(cluster, "cluster_holds_run_out");
    gets(&mut one);
    change("1");
    assert_eq!(one.ask(place, "silent"), 0, "it was silent");
    gets(&mut two);
    change("2");
    for holder in [&mut one, &mut two, &mut three] {
        assert_eq!(holder.ask(place, "silent"), 0, "two were silent");
    }
    (3..20).for_each(|value: u32| change(&value.to_string()));
    // The figures are those of the last second.
    within(30, "it is counted", || stat(cluster, "cluster_holds_run_out") == before + 2);
    let mut again = Holder::dial(port, "birds");
    gets(&mut again);
}

#[test]
fn no_change_waits_for_holds_of_a_router_that_was_stopped() {
    let cluster = Replicas::start();
    let before = stat(&cluster, "cluster_holds_run_out");
    for round in 0..5 {
        let mut router = Router::start(&cluster);
        let mut client = router.server.connect();
        assert_eq!(told(&mut client, "set rolled 0 0 1\r\n1"), "STORED\r\n");
        within(60, "the router answers itself", || {
            for _ in 0..200 {
                told(&mut client, "get rolled");
            }
            router.hits() > 100.0
        });
        drop(client);
        router.server.signal(Signal::TERM);
        assert!(router.server.ended_within(30).is_some_and(|it| it.success()), "round {round}");
        cluster.set("heron", "rolled", "2");
    }
    // The figures are those of the last second, and a hold lasts no longer.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(stat(&cluster, "cluster_holds_run_out"), before);
}

#[test]
fn a_router_that_hangs_delays_changes_and_answers_nothing_old_when_it_goes_on() {
    let cluster = Replicas::start();
    let routers = [Router::start(&cluster), Router::start(&cluster)];
    let [one, two] = &routers;
    for round in 0..12 {
        // A router that hung gets no hold of that key for a while.
        let count = Count::of(&format!("hot-{round}"));
        thread::scope(|scope| {
            let count = &count;
            let end = OnDrop(count);
            scope.spawn(move || {
                let _end = OnDrop(count);
                count.write(one, Duration::from_millis(50));
            });
            for router in [one, two, two, two] {
                scope.spawn(move || {
                    let _end = OnDrop(count);
                    count.read(router);
                });
            }
            let before = two.hits();
            within(60, "the router answers itself", || {
                count.is_over.load(SeqCst) || two.hits() > before
            });
            *count.longest.lock().expect("no panic") = Duration::ZERO;
            two.server.signal(Signal::STOP);
            if round % 3 == 0 {
                // It goes on in the middle of its holds.
                thread::sleep(Duration::from_millis(100 * round));
            } else {
                count.goes_on();
            }
            let longest = count.longest.lock().expect("no panic");
            eprintln!("stopped: the longest change takes {longest:?}");
            drop(longest);
            two.server.signal(Signal::CONT);
            count.goes_on();
            assert!(!count.is_over.load(SeqCst), "a client failed");
            drop(end);
        });
    }
    drop(routers);
    programs_that_drop_nothing_delay_two_changes(&cluster);
}
