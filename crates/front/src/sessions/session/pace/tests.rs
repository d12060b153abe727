//! Tests of clients that share a thread's lanes and rounds.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::sessions::memory::{Bank, MemoryLimits};

fn admitted(pace: &mut Pace, keys: usize) -> usize {
    pace.admit(keys, Waker::noop())
}

#[test]
fn short_values_open_the_window_and_long_ones_share_a_lane() {
    let lanes = Lanes::new();
    let free = || lanes.long.free();
    let mut pace = Pace::new(Rc::clone(&lanes));
    assert_eq!((admitted(&mut pace, 400), admitted(&mut pace, 1)), (1, 0));
    pace.answered(1, 100);
    assert_eq!(admitted(&mut pace, 400), 16);
    pace.set_under_way(0);
    pace.answered(16, 16 << 20);
    assert_eq!(admitted(&mut pace, 400), 1, "a megabyte at once");
    assert_eq!(free(), 0);
    let mut others: Vec<_> = (0..4).map(|_| Pace::new(Rc::clone(&lanes))).collect();
    others.iter_mut().for_each(|other| other.answered(1, 1 << 20));
    let admitted_of_4: usize = others.iter_mut().map(|other| admitted(other, 9)).sum();
    assert_eq!((admitted_of_4, free()), (0, 0));
    pace.set_under_way(0);
    assert_eq!([admitted(&mut others[3], 9), admitted(&mut others[0], 9)], [0, 1], "in order");
    drop((pace, others));
    assert_eq!(free(), LANE_BYTES);
}

#[tokio::test]
async fn newcomers_wait_for_each_other_where_the_last_ones_values_were_long() {
    let run = async {
        let lanes = Lanes::new();
        let admitted_of_100 = || {
            let mut newcomers: Vec<_> = (0..100).map(|_| Pace::new(Rc::clone(&lanes))).collect();
            newcomers.iter_mut().map(|newcomer| admitted(newcomer, 400)).sum::<usize>()
        };
        assert_eq!(admitted_of_100(), 16, "nobody knows how long they are");
        // One client went before its value came.
        Pace::new(Rc::clone(&lanes)).came_for_nobody(1 << 20);
        assert_eq!(admitted_of_100(), 1);
        (0..10).for_each(|_| Pace::new(Rc::clone(&lanes)).answered(1, 100));
        assert_eq!(admitted_of_100(), 64);
        Pace::new(Rc::clone(&lanes)).answered(1, 1 << 20);
        assert_eq!(admitted_of_100(), 1);
        assert_eq!(lanes.newcomers.free(), LANE_BYTES);
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[tokio::test]
async fn newcomers_that_have_closed_their_side_are_in_nobodys_way() {
    let run = async {
        let lanes = Lanes::new();
        lanes.learn(1 << 20);
        let mut newcomers: Vec<_> = (0..300).map(|_| Pace::new(Rc::clone(&lanes))).collect();
        assert_eq!(newcomers.iter_mut().map(|newcomer| admitted(newcomer, 1)).sum::<usize>(), 1);
        let (first, last) = newcomers.split_at_mut(299);
        let mut aside = 0;
        for pace in &mut first[1..] {
            aside += usize::from(pace.step_aside());
            admitted(pace, 1);
        }
        assert!((LEAVING_MAX..=1 + LEAVING_MAX).contains(&aside), "{aside}");
        first[1 + aside..].iter_mut().for_each(Pace::leave);
        first[0].set_under_way(0);
        assert_eq!(admitted(&mut last[0], 1), 1);
        drop(newcomers);
        assert_eq!((lanes.newcomers.free(), lanes.leaving.free()), (LANE_BYTES, LANE_BYTES));
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

/// Regression: half of all values were read for clients that had gone.
#[tokio::test]
async fn of_newcomers_that_have_closed_their_side_few_ask_while_others_wait() {
    let run = async {
        let lanes = Lanes::new();
        lanes.learn(1 << 20);
        let [mut served, mut waits, mut one, mut other] =
            [(); 4].map(|()| Pace::new(Rc::clone(&lanes)));
        assert_eq!([admitted(&mut served, 1), admitted(&mut waits, 1)], [1, 0]);
        assert!(one.step_aside() && other.step_aside());
        assert_eq!([admitted(&mut one, 1), admitted(&mut other, 1)], [0, 0], "one waits");
        while admitted(&mut one, 1) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        one.set_under_way(0);
        assert_eq!(admitted(&mut other, 1), 0, "its lane is free, and one went just now");
        waits.leave();
        assert_eq!(admitted(&mut other, 1), 1, "nobody waits who is still there");
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[test]
fn long_values_to_store_wait_for_each_other_until_they_are_answered() {
    let lanes = Lanes::new();
    let [mut first, mut second] = [(); 2].map(|()| Pace::new(Rc::clone(&lanes)));
    let store = |pace: &mut Pace, line| pace.store(line, LANE_BYTES / 2, Waker::noop());
    assert!(store(&mut first, 7) && store(&mut first, 8) && !store(&mut second, 0));
    first.stored(|line| line < 7);
    assert!(!store(&mut first, 9) && !store(&mut second, 0));
    first.stored(|line| line == 7);
    assert!(!store(&mut first, 9), "the second was first");
    assert!(store(&mut second, 0));
    second.stored(|_| true);
    drop(second);
    assert!(store(&mut first, 9));
    first.leave();
    assert!(store(&mut first, 10), "it waits for nobody");
    drop(first);
    assert_eq!(lanes.stores.free(), LANE_BYTES);
}

#[test]
fn a_client_that_does_not_ask_again_keeps_no_place() {
    let lanes = Lanes::new();
    let mut paces: Vec<_> = (0..3).map(|_| Pace::new(Rc::clone(&lanes))).collect();
    paces.iter_mut().for_each(|pace| pace.answered(1, LANE_BYTES));
    assert_eq!(paces.iter_mut().map(|pace| admitted(pace, 9)).collect::<Vec<_>>(), [1, 0, 0]);
    paces[0].set_under_way(0);
    // The second was woken, and its turn came: it has enough to say.
    paces[1].end_turn();
    paces[1].begin_turn(Waker::noop());
    paces[1].end_turn();
    assert_eq!(admitted(&mut paces[2], 9), 1);
}

#[tokio::test]
async fn many_keys_share_a_lane_which_opens_if_nothing_comes_back_to_it() {
    let run = async {
        let lanes = Lanes::new();
        let mut paces: Vec<_> = (0..6).map(|_| Pace::new(Rc::clone(&lanes))).collect();
        for pace in &mut paces {
            (0..2).for_each(|_| pace.answered(1, 100));
        }
        let admitted_of_5 = paces[..5].iter_mut().map(|pace| admitted(pace, 400));
        assert_eq!(admitted_of_5.collect::<Vec<_>>(), [256, 256, 256, 256, 0]);
        assert_eq!(admitted(&mut paces[5], FEW_KEYS), FEW_KEYS, "few wait for nobody");
        paces[0].set_under_way(128);
        assert_eq!(admitted(&mut paces[4], 400), 0);
        paces[0].set_under_way(0);
        assert_eq!(admitted(&mut paces[4], 400), 256);
        assert_eq!(admitted(&mut paces[0], 400), 0);
        // The servers that the others asked don't answer.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(admitted(&mut paces[0], 400), 256);
        drop(paces);
        assert_eq!(lanes.many.free(), LANE_BYTES);
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[tokio::test]
async fn a_crowd_with_short_turns_waits_for_a_look_at_the_sockets_and_a_calm_client_does_not() {
    let run = async {
        const SHORT_TURN: usize = 16 << 10;
        let lanes = Lanes::new();
        let mut crowd: Vec<_> = (0..100).map(|_| Pace::new(Rc::clone(&lanes))).collect();
        let mut calm = Pace::new(Rc::clone(&lanes));
        crowd.iter_mut().chain([&mut calm]).for_each(Pace::told);
        let has_turn = |pace: &mut Pace, bytes| {
            pace.begin_turn(Waker::noop());
            pace.spend(bytes);
            !pace.is_spent(Waker::noop())
        };
        for _ in 0..10 {
            let served =
                crowd.iter_mut().filter_map(|pace| has_turn(pace, SHORT_TURN).then_some(()));
            assert!(served.count() <= 8, "of 100 clients with 64 requests each");
            assert!(has_turn(&mut calm, 256), "it asks for little");
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        // All of them come to their turns.
        let waiting = |pace: &&Pace| pace.spent >= WAITING && !lanes.rounds.is_through(pace.turn);
        while crowd.iter().filter(waiting).count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[tokio::test]
async fn whose_last_turn_was_long_waits_before_the_next_while_the_thread_is_busy() {
    let run = async {
        let lanes = Lanes::new();
        let [mut long, mut other, mut calm] = [(); 3].map(|()| Pace::new(Rc::clone(&lanes)));
        [&mut long, &mut other, &mut calm].into_iter().for_each(Pace::told);
        let goes_on = |pace: &mut Pace| {
            pace.begin_turn(Waker::noop());
            !pace.is_spent(Waker::noop())
        };
        for _ in 0..3 {
            long.spend(1 << 20);
            calm.spend(256);
            assert!(goes_on(&mut calm), "it asks for little");
            assert!(!goes_on(&mut long), "others are first");
            let mut looks = 0;
            while !goes_on(&mut long) {
                assert!(looks < 4, "its turn comes");
                looks += 1;
                tokio::task::yield_now().await;
            }
        }
        // A client that asks for little from now on waits for no other.
        long.spend(256);
        other.spend(1 << 20);
        assert!(goes_on(&mut long));
        // On a thread that isn't busy, no client waits.
        long.spend(1 << 20);
        assert!(!goes_on(&mut other));
        while !goes_on(&mut other) {
            tokio::task::yield_now().await;
        }
        assert!(goes_on(&mut long), "the sockets were looked at");
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[test]
fn a_value_longer_than_the_lane_has_it_to_itself() {
    let lanes = Lanes::new();
    let mut pace = Pace::new(Rc::clone(&lanes));
    pace.answered(1, 100 << 20);
    assert_eq!(admitted(&mut pace, 2), 1);
    assert_eq!(lanes.long.free(), 0);
    pace.set_under_way(0);
    assert_eq!(lanes.long.free(), LANE_BYTES);
}

#[test]
fn a_client_that_has_replies_to_take_asks_for_no_long_value_that_finds_no_room() {
    let limits = MemoryLimits { all: 3 << 20, each: 3 << 20, value: 1 << 20 };
    let bank = Arc::new(Bank::new(limits));
    let (own, others) = (Account::new(&bank), Account::new(&bank));
    let mut pace = Pace::new(Lanes::new());
    pace.answered(1, 1 << 20);
    assert_eq!(pace.affordable(1, &own, true), 1);
    others.hold(5 << 19);
    assert_eq!([1, 9].map(|keys| pace.affordable(keys, &own, true)), [0, 0], "it would be refused");
    assert_eq!(pace.affordable(1, &own, false), 1, "nothing of its own makes room");
    (0..20).for_each(|_| pace.answered(1, 100));
    assert_eq!(pace.affordable(1, &own, true), 1, "short ones find room");
}

fn has_turn(pace: &mut Pace, bytes: usize) -> bool {
    pace.begin_turn(Waker::noop());
    let has_turn = !pace.is_waiting();
    if has_turn {
        pace.spend(bytes);
    }
    has_turn
}

#[tokio::test]
async fn clients_that_were_told_nothing_wait_for_a_look_at_the_sockets_however_short_their_turns() {
    let run = async {
        let lanes = Lanes::new();
        let [mut new, mut known] = [(); 2].map(|()| Pace::new(Rc::clone(&lanes)));
        assert!(has_turn(&mut new, 300) && has_turn(&mut known, 300));
        known.told();
        lanes.rounds.spend(1 << 20);
        assert!(has_turn(&mut known, 300));
        assert!(!has_turn(&mut new, 300), "it may have gone, and to let it out costs more");
        while !has_turn(&mut new, 300) {
            tokio::task::yield_now().await;
        }
    };
    tokio::task::LocalSet::new().run_until(run).await;
}

#[tokio::test]
async fn whoever_is_next_in_a_lane_has_its_turn_before_those_that_came_first_but_after_a_look() {
    let run = async {
        const LONG_TURN: usize = 4 << 10;
        let lanes = Lanes::new();
        lanes.learn(1 << 20);
        let mut crowd: Vec<_> = (0..50).map(|_| Pace::new(Rc::clone(&lanes))).collect();
        let [mut served, mut next] = [(); 2].map(|()| Pace::new(Rc::clone(&lanes)));
        assert!(has_turn(&mut next, 300) && crowd.iter_mut().all(|pace| has_turn(pace, LONG_TURN)));
        assert_eq!([admitted(&mut served, 1), admitted(&mut next, 1)], [1, 0]);
        lanes.rounds.spend(1 << 20);
        assert!(!crowd.iter_mut().any(|pace| has_turn(pace, LONG_TURN)));
        assert!(
            !has_turn(&mut next, 300),
            "a crowd in which each is the next one goes on for ever"
        );
        while !has_turn(&mut next, 300) {
            tokio::task::yield_now().await;
        }
        let had_turns = crowd.iter_mut().map(|pace| usize::from(has_turn(pace, 0))).sum::<usize>();
        assert!(had_turns < 25, "{had_turns} came before the one for which others wait");
    };
    tokio::task::LocalSet::new().run_until(run).await;
}
