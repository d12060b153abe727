//! One bash per page: a fresh directory, an environment of three variables, a network of its own.
//!
//! In that network every address of 127.0.0.0/8 and 10.0.0.0/8 is this machine, and no port is taken. Root makes it with
//! `unshare -n`, an ordinary user inside a user namespace. Where neither is allowed the start fails and says what helps.

use crate::server::{guira, own_directory};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A command that is not over after this time hangs.
const HANGS: Duration = Duration::from_secs(300);

/// The network: loopback is up, and the pages' addresses are there. Then the rest of the command line.
const NETWORK: &str = "ip link set lo up && ip route add local 10.0.0.0/8 dev lo && exec \"$@\"";

/// Where a page's commands run.
#[derive(Debug)]
pub struct Place {
    /// The root directory, if it is another.
    root: Option<PathBuf>,
    /// The page's directory, and beside it the files of what its commands print.
    base: PathBuf,
    path: String,
}

impl Place {
    /// A directory of this machine, with the built program on `PATH`.
    #[must_use]
    pub fn here() -> Self {
        let base = own_directory();
        fs::create_dir(base.join("bin")).expect("a fresh directory");
        symlink(guira(), base.join("bin/guira")).expect("a link to the program");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}/bin:{path}:/usr/sbin:/sbin", base.display());
        Self { root: None, base, path }.with_directories()
    }

    /// A directory below `root`, which is the commands' root directory and has the program.
    #[must_use]
    pub fn inside(root: &Path) -> Self {
        let name = own_directory();
        let base = root.join("tmp").join(name.file_name().expect("it has a name"));
        fs::create_dir_all(&base).expect("a directory in another root");
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into();
        Self { root: Some(root.into()), base, path }.with_directories()
    }

    fn with_directories(self) -> Self {
        for name in ["page", "out"] {
            fs::create_dir(self.base.join(name)).expect("a fresh directory");
        }
        self
    }

    /// The path of `name` as the commands see it.
    fn seen(&self, name: &str) -> String {
        let base = self.root.as_ref().and_then(|root| self.base.strip_prefix(root).ok());
        let base = base.map_or_else(|| self.base.clone(), |base| Path::new("/").join(base));
        base.join(name).display().to_string()
    }

    /// The command that starts the page's shell.
    fn command(&self) -> Command {
        let root = rustix::process::geteuid().is_root();
        let mut words: Vec<String> = Vec::new();
        let mut add = |more: &[&str]| words.extend(more.iter().map(ToString::to_string));
        add(&["-n"]);
        // An ordinary user keeps the capabilities until the network is up; the shell has none.
        if !root {
            add(&["-c", "--keep-caps"]);
        }
        add(&["--", "bash", "-c", NETWORK, "network"]);
        if !root {
            add(&["setpriv", "--inh-caps=-all", "--ambient-caps=-all"]);
        }
        if let Some(root) = &self.root {
            add(&["chroot", &root.display().to_string()]);
        }
        add(&["env", "-C", &self.seen("page"), "bash", "--noprofile", "--norc", "-s"]);
        let mut command = Command::new("unshare");
        command.args(words).env_clear().process_group(0);
        command.env("PATH", &self.path).env("HOME", self.seen("page")).env("LANG", "C.UTF-8");
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.base));
    }
}

/// A page's shell.
#[derive(Debug)]
pub struct Shell {
    child: Child,
    /// `None` once it was closed.
    commands: Option<ChildStdin>,
    /// The lines that mark the ends of commands.
    ends: Receiver<String>,
    place: Place,
    count: usize,
}

/// A command that has run, or runs in the background.
#[derive(Debug)]
pub struct Ran {
    printed: PathBuf,
    /// The command that failed, with its exit code.
    pub failed: Option<String>,
    /// A part of it runs in the background.
    pub goes_on: bool,
}

impl Ran {
    /// What it has printed so far, to standard output and to standard error.
    #[must_use]
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.printed).unwrap_or_default()).into_owned()
    }
}

impl Shell {
    /// Starts a shell at `place`.
    ///
    /// # Errors
    /// No network of its own is allowed here.
    pub fn start(place: Place) -> Result<Self, String> {
        let said = place.base.join("said");
        let errors = File::create(&said).map_err(|why| why.to_string())?;
        let mut command = place.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(|why| format!("unshare (util-linux): {why}"))?;
        let (sender, ends) = channel();
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let commands = child.stdin.take();
        let mut shell = Self { child, commands, ends, place, count: 0 };
        shell.run("true", false).map_err(|_| {
            let said = fs::read_to_string(&said).unwrap_or_default();
            format!(
                "a page runs in a network namespace of its own, and none can be made here: {said}\
                 Run the test as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
                 kernel.apparmor_restrict_unprivileged_userns=0). It needs unshare, setpriv and ip (util-linux, iproute2)."
            )
        })?;
        Ok(shell)
    }

    /// The page's directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.place.base.join("page")
    }

    /// Runs `script`; with `stays` its last command goes on in the background, as `$terminal`.
    ///
    /// # Errors
    /// It doesn't end, or ends the shell.
    pub fn run(&mut self, script: &str, stays: bool) -> Result<Ran, String> {
        self.count += 1;
        let name = format!("out/{}", self.count);
        let (seen, printed) = (self.place.seen(&name), self.place.base.join(&name));
        let behind = if stays { " & terminal=$!" } else { "" };
        let text = format!(
            "trap 'echo \"exit code $? of: $BASH_COMMAND\" > {seen}.failed' ERR\n\
             {{ :\n{script}{behind}\n}} > {seen} 2>&1 < /dev/null\n\
             trap - ERR\necho end\n"
        );
        let commands = self.commands.as_mut().expect("the shell is open");
        let sent = commands.write_all(text.as_bytes());
        let end = self.ends.recv_timeout(HANGS);
        let output = || fs::read_to_string(&printed).unwrap_or_default();
        if sent.is_err() || end.is_err() {
            return Err(format!("`{script}` ended the shell, or doesn't end: {}", output()));
        }
        let failed = fs::read_to_string(self.place.base.join(format!("{name}.failed"))).ok();
        let failed = failed.map(|text| text.trim_end().to_owned());
        let goes_on = stays || script.replace("&&", "").replace(">&", "").contains('&');
        Ok(Ran { printed, failed, goes_on })
    }
}

impl Drop for Shell {
    /// Ends the shell and all that it started.
    fn drop(&mut self) {
        drop(self.commands.take());
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::TERM);
        // A signal to the group fails once nobody is in it; the shell itself counts until it is waited for.
        for _ in 0..500 {
            let _ = self.child.try_wait();
            if rustix::process::test_kill_process_group(group).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = kill_process_group(group, Signal::KILL);
        drop(self.child.wait());
    }
}
