//! Replies reach their requests, however many share a line and however the stream is split.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use guira_proto::reply::ReplyLimits;
use tokio::time::Instant;

use super::{Caller, Limits, Output, Queue};
use crate::{Op, Outcome, Protocol, Reply, Request};

const LIMITS: Limits = Limits {
    protocol: Protocol::Text,
    outstanding_max: 100,
    unsent_bytes_max: 1 << 20,
    trusts_order: false,
    keys_per_line_max: 3,
    reply: ReplyLimits::DEFAULT,
};

struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn connected() -> Queue {
    let mut queue = Queue::new(LIMITS);
    queue.connected();
    queue
}

fn trusting() -> Queue {
    let mut queue = Queue::new(Limits { trusts_order: true, ..LIMITS });
    queue.connected();
    queue
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn sent(queue: &mut Queue) -> String {
    let mut output = Output::default();
    queue.take_output(&mut output);
    String::from_utf8(output.bytes.clone()).unwrap()
}

fn ask(queue: &mut Queue, op: Op, key: &'static str) -> u32 {
    let value = if op.is_update() { &b"abc"[..] } else { b"" };
    let request = Request { value: value.into(), delta: 1, ..Request::new(op, key) };
    queue.ask(request, later(), Caller::default())
}

fn take(queue: &mut Queue, slot: u32) -> Option<Reply> {
    Some(queue.poll(slot, Waker::noop())?.0)
}

/// A proxy may change keys and not change them back. mcrouter also matches its replies by their order.
#[test]
fn values_of_a_server_that_does_not_repeat_keys_are_told_by_their_order() {
    let mut queue = trusting();
    let first = ask(&mut queue, Op::Get, "a");
    assert_eq!(sent(&mut queue), "get a\r\n");
    let receive = |queue: &mut Queue, text: &str| {
        queue.receive(&mut BytesMut::from(text), &mut Vec::new()).is_ok()
    };
    assert!(receive(&mut queue, "VALUE x 0 1\r\n1\r\nEND\r\n"));
    assert_eq!(&take(&mut queue, first).unwrap().value[..], b"1");
    let slots = ["a", "b", "c"].map(|key| ask(&mut queue, Op::Get, key));
    assert_eq!(sent(&mut queue), "get a\r\nget b\r\nget c\r\n", "one a line from now on");
    assert!(receive(&mut queue, "END\r\nVALUE x 0 1\r\n2\r\nEND\r\nVALUE x 0 1\r\n3\r\nEND\r\n"));
    let values = slots.map(|slot| take(&mut queue, slot).unwrap().value);
    assert_eq!(values, ["", "2", "3"]);
}

#[test]
fn a_foreign_key_is_out_of_step_unless_it_is_the_very_first_reply_and_answers_a_line_of_one_key() {
    for (asked, replies) in [
        (&["a", "b"][..], "VALUE x 0 1\r\n1\r\nEND\r\n"),
        (&["a"][..], "END\r\nVALUE x 0 1\r\n1\r\nEND\r\n"),
        (&["a"][..], "VALUE a 0 1\r\n1\r\nEND\r\nVALUE x 0 1\r\n1\r\nEND\r\n"),
    ] {
        let mut queue = trusting();
        for key in asked {
            ask(&mut queue, Op::Get, key);
        }
        sent(&mut queue);
        ask(&mut queue, Op::Get, "late");
        sent(&mut queue);
        let received = queue.receive(&mut BytesMut::from(replies), &mut Vec::new());
        assert!(received.is_err(), "{asked:?} {replies}");
    }
    // Lines of several keys that were sent before the first reply can't be told apart.
    let mut queue = trusting();
    ask(&mut queue, Op::Get, "a");
    sent(&mut queue);
    ask(&mut queue, Op::Get, "b");
    ask(&mut queue, Op::Get, "c");
    sent(&mut queue);
    let twice = "VALUE x 0 1\r\n1\r\nEND\r\n".repeat(2);
    assert!(queue.receive(&mut BytesMut::from(&twice[..]), &mut Vec::new()).is_err());
}

#[test]
fn a_foreign_key_is_out_of_step_where_the_order_is_not_trusted() {
    let mut queue = connected();
    let asked = ask(&mut queue, Op::Get, "a");
    sent(&mut queue);
    let reply = "VALUE x 0 1\r\n1\r\nEND\r\n";
    assert!(queue.receive(&mut BytesMut::from(reply), &mut Vec::new()).is_err());
    assert!(take(&mut queue, asked).is_none(), "it is failed with its connection");
}

/// The server's replies to the requests of `talk`, in order.
const REPLIES: &str = "VALUE b 7 2\r\nbb\r\nEND\r\nVALUE c 0 0 99\r\n\r\nEND\r\nSTORED\r\nEND\r\n\
    LVALUE l 17 0 3\r\nold\r\nEND\r\nMETA m age: 1; exptime: 2\r\nEND\r\nDELETED\r\n8\r\n\
    SERVER_ERROR 307 too much\r\nVERSION 1.6\r\n";

fn talk(queue: &mut Queue) -> Vec<u32> {
    let mut slots: Vec<u32> = [
        (Op::Get, "a"),
        (Op::Get, "b"),
        (Op::Gets, "c"),
        (Op::Set, "d"),
        (Op::Get, "e"),
        (Op::LeaseGet, "l"),
        (Op::MetaGet, "m"),
        (Op::Delete, "f"),
        (Op::Incr, "g"),
        (Op::Get, "h"),
    ]
    .into_iter()
    .map(|(op, key)| ask(queue, op, key))
    .collect();
    slots.push(queue.ask(Request::new(Op::Version, ""), later(), Caller::default()));
    slots
}

#[test]
fn neighbouring_gets_share_a_line_and_nothing_else_does() {
    let mut queue = connected();
    talk(&mut queue);
    assert_eq!(
        sent(&mut queue),
        "get a b\r\ngets c\r\nset d 0 0 3\r\nabc\r\nget e\r\nlease-get l\r\nmetaget m\r\n\
         delete f\r\nincr g 1\r\nget h\r\nversion\r\n"
    );
    for key in ["a", "b", "c", "d"] {
        ask(&mut queue, Op::Get, key);
    }
    assert_eq!(sent(&mut queue), "get a b c\r\nget d\r\n", "three keys a line");
    ask(&mut queue, Op::Get, "e");
    assert_eq!(sent(&mut queue), "get e\r\n", "a line that was taken is not continued");
}

#[test]
fn replies_cut_at_each_byte_answer_the_same() {
    for cut in 0..=REPLIES.len() {
        let mut queue = connected();
        let slots = talk(&mut queue);
        let (mut input, mut woken) = (BytesMut::new(), Vec::new());
        for piece in [&REPLIES[..cut], &REPLIES[cut..]] {
            input.extend_from_slice(piece.as_bytes());
            let wanted = queue.receive(&mut input, &mut woken).unwrap();
            assert!(wanted > input.len(), "cut {cut}");
        }
        assert_eq!((input.len(), queue.outstanding()), (0, 0), "cut {cut}");
        let replies: Vec<Reply> =
            slots.iter().map(|&slot| take(&mut queue, slot).unwrap()).collect();
        let outcomes: Vec<Outcome> = replies.iter().map(|reply| reply.outcome).collect();
        use Outcome::{Busy, Deleted, Found, NotFound, Ok, Stored};
        let expected =
            [NotFound, Found, Found, Stored, NotFound, NotFound, Found, Deleted, Found, Busy, Ok];
        assert_eq!(outcomes, expected, "cut {cut}");
        assert_eq!((&replies[1].value[..], replies[1].flags), (&b"bb"[..], 7));
        assert_eq!(replies[2].token, 99);
        assert_eq!((replies[5].token, &replies[5].value[..]), (17, &b"old"[..]));
        assert_eq!(replies[6].message, "age: 1; exptime: 2");
        assert_eq!(replies[8].number, 8);
        assert_eq!(replies[9].message, "too much");
        assert_eq!(replies[10].message, "1.6");
    }
}

#[test]
fn an_error_on_a_shared_line_answers_all_of_its_keys_and_no_others() {
    let mut queue = connected();
    let first: Vec<u32> = ["a", "b"].map(|key| ask(&mut queue, Op::Get, key)).into();
    let _ = sent(&mut queue);
    let next = ask(&mut queue, Op::Get, "c");
    let mut input = BytesMut::from("SERVER_ERROR out of memory\r\nVALUE c 0 1\r\nx\r\nEND\r\n");
    queue.receive(&mut input, &mut Vec::new()).unwrap();
    for slot in first {
        let reply = take(&mut queue, slot).unwrap();
        assert_eq!(
            (reply.outcome, &reply.message[..]),
            (Outcome::RemoteError, &b"out of memory"[..])
        );
    }
    assert_eq!(take(&mut queue, next).unwrap().outcome, Outcome::Found);
}

#[test]
fn the_same_key_twice_on_a_line_is_answered_twice() {
    let mut queue = connected();
    let slots = ["a", "a"].map(|key| ask(&mut queue, Op::Get, key));
    let mut input = BytesMut::from("VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    queue.receive(&mut input, &mut Vec::new()).unwrap();
    assert!(slots.map(|slot| take(&mut queue, slot).unwrap().value == "x").iter().all(|&x| x));
}

#[test]
fn what_is_no_answer_ends_the_connection() {
    for (op, stray) in [
        (Op::Get, "STORED\r\n"),
        (Op::Set, "END\r\n"),
        (Op::Set, "DELETED\r\n"),
        (Op::Delete, "VALUE k 0 1\r\nx\r\n"),
        (Op::MetaGet, "META other age: 1\r\n"),
        (Op::Get, "END\r\nEND\r\n"),
        (Op::Set, "ERROR\r\n"),
        (Op::Get, "HTTP/1.1 400 Bad Request\r\n"),
    ] {
        let mut queue = connected();
        let slot = ask(&mut queue, op, "k");
        let mut input = BytesMut::from(stray);
        assert!(queue.receive(&mut input, &mut Vec::new()).is_err(), "{op:?} {stray:?}");
        queue.fail_all(&Reply::new(Outcome::RemoteError), &mut Vec::new());
        assert!(take(&mut queue, slot).is_some(), "{op:?} {stray:?} leaves nobody waiting");
    }
}

/// Only `END` may follow the last value of a line. An error there would be taken for the reply to the next request, and
/// all later replies would be shifted too.
#[test]
fn what_comes_between_the_last_value_and_its_end_answers_nobody() {
    let strays =
        ["SERVER_ERROR out of memory\r\n", "ERROR\r\n", "STORED\r\n", "NOT_FOUND\r\n", "HD\r\n"];
    for next in [Op::Set, Op::Delete, Op::Touch, Op::Get, Op::LeaseGet] {
        for stray in strays {
            let mut queue = connected();
            let slots = [ask(&mut queue, Op::Gets, "k"), ask(&mut queue, next, "next")];
            let mut input = BytesMut::from("VALUE k 0 1 9\r\nx\r\n");
            input.extend_from_slice(stray.as_bytes());
            assert!(queue.receive(&mut input, &mut Vec::new()).is_err(), "{next:?} {stray:?}");
            assert_eq!(take(&mut queue, slots[0]).map(|reply| reply.value), Some("x".into()));
            assert_eq!(take(&mut queue, slots[1]), None, "{next:?} {stray:?}");
            queue.fail_all(&Reply::new(Outcome::RemoteError), &mut Vec::new());
            assert!(take(&mut queue, slots[1]).is_some());
        }
    }
}

#[test]
fn a_late_reply_is_dropped_and_the_next_one_still_meets_its_request() {
    let mut queue = connected();
    let (now, stall) = (Instant::now(), Duration::from_secs(5));
    let early =
        queue.ask(Request::new(Op::Get, "a"), now + Duration::from_secs(1), Caller::default());
    let late =
        queue.ask(Request::new(Op::Delete, "b"), now + Duration::from_secs(9), Caller::default());
    assert_eq!(queue.earliest(), Some(now + Duration::from_secs(1)));
    let mut woken = Vec::new();
    assert!(!queue.expire(now + Duration::from_secs(2), stall, &mut woken));
    assert_eq!(take(&mut queue, early).unwrap().outcome, Outcome::Timeout);
    let third = ask(&mut queue, Op::Get, "c");
    assert_eq!(third, early, "the slot is used again while its first reply is still to come");
    let mut input = BytesMut::from("VALUE a 0 1\r\nx\r\nEND\r\nDELETED\r\nEND\r\n");
    queue.receive(&mut input, &mut woken).unwrap();
    assert_eq!(take(&mut queue, late).unwrap().outcome, Outcome::Deleted);
    assert_eq!(take(&mut queue, third).unwrap().outcome, Outcome::NotFound);
}

#[test]
fn a_server_that_is_silent_for_too_long_is_given_up() {
    let mut queue = connected();
    let (now, stall) = (Instant::now(), Duration::from_secs(5));
    let _ = queue.ask(Request::new(Op::Get, "a"), now + Duration::from_secs(1), Caller::default());
    assert!(!queue.expire(now + Duration::from_secs(1), stall, &mut Vec::new()));
    assert_eq!(queue.earliest(), Some(now + Duration::from_secs(6)));
    assert!(queue.expire(now + Duration::from_secs(6), stall, &mut Vec::new()));
}

#[test]
fn a_request_that_was_too_late_for_the_connection_is_never_sent() {
    let mut queue = Queue::new(LIMITS);
    let now = Instant::now();
    let late = queue.ask(Request::new(Op::Set, "late"), now, Caller::default());
    let given_up = ask(&mut queue, Op::Set, "given-up");
    let _ = ask(&mut queue, Op::Delete, "k");
    queue.expire(now, Duration::ZERO, &mut Vec::new());
    queue.abandon(given_up);
    queue.connected();
    assert_eq!(take(&mut queue, late).unwrap().outcome, Outcome::ConnectTimeout);
    assert_eq!(sent(&mut queue), "delete k\r\n");
    assert_eq!(queue.unsent_bytes(), 0);
}

#[test]
fn what_is_outstanding_is_bounded_and_all_of_it_fails_with_the_connection() {
    let mut queue = connected();
    let slots: Vec<u32> = (0..100).map(|_| ask(&mut queue, Op::Get, "k")).collect();
    let one_more = ask(&mut queue, Op::Get, "k");
    assert_eq!(take(&mut queue, one_more).unwrap().outcome, Outcome::Busy);
    queue.abandon(slots[0]);
    let wakes = Arc::new(Wakes(AtomicU32::new(0)));
    assert!(queue.poll(slots[1], &Waker::from(Arc::clone(&wakes))).is_none());
    let mut woken = Vec::new();
    queue.fail_all(&Reply::new(Outcome::RemoteError), &mut woken);
    woken.into_iter().for_each(Waker::wake);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    for &slot in &slots[1..] {
        assert_eq!(take(&mut queue, slot).unwrap().outcome, Outcome::RemoteError);
    }
    assert_eq!(queue.outstanding(), 0);
    assert!(queue.slots.is_all_free(), "no slot is lost");
    let again = ask(&mut queue, Op::Set, "k");
    queue.connected();
    assert_eq!(sent(&mut queue), "set k 0 0 3\r\nabc\r\n");
    queue.abandon(again);
}

#[test]
fn a_long_value_shares_the_buffer_and_arrives_whole() {
    let mut queue = connected();
    let slot = ask(&mut queue, Op::Get, "k");
    let value = vec![b'v'; super::SHARED_BYTES_MIN];
    let mut input = BytesMut::from(format!("VALUE k 5 {}\r\n", value.len()).as_bytes());
    input.extend_from_slice(&value);
    assert_eq!(queue.receive(&mut input, &mut Vec::new()).unwrap(), input.len() + 2);
    input.extend_from_slice(b"\r\nEND\r\n");
    queue.receive(&mut input, &mut Vec::new()).unwrap();
    let reply = take(&mut queue, slot).unwrap();
    assert_eq!((&reply.value[..], reply.flags), (&value[..], 5));
}

#[test]
fn meta_replies_cut_at_each_byte_answer_the_same() {
    let long = "l".repeat(super::SHARED_BYTES_MIN);
    let replies =
        format!("EN\r\nVA 2 f7\r\nbb\r\nSTORED\r\nVA {} f5\r\n{long}\r\nNF\r\n", long.len());
    for cut in 0..=replies.len() {
        let mut queue = Queue::new(Limits { protocol: Protocol::Meta, ..LIMITS });
        queue.connected();
        let asked =
            [(Op::Get, "a"), (Op::Get, "b"), (Op::Set, "c"), (Op::Get, "d"), (Op::Delete, "e")];
        let slots = asked.map(|(op, key)| ask(&mut queue, op, key));
        let (mut input, mut woken) = (BytesMut::new(), Vec::new());
        for piece in [&replies[..cut], &replies[cut..]] {
            input.extend_from_slice(piece.as_bytes());
            assert!(queue.receive(&mut input, &mut woken).unwrap() > input.len(), "cut {cut}");
        }
        let replies = slots.map(|slot| take(&mut queue, slot).unwrap());
        use Outcome::{Found, NotFound, Stored};
        let outcomes = replies.each_ref().map(|reply| reply.outcome);
        assert_eq!(outcomes, [NotFound, Found, Stored, Found, NotFound], "cut {cut}");
        assert_eq!((&replies[1].value[..], replies[1].flags), (&b"bb"[..], 7));
        assert_eq!((&replies[3].value[..], replies[3].flags), (long.as_bytes(), 5));
    }
}

fn ask_keys(queue: &mut Queue, keys: &[&'static str]) -> u32 {
    let keys = keys.iter().map(|key| Bytes::from(*key)).collect();
    queue.ask_keys(Op::Get, keys, later(), Caller::default(), |key| key.len() < 3)
}

fn take_keys(queue: &mut Queue, slot: u32) -> Option<Vec<Outcome>> {
    let (replies, _) = queue.poll_keys(slot, Waker::noop())?;
    Some(replies.iter().map(|reply| reply.outcome).collect())
}

#[test]
fn keys_asked_for_together_are_answered_together_in_their_order() {
    use Outcome::{BadKey, Found, NotFound};
    let mut queue = connected();
    let wakes = Arc::new(Wakes(AtomicU32::new(0)));
    let slot = ask_keys(&mut queue, &["a", "long", "b", "a", "c"]);
    assert!(queue.poll_keys(slot, &Waker::from(Arc::clone(&wakes))).is_none());
    assert_eq!(sent(&mut queue), "get a b a\r\nget c\r\n", "three keys a line");
    let mut woken = Vec::new();
    let mut input = BytesMut::from("VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    queue.receive(&mut input, &mut woken).unwrap();
    assert!(woken.is_empty(), "one key is missing yet");
    assert_eq!(take_keys(&mut queue, slot), None);
    queue.poll_keys(slot, &Waker::from(Arc::clone(&wakes)));
    queue.receive(&mut BytesMut::from("END\r\n"), &mut woken).unwrap();
    woken.into_iter().for_each(Waker::wake);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    let expected = vec![Found, BadKey, NotFound, Found, NotFound];
    assert_eq!(take_keys(&mut queue, slot), Some(expected));
    assert!(queue.slots.is_all_free(), "no slot is lost");
    let none = ask_keys(&mut queue, &["long"]);
    assert_eq!(take_keys(&mut queue, none), Some(vec![BadKey]), "nothing to wait for");
}

#[test]
fn keys_that_nobody_waits_for_any_more_free_their_slot_with_the_last_reply() {
    let mut queue = connected();
    let slot = ask_keys(&mut queue, &["a", "b"]);
    queue.abandon(slot);
    let next = ask(&mut queue, Op::Delete, "k");
    assert_ne!(slot, next, "two replies are still to come");
    queue.receive(&mut BytesMut::from("END\r\nDELETED\r\n"), &mut Vec::new()).unwrap();
    assert_eq!(take(&mut queue, next).unwrap().outcome, Outcome::Deleted);
    assert!(queue.slots.is_all_free());
}

#[test]
fn keys_asked_for_together_fail_together() {
    let mut queue = Queue::new(LIMITS);
    let waiting = ask_keys(&mut queue, &["a", "b"]);
    let given_up = ask_keys(&mut queue, &["c", "d"]);
    queue.abandon(given_up);
    queue.expire(later() + Duration::from_secs(1), Duration::ZERO, &mut Vec::new());
    assert_eq!(take_keys(&mut queue, waiting), Some(vec![Outcome::ConnectTimeout; 2]));
    let given_up = ask_keys(&mut queue, &["e", "f"]);
    queue.abandon(given_up);
    queue.connected();
    assert_eq!(sent(&mut queue), "", "nobody wants them");
    let slot = ask_keys(&mut queue, &["g", "h"]);
    queue.fail_all(&Reply::new(Outcome::RemoteError), &mut Vec::new());
    assert_eq!(take_keys(&mut queue, slot), Some(vec![Outcome::RemoteError; 2]));
    assert!(queue.slots.is_all_free(), "no slot is lost");
}

#[test]
fn behind_much_that_is_to_be_sent_a_request_waits_and_is_not_sent_if_nobody_waits_for_it_then() {
    let mut queue = connected();
    let value = Bytes::from(vec![b'x'; super::OUT_BYTES_MAX]);
    let long = Request { value, ..Request::new(Op::Set, "long") };
    let long = queue.ask(long, later(), Caller::default());
    let [gone, kept] = ["gone", "kept"].map(|key| ask(&mut queue, Op::Get, key));
    let late = Instant::now();
    let late = queue.ask(Request::new(Op::Get, "late"), late, Caller::default());
    queue.abandon(gone);
    assert!(sent(&mut queue).starts_with("set long"));
    queue.expire(Instant::now(), Duration::MAX, &mut Vec::new());
    let too_late = take(&mut queue, late).map(|reply| reply.outcome);
    assert_eq!(too_late, Some(Outcome::Timeout), "the connection stood");
    assert_eq!(sent(&mut queue), "get kept\r\n");
    assert_eq!((queue.outstanding(), queue.unsent_bytes()), (2, 0));
    let mut replies = BytesMut::from("STORED\r\nEND\r\n");
    queue.receive(&mut replies, &mut Vec::new()).unwrap();
    let outcomes = [long, kept].map(|slot| take(&mut queue, slot).map(|reply| reply.outcome));
    assert_eq!(outcomes, [Some(Outcome::Stored), Some(Outcome::NotFound)]);
    assert!(queue.slots.is_all_free());
}
