//! A search through all states of one slot on three nodes. It tries every order of messages, losses, crashes, view
//! changes, writes and reads, within a budget for each.
//!
//! The nodes' decisions are the real ones. Clocks are equal, and time moves in steps of 0.6 terms, so a promise lasts
//! for one step but not two. A grant takes no time. The views are all legal ones that respect a controller's duties. A
//! node that gets to serve is ready, and a node that joins is filled. A base begins anew only if all serving nodes are
//! down or restarted.
//!
//! Committed effects have one order, their numbers. So an answer is wrong if it is older than one given before it was
//! asked for, or if one number has two values.
//!
//! `GUIRA_CHAIN_STATES` sets the number of states to visit, nearest first.

mod tests;
mod views;
mod state;

use state::{Move, State};
use std::collections::{HashSet, VecDeque};

/// The result of a search: the number of states seen, whether these are all, and the way to a wrong answer.
struct Search {
    states: usize,
    is_whole: bool,
    found: Option<(String, Vec<Move>)>,
}

/// Visits states in the order of their distance, until it has seen `most`.
fn search(first: State, most: usize) -> Search {
    let mut seen = HashSet::from([first.digest()]);
    let mut todo = VecDeque::from([(first, usize::MAX)]);
    // For each state, its predecessor and the move that led to it.
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
