//! Reclamation under loom: every interleaving of a reader with a thread that reuses a chunk.
//!
//! The chunk's bytes are a loom cell, so a reuse while a reader may still look is reported as the
//! data race that it would be. Run by `make model`.

use super::Epochs;
use crate::sync::{AtomicU64, Ordering};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// An index of one slot, the chunk that it refers to, and the epochs.
struct World {
    linked: AtomicU64,
    chunk: UnsafeCell<u64>,
    epochs: Epochs,
}

fn world() -> Arc<World> {
    Arc::new(World { linked: AtomicU64::new(1), chunk: UnsafeCell::new(0), epochs: Epochs::new(2) })
}

/// One lookup: finds the chunk and reads its bytes.
fn read(world: &World) {
    if world.linked.load(Ordering::Acquire) == 1 {
        world.chunk.with(|_bytes| ());
    }
}

/// Unlinks the chunk, and reuses it if `may_reuse` allows that for its stamp.
fn unlink_and_reuse(world: &World, may_reuse: impl Fn(&Epochs, u64) -> bool) {
    world.linked.store(0, Ordering::Release);
    let stamp = world.epochs.stamp();
    if may_reuse(&world.epochs, stamp) {
        world.chunk.with_mut(|_bytes| ());
    }
}

fn past_the_horizon(epochs: &Epochs, stamp: u64) -> bool {
    stamp < epochs.horizon()
}

fn run(may_reuse: fn(&Epochs, u64) -> bool, reader: fn(&World)) {
    loom::model(move || {
        let world = world();
        let theirs = Arc::clone(&world);
        let thread = thread::spawn(move || reader(&theirs));
        unlink_and_reuse(&world, may_reuse);
        thread.join().expect("the reader ends");
    });
}

#[test]
fn a_reader_that_comes_online_never_sees_a_reused_chunk() {
    run(past_the_horizon, |world| {
        world.epochs.online(0);
        read(world);
        world.epochs.offline(0);
    });
}

#[test]
fn a_reader_over_two_turns_never_sees_a_reused_chunk() {
    run(past_the_horizon, |world| {
        world.epochs.online(0);
        read(world);
        world.epochs.quiesce(0);
        read(world);
        world.epochs.offline(0);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_catches_a_reuse_without_a_grace_period() {
    run(
        |_, _| true,
        |world| {
            world.epochs.online(0);
            read(world);
            world.epochs.offline(0);
        },
    );
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_catches_a_reader_that_looks_while_offline() {
    run(past_the_horizon, |world| {
        world.epochs.online(0);
        world.epochs.offline(0);
        read(world);
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_catches_a_turn_that_ends_before_its_last_read() {
    run(past_the_horizon, |world| {
        world.epochs.online(0);
        let linked = world.linked.load(Ordering::Acquire);
        world.epochs.quiesce(0);
        if linked == 1 {
            world.chunk.with(|_bytes| ());
        }
        world.epochs.offline(0);
    });
}
