//! A memory file (`-e`) whose file system is smaller than `-m`, or that others have filled.
#![expect(clippy::disallowed_methods, reason = "a set that waits for room is told by a clock")]

use guira_tests::server::{Server, eventually};
use guira_tests::tmpfs::Tmpfs;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The flags that a user starts with, a small cache and a large one: their pages have 128 KiB, 64 KiB and 2 MiB.
const SIZES: [&[&str]; 3] = [&[], &["-m", "16"], &["-m", "1024"]];

fn stop(server: &mut Server) {
    server.signal(Signal::TERM);
    assert!(server.ended_within(20).is_some_and(|status| status.success()), "{}", server.said());
}

/// Each set once took half a second to fail, without a log line, and values of 10 kB never found room again.
#[test]
fn a_full_file_system_is_said_and_sets_fail_at_once_and_find_room_when_there_is_some() {
    for flags in SIZES {
        let tmpfs = Tmpfs::new(24);
        let path = tmpfs.path("memory");
        let server = tmpfs.start(&[&["-e", &path], flags].concat());
        tmpfs.fill();
        let mut client = server.connect();
        let value = vec![b'x'; 10_000];
        let begin = Instant::now();
        for n in 0..60 {
            let refused = "SERVER_ERROR out of memory storing object\r\n";
            assert_eq!(client.set(&format!("k{n}"), &value), refused, "{flags:?}");
        }
        // With half a second per set this would take 30 seconds.
        assert!(begin.elapsed() < Duration::from_secs(15), "{flags:?}: {:?}", begin.elapsed());
        let told = format!("WARN {path}: no room for more items: No space left on device");
        eventually("it says so", || server.said().contains(&told));
        assert!(server.said().contains("Make room on the file system"), "{}", server.said());
        tmpfs.make_room();
        for size in [10_000, 10, 100_000] {
            let value = vec![b'y'; size];
            eventually("there is room again", || client.set("k", &value) == "STORED\r\n");
            assert_eq!(client.get("k").as_deref(), Some(&value[..]), "{flags:?}");
        }
        eventually("it says so", || server.said().contains("there is room for items again"));
        // All of what is there: 10 MB. Room comes bit by bit while the file that took it is removed.
        eventually("all is kept", || {
            for n in 0..1000 {
                assert_eq!(client.set(&format!("k{n}"), &value), "STORED\r\n", "{flags:?} {n}");
            }
            (0..1000).all(|n| client.get(&format!("k{n}")).is_some())
        });
        assert_eq!(server.said().matches("no room for more items").count(), 1, "{}", server.said());
    }
}

/// What was stored before stays, and what comes takes its place.
#[test]
fn a_server_that_has_items_evicts_while_the_file_system_is_full() {
    let tmpfs = Tmpfs::new(24);
    let server = tmpfs.start(&["-e", &tmpfs.path("memory")]);
    let mut client = server.connect();
    let value = vec![b'x'; 10_000];
    let set =
        |client: &mut guira_tests::client::Client, n: usize| client.set(&format!("k{n}"), &value);
    for n in 0..300 {
        assert_eq!(set(&mut client, n), "STORED\r\n");
    }
    tmpfs.fill();
    for n in 300..1000 {
        assert_eq!(set(&mut client, n), "STORED\r\n", "{n}");
    }
    let there = |client: &mut guira_tests::client::Client| {
        (0..2000).filter(|n| client.get(&format!("k{n}")).is_some()).count()
    };
    // An evicted item's chunk is free again when all threads have moved on. Where the machine lets one of them wait, more
    // items go meanwhile: 300 stay as a rule, and 74 were seen to.
    assert!((20..400).contains(&there(&mut client)), "{}", there(&mut client));
    tmpfs.make_room();
    eventually("it says so", || server.said().contains("there is room for items again"));
    eventually("more are kept", || {
        for n in 1000..2000 {
            assert_eq!(set(&mut client, n), "STORED\r\n", "{n}");
        }
        there(&mut client) > 1000
    });
}

#[test]
fn a_file_system_that_is_smaller_than_the_memory_is_told_at_the_start() {
    for (flags, memory) in [(SIZES[0], Some(64)), (SIZES[1], None), (SIZES[2], Some(1024))] {
        let tmpfs = Tmpfs::new(24);
        let path = tmpfs.path("memory");
        let server = tmpfs.start(&[&["-e", &path], flags].concat());
        eventually("it has looked", || server.said().contains("starting empty: it is new"));
        let warning = "its file system has room for 2";
        match memory {
            None => assert!(!server.said().contains(warning), "{}", server.said()),
            Some(memory) => {
                let sizes = format!(" MB of items, -m allows {memory} MB");
                eventually("it says so", || server.said().contains(&sizes));
                let said = server.said();
                assert!(said.contains(warning) && said.contains("start with -m 2"), "{said}");
            }
        }
    }
}

/// The mark of a clean stop once found no room, because items had taken all of it. The next start then assumed a crash.
#[test]
fn a_clean_stop_is_marked_on_a_file_system_without_room() {
    for flags in SIZES {
        let tmpfs = Tmpfs::new(24);
        let path = tmpfs.path("memory");
        let flags = [&["-e", &path], flags].concat();
        let mut server = tmpfs.start(&flags);
        let mut client = server.connect();
        for n in 0..400 {
            assert_eq!(client.set(&format!("k{n}"), &[b'x'; 10_000]), "STORED\r\n");
        }
        tmpfs.fill();
        stop(&mut server);
        assert!(!server.said().contains("could not be marked"), "{}", server.said());
        let server = tmpfs.start(&flags);
        let kept = "items kept after a clean stop";
        eventually("it says so", || server.said().contains(kept));
        assert!(server.connect().get("k399").is_some());
    }
}

#[test]
fn a_file_system_without_room_for_a_new_memory_file_is_named() {
    let tmpfs = Tmpfs::new(24);
    tmpfs.fill();
    let path = tmpfs.path("memory");
    // The socket listens before the server looks at the file.
    let said = match tmpfs.try_start(&["-e", &path]) {
        Err(refused) => refused.said,
        Ok(mut server) => {
            assert!(server.ended_within(30).is_some(), "it serves");
            server.said()
        }
    };
    assert!(said.contains(&path) && said.contains("make room there"), "{said}");
}
