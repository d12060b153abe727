//! `guira route` with its configuration in a real etcd: watched, replaced, and used on while etcd is away.

use guira_tests::etcd::Etcd;
use guira_tests::server::{
    Address, Program, Server, free_port, guira, one_pool, own_directory, send_signal, within,
};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const KEY: &str = "/guira/route";

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// Three servers that hold their numbers under `k`.
fn numbered() -> [Server; 3] {
    [0, 1, 2].map(|n: u8| {
        let server = Server::start_tcp(Program::Memcached, &[]);
        server.connect().set("k", n.to_string().as_bytes());
        server
    })
}

fn router(config: &str, flags: &[&str]) -> Server {
    Server::start_router(&[&["--config", config], flags].concat())
}

fn pool_of(server: &Server) -> String {
    one_pool(&[server.port()])
}

#[test]
fn a_configuration_in_etcd_is_followed_and_the_last_good_one_kept() {
    let servers = numbered();
    let mut etcd = Etcd::start();
    etcd.put(KEY, &pool_of(&servers[0]));
    let kept = own_directory();
    let kept_text = text(&kept);
    // The first of the two isn't there.
    let config = format!("etcd:127.0.0.1:{},127.0.0.1:{}//guira/route", free_port(), etcd.port());
    let start = || router(&config, &["--config-dump-root", &kept_text]);
    let first = start();
    let mut client = first.connect();
    assert_eq!(client.get("k").as_deref(), Some(&b"0"[..]));
    etcd.put(KEY, &pool_of(&servers[1]));
    within(30, "the change is used", || client.get("k").as_deref() == Some(b"1"));
    etcd.put(KEY, "{\"route\": \"NoSuchRoute\"}");
    within(30, "the bad text is refused", || first.said().contains("NoSuchRoute"));
    assert_eq!(client.get("k").as_deref(), Some(&b"1"[..]));
    etcd.end();
    within(30, "the router knows", || first.said().contains("it is tried again"));
    assert_eq!(client.get("k").as_deref(), Some(&b"1"[..]), "without etcd too");
    let late = start();
    within(30, "it says so", || late.said().contains("the last good configuration is used"));
    assert_eq!(late.connect().get("k").as_deref(), Some(&b"1"[..]));
    etcd.restart();
    etcd.put(KEY, &pool_of(&servers[2]));
    within(30, "the change after the gap is used", || client.get("k").as_deref() == Some(b"2"));
    let mut of_late = late.connect();
    within(30, "by both routers", || of_late.get("k").as_deref() == Some(b"2"));
    drop([first, late]);
    fs::remove_dir_all(kept).expect("the directory is there");
}

#[test]
fn an_etcd_with_certificates_and_logins_is_followed_also_over_its_restart() {
    let servers = numbered();
    let mut etcd = Etcd::start_secured();
    etcd.put(KEY, &pool_of(&servers[0]));
    etcd.want_logins("read", KEY);
    let login = etcd.dir.join("login");
    let [authority, chain, key] = etcd.pems.clone().expect("TLS");
    let config = format!("etcds:localhost:{}//guira/route", etcd.port());
    let path = text(&login);
    let flags = ["--etcd-cacert", &authority, "--etcd-cert", &chain, "--etcd-key", &key];
    let flags = [&flags[..], &["--etcd-auth-file", &path, "--config-dump-root", ""]].concat();
    let refused = |flags: &[&str]| {
        let flags = [&["-p", "0", "--config", &config[..]], flags].concat();
        let refused = Server::start_at(Program::Router, &flags, Address::Tcp(free_port()));
        refused.expect_err("it has no configuration").said
    };
    fs::write(&login, "guira:wr0ng").expect("a file");
    let said = refused(&flags);
    assert!(said.contains("authentication failed") && !said.contains("wr0ng"), "{said}");
    let said = refused(&flags[..6]);
    assert!(said.contains("etcdserver: user name is empty"), "{said}");
    let said = refused(&flags[6..]);
    assert!(said.contains("give --etcd-cacert FILE"), "{said}");
    fs::write(&login, "guira:s3cret\n").expect("a file");
    let router = router(&config, &flags);
    let mut client = router.connect();
    assert_eq!(client.get("k").as_deref(), Some(&b"0"[..]));
    etcd.put(KEY, &pool_of(&servers[1]));
    within(30, "the change is used", || client.get("k").as_deref() == Some(b"1"));
    // A restarted etcd doesn't know the tokens that it gave before.
    etcd.end();
    within(30, "the router knows", || router.said().contains("it is tried again"));
    etcd.restart();
    etcd.put(KEY, &pool_of(&servers[2]));
    within(30, "the change after it is used", || client.get("k").as_deref() == Some(b"2"));
    assert!(!router.said().contains("s3cret"), "{}", router.said());
}

#[test]
fn clients_are_served_while_etcd_is_silent_and_a_signal_ends_the_router() {
    let servers = numbered();
    let etcd = Etcd::start();
    etcd.put(KEY, &pool_of(&servers[0]));
    let config = format!("etcd:127.0.0.1:{}//guira/route", etcd.port());
    let mut router = router(&config, &["--config-dump-root", ""]);
    assert_eq!(router.connect().get("k").as_deref(), Some(&b"0"[..]));
    etcd.signal(Signal::STOP);
    router.signal(Signal::HUP);
    within(30, "the signal is seen", || router.said().contains("SIGHUP: "));
    assert_eq!(router.connect().get("k").as_deref(), Some(&b"0"[..]), "who comes is served");
    assert!(!router.said().contains("Can not read config"), "it waits for etcd: {}", router.said());
    within(30, "the reload failed", || router.said().contains("Can not read config"));
    router.signal(Signal::HUP);
    router.signal(Signal::TERM);
    assert!(router.ended_within(30).expect("it ends").success());
    etcd.signal(Signal::CONT);
}

#[test]
fn a_hangup_while_the_first_configuration_is_read_ends_nothing() {
    let etcd = Etcd::start();
    etcd.signal(Signal::STOP);
    let config = format!("etcd:127.0.0.1:{}/k", etcd.port());
    let mut router = Command::new(guira());
    router.args(["route", "-p", "0", "--config", &config, "--config-dump-root", ""]);
    let mut router = router.stderr(Stdio::piped()).spawn().expect("guira runs");
    let status = format!("/proc/{}/status", router.id());
    within(30, "it listens to signals", || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        caught.is_some_and(|bits| bits & 1 == 1)
    });
    send_signal(router.id(), Signal::HUP);
    assert_eq!(router.wait().expect("it ends").code(), Some(2), "without a configuration");
    etcd.signal(Signal::CONT);
}

#[test]
fn a_change_between_the_load_and_the_watch_is_used() {
    let servers = numbered();
    let etcd = Etcd::start();
    etcd.put(KEY, &pool_of(&servers[0]));
    let config = format!("etcd:127.0.0.1:{}//guira/route", etcd.port());
    let spool = own_directory();
    let path = text(&spool);
    let flags = ["--config-dump-root", "", "-a", &path];
    servers[0].signal(Signal::STOP);
    // A delete is left for a server that is silent: the next router tries to send it between load and watch.
    let before = router(&config, &flags);
    assert_eq!(before.connect().ask("delete k"), "NOT_FOUND\r\n");
    drop(before);
    let router = router(&config, &flags);
    within(30, "it has loaded", || router.said().contains("configured with"));
    etcd.put(KEY, &pool_of(&servers[1]));
    let mut client = router.connect();
    within(30, "the change is used", || client.ask("get k").contains("\r\n1\r\n"));
    servers[0].signal(Signal::CONT);
    fs::remove_dir_all(spool).expect("the spool was written");
}
