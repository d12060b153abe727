//! `guira route`'s configuration in files: changed, bad, missing, kept.

use guira_tests::server::{
    Address, Program, Server, eventually, free_port, one_pool, own_directory,
};
use std::fs;
use std::time::{Duration, SystemTime};

/// A router that reads its configuration from a file.
fn router(path: &str, flags: &[&str]) -> Server {
    Server::start_router(&[&["-f", path], flags].concat())
}

fn memcached() -> (Server, u16) {
    let server = Server::start_tcp(Program::Memcached, &[]);
    let port = server.port();
    (server, port)
}

#[test]
fn a_reload_with_another_tko_tracker_takes_effect() {
    let ports = [free_port(), free_port(), free_port()];
    let dir = own_directory();
    let path = dir.join("route.json");
    let write = |tracker: &str| {
        let servers = ports.map(|port| format!("\"127.0.0.1:{port}\"")).join(",");
        let pool = format!("{{\"servers\": [{servers}]{tracker}}}");
        let config = format!(
            "{{\"pools\": {{\"A\": {pool}}}, \"route\": {{\"type\": \"AllSyncRoute\", \"children\": \"Pool|A\"}}}}"
        );
        fs::write(&path, config).expect("a file");
    };
    let tracker = |upper: u8| {
        format!(
            ", \"tko_tracker\": {{\"num_tko_threshold_upper\": {upper}, \"num_tko_threshold_lower\": 1}}"
        )
    };
    write(&tracker(1));
    let flags = ["--config-dump-root", "", "--reconfiguration-delay-ms", "0"];
    let router = router(path.to_str().expect("a path in UTF-8"), &flags);
    let mut client = router.connect();
    let mut marked = || {
        client.ask("get k");
        client.stat("num_hard_tko_count")
    };
    eventually("one is marked", || marked() == 1);
    eventually("the pool goes on", || router.connect().stat("num_fail_open_state_entered") == 1);
    for (n, (tracker, expect)) in [(tracker(2), 2), (String::new(), 3)].iter().enumerate() {
        assert_eq!(marked(), n as u64 + 1, "no more than may be");
        write(tracker);
        eventually("as many as may be are marked", || marked() == *expect);
    }
    fs::remove_dir_all(dir).expect("the directory is there");
}

#[test]
fn a_start_with_a_bad_configuration_needs_no_more_than_what_was_kept() {
    let (_memcached, port) = memcached();
    let dir = own_directory();
    let path = |name: &str| dir.join(name).to_str().expect("a path in UTF-8").to_owned();
    let (main, pools, kept) = (path("route.json"), path("pools.json"), path("kept"));
    fs::write(&pools, format!("{{\"A\": {{\"servers\": [\"127.0.0.1:{port}\"]}}}}"))
        .expect("a file");
    fs::write(&main, "{\"pools\": \"@import(pools.json)\", \"route\": \"PoolRoute|A\"}")
        .expect("a file");
    let start = || router(&main, &["--config-dump-root", &kept]);
    assert_eq!(start().connect().set("k", b"v"), "STORED\r\n");
    fs::remove_file(&pools).expect("it is there");
    let router = start();
    let says = || router.said().contains("the last good configuration is used instead");
    eventually("it says so", says);
    assert_eq!(router.connect().get("k").as_deref(), Some(&b"v"[..]));
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn a_reload_that_lacked_a_file_is_tried_again_when_the_file_comes() {
    let ((_first, first_port), (second, second_port)) = (memcached(), memcached());
    second.connect().set("k", b"second");
    let dir = own_directory();
    let path = |name: &str| dir.join(name).to_str().expect("a path in UTF-8").to_owned();
    let pools = |port: u16| format!("{{\"A\": {{\"servers\": [\"127.0.0.1:{port}\"]}}}}");
    let main = path("route.json");
    let write = |pools: &str| {
        let config = format!("{{\"pools\": {pools}, \"route\": \"PoolRoute|A\"}}");
        fs::write(&main, config).expect("a file");
    };
    write(&pools(first_port));
    let flags = ["--config-dump-root", "", "--reconfiguration-delay-ms", "0"];
    let router = router(&main, &flags);
    let mut client = router.connect();
    assert_eq!(client.get("k"), None);
    write("\"@import(later.json)\"");
    eventually("it is refused", || router.said().contains("the configuration in use stays"));
    assert_eq!(client.get("k"), None, "what was in use is");
    fs::write(path("later.json"), pools(second_port)).expect("a file");
    eventually("it is used", || client.get("k").as_deref() == Some(b"second"));
    fs::remove_dir_all(dir).expect("it is there");
}

/// A router started with a mistyped path served what another router had kept.
#[test]
fn what_one_source_left_stands_in_for_no_other() {
    let (_memcached, port) = memcached();
    let dir = own_directory();
    let path = |name: &str| dir.join(name).to_str().expect("a path in UTF-8").to_owned();
    let (good, other, kept, log) =
        (path("good.json"), path("other.json"), path("kept"), path("log"));
    let text = one_pool(&[port]);
    fs::write(&good, &text).expect("a file");
    let flags = ["--config-dump-root", &kept, "--reconfiguration-delay-ms", "0"];
    // The answer proves that the router has kept its configuration; a connection alone doesn't.
    assert_eq!(router(&good, &flags).connect().set("k", b"v"), "STORED\r\n");
    fs::write(&other, "{\"route\": \"NoSuchRoute\"}").expect("a file");
    let refused = |from: &[&str]| {
        let listen = free_port();
        let port = listen.to_string();
        let flags = [&["-p", &port], from, &flags].concat();
        let started = Server::start_at(Program::Router, &flags, Address::Tcp(listen));
        let refused = started.err().unwrap_or_else(|| panic!("{from:?} has no configuration"));
        refused.status.and_then(|status| status.code())
    };
    assert_eq!(refused(&["-f", &path("god.json")]), Some(2), "a mistyped path");
    assert_eq!(refused(&["-f", &other]), Some(3), "another file, which is bad");
    assert_eq!(refused(&["--config", "{\"route\": \"NoSuchRoute\"}"]), Some(3), "a bad text");
    let key = format!("etcd:127.0.0.1:{}/key", free_port());
    assert_eq!(refused(&["--config", &key]), Some(2), "an etcd that is away");

    fs::remove_file(&good).expect("it is there");
    let indirect = path("./good.json");
    let router = router(&indirect, &[&flags[..], &["-L", &log]].concat());
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let source = format!("the last good configuration is used instead: that of file:{good}, kept ");
    eventually("it says so", || said().contains(&source) && said().contains(" seconds ago"));
    let mut client = router.connect();
    assert_eq!(client.set("k", b"v"), "STORED\r\n");
    assert_eq!(client.stat_word("stats all", "configs_from_disk"), "1");
    fs::write(&good, &text).expect("a file");
    let is_own = || client.stat_word("stats all", "configs_from_disk") == "0";
    eventually("the file is used once it is back, though it says the same", is_own);
    fs::remove_dir_all(dir).expect("it is there");
}

/// A router that ran for half a day without a change left nothing behind that the next one could use.
#[test]
fn what_is_kept_is_as_old_as_the_last_time_that_its_source_had_it() {
    let (_memcached, port) = memcached();
    let dir = own_directory();
    let path = |name: &str| dir.join(name).to_str().expect("a path in UTF-8").to_owned();
    let (main, kept) = (path("route.json"), path("kept"));
    let text = one_pool(&[port]);
    fs::write(&main, &text).expect("a file");
    // The router saves it four times within the time in which it grows too old, and once per hour at least.
    let flags = ["--config-dump-root", &kept, "--max-dumped-config-age", "4"];
    let first = router(&main, &flags);
    assert_eq!(first.connect().set("k", b"v"), "STORED\r\n");
    let shelf = dir.join("kept/mcrouter/0");
    let file = fs::read_dir(&shelf).expect("it is kept").flatten().next().expect("a file").path();
    let age = || fs::metadata(&file).and_then(|file| file.modified()).map(|time| time.elapsed());
    let hours = Duration::from_secs(24 * 3600);
    let is_old = || matches!(age(), Ok(Ok(age)) if age > hours / 2);
    let grow_old = || {
        let opened = fs::File::options().write(true).open(&file).expect("it is there");
        opened.set_modified(SystemTime::now() - hours).expect("its owner may");
    };
    grow_old();
    eventually("it is kept anew", || !is_old());
    // While the source is away, nothing shows that the configuration is still valid.
    fs::rename(&main, path("away")).expect("it is there");
    grow_old();
    std::thread::sleep(Duration::from_secs(3));
    assert!(is_old(), "it was kept anew though its source is away");
    fs::rename(path("away"), &main).expect("it is there");
    eventually("it is kept anew", || !is_old());
    drop(first);
    fs::remove_file(&main).expect("it is there");
    let next = router(&main, &flags);
    eventually("it stands in", || next.said().contains("the last good configuration is used"));
    assert_eq!(next.connect().get("k").as_deref(), Some(&b"v"[..]));
    drop(next);
    fs::remove_dir_all(dir).expect("it is there");
}
