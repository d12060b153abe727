//! `guira route` with its configuration in a real etcd: watched, replaced, and used on while etcd is away.

use guira_tests::server::{
    Address, Program, Server, free_port, guira, own_directory, send_signal, within,
};
use guira_tests::tls::Authority;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Etcd {
    child: Child,
    ports: [u16; 2],
    dir: PathBuf,
    /// Authority, chain and key, under TLS.
    pems: Option<[String; 3]>,
    /// `user:password`, once logins are on.
    user: Option<&'static str>,
}

impl Etcd {
    fn start() -> Self {
        Self::begin(own_directory(), None)
    }

    /// One that is spoken to over TLS, and wants to see a certificate.
    fn start_secured() -> Self {
        let dir = own_directory();
        let authority = Authority::new("the test's authority");
        let authority_path = dir.join("authority.pem");
        fs::write(&authority_path, &authority.pem).expect("a file");
        // With logins on, etcd's gateway refuses whoever shows a certificate with a common name.
        let [chain, key] = authority.identity("").write(&dir);
        Self::begin(dir, Some([authority_path, chain, key].map(|path| text(&path))))
    }

    fn begin(dir: PathBuf, pems: Option<[String; 3]>) -> Self {
        let ports = [free_port(), free_port()];
        let child = Self::child(ports, &dir, pems.as_ref());
        let etcd = Self { child, ports, dir, pems, user: None };
        within(30, "etcd answers", || etcd.ctl(&["endpoint", "health"]));
        etcd
    }

    fn child(ports: [u16; 2], dir: &Path, pems: Option<&[String; 3]>) -> Child {
        let scheme = if pems.is_some() { "https" } else { "http" };
        let clients = format!("{scheme}://127.0.0.1:{}", ports[0]);
        let peers = format!("http://127.0.0.1:{}", ports[1]);
        let mut command = Command::new("etcd");
        if let Some([authority, chain, key]) = pems {
            command.args(["--cert-file", chain, "--key-file", key]);
            command.args(["--client-cert-auth", "--trusted-ca-file", authority]);
        }
        command
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}")])
            .arg("--data-dir")
            .arg(dir.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd runs (apt-get install etcd-server etcd-client)")
    }

    fn ctl(&self, words: &[&str]) -> bool {
        let mut command = Command::new("etcdctl");
        let scheme = if self.pems.is_some() { "https" } else { "http" };
        command.env("ETCDCTL_API", "3");
        command.args(["--endpoints", &format!("{scheme}://localhost:{}", self.ports[0])]);
        if let Some([authority, chain, key]) = &self.pems {
            command.args(["--cacert", authority, "--cert", chain, "--key", key]);
        }
        if let Some(user) = self.user {
            command.args(["--user", user]);
        }
        let done = command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.expect("etcdctl runs").success()
    }

    fn put(&self, config: &str) {
        within(30, "etcd takes the text", || self.ctl(&["put", "/guira/route", config]));
    }

    /// From now on only who logs in is answered: `guira`, with the password `s3cret`, may read.
    fn want_logins(&mut self) {
        for words in [
            &["user", "add", "root:r00t"][..],
            &["user", "grant-role", "root", "root"],
            &["role", "add", "reader"],
            &["role", "grant-permission", "reader", "read", "/guira/route"],
            &["user", "add", "guira:s3cret"],
            &["user", "grant-role", "guira", "reader"],
            &["auth", "enable"],
        ] {
            assert!(self.ctl(words) || words[1..] == ["grant-role", "root", "root"], "{words:?}");
        }
        self.user = Some("root:r00t");
    }

    fn end(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    fn restart(&mut self) {
        self.child = Self::child(self.ports, &self.dir, self.pems.as_ref());
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.end();
        fs::remove_dir_all(&self.dir).ok();
    }
}

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
    let Address::Tcp(port) = server.address() else { panic!("a port") };
    format!(
        "{{\"pools\": {{\"A\": {{\"servers\": [\"127.0.0.1:{port}\"]}}}}, \"route\": \"PoolRoute|A\"}}"
    )
}

#[test]
fn a_configuration_in_etcd_is_followed_and_the_last_good_one_kept() {
    let servers = numbered();
    let mut etcd = Etcd::start();
    etcd.put(&pool_of(&servers[0]));
    let kept = own_directory();
    let kept_text = text(&kept);
    // The first of the two isn't there.
    let config = format!("etcd:127.0.0.1:{},127.0.0.1:{}//guira/route", free_port(), etcd.ports[0]);
    let start = || router(&config, &["--config-dump-root", &kept_text]);
    let first = start();
    let mut client = first.connect();
    assert_eq!(client.get("k").as_deref(), Some(&b"0"[..]));
    etcd.put(&pool_of(&servers[1]));
    within(30, "the change is used", || client.get("k").as_deref() == Some(b"1"));
    etcd.put("{\"route\": \"NoSuchRoute\"}");
    within(30, "the bad text is refused", || first.said().contains("NoSuchRoute"));
    assert_eq!(client.get("k").as_deref(), Some(&b"1"[..]));
    etcd.end();
    within(30, "the router knows", || first.said().contains("it is tried again"));
    assert_eq!(client.get("k").as_deref(), Some(&b"1"[..]), "without etcd too");
    let late = start();
    within(30, "it says so", || late.said().contains("the last good configuration is used"));
    assert_eq!(late.connect().get("k").as_deref(), Some(&b"1"[..]));
    etcd.restart();
    etcd.put(&pool_of(&servers[2]));
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
    etcd.put(&pool_of(&servers[0]));
    etcd.want_logins();
    let login = etcd.dir.join("login");
    let [authority, chain, key] = etcd.pems.clone().expect("TLS");
    let config = format!("etcds:localhost:{}//guira/route", etcd.ports[0]);
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
    etcd.put(&pool_of(&servers[1]));
    within(30, "the change is used", || client.get("k").as_deref() == Some(b"1"));
    // An etcd that starts knows no tokens from before.
    etcd.end();
    within(30, "the router knows", || router.said().contains("it is tried again"));
    etcd.restart();
    etcd.put(&pool_of(&servers[2]));
    within(30, "the change after it is used", || client.get("k").as_deref() == Some(b"2"));
    assert!(!router.said().contains("s3cret"), "{}", router.said());
}

#[test]
fn clients_are_served_while_etcd_is_silent_and_a_signal_ends_the_router() {
    let servers = numbered();
    let etcd = Etcd::start();
    etcd.put(&pool_of(&servers[0]));
    let config = format!("etcd:127.0.0.1:{}//guira/route", etcd.ports[0]);
    let mut router = router(&config, &["--config-dump-root", ""]);
    assert_eq!(router.connect().get("k").as_deref(), Some(&b"0"[..]));
    send_signal(etcd.child.id(), Signal::STOP);
    router.signal(Signal::HUP);
    within(30, "the signal is seen", || router.said().contains("SIGHUP: "));
    assert_eq!(router.connect().get("k").as_deref(), Some(&b"0"[..]), "who comes is served");
    assert!(!router.said().contains("Can not read config"), "it waits for etcd: {}", router.said());
    within(30, "the reload failed", || router.said().contains("Can not read config"));
    router.signal(Signal::HUP);
    router.signal(Signal::TERM);
    assert!(router.ended_within(30).expect("it ends").success());
    send_signal(etcd.child.id(), Signal::CONT);
}

#[test]
fn a_hangup_while_the_first_configuration_is_read_ends_nothing() {
    let etcd = Etcd::start();
    send_signal(etcd.child.id(), Signal::STOP);
    let config = format!("etcd:127.0.0.1:{}/k", etcd.ports[0]);
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
    send_signal(etcd.child.id(), Signal::CONT);
}

#[test]
fn a_change_between_the_load_and_the_watch_is_used() {
    let servers = numbered();
    let etcd = Etcd::start();
    etcd.put(&pool_of(&servers[0]));
    let config = format!("etcd:127.0.0.1:{}//guira/route", etcd.ports[0]);
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
    etcd.put(&pool_of(&servers[1]));
    let mut client = router.connect();
    within(30, "the change is used", || client.ask("get k").contains("\r\n1\r\n"));
    servers[0].signal(Signal::CONT);
    fs::remove_dir_all(spool).expect("the spool was written");
}
