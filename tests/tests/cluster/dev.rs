//! `guira cluster dev`: a whole cluster by one command, with the real etcd.

use guira_tests::client::Client;
use guira_tests::replicas::Turn;
use guira_tests::server::{
    Address, Running, accepts, free_ports, guira, own_directory, send_signal, within,
};
use rustix::process::Signal;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command, its directory, and the router's port.
struct Dev {
    running: Running,
    said: PathBuf,
    port: u16,
}

impl Dev {
    fn start(dir: &Path, port: u16) -> Self {
        Self::start_with(dir, port, &mut Command::new(guira()))
    }

    fn start_with(dir: &Path, port: u16, command: &mut Command) -> Self {
        let said = dir.with_extension("said");
        let file = File::create(&said).expect("a file");
        command.args(["cluster", "dev", "--nodes", "2", "-p", &port.to_string(), "-d"]).arg(dir);
        command.stdin(Stdio::null()).stderr(file.try_clone().expect("a file")).stdout(file);
        Self { running: Running(command.spawn().expect("guira runs")), said, port }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    fn until_whole(&self) {
        within(240, "the cluster is whole", || self.said().contains("In another terminal:"));
    }

    fn client(&self) -> Client {
        Client::connect(&Address::Tcp(self.port))
    }

    /// The process that the hint names, which is n1's.
    fn pid_of_n1(&self) -> u32 {
        let said = self.said();
        let (_, rest) = said.split_once("kill -9 ").expect("a hint");
        rest.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
    }

    fn end(mut self) {
        send_signal(self.running.0.id(), Signal::INT);
        let mut code = None;
        within(60, "it ends", || {
            code = self.running.0.try_wait().expect("a status").map(|status| status.code());
            code.is_some()
        });
        assert_eq!(code, Some(Some(0)), "{}", self.said());
        for port in [self.port, self.port + 1, self.port + 11, self.port + 12] {
            assert!(!accepts(&Address::Tcp(port)), "{port} still listens");
        }
    }
}

/// A port with free ones above it, as the command takes them.
fn base() -> u16 {
    free_ports(50)
}

#[test]
fn one_command_starts_a_cluster_that_outlives_its_nodes_and_itself() {
    let _turn = Turn::take();
    let dir = own_directory().join("birds");
    let port = base();
    let dev = Dev::start(&dir, port);
    dev.until_whole();
    assert_eq!(dev.client().ask("set hello 0 0 5\r\nworld"), "STORED\r\n", "{}", dev.said());
    // What the router owes to servers stays with its cluster.
    assert!(dir.join("router/spool").is_dir());
    // A node that is killed is told, with what starts it again; items are there without it.
    send_signal(dev.pid_of_n1(), Signal::KILL);
    within(20, "it tells", || dev.said().contains("n1 has ended (signal: 9"));
    assert!(dev.said().contains("--name n1 --peers"), "{}", dev.said());
    within(60, "the value is there", || {
        dev.client().ask("get hello").starts_with("VALUE hello 0 5\r\nworld")
    });
    // A second one in its place says why it can't be there.
    let second = Command::new(guira())
        .args(["cluster", "dev", "-p", &port.to_string(), "-d"])
        .arg(dir.with_extension("other"))
        .output()
        .expect("guira runs");
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{words}");
    assert!(words.contains(&format!("port {port}, for the router, can't be used")), "{words}");
    dev.end();
    // The next one has both nodes and the items of the last one.
    let dev = Dev::start(&dir, port);
    dev.until_whole();
    within(30, "the value is there", || {
        dev.client().ask("get hello").starts_with("VALUE hello 0 5\r\nworld")
    });
    dev.end();
    fs::remove_dir_all(dir.parent().expect("a parent")).ok();
}

#[test]
fn a_part_that_cannot_start_is_named_with_what_it_said() {
    let dir = own_directory().join("birds");
    let run = |path: &Path| {
        let mut command = Command::new(guira());
        command.args(["cluster", "dev", "-p", &base().to_string(), "-d"]).arg(&dir);
        let output = command.env("PATH", path).output().expect("guira runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, words) = run(Path::new("/nonexistent"));
    assert!(code == Some(2) && words.contains("apt-get install etcd-server"), "{words}");
    // An etcd that ends at once.
    let tools = dir.join("tools");
    fs::create_dir_all(&tools).expect("a directory");
    std::os::unix::fs::symlink("/bin/false", tools.join("etcd")).expect("a link");
    let (code, words) = run(&tools);
    assert!(code == Some(2) && words.contains("etcd has ended (exit status: 1)"), "{words}");
    // One that takes long is waited for.
    fs::remove_file(tools.join("etcd")).expect("it was there");
    fs::write(tools.join("etcd"), "#!/bin/sh\nexec /bin/sleep 1000\n").expect("a file");
    fs::set_permissions(tools.join("etcd"), Permissions::from_mode(0o755)).expect("an owner");
    let dev = Dev::start_with(&dir, base(), Command::new(guira()).env("PATH", &tools));
    within(60, "it tells", || dev.said().contains("It still waits: etcd doesn't answer yet."));
    dev.end();
    fs::remove_dir_all(dir.parent().expect("a parent")).ok();
}
