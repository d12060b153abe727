//! A search through all states of one slot on three nodes: every order of messages, losses, falls, view changes, writes and
//! reads, as far as a budget of each goes.
//!
//! The nodes' decisions are the real ones. Clocks are equal, and time moves by 0.6 terms, so a promise holds for one step and
//! not for two. A grant takes no time. The views are all legal ones that keep a controller's duties: who gets to serve is
//! ready, who joins is filled, a base begins anew only if all that served are down or started anew.
//!
//! Committed effects have one order, their numbers. So an answer is wrong if it is older than one given before it was asked
//! for, or if one number has two values.
//!
//! `GUIRA_CHAIN_STATES` is how many states to look at, nearest first.

mod tests;
mod views;
mod state;

use state::{Move, State};
use std::collections::{HashSet, VecDeque};

/// How a search went: how many states it saw, whether these are all, and the way to a wrong answer.
struct Search {
    states: usize,
    is_whole: bool,
    found: Option<(String, Vec<Move>)>,
}

/// Looks at states in the order of their distance, `most` of them.
fn search(first: State, most: usize) -> Search {
    let mut seen = HashSet::from([first.digest()]);
    let mut todo = VecDeque::from([(first, usize::MAX)]);
    // Where each state came from, and by which move.
    let mut ways: Vec<(usize, Move)> = Vec::new();
    while let Some((state, way)) = todo.pop_front() {
        for step in state.moves() {
            let mut next = state.clone();
            next.apply(step);
            if !seen.insert(next.digest()) {
                continue;
            }
            ways.push((way, step));
            if let Some(why) = next.wrong {
                let (mut at, mut moves) = (ways.len() - 1, Vec::new());
                while let Some((before, step)) = ways.get(at) {
                    moves.push(*step);
                    at = *before;
                }
                moves.reverse();
                return Search { states: seen.len(), is_whole: false, found: Some((why, moves)) };
            }
            if seen.len() >= most {
                return Search { states: seen.len(), is_whole: false, found: None };
            }
            todo.push_back((next, ways.len() - 1));
        }
    }
    Search { states: seen.len(), is_whole: true, found: None }
}
