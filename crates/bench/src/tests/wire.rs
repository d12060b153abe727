//! Tests that the project's own parser reads what the generator writes.

use guira_proto::{Command, Limits, Parsed, parse};

use crate::requests::{Asked, Kind, Requests};
use crate::value::{check, number_of};
use crate::workload::{Distribution, Mix, Preset, Protocol, Sizes, Workload};

/// A request as the parser returned it.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    kinds: Vec<Kind>,
    numbers: Vec<u64>,
}

fn read_back(mut input: &[u8], batch: usize) -> Seen {
    let mut seen = Seen::default();
    let mut quiet = 0;
    while !input.is_empty() {
        let Ok(Parsed::Request { request, used }) = parse(input, &Limits::DEFAULT) else {
            panic!("not a request: {}", input.escape_ascii())
        };
        input = &input[used..];
        let mut stored = |key: &[u8], value_bytes: u32| {
            let (value, rest) = input.split_at(value_bytes as usize);
            let number = number_of(key).expect("our key");
            assert_eq!(check(value, number), Ok(()));
            input = rest.strip_prefix(b"\r\n").expect("the value's end");
            seen.kinds.push(Kind::Write);
            seen.numbers.push(number);
        };
        match request {
            Command::Store(set) => stored(set.key, set.value_bytes),
            Command::MetaSet(set) => stored(set.key(), set.value_bytes()),
            Command::Get(get) => {
                seen.kinds.push(Kind::Read);
                seen.numbers.extend(get.keys.map(|key| number_of(key).expect("our key")));
            }
            Command::MetaGet(get) => {
                seen.numbers.push(number_of(get.key()).expect("our key"));
                quiet += u64::from(get.quiet());
                if !get.quiet() {
                    seen.kinds.push(Kind::Read);
                }
            }
            Command::MetaNoop => {
                assert_eq!(quiet, batch as u64);
                quiet = 0;
                seen.kinds.push(Kind::Read);
            }
            other => panic!("{other:?}"),
        }
    }
    seen
}

#[test]
fn every_request_is_read_back_as_it_was_asked() {
    let (base, _) = Preset::Mixed.workload();
    for protocol in [Protocol::Text, Protocol::Meta] {
        for (mix, batch) in [(Mix::A, 1), (Mix::B, 5), (Mix::D, 1), (Mix::F, 1), (Mix::C, 100)] {
            let workload = Workload {
                mix,
                batch,
                protocol,
                distribution: Distribution::Latest,
                keys: 1000,
                value: Sizes { least: 0, most: 300 },
                ..base
            };
            let mut requests = Requests::new(&workload, (1, 3), 9);
            let (mut bytes, mut asked) = (Vec::new(), Asked::default());
            for _ in 0..20 {
                requests.append_batch(&mut bytes, &mut asked, 0);
            }
            let expected = Seen {
                kinds: asked.requests.iter().map(|request| request.kind).collect(),
                numbers: asked.numbers.iter().copied().collect(),
            };
            assert!(expected.kinds.len() >= 1000);
            assert_eq!(read_back(&bytes, batch), expected, "{mix:?} {protocol:?} {batch}");
        }
    }
}

#[test]
fn connections_insert_numbers_of_their_own() {
    let (base, _) = Preset::Mixed.workload();
    let workload = Workload { mix: Mix::D, keys: 100, ..base };
    let inserted = |lane| {
        let mut requests = Requests::new(&workload, (lane, 2), 1);
        let (mut bytes, mut asked) = (Vec::new(), Asked::default());
        for _ in 0..50 {
            requests.append_batch(&mut bytes, &mut asked, 0);
        }
        asked.numbers.into_iter().filter(|&number| number >= 100).collect::<Vec<_>>()
    };
    let (mut first, second) = (inserted(0), inserted(1));
    assert!(first.len() > 50 && second.len() > 50);
    first.retain(|number| second.contains(number));
    assert!(first.is_empty(), "inserted by both: {first:?}");
}
