//! Each index sends every stored hash to its block; how often it sends one a block too far is bounded.

use super::*;

const KINDS: [RunIndex; 3] = [RunIndex::Fence, RunIndex::EliasFano, RunIndex::Trie];

/// Ascending hashes, cut into blocks.
fn build(kind: RunIndex, hashes: &[KeyHash], per_block: usize) -> AnyBlockIndex {
    let mut builder = BlockIndexBuilder::new(kind);
    for (at, &hash) in hashes.iter().enumerate() {
        builder.push(hash, at % per_block == 0);
    }
    builder.finish(hashes.last().copied().unwrap_or_default()).unwrap()
}

fn random_hashes(count: usize, mask: u128, span: std::ops::Range<u128>) -> Vec<KeyHash> {
    let mut random = fastrand::Rng::with_seed(12);
    let mut hashes: Vec<_> =
        (0..count).map(|_| KeyHash(random.u128(span.clone()) & mask)).collect();
    hashes.sort_unstable();
    hashes
}

/// Walks as a reader does: from the located block backwards, while the index says that an earlier block may hold the
/// hash. Returns the block that has it, and how many blocks were read.
fn walk(
    index: &AnyBlockIndex,
    hashes: &[KeyHash],
    per_block: usize,
    hash: KeyHash,
) -> (Option<usize>, usize) {
    let mut block = usize::try_from(index.locate(hash).block).unwrap();
    for reads in 1.. {
        let here = &hashes[block * per_block..hashes.len().min((block + 1) * per_block)];
        if here.contains(&hash) {
            return (Some(block), reads);
        }
        let goes_back = index.goes_back(here[0].top(), hash);
        if !goes_back || block == 0 {
            return (None, reads);
        }
        block -= 1;
    }
    unreachable!("blocks end")
}

#[test]
fn every_stored_hash_is_found_and_few_blocks_are_read() {
    let all = 0..u128::MAX;
    let part = 3 << 120..(3 << 120) + (5 << 100);
    for (kind, reads_max) in KINDS.into_iter().zip([1.001, 1.01, 1.0]) {
        for (count, per_block, span) in [
            (1, 3, all.clone()),
            (40_000, 3, all.clone()),
            (60_000, 29, all.clone()),
            (30_000, 13, part.clone()),
        ] {
            let hashes = random_hashes(count, u128::MAX, span.clone());
            let index = build(kind, &hashes, per_block);
            assert_eq!(index.blocks(), count.div_ceil(per_block) as u64);
            let mut reads = 0;
            for (at, &hash) in hashes.iter().enumerate() {
                let found = walk(&index, &hashes, per_block, hash);
                assert_eq!(found.0, Some(at / per_block), "{kind:?}");
                reads += found.1;
            }
            let mean = reads as f64 / count as f64;
            assert!(mean <= reads_max, "{kind:?} {count} {mean}");
            let mut random = fastrand::Rng::with_seed(13);
            let absent = (0..20_000)
                .map(|_| walk(&index, &hashes, per_block, KeyHash(random.u128(span.clone()))).1);
            let mean = absent.sum::<usize>() as f64 / 20_000.0;
            assert!(mean <= reads_max.max(1.003), "{kind:?} {count} absent {mean}");
        }
    }
}

#[test]
fn colliding_hashes_are_found_in_the_last_of_their_blocks() {
    for kind in KINDS {
        for bits in [0, 1, 8, 16] {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            let hashes = random_hashes(3000, mask, 0..u128::MAX);
            let index = build(kind, &hashes, 5);
            for (at, &hash) in hashes.iter().enumerate() {
                let block = usize::try_from(index.locate(hash).block).unwrap();
                let after = hashes.partition_point(|it| *it <= hash);
                let last = (after - 1) / 5;
                assert!(
                    block >= at / 5 && block >= last,
                    "{kind:?} {bits} bits: {block} before {last}"
                );
                assert!(block == last || kind != RunIndex::Trie, "{kind:?} {bits} bits");
                assert!(hashes[block * 5] == hashes[last * 5] || hashes[block * 5] > hash);
            }
        }
    }
}

#[test]
fn an_index_takes_the_bits_that_are_planned() {
    let hashes = random_hashes(300_000, u128::MAX, 0..u128::MAX);
    for (kind, per_block, per_key) in [
        (RunIndex::Fence, 3, 0.69),
        (RunIndex::Fence, 32, 0.065),
        (RunIndex::EliasFano, 3, 0.385),
        (RunIndex::EliasFano, 32, 0.0357),
    ] {
        let bytes = build(kind, &hashes, per_block).bytes() as f64 / hashes.len() as f64;
        assert!((bytes / per_key - 1.0).abs() < 0.03, "{kind:?} {per_block} {bytes}");
    }
}

#[test]
fn an_index_comes_back_and_changed_bytes_are_refused_or_harmless() {
    let mut random = fastrand::Rng::with_seed(14);
    for kind in KINDS {
        for (count, per_block) in [(0, 1), (1, 1), (700, 3)] {
            let hashes = random_hashes(count, u128::MAX, 0..u128::MAX);
            let index = build(kind, &hashes, per_block);
            let bytes = index.encode();
            assert_eq!(AnyBlockIndex::decode(&bytes).as_ref(), Some(&index));
            for cut in 0..bytes.len() {
                assert_eq!(AnyBlockIndex::decode(&bytes[..cut]), None, "{kind:?} {cut}");
            }
            assert_eq!(AnyBlockIndex::decode(&[&bytes[..], &[0]].concat()), None);
            for _ in 0..3000 {
                let mut changed = bytes.clone();
                for _ in 0..random.usize(1..4) {
                    let at = random.usize(0..changed.len());
                    changed[at] = random.u8(..);
                }
                let Some(read) = AnyBlockIndex::decode(&changed) else { continue };
                for _ in 0..20 {
                    let block = read.locate(KeyHash(random.u128(..))).block;
                    assert!(block < read.blocks().max(1), "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn a_higher_hash_of_a_block_is_as_far_or_farther() {
    for kind in KINDS {
        for (per_block, count) in [(1, 5), (4, 300), (4, 20_000), (30, 5000)] {
            let hashes = random_hashes(count, u128::MAX, 0..u128::MAX);
            let index = build(kind, &hashes, per_block);
            let located: Vec<_> = hashes.iter().map(|it| index.locate(*it)).collect();
            let mut farther = 0;
            for pair in located.windows(2).filter(|it| it[0].block == it[1].block) {
                assert!(pair[0].steps <= pair[1].steps, "{kind:?}: {pair:?}");
                farther += usize::from(pair[0].steps < pair[1].steps);
            }
            assert!(per_block != 4 || farther > count / 2, "{kind:?}: {farther} of {count}");
            let first: Vec<_> = located.iter().step_by(per_block).map(|it| it.steps).collect();
            let near = first.iter().filter(|it| **it == 0).count();
            assert!(near * 100 >= first.len() * 99, "{kind:?}: {near} of {}", first.len());
        }
    }
}
