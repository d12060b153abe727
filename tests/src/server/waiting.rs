//! Waiting for what a program under test does in its own time.

use std::thread;
use std::time::Duration;

/// Waits until something holds, 60 seconds at most: on a machine that is busy with other things little happens in less.
///
/// # Panics
/// It doesn't: with `what` was waited for.
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    within(60, what, holds);
}

/// Waits until something holds, `seconds` at most.
///
/// # Panics
/// It doesn't: with `what` was waited for.
pub fn within(seconds: u32, what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..seconds * 50 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("not within {seconds} seconds: {what}");
}

/// As [`within`], for a question that starts a process: it is asked four times a second, so that whoever is waited for has the
/// processors.
///
/// # Panics
/// If it doesn't hold in time.
pub fn within_seldom(seconds: u32, what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..seconds * 4 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(250));
    }
    panic!("not within {seconds} seconds: {what}");
}
