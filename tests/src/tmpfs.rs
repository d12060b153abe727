//! A small file system in memory, for servers that are to meet its end.
//!
//! It is mounted in a namespace of its own, which a sleeping process holds: nobody else sees it, and it's gone with that
//! process. Users other than root get a user namespace with it.

use crate::server::{Refused, Running, Server, own_directory};
use rustix::process::geteuid;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file system; dropped, it is gone.
#[derive(Debug)]
pub struct Tmpfs {
    holder: Running,
    at: PathBuf,
}

impl Tmpfs {
    /// One of so many MiB.
    ///
    /// # Panics
    /// If the system gives no namespace.
    #[must_use]
    pub fn new(mebibytes: u32) -> Self {
        let at = own_directory();
        let mut command = Command::new("unshare");
        command.args(if geteuid().is_root() { &[][..] } else { &["--user", "--map-root-user"] });
        let script = format!(
            "mount -t tmpfs -o size={mebibytes}m,mode=700 guira \"$0\" && echo && exec sleep 600"
        );
        command.args(["--mount", "sh", "-c", &script]).arg(&at);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut holder = Running(command.spawn().expect("unshare, of util-linux"));
        let mut said = [0];
        let told = holder.0.stdout.as_mut().map(|stdout| stdout.read_exact(&mut said));
        assert!(matches!(told, Some(Ok(()))), "no tmpfs in a namespace of its own");
        Self { holder, at }
    }

    /// A file of it, by the name that servers know it by.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.at.join(name).display().to_string()
    }

    /// The same file, for the test.
    #[must_use]
    pub fn here(&self, name: &str) -> PathBuf {
        let root = format!("/proc/{}/root", self.holder.0.id());
        let at = self.at.strip_prefix("/").expect("an absolute path");
        Path::new(&root).join(at).join(name)
    }

    /// `guira serve`, for which the file system is there; or `guira store`, if that is the first of the flags.
    ///
    /// # Panics
    /// If it doesn't come up; the message holds what it said.
    #[must_use]
    pub fn start(&self, flags: &[&str]) -> Server {
        self.try_start(flags).unwrap_or_else(|r| panic!("{flags:?} did not start: {r:?}"))
    }

    /// As `start`, for what is refused.
    ///
    /// # Errors
    /// What it said, if it ended before it listened.
    pub fn try_start(&self, flags: &[&str]) -> Result<Server, Refused> {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.holder.0.id().to_string(), "--mount"]);
        if !geteuid().is_root() {
            enter.args(["--user", "--preserve-credentials"]);
        }
        Server::start_through(enter, flags)
    }

    /// Takes all room that is left; [`Tmpfs::make_room`] gives it back.
    ///
    /// # Panics
    /// If it can't be written for another reason.
    pub fn fill(&self) {
        let mut zeroes = fs::File::open("/dev/zero").expect("a device");
        let mut file = fs::File::create(self.here("fill")).expect("a file without bytes");
        let filled = std::io::copy(&mut zeroes, &mut file).expect_err("it is small");
        assert_eq!(filled.kind(), std::io::ErrorKind::StorageFull);
    }

    /// Gives back what [`Tmpfs::fill`] took.
    ///
    /// # Panics
    /// If nothing was taken.
    pub fn make_room(&self) {
        fs::remove_file(self.here("fill")).expect("it was filled");
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // What is mounted there is the namespace's.
        fs::remove_dir(&self.at).ok();
    }
}
