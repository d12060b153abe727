//! Tests of a front alone: what it asks is looked at, and answered by nobody.

use std::task::{Context, Poll, Waker};

use guira_chain::View;
use guira_client::Purse;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::counts::Counts;

#[derive(Debug)]
struct Empty;

impl Purse for Empty {
    fn charge(&self, _: usize) -> bool {
        false
    }

    fn refund(&self, _: usize) {}

    fn has_room(&self, _: usize) -> bool {
        false
    }
}

/// Regression: the reader of a key read and sent values for which the client's node then had no room.
#[tokio::test]
async fn a_client_without_room_is_refused_before_another_node_reads_for_it() {
    let view = guira_cluster::first_view("birds", 3, 2).expect("random numbers");
    let (front, _asked, told) = front(&view);
    told.send_replace(None);
    let customer = Customer::new(Arc::new(Empty), Arc::new(Counts::default()));
    let key = Bytes::from_static(b"k");
    let refused = || {
        let mut read = std::pin::pin!(front.read(&key, &customer));
        match read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(Err(reply))) => reply.message == NO_ROOM,
            Poll::Ready(_) => panic!("there is no other node"),
            Poll::Pending => false,
        }
    };
    assert!(!refused(), "it may want a short value");
    customer.reads.learn(16 * CHARGED_BYTES_MIN);
    let times = (0..100).take_while(|_| refused()).count();
    assert_eq!(times, 5, "then it is trusted with a short one");
}

type Told = watch::Sender<Option<Arc<Chart>>>;

fn front(view: &View) -> (Front, UnboundedReceiver<Event>, Told) {
    let chart = Some(Arc::new(Chart::of(Arc::new(view.clone()))));
    let ((events, asked), (told, chart)) = (unbounded_channel(), watch::channel(chart));
    let front = Front {
        events,
        chart,
        direct: Arc::new(DirectReads::new(1)),
        hash: SlotHash::of(view),
        client: 1,
        numbers: AtomicU64::new(1),
        value_max: 1 << 20,
        long: LongValues::default(),
        answers: LongAnswers::default(),
        crowded: refused_changes(),
    };
    (front, asked, told)
}

fn is_pending(change: &mut std::pin::Pin<Box<impl Future>>) -> bool {
    change.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

fn asked_of(asked: &mut UnboundedReceiver<Event>) -> Option<Box<Ask>> {
    match asked.try_recv() {
        Ok(Event::Ask(ask)) => Some(ask),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_waits_for_a_turn_of_its_slot_and_then_asks_by_the_newest_view() {
    let view = guira_cluster::first_view("birds", 3, 1).expect("random numbers");
    let (front, mut asked, told) = front(&view);
    let (key, other) = (Bytes::from_static(b"k"), Bytes::from_static(b"l"));
    let slot = front.hash.slot(&key);
    let change = |key| Box::pin(front.ask(key, Some((&b"x"[..], None)), 0));
    let mut turns = Vec::new();
    while !front.crowded.is_crowded(slot) {
        turns.push(front.crowded.try_turn(slot, 1));
    }
    let mut waits = change(&key);
    assert!(is_pending(&mut waits) && asked_of(&mut asked).is_none());
    let mut elsewhere = change(&other);
    assert!(is_pending(&mut elsewhere));
    assert!(asked_of(&mut asked).is_some(), "a change of another slot waits for none");
    let mut newer = view;
    newer.epoch = 2;
    (newer.groups[0].epoch, newer.groups[0].serving) = (2, vec![2]);
    told.send_replace(Some(Arc::new(Chart::of(Arc::new(newer)))));
    turns.clear();
    assert!(is_pending(&mut waits));
    let ask = asked_of(&mut asked).expect("it has a turn");
    assert_eq!((ask.to, ask.epoch), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_for_a_turn_is_told_whether_the_change_may_have_happened() {
    let view = guira_cluster::first_view("birds", 3, 1).expect("random numbers");
    let (front, mut asked, _told) = front(&view);
    let key = Bytes::from_static(b"k");
    let slot = front.hash.slot(&key);
    let _turns: Vec<_> = (0..16).map(|_| front.crowded.try_turn(slot, 1)).collect();
    for (is_repeated, words) in [(false, "too many changes wait for it"), (true, "outcome unknown")]
    {
        let tag = WriteTag { id: (1, 1), is_repeated };
        let told = front.ask(&key, Some((&b"x"[..], Some(tag))), 0).await;
        assert_eq!(told, Err(format!("slot {slot}: {words}")));
    }
    assert!(asked_of(&mut asked).is_none());
}
