//! Computes the cells of a table on all processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work(0)` to `work(all - 1)` on as many threads as there are processors; `progress` gets the share that has
/// begun.
pub(crate) fn in_parallel<T: Send>(
    all: usize,
    work: impl Fn(usize) -> T + Sync,
    progress: &dyn Fn(f64),
) -> Vec<T> {
    let done = Mutex::new(Vec::with_capacity(all));
    let next = AtomicUsize::new(0);
    let take = || {
        let place = next.fetch_add(1, Ordering::Relaxed);
        if place < all {
            let result = work(place);
            done.lock().expect("nobody panics with it").push((place, result));
        }
        place < all
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 1..threads.min(all) {
            scope.spawn(|| while take() {});
        }
        // The first of the threads is this one, which tells how far all are.
        while take() {
            progress(next.load(Ordering::Relaxed).min(all) as f64 / all as f64);
        }
    });
    let mut done = done.into_inner().expect("nobody panics with it");
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_their_numbers() {
        assert_eq!(in_parallel(100, |n| n * n, &|_| ())[99], 99 * 99);
        assert!(in_parallel(0, |n| n, &|_| ()).is_empty());
    }
}
