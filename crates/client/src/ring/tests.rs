//! Compares each ring with the choices of the program that it must agree with. `vectors.txt` describes their origin.

use super::{
    Ketama, KeyHash, Rendezvous, ch3, crc32, jump, modula, murmur64a, server_name, spooky32,
    weighted_ch3,
};
use crate::Address;

/// 62 keys of 1 to 245 bytes.
fn keys() -> Vec<Vec<u8>> {
    let byte = |i: usize, j: usize| u8::try_from(33 + (i * 31 + j * 7) % 94).unwrap();
    (0..62).map(|i| (0..1 + 4 * i).map(|j| byte(i, j)).collect()).collect()
}

/// Returns the test vectors of one ring: its arguments, and the choices.
fn vectors(ring: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = include_str!("vectors.txt").lines().filter(|line| !line.starts_with('#'));
    let found: Vec<_> = lines
        .filter_map(|line| {
            let (head, choices) = line.split_once(": ")?;
            let (name, arguments) = head.split_once(' ')?;
            (name == ring).then(|| (arguments, choices.split(' ').collect::<Vec<_>>()))
        })
        .collect();
    assert!(!found.is_empty() && found.iter().all(|(_, choices)| choices.len() == 62), "{ring}");
    found
}

fn check(ring: &str, choose: impl Fn(&str, &[u8]) -> String) {
    for (arguments, expected) in vectors(ring) {
        for (key, expected) in keys().iter().zip(expected) {
            let text = String::from_utf8_lossy(key);
            assert_eq!(choose(arguments, key), expected, "{ring} {arguments}, key {text:?}");
        }
    }
}

fn numbers<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> Vec<T> {
    text.split(',').map(|number| number.parse().unwrap()).collect()
}

/// Parses a list of `name=number` pairs.
fn pairs<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> Vec<(&str, T)> {
    let pair = |pair: &'_ str| pair.rsplit_once('=').map(|(_, number)| number.parse().unwrap());
    text.split(',').map(|text| (text.rsplit_once('=').unwrap().0, pair(text).unwrap())).collect()
}

fn joined(ranking: &[usize]) -> String {
    ranking.iter().map(ToString::to_string).collect::<Vec<_>>().join(">")
}

#[test]
fn hashes_are_those_of_murmur_and_spooky() {
    check("murmur64a", |seed, key| format!("{:x}", murmur64a(key, seed.parse().unwrap())));
    check("spooky32", |seed, key| format!("{:x}", spooky32(key, seed.parse().unwrap())));
}

#[test]
fn ch3_and_crc32_choose_as_mcrouter_does() {
    check("ch3", |servers, key| ch3(key, servers.parse().unwrap()).to_string());
    check("crc32", |servers, key| crc32(key, servers.parse().unwrap()).to_string());
    for choose in [ch3, crc32] {
        assert_eq!((choose(b"k", 0), choose(b"k", 1), choose(b"", 1)), (0, 0, 0));
    }
    assert_eq!(ch3(b"k", usize::MAX), 0);
}

#[test]
fn weighted_ch3_chooses_as_mcrouter_does() {
    check("weighted_ch3", |weights, key| weighted_ch3(key, &numbers(weights), 32).to_string());
    assert_eq!(weighted_ch3(b"k", &[], 32), 0);
}

#[test]
fn rendezvous_chooses_and_ranks_as_mcrouter_does() {
    let even = |tags: &str| Rendezvous::new(&tags.split(',').collect::<Vec<_>>());
    let weighted = |tags: &str| Rendezvous::weighted(&pairs::<f64>(tags));
    check("rendezvous", |tags, key| even(tags).choose(key).to_string());
    check("rendezvous_ranking", |tags, key| joined(&even(tags).ranking(key)));
    check("weighted_rendezvous", |tags, key| weighted(tags).choose(key).to_string());
    check("weighted_rendezvous_ranking", |tags, key| joined(&weighted(tags).ranking(key)));
    assert_eq!(Rendezvous::new::<&str>(&[]).choose(b"k"), 0);
}

#[test]
fn ketama_and_modula_choose_as_libmemcached_does() {
    check("ketama", |servers, key| {
        let named: Vec<(String, u32)> = pairs(servers)
            .into_iter()
            .map(|(address, weight)| (server_name(&address.parse::<Address>().unwrap()), weight))
            .collect();
        Ketama::new(&named).choose(key).to_string()
    });
    check("modula", |arguments, key| {
        let (hash, servers) = arguments.split_once(' ').unwrap();
        let hash = match hash {
            "one_at_a_time" => KeyHash::OneAtATime,
            "crc" => KeyHash::Crc,
            "md5" => KeyHash::Md5,
            "fnv1a_32" => KeyHash::Fnv1a32,
            "fnv1a_64" => KeyHash::Fnv1a64,
            other => panic!("{other}"),
        };
        modula(hash, key, servers.parse().unwrap()).to_string()
    });
    assert_eq!(Ketama::new(&[("a", 0), ("b", 0)]).choose(b"k"), 0);
}

#[test]
fn jump_chooses_as_the_python_package_does() {
    for (servers, expected) in vectors("jump") {
        for (n, expected) in (0u64..).zip(expected) {
            let chosen = jump(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), servers.parse().unwrap());
            assert_eq!(chosen.to_string(), expected, "{n} among {servers}");
        }
    }
    assert_eq!(jump(7, 0), 0);
}
