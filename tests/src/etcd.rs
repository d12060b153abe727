//! A real etcd of one member, with TLS and logins where a test wants them.

use crate::server::{free_port, own_directory, send_signal, within};
use crate::tls::Authority;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An etcd; it ends with it.
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    ports: [u16; 2],
    /// Its directory, where a test may leave files.
    pub dir: PathBuf,
    /// Authority, chain and key, under TLS.
    pub pems: Option<[String; 3]>,
    /// `user:password`, once logins are on.
    user: Option<&'static str>,
}

impl Etcd {
    /// Starts one, and waits until it answers.
    #[must_use]
    pub fn start() -> Self {
        Self::begin(own_directory(), None)
    }

    /// One that is spoken to over TLS, and wants to see a certificate.
    ///
    /// # Panics
    /// If a file can't be written.
    #[must_use]
    pub fn start_secured() -> Self {
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

    /// Where clients reach it, on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports[0]
    }

    /// Where its members would reach it.
    #[must_use]
    pub fn peer_port(&self) -> u16 {
        self.ports[1]
    }

    /// The value of a key.
    ///
    /// # Panics
    /// If etcdctl isn't there.
    #[must_use]
    pub fn value(&self, key: &str) -> String {
        let endpoint = format!("http://localhost:{}", self.ports[0]);
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3");
        command.args(["--endpoints", &endpoint, "get", key, "--print-value-only"]);
        let told = command.output().expect("etcdctl runs");
        String::from_utf8_lossy(&told.stdout).trim_end().to_owned()
    }

    /// Whether etcdctl does what `words` say.
    ///
    /// # Panics
    /// If etcdctl isn't there.
    #[must_use]
    pub fn ctl(&self, words: &[&str]) -> bool {
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

    /// Ends all leases, and their keys with them.
    ///
    /// # Panics
    /// If etcdctl isn't there.
    pub fn revoke_leases(&self) {
        let endpoint = format!("http://localhost:{}", self.ports[0]);
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &endpoint, "lease", "list"]);
        let told = command.output().expect("etcdctl runs");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        for lease in told.lines().filter(|line| line.len() == 16) {
            // It may have ended meanwhile.
            let _ = self.ctl(&["lease", "revoke", lease]);
        }
    }

    /// Writes a key.
    ///
    /// # Panics
    /// If etcd doesn't take it within 30 seconds.
    pub fn put(&self, key: &str, value: &str) {
        within(30, "etcd takes the text", || self.ctl(&["put", key, value]));
    }

    /// From now on only who logs in is answered: `guira`, with the password `s3cret`, may do what `right` says (`read`,
    /// `readwrite`) with the keys that begin with `prefix`.
    ///
    /// # Panics
    /// If etcdctl can't say so.
    pub fn want_logins(&mut self, right: &str, prefix: &str) {
        for words in [
            &["user", "add", "root:r00t"][..],
            &["user", "grant-role", "root", "root"],
            &["role", "add", "reader"],
            &["role", "grant-permission", "reader", right, prefix, "--prefix"],
            &["user", "add", "guira:s3cret"],
            &["user", "grant-role", "guira", "reader"],
            &["auth", "enable"],
        ] {
            assert!(self.ctl(words) || words[1..] == ["grant-role", "root", "root"], "{words:?}");
        }
        self.user = Some("root:r00t");
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(self.child.id(), signal);
    }

    /// Kills it.
    pub fn end(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// Starts it again, with nothing of what it had.
    ///
    /// # Panics
    /// If it doesn't answer within 30 seconds.
    pub fn lose_all(&mut self) {
        self.end();
        fs::remove_dir_all(self.dir.join("data")).ok();
        self.restart();
        within(30, "etcd answers", || self.ctl(&["endpoint", "health"]));
    }

    /// Starts it again, with what it had. It may not answer yet.
    pub fn restart(&mut self) {
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
