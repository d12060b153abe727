//! The user that a server becomes when root starts it (`-u`).

use guira_tests::server::{Address, Running, accepts, eventually, free_port, guira, own_directory};
use rustix::process::geteuid;
use std::fs;
use std::process::{Command, Stdio};

/// `guira serve -u USER` by root, where a shell script has prepared what is below `/etc`, for this process alone. `$0` is
/// a directory with files of users and groups.
fn start(script: &str, user: &str) -> (Running, Address) {
    let dir = own_directory();
    let users = "root:x:0:0::/root:/bin/sh\nguira-test:x:4242:4343::/:/bin/false\n";
    fs::write(dir.join("passwd"), users).expect("a file");
    let groups = "root:x:0:\nown:x:4343:\nextra:x:4444:other,guira-test\nothers:x:4445:other\n";
    fs::write(dir.join("group"), groups).expect("a file");
    let port = free_port();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{script} && exec \"$@\"")]).arg(&dir);
    command.arg(guira()).args(["serve", "-l", "127.0.0.1", "-p", &port.to_string(), "-u", user]);
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    (Running(child.expect("unshare, of util-linux")), Address::Tcp(port))
}

/// The numbers of a line of `/proc/PID/status`.
fn ids(server: &Running, name: &str) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{}/status", server.0.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel's line");
    line.split_whitespace().map(|id| id.parse().expect("a number")).collect()
}

const OTHER_USERS: &str = "mount --bind $0/passwd /etc/passwd && mount --bind $0/group /etc/group";
const NO_USERS: &str = "mount -t tmpfs none /etc";

/// The server once had no supplementary groups, so it couldn't read a key that a group may read.
#[test]
fn a_server_has_the_groups_of_its_user_and_no_others() {
    if !geteuid().is_root() {
        eprintln!("left out: only root may become another user");
        return;
    }
    for (script, user, uid, groups) in [
        (OTHER_USERS, "guira-test", 4242, &[4343, 4444][..]),
        (OTHER_USERS, "4242", 4242, &[4343, 4444]),
        (OTHER_USERS, "4711", 4711, &[4711]),
        (NO_USERS, "4711", 4711, &[4711]),
    ] {
        let (server, address) = start(script, user);
        eventually("it serves", || accepts(&address));
        assert_eq!(ids(&server, "Uid:"), [uid; 4], "{script} {user}");
        let gid = if uid == 4242 { 4343 } else { uid };
        assert_eq!(ids(&server, "Gid:"), [gid; 4], "{script} {user}");
        assert_eq!(ids(&server, "Groups:"), groups, "{script} {user}");
    }
    for script in [OTHER_USERS, NO_USERS] {
        let (mut server, _) = start(script, "nobody-of-this-name");
        let status = server.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(67), "{script}");
    }
}
