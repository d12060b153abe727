//! Flushes: the items that they hide, and those that wait for a sweep.

use super::*;
use crate::Sweeper;

fn sweep(handle: &mut Handle<'_>, sweeper: &mut Sweeper<'_>) {
    handle.quiesce();
    while sweeper.step(NOW) {}
}

fn flush_patiently(handle: &mut Handle<'_>, sweeper: &mut Sweeper<'_>) {
    let mut asked = None;
    while !handle.flush(&mut asked) {
        sweep(handle, sweeper);
    }
}

#[test]
fn a_flush_hides_everything_before_it_and_nothing_after() {
    let cache = small();
    let mut handle = cache.handle();
    let mut sweeper = cache.sweeper();
    for round in 0..5 {
        set(&handle, "before", b"1");
        flush_patiently(&mut handle, &mut sweeper);
        assert!(value(&handle, "before").is_err(), "round {round}");
        set(&handle, "after", b"2");
        assert_eq!(value(&handle, "after"), Ok(b"2".to_vec()));
        assert!(!handle.flush(&mut None), "a second flush waits for the sweep behind the first");
        flush_patiently(&mut handle, &mut sweeper);
        assert!(value(&handle, "after").is_err() && value(&handle, "before").is_err());
        set(&handle, "last", b"3");
        if round % 2 == 0 {
            handle.quiesce();
            while sweeper.step(NOW) {}
        }
        assert_eq!(value(&handle, "last"), Ok(b"3".to_vec()));
    }
    sweep(&mut handle, &mut sweeper);
    handle.flush_at(150);
    handle.tick(149);
    assert!(value(&handle, "last").is_ok());
    handle.tick(150);
    assert_eq!(value(&handle, "last"), Err(Miss::Flushed));
    handle.quiesce();
    while sweeper.step(150) {}
    assert_eq!(cache.len(), 0, "the sweep unlinks what the flush hid");
}

#[test]
fn flushes_that_wait_are_served_by_one_and_strike_nothing_after_it() {
    let cache = small();
    let mut handle = cache.handle();
    let mut sweeper = cache.sweeper();
    assert!(handle.flush(&mut None));
    set(&handle, "before", b"1");
    let (mut first, mut second) = (None, None);
    assert!(!handle.flush(&mut first) && !handle.flush(&mut second), "both wait for the sweep");
    sweep(&mut handle, &mut sweeper);
    assert!(handle.flush(&mut second), "the later one comes first");
    assert!(value(&handle, "before").is_err());
    set(&handle, "after", b"2");
    assert!(handle.flush(&mut first), "the other served it");
    assert_eq!(value(&handle, "after"), Ok(b"2".to_vec()));
    assert!(first.is_none(), "the next one is asked for anew");
}
