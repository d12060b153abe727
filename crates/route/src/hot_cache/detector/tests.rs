//! The keys that are chosen for various sequences of gets.

use super::*;

/// A hash function for tests.
fn hash(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let n = (n ^ n >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    n ^ n >> 33
}

/// Gets all keys, with a window per `window` gets. Returns the share of chosen keys in the second half.
fn asked(detector: &mut Detector, keys: impl Iterator<Item = u64>, window: usize) -> f64 {
    let keys: Vec<u64> = keys.collect();
    let (mut hits, half) = (0, keys.len() / 2);
    for (n, &key) in keys.iter().enumerate() {
        let is_chosen = detector.count(hash(key));
        hits += u32::from(is_chosen && n >= half);
        if (n + 1) % window == 0 {
            detector.end_window(|_| {});
        }
    }
    f64::from(hits) / (keys.len() - half) as f64
}

/// Numbers of a Zipf distribution with exponent 1.01, the same each time.
fn zipf(keys: u32, count: usize) -> impl Iterator<Item = u64> {
    let mut sums = vec![0.0];
    sums.extend((1..=keys).scan(0.0, |sum, rank| {
        *sum += f64::from(rank).powf(-1.01);
        Some(*sum)
    }));
    (0..count as u64).map(move |n| {
        let drawn = hash(n + 1) as f64 / u64::MAX as f64 * sums[keys as usize];
        sums.partition_point(|&sum| sum <= drawn) as u64
    })
}

#[test]
fn a_scan_in_a_circle_hits_as_often_as_a_perfect_cache() {
    for (entries, keys) in [(100, 101), (100, 150), (100, 400), (186, 1259), (50, 5000)] {
        for window in [8 * entries, 100 * entries] {
            let circle = (0..100_000).map(|n| n % keys);
            let hit = asked(&mut Detector::new(entries), circle, window);
            let perfect = entries as f64 / keys as f64;
            assert!(hit >= 0.95 * perfect, "{entries} of {keys}, window {window}: {hit}");
        }
    }
}

#[test]
fn the_popular_keys_are_chosen_whoever_came_first() {
    let entries = 300;
    let mut detector = Detector::new(entries);
    // Other keys take all places first.
    assert_eq!(asked(&mut detector, 1_000_000..1_000_300, 1000), 1.0);
    let hit = asked(&mut detector, zipf(100_000, 200_000), 10_000);
    let weight = |ranks: u32| (1..=ranks).map(|rank| f64::from(rank).powf(-1.01)).sum::<f64>();
    let perfect = weight(300) / weight(100_000);
    assert!(hit >= 0.93 * perfect, "{hit} of {perfect}");
}

#[test]
fn new_hot_keys_take_the_place_of_old_ones_within_windows() {
    let mut detector = Detector::new(64);
    asked(&mut detector, (0..64_000).map(|n| n % 64), 6400);
    let hit = asked(&mut detector, (0..64_000).map(|n| 1000 + n % 64), 6400);
    assert!(hit > 0.99, "{hit}");
}

#[test]
fn whoever_leaves_is_told_and_what_is_counted_is_bounded() {
    let mut detector = Detector::new(10);
    (0..10).for_each(|key| assert!(detector.count(hash(key)), "there is room"));
    let mut left = Vec::new();
    for n in 0..100_000u64 {
        detector.count(hash(100 + n));
        detector.count(hash(50));
        assert!(detector.leaders.len() <= 8 * 10, "{} leaders", detector.leaders.len());
        if n % 1000 == 0 {
            detector.end_window(|hash| left.push(hash));
        }
    }
    assert_eq!(left.len(), 1, "one newcomer is hotter, and the other strangers are asked for once");
    assert!(detector.count(hash(50)));
}
