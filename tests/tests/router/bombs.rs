//! Configurations that a running router must not take: it serves on, stays small, and takes the next good one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use guira_tests::server::{Program, Server, guira, within};

const MB: u64 = 1 << 20;

/// The most memory that a process has had, in bytes.
fn peak_bytes(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).expect("kB") * 1024
}

fn good(port: u16, timeout: u32) -> String {
    format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{port}\"], \"server_timeout\": {timeout}}}}}, \
         \"route\": \"PoolRoute|A\"}}"
    )
}

/// With a pool, and with these members.
fn with(members: &str) -> String {
    format!("{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:1\"]}}}}, {members}}}")
}

fn doubling(result: &str) -> String {
    let mut macros = "\"c0\": {\"type\": \"constDef\", \"result\": \"xxxxxxxx\"}".to_owned();
    for n in 1..60 {
        let result = result.replace('N', &(n - 1).to_string());
        macros.push_str(&format!(", \"c{n}\": {{\"type\": \"constDef\", \"result\": {result}}}"));
    }
    with(&format!("\"macros\": {{{macros}}}, \"route\": \"%c59%\""))
}

fn texts() -> Vec<(&'static str, String)> {
    let short = format!("\"route\": \"{}PoolRoute|A\"", "AllSyncRoute|".repeat(20_000));
    let handles: Vec<String> = (0..20_000).map(|n| format!("\"h{n}\": \"h{}\"", n + 1)).collect();
    let handles = format!("\"named_handles\": {{{}}}, \"route\": \"h0\"", handles.join(","));
    let numbers = format!("\"route\": [{}1]", "1,".repeat(4_000_000));
    let import = |what: &str| with(&format!("\"route\": \"@import({what})\""));
    vec![
        ("links", with(&short)),
        ("handles", with(&handles)),
        ("arrays", doubling("[\"%cN%\", \"%cN%\"]")),
        ("strings", doubling("\"%cN%%cN%\"")),
        ("numbers", with(&numbers)),
        ("brackets", "[".repeat(1_000_000)),
        ("zero", import("file:/dev/zero")),
        ("directory", import("file:/tmp")),
        ("self", import("route.json")),
        ("nothing", String::new()),
    ]
}

/// A router with its configuration in a file. When this is dropped, the router ends and the file is removed.
struct Started {
    router: Server,
    main: PathBuf,
    port: u16,
    _memcached: Server,
}

fn started() -> Started {
    let memcached = Server::start_tcp(Program::Memcached, &[]);
    let port = memcached.port();
    let main = memcached.dir().join("route.json");
    fs::write(&main, good(port, 1000)).expect("a file");
    let path = main.to_str().expect("a path in UTF-8");
    let router = Server::start_router(&["-f", path, "--config-dump-root", ""]);
    Started { router, main, port, _memcached: memcached }
}

/// Puts something in the configuration's place at once, as an editor does.
fn put(main: &Path, make: impl Fn(&Path)) {
    let fresh = main.with_extension("new");
    let _ = fs::remove_file(&fresh);
    make(&fresh);
    fs::rename(fresh, main).expect("a file to rename");
}

#[test]
fn a_running_router_refuses_bombs_and_takes_what_is_good_afterwards() {
    let Started { router, main, port, .. } = &started();
    let mut client = router.connect();
    assert_eq!(client.set("k", b"v"), "STORED\r\n");
    let before = peak_bytes(router);
    for (n, (name, text)) in texts().into_iter().enumerate() {
        let said = router.said().matches("the configuration in use stays").count();
        put(main, |fresh| fs::write(fresh, &text).expect("a file"));
        let is_refused = || router.said().matches("the configuration in use stays").count() > said;
        within(60, &format!("{name} is refused"), is_refused);
        assert_eq!(client.get("k").as_deref(), Some(&b"v"[..]), "{name}");
        let taken = router.said().matches("reconfigured with").count();
        let timeout = 2000 + u32::try_from(n).expect("few");
        put(main, |fresh| fs::write(fresh, good(*port, timeout)).expect("a file"));
        let is_taken = || router.said().matches("reconfigured with").count() > taken;
        within(60, &format!("what is good after {name} is taken"), is_taken);
        let peak = peak_bytes(router);
        assert!(peak < before + (64 + 64) * MB, "{name}: {} MB", peak / MB);
    }
}

#[test]
fn a_file_that_never_ends_in_the_configuration_s_place_is_passed_over() {
    let Started { router, main, port, .. } = &started();
    let makers: [fn(&Path); 3] = [
        |at| assert!(Command::new("mkfifo").arg(at).status().expect("mkfifo").success()),
        |at| symlink("/dev/zero", at).expect("a link"),
        |at| fs::File::create(at).and_then(|file| file.set_len(1 << 40)).expect("a sparse file"),
    ];
    for (n, make) in makers.into_iter().enumerate() {
        put(main, make);
        // Long enough for several looks at the file: whoever opens it has done so by then.
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert_eq!(router.connect().set("k", b"v"), "STORED\r\n");
        let start =
            Command::new(guira()).args(["route", "--validate-config", "-f"]).arg(main).output();
        assert_eq!(start.expect("guira runs").status.code(), Some(2), "number {n}");
        let taken = router.said().matches("reconfigured with").count();
        let timeout = 3000 + u32::try_from(n).expect("few");
        put(main, |fresh| fs::write(fresh, good(*port, timeout)).expect("a file"));
        let is_taken = || router.said().matches("reconfigured with").count() > taken;
        within(60, &format!("what is good after number {n} is taken"), is_taken);
    }
}
