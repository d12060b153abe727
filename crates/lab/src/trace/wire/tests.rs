//! The replay against a cache of our own behind a socket, which is FIFO and tells what it was asked.

use std::collections::{HashSet, VecDeque};
use std::net::TcpListener;

use crate::policies::PolicyKind;

use super::*;
use crate::trace::recorded::Recorder;
use crate::trace::request::TraceRequest;
use crate::trace::simulate::{Player, simulate};
use crate::trace::synthetic::Synthetic;

/// Serves one connection from a FIFO cache of `capacity` items; returns where.
fn fifo(capacity: usize) -> ServerAddress {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut input = BufReader::new(socket.try_clone().unwrap());
        let (mut held, mut order) = (HashSet::new(), VecDeque::new());
        let mut line = String::new();
        while input.read_line(&mut line).unwrap() > 0 {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let mut reply = String::new();
            match words[0].as_str() {
                "get" => {
                    for key in words[1..].iter().filter(|key| held.contains(*key)) {
                        reply += &format!("VALUE {key} 0 3\r\nabc\r\n");
                    }
                    reply += "END\r\n";
                }
                "set" => {
                    let bytes: u64 = words[4].parse().unwrap();
                    std::io::copy(&mut (&mut input).take(bytes + 2), &mut std::io::sink()).unwrap();
                    if held.insert(words[1].clone()) {
                        order.push_back(words[1].clone());
                    }
                    if held.len() > capacity {
                        held.remove(&order.pop_front().unwrap());
                    }
                    reply += "STORED\r\n";
                }
                "stats" => {
                    reply += &format!("STAT pid 1\r\nSTAT curr_items {}\r\nEND\r\n", held.len());
                }
                "delete" => {
                    reply += if held.remove(&words[1]) { "DELETED\r\n" } else { "NOT_FOUND\r\n" }
                }
                _ => reply += "ERROR\r\n",
            }
            (&socket).write_all(reply.as_bytes()).unwrap();
            line.clear();
        }
    });
    address.parse().unwrap()
}

fn zipf(requests: u64) -> Trace {
    let mut recorder = Recorder::default();
    let made: Synthetic = format!("zipf:0.9:20000:{requests}").parse().unwrap();
    made.generate(5, &mut |request| recorder.push(request));
    recorder.finish()
}

#[test]
fn the_wire_and_the_simulation_agree() {
    let trace = zipf(60_000);
    let replayed = replay(&trace, &fifo(4000), 40, &|_| ()).unwrap();
    let simulated = simulate(&trace, Player::Kind(PolicyKind::Fifo), 4000, false);
    assert_eq!((replayed.gets, replayed.items), (60_000, 4000));
    // A window's gets see the evictions by its own sets up to 256 requests late: half a point is room enough.
    let difference = replayed.misses.abs_diff(simulated.misses);
    assert!(difference < 300, "{replayed:?} {simulated:?}");
}

#[test]
fn what_fits_misses_once_even_within_a_window() {
    let trace = zipf(3000);
    let replayed = replay(&trace, &fifo(1 << 20), 0, &|_| ()).unwrap();
    assert_eq!(replayed.misses, u64::from(trace.footprint()));
    assert_eq!(replayed.items, u64::from(trace.footprint()));
}

#[test]
fn writes_of_the_trace_are_sent_in_their_order() {
    let mut recorder = Recorder::default();
    for (key, op) in [
        (1, TraceOp::Set),
        (1, TraceOp::Get),
        (1, TraceOp::Delete),
        (1, TraceOp::Get),
        (1, TraceOp::Get),
        (2, TraceOp::Set),
    ] {
        recorder.push(TraceRequest { op, ..TraceRequest::get(key) });
    }
    let replayed = replay(&recorder.finish(), &fifo(9), 8, &|_| ()).unwrap();
    assert_eq!(replayed, Replayed { gets: 3, misses: 1, refused: 0, items: 2 });
}

#[test]
fn a_server_that_holds_items_or_talks_nonsense_is_refused() {
    let address = fifo(9);
    let mut server = Server::connect(&address, 3).unwrap();
    server.set(7);
    server.settle().unwrap();
    assert_eq!(server.items().unwrap(), 1);
    server.request.extend(b"what\r\n");
    server.unanswered = 1;
    let error = server.settle().unwrap_err().to_string();
    assert_eq!(error, "`ERROR` is no reply to a write");
}
