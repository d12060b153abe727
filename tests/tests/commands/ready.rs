//! What server and router say once they serve: it is true, and what it tells people to type works.

use guira_tests::server::{
    Address, Program, Running, Server, accepts, command, eventually, free_port, guira,
    own_directory, send_signal,
};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

/// The line with `mark` in what it said.
fn line(server: &Server, mark: &str) -> String {
    eventually(mark, || server.said().contains(mark));
    let said = server.said();
    said.lines().find(|line| line.contains(mark)).unwrap_or_default().to_owned()
}

/// Types what stands behind `try: `.
fn try_it(line: &str) {
    let (_, typed) = line.split_once("try: guira ").expect("it says what to type");
    let typed = typed.split(';').next().unwrap_or_default();
    let output = Command::new(guira()).args(typed.split(' ')).output().expect("it runs");
    assert!(output.status.success(), "{typed}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_server_says_where_it_is_and_what_to_type() {
    for (more, memory) in [(&[][..], 64), (&["-m", "64"], 64), (&["-m", "1024"], 1024)] {
        let server = Server::start_tcp(Program::Guira, more);
        let port = server.port();
        let ready = line(&server, "guira 0.1.0 ready: ");
        let place = format!("127.0.0.1:{port} (this machine only; -l '*' for all), ");
        let size = format!("{memory} MB for items, 4 threads");
        assert!(ready.ends_with(&format!("{place}{size}")), "{ready}");
        try_it(&line(&server, "try: "));
    }
    let server = Server::start(Program::Guira, &["-t", "1"]);
    let ready = line(&server, "guira 0.1.0 ready: unix:");
    assert!(ready.ends_with("/socket, 64 MB for items, 1 thread"), "{ready}");
    try_it(&line(&server, "try: "));
}

#[test]
fn a_server_that_strangers_reach_says_that() {
    let port = free_port();
    let flags = ["-l", "*", "-p", &port.to_string()];
    let server = Server::start_at(Program::Guira, &flags, Address::Tcp(port)).unwrap();
    let ready = line(&server, " ready: ");
    assert!(!ready.contains("this machine only") && ready.contains("0.0.0.0:"), "{ready}");
    assert!(server.said().contains("is open to whoever reaches this machine"));
    try_it(&line(&server, "try: "));
}

/// Like memcached, it says nothing when it starts.
#[test]
fn under_memcacheds_name_no_start_is_told_of() {
    let dir = own_directory();
    let memcached = dir.join("memcached");
    symlink(guira(), &memcached).unwrap();
    let said = File::create(dir.join("said")).unwrap();
    let flags =
        command(Program::Guira).get_args().skip(1).map(ToOwned::to_owned).collect::<Vec<_>>();
    let mut server = Command::new(&memcached);
    server.args(flags).arg("-s").arg(dir.join("s")).stderr(said).stdout(Stdio::null());
    let server = Running(server.spawn().unwrap());
    eventually("it serves", || accepts(&Address::Unix(dir.join("s"))));
    // An orderly end writes what the log has.
    send_signal(server.0.id(), Signal::TERM);
    eventually("it ends", || !accepts(&Address::Unix(dir.join("s"))));
    let said = fs::read_to_string(dir.join("said")).unwrap();
    assert!(!said.contains("ready") && !said.contains("try:"), "{said}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn in_the_background_nothing_is_said() {
    let dir = own_directory();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let flags = ["-d", "-v", "-s", &path("s"), "-P", &path("pid")];
    let said = File::create(dir.join("said")).unwrap();
    let status = command(Program::Guira).args(flags).stderr(said).status().unwrap();
    assert!(status.success(), "{status:?}");
    let pid = fs::read_to_string(path("pid")).unwrap().trim().parse().unwrap();
    eventually("it serves", || accepts(&Address::Unix(path("s").into())));
    send_signal(pid, Signal::TERM);
    eventually("it ends", || !accepts(&Address::Unix(path("s").into())));
    let said = fs::read_to_string(path("said")).unwrap();
    assert!(!said.contains("ready") && !said.contains("try:"), "{said}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_router_says_what_to_type_unless_it_is_mcrouter() {
    let config = ["--config", r#"{"route": "NullRoute"}"#];
    let router = Server::start_router(&config);
    let ready = line(&router, "guira 0.1.0 ready with ");
    assert!(ready.contains("thread") && ready.contains("SIGUSR1"), "{ready}");
    try_it(&ready);
    let dir = own_directory();
    symlink(guira(), dir.join("mcrouter")).unwrap();
    let port = free_port();
    let said = File::create(dir.join("said")).unwrap();
    let mut mcrouter = Command::new(dir.join("mcrouter"));
    mcrouter.args(["-p", &port.to_string(), "--listen-addresses", "127.0.0.1"]).args(config);
    mcrouter.args(["--config-dump-root", ""]).stderr(said).stdout(Stdio::null());
    let mcrouter = Running(mcrouter.spawn().unwrap());
    let is_up =
        || fs::read_to_string(dir.join("said")).is_ok_and(|said| said.contains("listening on"));
    eventually("it serves", is_up);
    send_signal(mcrouter.0.id(), Signal::TERM);
    eventually("it ends", || !accepts(&Address::Tcp(port)));
    let said = fs::read_to_string(dir.join("said")).unwrap();
    assert!(!said.contains("ready") && !said.contains("try:"), "{said}");
    fs::remove_dir_all(dir).unwrap();
}
