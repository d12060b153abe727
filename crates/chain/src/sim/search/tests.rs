//! From several start states nothing breaks. Two planted mistakes are found that the simulation finds late or never.

use super::super::tests::number;
use super::search;
use super::state::{Budget, Move, State};
use crate::planted::{Mistake, plant};
use crate::promises::TERM;
use crate::view::Group;

const NONE: Budget =
    Budget { views: 0, writes: 0, reads: 0, waits: 0, falls: 0, losses: 0, syncs: 0 };

/// A name, and the state from which to search.
type Start = (&'static str, fn() -> State);

const STARTS: [Start; 8] = [
    ("a write and a read", || {
        State::grown(false, 3, false, Budget { writes: 1, reads: 1, ..NONE })
    }),
    ("two views", || {
        State::grown(false, 2, false, Budget { views: 2, writes: 1, reads: 1, ..NONE })
    }),
    ("three views of three", || {
        State::grown(false, 3, false, Budget { views: 3, writes: 1, reads: 1, ..NONE })
    }),
    ("four views, and nothing written", || {
        State::grown(false, 2, true, Budget { views: 4, writes: 1, reads: 1, ..NONE })
    }),
    ("falls", || {
        State::grown(false, 3, false, Budget { views: 1, writes: 1, reads: 1, falls: 2, ..NONE })
    }),
    ("power", || {
        let falls = Budget { views: 1, writes: 1, reads: 1, falls: 2, syncs: 1, ..NONE };
        State::grown(true, 2, false, falls)
    }),
    ("losses", || {
        let losses = Budget { views: 1, writes: 1, reads: 1, losses: 1, waits: 1, ..NONE };
        State::grown(false, 2, false, losses)
    }),
    ("the reader left", after_the_reader_left),
];

/// Node 2 left without knowing it, and has a promise of node 1. Node 3 joins, knows that, and has made no promise.
fn after_the_reader_left() -> State {
    let left = Budget { views: 9, writes: 1, reads: 1, ..NONE };
    let mut state = State::grown(false, 2, true, left);
    (state.now, state.left.waits) = (state.now + 3 * TERM, 0);
    state.apply(Move::Renew(2, 1));
    let left_by_2 = |group: &Group| !group.is_on_path(2);
    let at = state.views().iter().position(left_by_2).unwrap();
    state.apply(Move::View(at));
    state.apply(Move::Learn(3));
    let joins = |group: &Group| group.joining == [3];
    let at = state.views().iter().position(joins).unwrap();
    state.apply(Move::View(at));
    (state.left.views, state.left.waits) = (2, 0);
    // Node 3 reported in the epoch before that it is filled.
    for step in [Move::Learn(1), Move::Learn(3), Move::Deliver(3, 1)] {
        state.apply(step);
    }
    state
}

#[test]
fn no_state_breaks_anything() {
    let most = usize::try_from(number("GUIRA_CHAIN_STATES", 10_000)).unwrap();
    for (name, start) in STARTS {
        let it = search(start(), most);
        println!("{name}: {} states, which are all: {}", it.states, it.is_whole);
        assert_eq!(it.found, None, "{name}");
        assert!(it.is_whole || it.states >= most, "{name}");
    }
}

/// The mistakes, the start states that reveal them, and the limits of states. The search needed 469 and 36,337.
const FOUND_WITHIN: [(Mistake, &str, usize); 2] = [
    (Mistake::NoHold, "two views", 1_000),
    (Mistake::ReadyWhileHolding, "the reader left", 60_000),
];

#[test]
fn planted_mistakes_are_found() {
    for (mistake, name, within) in FOUND_WITHIN {
        let (_, start) = STARTS.into_iter().find(|it| it.0 == name).unwrap();
        plant(Some(mistake));
        let it = search(start(), within);
        plant(None);
        println!("{mistake:?}: {} states, {:?}", it.states, it.found);
        assert!(it.found.is_some(), "{mistake:?}: not in {within} states");
    }
}
