//! The rule in isolation: which class gets a page from which.

use super::{Standing, choose};
use crate::memory::Class;

fn standing(class: Class, pages: usize, age_s: f64, evicts: bool) -> Standing {
    Standing {
        class,
        pages,
        age_s,
        evicts,
        has_spare: false,
        is_giver: false,
        may_get: true,
        may_give: pages > 1,
    }
}

#[test]
fn the_youngest_that_evicts_gets_a_page_of_the_oldest() {
    let classes = [
        standing(0, 10, 100.0, true),
        standing(1, 10, 20.0, true),
        standing(2, 10, 30.0, true),
        standing(3, 10, 200.0, false),
    ];
    assert_eq!(choose(&classes, 0.8), Some((3, 1)));
}

#[test]
fn ages_within_a_fifth_leave_everything_as_it_is() {
    let classes = [standing(0, 10, 100.0, true), standing(1, 10, 81.0, true)];
    assert_eq!(choose(&classes, 0.8), None);
    let classes = [standing(0, 10, 100.0, true), standing(1, 10, 79.0, true)];
    assert_eq!(choose(&classes, 0.8), Some((0, 1)));
}

#[test]
fn a_page_that_would_come_back_does_not_move() {
    // With one page less, the donor would be younger than the taker.
    let classes = [standing(0, 2, 100.0, true), standing(1, 10, 60.0, true)];
    assert_eq!(choose(&classes, 0.8), None);
}

#[test]
fn who_does_not_evict_gets_nothing_and_who_has_one_page_keeps_it() {
    let classes = [standing(0, 10, 100.0, true), standing(1, 10, 10.0, false)];
    assert_eq!(choose(&classes, 0.8), None);
    let classes = [standing(0, 1, 100.0, true), standing(1, 10, 10.0, true)];
    assert_eq!(choose(&classes, 0.8), None);
    assert_eq!(choose(&[standing(0, 9, 5.0, true)], 0.8), None);
    assert_eq!(choose(&[], 0.8), None);
}

#[test]
fn who_has_free_chunks_by_the_page_gives_first_whatever_the_ages() {
    let mut idle = standing(2, 5, 1.0, false);
    idle.has_spare = true;
    let classes = [standing(0, 10, 100.0, true), standing(1, 10, 95.0, true), idle];
    assert_eq!(choose(&classes, 0.8), Some((2, 1)));
}
