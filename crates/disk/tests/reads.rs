//! The ring and the pool keep the same contract.

use guira_disk::faulty::{DiskOp, Injected};
use guira_disk::{
    BLOCK, Buffers, Disk, DiskFile, FileAccess, ReadThreads, Reads, SimulatedDisk, System,
};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Runs a test with both implementations. If the kernel refuses the ring, prints that and the error.
fn by_both(test: impl Fn(&mut Reads)) {
    let threads = ReadThreads::start(3).expect("no fault");
    test(&mut Reads::by_pool(&threads).expect("no fault"));
    match Reads::by_ring(8) {
        Ok(mut ring) => test(&mut ring),
        Err(error) => {
            eprintln!("SKIPPED: the ring is not tested, the kernel refuses io_uring: {error}");
            let open = Reads::open(8, &threads).expect("no fault");
            assert_eq!(open.kind(), "pool", "what the ring refuses falls to the pool");
        }
    }
}

/// A file whose blocks are each filled with a byte that depends on the block's number.
fn numbered(folder: &Path, blocks: usize, direct: bool) -> Arc<dyn DiskFile> {
    let path = folder.join("numbered");
    let file = System.create(&path, false).expect("no fault");
    let bytes: Vec<u8> = (0..blocks * BLOCK).map(block_of).collect();
    file.write_at(&bytes, 0).expect("no fault");
    file.sync_data().expect("no fault");
    System.open(&path, FileAccess { write: false, direct }).expect("no fault")
}

fn block_of(at: usize) -> u8 {
    u8::try_from(at / BLOCK % 251).expect("no fault")
}

/// Waits for all reads in flight.
fn ends(reads: &mut Reads) -> BTreeMap<u64, io::Result<Vec<u8>>> {
    let mut ended = BTreeMap::new();
    while reads.under_way() > 0 {
        reads.wait().expect("no fault");
        let mut each = |tag, read: io::Result<guira_disk::Buffer>| {
            assert!(ended.insert(tag, read.map(|it| it.to_vec())).is_none(), "{tag} ended twice");
        };
        reads.reap(&mut each).expect("no fault");
    }
    ended
}

#[test]
fn each_read_ends_once_with_its_own_bytes_however_many_are_under_way() {
    let folder = tempfile::tempdir().unwrap();
    for direct in [false, true] {
        let _ = std::fs::remove_file(folder.path().join("numbered"));
        let file = numbered(folder.path(), 300, direct);
        by_both(|reads| {
            let buffers = Buffers::new(16);
            for tag in 0..297_u64 {
                let length = BLOCK * (1 + usize::try_from(tag % 4).unwrap());
                reads.submit(tag, file.clone(), buffers.take(length), tag * BLOCK as u64);
                if tag % 50 == 0 {
                    reads.flush().unwrap();
                }
            }
            assert_eq!(reads.under_way(), 297);
            reads.flush().unwrap();
            let ended = ends(reads);
            assert_eq!(ended.len(), 297);
            for (tag, read) in ended {
                let from = usize::try_from(tag).unwrap() * BLOCK;
                let bytes = read.unwrap();
                assert!(
                    bytes.iter().enumerate().all(|(at, &it)| it == block_of(from + at)),
                    "{tag}"
                );
            }
        });
    }
}

#[test]
fn a_read_past_the_end_fails_and_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    for (direct, len) in [(false, 2 * BLOCK), (true, 2 * BLOCK), (false, 6_000), (true, 6_000)] {
        let _ = std::fs::remove_file(folder.path().join("numbered"));
        let file = numbered(folder.path(), 2, direct);
        let path = folder.path().join("numbered");
        let write = FileAccess { write: true, direct: false };
        System.open(&path, write).unwrap().set_len(len as u64).unwrap();
        by_both(|reads| {
            let buffers = Buffers::new(16);
            for (tag, blocks, at) in [(1, 1, 0), (2, 3, 0), (3, 1, 9), (4, 1, 0), (5, 2, 1)] {
                reads.submit(tag, file.clone(), buffers.take(blocks * BLOCK), at * BLOCK as u64);
            }
            reads.flush().unwrap();
            for (tag, read) in ends(reads) {
                let expected = [1, 4].contains(&tag);
                assert_eq!(read.is_ok(), expected, "{tag} of {len}, direct {direct}: {read:?}");
                let kind = read.err().map(|it| it.kind());
                assert!(kind.is_none_or(|it| it == io::ErrorKind::UnexpectedEof), "{kind:?}");
            }
        });
    }
}

#[test]
fn files_without_a_descriptor_are_read_too_and_their_errors_are_told() {
    let dir = Path::new("/db");
    let disk = SimulatedDisk::with_dir(dir);
    let file = disk.create(&dir.join("one"), false).unwrap();
    file.write_at(&[9; BLOCK], 0).unwrap();
    by_both(|reads| {
        let buffers = Buffers::new(16);
        disk.inject(Injected { skip: 1, ..Injected::once(DiskOp::Read, 5) });
        for tag in 0..2 {
            reads.submit(tag, file.clone(), buffers.take(BLOCK), 0);
            reads.flush().unwrap();
            let ended = ends(reads);
            let read = ended[&tag].as_ref();
            assert_eq!(read.is_ok_and(|it| *it == [9; BLOCK]), tag == 0, "{read:?}");
        }
    });
}

#[test]
fn reads_dropped_under_way_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = numbered(folder.path(), 64, false);
    let buffers = Buffers::new(64);
    let threads = ReadThreads::start(2).unwrap();
    for _ in 0..50 {
        for reads in [Reads::by_pool(&threads), Reads::by_ring(8)] {
            let Ok(mut reads) = reads else { continue };
            for tag in 0..64_u64 {
                reads.submit(tag, file.clone(), buffers.take(BLOCK), tag * BLOCK as u64);
            }
            reads.flush().unwrap();
        }
    }
    drop(threads);
    assert_eq!(Arc::strong_count(&file), 1, "somebody still holds the file");
}

#[test]
fn waiting_for_nothing_returns_at_once() {
    by_both(|reads| {
        reads.wait().unwrap();
        reads.reap(&mut |tag, _| panic!("{tag} was never submitted")).unwrap();
    });
}
