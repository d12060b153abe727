//! The real file system and the simulated one keep the same contract.

use guira_disk::{BLOCK, Buffer, Disk, FileAccess, SimulatedDisk, System};
use std::io::ErrorKind;
use std::path::Path;

const WRITE: FileAccess = FileAccess { write: true, direct: false };

/// Runs a test on a folder of the real file system, on a tmpfs if there is one, and on a simulated disk.
fn on_each(test: impl Fn(&dyn Disk, &Path)) {
    let folder = tempfile::tempdir().expect("no fault");
    test(&System, folder.path());
    match tempfile::tempdir_in("/dev/shm") {
        Ok(folder) => test(&System, folder.path()),
        Err(error) => eprintln!("SKIPPED: tmpfs is not tested: {error}"),
    }
    let dir = Path::new("/db");
    test(&SimulatedDisk::with_dir(dir), dir);
}

#[test]
fn what_is_written_is_read_again() {
    on_each(|disk, dir| {
        let path = dir.join("one");
        let file = disk.create(&path, false).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(b"ani", 5).unwrap();
        file.write_at(b"koel", 2).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(dir).unwrap();
        let again = disk.open(&path, FileAccess::default()).unwrap();
        let mut bytes = [9; 8];
        again.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"\0\0koelni");
        let past = again.read_at(&mut bytes, 1).unwrap_err();
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
        assert!(again.write_at(b"no", 0).is_err(), "the file is open for reading");
    });
}

#[test]
fn names_are_made_once_and_locks_are_held_once() {
    on_each(|disk, dir| {
        let [one, two, deep] = ["one", "two", "deep"].map(|it| dir.join(it));
        disk.create(&one, false).unwrap().write_at(b"1", 0).unwrap();
        let again = disk.create(&one, false).map(|_| ()).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        disk.link(&one, &two).unwrap();
        assert_eq!(disk.link(&one, &two).unwrap_err().kind(), ErrorKind::AlreadyExists);
        disk.make_dir(&deep).unwrap();
        disk.make_dir(&deep).unwrap();
        assert_eq!(disk.make_dir(&one).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(disk.list(dir).unwrap(), [deep, one.clone(), two.clone()]);
        disk.remove(&one).unwrap();
        assert_eq!(disk.remove(&one).unwrap_err().kind(), ErrorKind::NotFound);
        let gone = disk.open(&one, FileAccess::default()).map(|_| ()).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        disk.create(&one, false).unwrap().write_at(b"2", 0).unwrap();
        disk.rename(&one, &two).unwrap();
        let mut bytes = [0; 1];
        disk.open(&two, FileAccess::default()).unwrap().read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"2");

        let lock = dir.join("LOCK");
        let held = disk.lock(&lock).unwrap();
        assert_eq!(disk.lock(&lock).map(|_| ()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(held);
        disk.lock(&lock).unwrap();
        assert!(disk.free_bytes(dir).unwrap() > 1 << 20);
    });
}

#[test]
fn lengths_are_set_and_allocated_bytes_are_zeroes() {
    on_each(|disk, dir| {
        let file = disk.create(&dir.join("one"), false).unwrap();
        file.write_at(b"gone", 0).unwrap();
        file.set_len(1).unwrap();
        file.allocate(10_000).unwrap();
        file.allocate(5).unwrap();
        assert_eq!(file.len().unwrap(), 10_000);
        let mut bytes = vec![9; 10_000];
        file.read_at(&mut bytes, 0).unwrap();
        assert!(bytes[0] == b'g' && bytes[1..].iter().all(|&it| it == 0));
    });
}

#[test]
fn direct_files_move_whole_blocks_only() {
    on_each(|disk, dir| {
        let path = dir.join("one");
        let file = disk.create(&path, true).unwrap();
        let mut buffer = Buffer::zeroed(2 * BLOCK);
        buffer.fill(3);
        file.write_at(&buffer, BLOCK as u64).unwrap();
        file.sync_data().unwrap();
        let file = disk.open(&path, FileAccess { write: true, direct: true }).unwrap();
        let mut read = Buffer::zeroed(3 * BLOCK);
        file.read_at(&mut read, 0).unwrap();
        assert!(read[..BLOCK].iter().all(|&it| it == 0) && read[BLOCK..].iter().all(|&it| it == 3));
        let bad = [
            file.read_at(&mut read[..BLOCK], 1),
            file.read_at(&mut read[..100], 0),
            file.read_at(&mut read[8..BLOCK + 8], 0),
            file.write_at(&buffer[..BLOCK], 512),
        ];
        for refused in bad {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    });
}

#[test]
fn files_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (file, dir) = (folder.path().join("one"), folder.path().join("deep"));
    System.create(&file, false).unwrap();
    System.make_dir(&dir).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!([mode(&file), mode(&dir)], [0o600, 0o700]);
    let missing = System.open(&dir.join("none"), WRITE).map(|_| ()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}
