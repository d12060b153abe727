//! Families of keys, samples and their estimates.

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn set(key: &str, bytes: usize) -> Use<'_> {
    Use { key: key.as_bytes(), is_get: false, value_bytes: Some(bytes), client: None }
}

fn get(key: &str, bytes: Option<usize>, client: u8) -> Use<'_> {
    let client = Some(IpAddr::from([10, 0, 0, client]));
    Use { key: key.as_bytes(), is_get: true, value_bytes: bytes, client }
}

#[test]
fn a_familys_working_set_is_what_its_sampled_keys_have_by_their_share() {
    let begin = Instant::now();
    let families = Families::new(1.0, begin);
    // Sizes are with the key, of 6 bytes.
    for of in [set("user:1", 94), set("user:1", 194), get("user:1", Some(394), 1)] {
        families.note(&of, begin);
    }
    families.note(&get("/eu/c1/user:2", Some(94), 1), begin);
    families.note(&get("user:2", Some(94), 2), begin);
    families.note(&get("miss:1", None, 1), begin);
    families.note(&set("page10", 44), begin);
    let mut day = families.sampled("day", begin + HOUR).unwrap();
    assert_eq!(day.seconds, 3600.0);
    let all = day.families();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["page", "user"], "a miss is no item");
    let FamilySums { items, bytes, gets_per_second, clients } = all["user"];
    assert_eq!((items, clients), (2.0, 1));
    assert_eq!(bytes, [200.0, 700.0 / 3.0 + 100.0, 500.0]);
    assert!((gets_per_second * 3600.0 - 3.0).abs() < 1e-9, "{gets_per_second}");
    day.share = 1e-6;
    assert_eq!(day.families()["user"].items, 2e6);
    assert!(families.sampled("year", begin).is_none());
}

#[test]
fn a_day_that_has_passed_is_shown_whole_and_a_week_goes_on() {
    let begin = Instant::now();
    let families = Families::new(1.0, begin);
    let items = |name, at| families.sampled(name, at).unwrap().items.len();
    families.note(&set("a:1", 1), begin);
    families.note(&set("a:2", 1), begin + 23 * HOUR);
    assert_eq!(items("day", begin + 23 * HOUR), 2);
    families.note(&set("a:3", 1), begin + 25 * HOUR);
    assert_eq!(items("day", begin + 25 * HOUR), 2, "yesterday's");
    assert_eq!(items("week", begin + 25 * HOUR), 3);
    assert_eq!(items("day", begin + 49 * HOUR), 1);
    assert_eq!(items("day", begin + 99 * HOUR), 0, "nothing was asked for");
    assert_eq!(items("week", begin + 169 * HOUR), 3);
}

#[test]
fn of_many_keys_the_share_is_sampled_by_each_router_alike() {
    let now = Instant::now();
    let [one, other] = [0.01, 0.01].map(|share| Families::new(share, now));
    let sampled = |families: &Families| {
        let keys = (0..100_000).map(|n| format!("user:{n}"));
        keys.filter(|key| families.is_sampled(key.as_bytes())).collect::<Vec<_>>()
    };
    let keys = sampled(&one);
    assert!((900..1100).contains(&keys.len()), "{}", keys.len());
    assert_eq!(keys, sampled(&other));
    assert!(keys.iter().all(|key| one.is_sampled(format!("/eu/c1/{key}").as_bytes())));
    let all = Families::new(1.0, now);
    assert!((0..1000_u32).all(|n| all.is_sampled(&n.to_le_bytes())));
}

#[test]
fn what_is_followed_is_bounded_and_what_is_left_out_counted() {
    let now = Instant::now();
    let families = Families::new(1.0, now);
    for n in 0..ITEMS_MAX + 5 {
        families.note(&set(&format!("user:{n}"), 1), now);
    }
    families.note(&set("user:1", 1), now);
    assert_eq!(families.sampled("week", now).unwrap().items.len(), ITEMS_MAX);
    assert_eq!(families.left_out(), 10, "of two windows");
    for client in 0..=255 {
        families.note(&get("user:1", Some(1), client), now);
    }
    assert_eq!(families.sampled("day", now).unwrap().families()["user"].clients, 0);
    let items = families.sampled("day", now).unwrap().items;
    assert_eq!(items.values().map(|item| item.clients.len()).max(), Some(CLIENTS_MAX));
}

#[test]
fn what_one_writes_another_reads() {
    let now = Instant::now();
    let families = Families::new(0.5, now);
    let keys = ["user:1", "a b\nc:1", ":", "1", "x"];
    for key in keys {
        families.note(&get(key, Some(3), 1), now);
    }
    families.note(&set("none:1", 7), now);
    let sampled = families.sampled("week", now).unwrap();
    assert_eq!(Sampled::of_text(&sampled.to_text()), Some(sampled.clone()));
    let names: BTreeSet<&str> = sampled.items.values().map(|item| &*item.family).collect();
    assert_eq!(names, BTreeSet::from(["user", "a b\\nc", "", "x", "none"]));
    for text in ["", "share 0 seconds 1", "share 1 seconds 1\n1 2 3", "ERROR: no"] {
        assert_eq!(Sampled::of_text(text), None, "{text}");
    }
}
