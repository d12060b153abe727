//! How background work shares the processors with the threads that serve.
//!
//! A thread that never sleeps keeps a processor for milliseconds before others have their turn, whatever its priority. A
//! write sleeps and wakes many times, also in the kernel's threads, until it is durable. While a log of 16 MiB was sorted,
//! a sync took 7 ms instead of a half. So background work offers its processor to others again and again.

use std::thread;

/// The work of one thread since it last offered its processor to others.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    bytes: usize,
    ended: u64,
}

impl Turns {
    /// Records work on this many bytes. If it was enough since the last time, other threads have their turn.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= TURN_BYTES {
            self.bytes = 0;
            self.ended += 1;
            thread::yield_now();
        }
    }

    /// How often others had their turn.
    #[cfg(test)]
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }
}

/// About a twentieth of a millisecond of work.
pub(crate) const TURN_BYTES: usize = 128 << 10;

#[test]
fn a_turn_ends_after_so_many_bytes_and_no_part_is_forgotten() {
    let mut turns = Turns::default();
    (0..100).for_each(|_| turns.spend(TURN_BYTES / 10));
    assert_eq!(turns.ended(), 9, "each takes eleven parts");
    turns.spend(usize::MAX);
    assert_eq!(turns.ended(), 10);
}
