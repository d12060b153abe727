//! A PostgreSQL of a test's own, from Debian's package, or from the folder of programs that `POSTGRES_BIN` names.
//!
//! It refuses to be root's, so root's tests run it as nobody. Statements go through psql, one that stays for many of them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Signal, geteuid};

use crate::server::{Running, free_port, own_directory, send_signal, within};

/// The database; dropped, it is ended and its folder removed.
pub struct Postgres {
    child: Option<Running>,
    /// Its folder.
    pub dir: PathBuf,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

/// A session of psql.
pub struct Psql {
    _child: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Postgres {
    /// Starts one whose log has rows. Its superuser needs no password at the socket; at the port, users have one by SCRAM.
    ///
    /// # Panics
    /// If PostgreSQL isn't there, or doesn't start: with the package's name or its log.
    #[must_use]
    pub fn start() -> Self {
        let dir = own_directory();
        if geteuid().is_root() {
            chown(&dir, Some(NOBODY), Some(NOBODY)).expect("root may give a folder away");
        }
        let mut install = command("initdb");
        install.arg("-D").arg(dir.join("data"));
        install.args(["-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256"]);
        install.args(["--no-sync", "-E", "UTF8", "--locale=C"]);
        let done = as_nobody(&mut install).current_dir("/").output();
        let done = done.expect("initdb runs (apt-get install postgresql)");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mut database = Self { child: None, dir, port: free_port() };
        database.restart();
        database
    }

    /// Starts it again, after [`kill`](Self::kill).
    ///
    /// # Panics
    /// If it doesn't come up.
    pub fn restart(&mut self) {
        let log = std::fs::File::create(self.dir.join("log")).expect("a file for its log");
        let mut server = command("postgres");
        server.arg("-D").arg(self.dir.join("data")).arg("-k").arg(&self.dir);
        server.args(["-p", &self.port.to_string(), "-h", "127.0.0.1"]);
        for setting in ["wal_level=logical", "max_slot_wal_keep_size=1GB", "shared_buffers=16MB"] {
            server.args(["-c", setting]);
        }
        let child = as_nobody(&mut server).current_dir("/").stdout(Stdio::null()).stderr(log);
        self.child =
            Some(Running(child.spawn().expect("postgres runs (apt-get install postgresql)")));
        within(30, "PostgreSQL answers", || {
            let mut client = client(&self.dir, self.port);
            client.args(["-c", "SELECT 1"]).stdout(Stdio::null()).stderr(Stdio::null());
            client.status().is_ok_and(|status| status.success())
        });
    }

    /// Ends it at once, without a checkpoint: it has to recover.
    ///
    /// # Panics
    /// If it doesn't go.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        send_signal(child.0.id(), Signal::QUIT);
        within(30, "PostgreSQL is gone", || child.0.try_wait().is_ok_and(|it| it.is_some()));
    }

    /// Opens a session of its superuser.
    ///
    /// # Panics
    /// If psql isn't there.
    #[must_use]
    pub fn sql(&self) -> Psql {
        Self::sql_at(&self.dir, self.port)
    }

    /// As [`Self::sql`], for a thread that has only the database's folder and port.
    ///
    /// # Panics
    /// If psql isn't there.
    #[must_use]
    pub fn sql_at(dir: &Path, port: u16) -> Psql {
        let mut client = client(dir, port);
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("errors"));
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        client.stderr(errors.map_or_else(|_| Stdio::null(), Stdio::from));
        let mut child: Child = client.spawn().expect("psql runs (apt-get install postgresql)");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.expect("it is piped"));
        Psql { _child: Running(child), input: input.expect("it is piped"), output, asked: 0 }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

impl Psql {
    /// Executes statements and returns the rows, columns apart by tabs. `None`: the server is gone.
    pub fn try_ask(&mut self, statements: &str) -> Option<Vec<String>> {
        self.asked += 1;
        let mark = format!("-- asked {} --", self.asked);
        writeln!(self.input, "{statements};\n\\echo '{mark}'").ok()?;
        self.input.flush().ok()?;
        let mut rows = Vec::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            if line == mark {
                return Some(rows);
            }
            rows.push(line.to_owned());
        }
    }

    /// As [`Self::try_ask`].
    ///
    /// # Panics
    /// If the server is gone.
    pub fn ask(&mut self, statements: &str) -> Vec<String> {
        self.try_ask(statements).expect("PostgreSQL answers")
    }

    /// Sends statements and doesn't wait.
    ///
    /// # Panics
    /// If psql is gone.
    pub fn begin(&mut self, statements: &str) {
        writeln!(self.input, "{statements};").expect("psql reads");
        self.input.flush().expect("psql reads");
    }
}

fn client(dir: &Path, port: u16) -> Command {
    let mut client = command("psql");
    client.args(["-X", "-q", "-A", "-t", "-F", "\t", "-U", "postgres", "-d", "postgres"]);
    client.arg("-h").arg(dir).args(["-p", &port.to_string()]);
    client
}

/// A program of the newest PostgreSQL there is.
fn command(program: &str) -> Command {
    let newest = || {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
        let newest = versions.map(|entry| entry.path()).max_by_key(number);
        newest.map_or_else(|| PathBuf::from("/usr/bin"), |path| path.join("bin"))
    };
    let folder = std::env::var_os("POSTGRES_BIN").map_or_else(newest, PathBuf::from);
    let mut command = Command::new(folder.join(program));
    command.stdin(Stdio::null());
    command
}

fn as_nobody(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

const NOBODY: u32 = 65534;
