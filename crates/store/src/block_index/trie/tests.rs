//! Ranks are right, and sizes match the paper's formula, which is computed here in another way.

use super::*;
use std::collections::BTreeSet;

fn random_keys(random: &mut fastrand::Rng, count: usize) -> BTreeSet<u128> {
    let mut keys = BTreeSet::new();
    while keys.len() < count {
        keys.insert(random.u128(..));
    }
    keys
}

fn build(keys: &BTreeSet<u128>, order: Order, expected: u64, per_block: u32) -> Trie {
    let mut builder = TrieBuilder::new(order, expected, 0, per_block);
    keys.iter().for_each(|&key| assert!(builder.push(KeyHash(key))));
    builder.finish().unwrap()
}

#[test]
fn each_key_has_its_rank_and_an_absent_one_some_rank() {
    let mut random = fastrand::Rng::with_seed(7);
    for (count, expected) in
        [(0, 0), (1, 1), (2, 2), (17, 17), (900, 900), (900, 1 << 40), (3000, 1)]
    {
        let keys = random_keys(&mut random, count);
        for (order, per_block) in
            [(Order::Strict, 1), (Order::Weak, 1), (Order::Strict, 4), (Order::Weak, 7)]
        {
            // An expected number that is far too high gives many empty buckets.
            let trie = build(&keys, order, expected.min(1 << 16), per_block);
            for (rank, &key) in (0_u64..).zip(&keys) {
                let position = trie.position(KeyHash(key));
                assert_eq!(position / u64::from(per_block), rank / u64::from(per_block));
            }
            for _ in 0..500 {
                let position = trie.position(KeyHash(random.u128(..)));
                assert!(position < trie.len() || trie.len() == 0);
            }
            let mut bytes = Vec::new();
            trie.encode(&mut bytes);
            assert_eq!(Trie::decode(&mut &bytes[..]), Some(trie));
            assert_eq!(Trie::decode(&mut &bytes[..bytes.len() - 1]), None);
        }
    }
}

#[test]
fn a_strict_trie_ranks_absent_keys_within_one_of_their_place() {
    let mut random = fastrand::Rng::with_seed(8);
    let keys = random_keys(&mut random, 2000);
    let trie = build(&keys, Order::Strict, 2000, 1);
    for _ in 0..2000 {
        let key = random.u128(..);
        let below = keys.range(..key).count() as u64;
        let position = trie.position(KeyHash(key));
        assert!(position == below || position + 1 == below, "{position} {below}");
    }
}

/// Hashes cut to a few bits: all are in few buckets, and paths have the full depth.
#[test]
fn keys_that_share_most_bits_are_ranked_too() {
    let tops = (0..256_u128).map(|n| n << 120);
    let ends = (0..256_u128).map(|n| n | 1 << 127);
    for keys in [tops.collect::<BTreeSet<_>>(), ends.collect(), (0..70_000).collect()] {
        for order in [Order::Strict, Order::Weak] {
            let trie = build(&keys, order, keys.len() as u64, 1);
            // All keys are in one bucket, so a lookup decodes half of them.
            for (rank, &key) in (0_u64..).zip(&keys).step_by(1 + keys.len() / 100) {
                assert_eq!(trie.position(KeyHash(key)), rank);
            }
        }
    }
}

#[test]
fn keys_out_of_order_or_out_of_the_shared_bits_are_refused() {
    let mut builder = TrieBuilder::new(Order::Weak, 100_000, 0, 1);
    assert!(builder.push(KeyHash(1 << 127)));
    assert!(!builder.push(KeyHash(1 << 127)));
    assert!(!builder.push(KeyHash(1)));
    assert!(builder.push(KeyHash(u128::MAX)));
    assert_eq!(builder.finish().unwrap().len(), 2);
}

/// S(n) / n of §1.4 by dynamic programming, without the trie's code.
fn expected_bits(weak: bool, keys_max: usize) -> Vec<f64> {
    let mut sizes = vec![0.0; keys_max + 1];
    for n in 2..=keys_max {
        let mut chances = vec![0.5_f64.powi(i32::try_from(n).unwrap())];
        for l in 1..=n {
            // C(n, l) from C(n, l - 1).
            chances.push(chances[l - 1] * (n - l + 1) as f64 / l as f64);
        }
        let ends = chances[0] + chances[n];
        let mut inner: f64 = (1..n).map(|l| chances[l] * (sizes[l] + sizes[n - l])).sum();
        inner += if n <= 16 {
            let mut weights = chances.clone();
            if weak {
                weights[0] += weights.pop().unwrap();
            }
            huffman_cost(weights)
        } else {
            let cost = |l: usize| {
                let distance = l as i64 - (n / 2) as i64;
                let folded = if distance >= 0 { 2 * distance } else { -2 * distance - 1 };
                2.0 * ((folded + 1) as f64).log2().floor() + 1.0
            };
            (0..=n).map(|l| chances[l] * cost(if weak && l == n { 0 } else { l })).sum()
        };
        sizes[n] = inner / (1.0 - ends);
    }
    (0..=keys_max).map(|n| sizes[n] / n.max(1) as f64).collect()
}

/// The mean length of a Huffman code is the sum of the weights of its inner nodes.
fn huffman_cost(mut weights: Vec<f64>) -> f64 {
    let mut cost = 0.0;
    while weights.len() > 1 {
        weights.sort_by(|a, b| b.total_cmp(a));
        let merged = weights.pop().unwrap() + weights.pop().unwrap();
        cost += merged;
        weights.push(merged);
    }
    cost
}

/// Keys per bucket; bits per key in the strict and in the weak order.
const EXPECTED: [(usize, f64, f64); 10] = [
    (2, 1.5, 1.0),
    (4, 2.035_714, 1.595_238),
    (8, 2.368_062, 1.925_228),
    (16, 2.565_474, 2.122_761),
    (32, 2.719_423, 2.276_723),
    (64, 2.800_122, 2.357_425),
    (128, 2.846_47, 2.403_773),
    (256, 2.872_846, 2.430_15),
    (512, 2.887_72, 2.445_024),
    (1024, 2.896_029, 2.453_333),
];

#[test]
fn sizes_are_within_a_hundredth_of_the_formula() {
    let formula = [expected_bits(false, 1024), expected_bits(true, 1024)];
    let mut random = fastrand::Rng::with_seed(9);
    for (keys, strict, weak) in EXPECTED {
        for (at, (order, expected)) in
            [(Order::Strict, strict), (Order::Weak, weak)].into_iter().enumerate()
        {
            assert!((formula[at][keys] - expected).abs() < 2e-6, "{keys} {}", formula[at][keys]);
            let tries = (150_000 / keys).max(300);
            let bits: u64 = (0..tries)
                .map(|_| build(&random_keys(&mut random, keys), order, 1, 1).trie_bits())
                .sum();
            let measured = bits as f64 / (tries * keys) as f64;
            assert!((measured / expected - 1.0).abs() < 0.01, "{keys} {order:?} {measured}");
        }
    }
}

/// The trie bits were measured with the paper's own code, at 256 keys per bucket and a million keys, in the strict order.
#[test]
fn a_whole_trie_takes_three_bits_per_key_and_a_sparse_one_less() {
    let mut random = fastrand::Rng::with_seed(10);
    let count = 250_000;
    let keys = random_keys(&mut random, count);
    for (per_block, trie_bits) in [(1, 2.872), (4, 1.768), (8, 1.272), (16, 0.876), (32, 0.579)] {
        let trie = build(&keys, Order::Strict, count as u64, per_block);
        let measured = trie.trie_bits() as f64 / count as f64;
        assert!((measured / trie_bits - 1.0).abs() < 0.01, "{per_block} {measured}");
        let directory = trie.bytes() as f64 * 8.0 / count as f64 - measured;
        assert!((0.13..0.14).contains(&directory), "{directory}");
    }
    // 24 B per 100 entries of 1 KiB: the paper's fixed slots, four per block, weak.
    let bytes = build(&keys, Order::Weak, count as u64, 4).bytes() as f64 / count as f64;
    assert!(bytes <= 0.24, "{bytes}");
}

#[test]
fn lookups_in_any_bits_end_in_range() {
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..400 {
        let keys = random_keys(&mut random, 1 + round % 50 * 10);
        let order = if round % 2 == 0 { Order::Strict } else { Order::Weak };
        let mut bytes = Vec::new();
        build(&keys, order, keys.len() as u64 * 4, 1 + random.u32(0..3) * 3).encode(&mut bytes);
        for _ in 0..20 {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..changed.len());
                changed[at] = random.u8(..);
            }
            if let Some(trie) = Trie::decode(&mut &changed[..]) {
                for &key in keys.iter().take(50) {
                    assert!(trie.position(KeyHash(key)) <= trie.len());
                    trie.position(KeyHash(random.u128(..)));
                }
            }
        }
    }
}
