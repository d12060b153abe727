//! A PostgreSQL of a test's own, from Debian's package, or from the folder of programs that `POSTGRES_BIN` names.
//!
//! It refuses to be root's, so root's tests run it as nobody.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Signal, geteuid};

use crate::server::{Running, free_port, own_directory, send_signal, within};
use crate::shop::Database;
use crate::sql::Sql;

/// The database; dropped, it is ended and its folder removed.
pub struct Postgres {
    child: Option<Running>,
    /// Its folder.
    pub dir: PathBuf,
    /// Its port on 127.0.0.1.
    pub port: u16,
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
        database.begin();
        database
    }

    /// Starts a standby of this one, which has no slot.
    ///
    /// # Panics
    /// If it doesn't start.
    #[must_use]
    pub fn standby(&self) -> Self {
        let dir = own_directory();
        if geteuid().is_root() {
            chown(&dir, Some(NOBODY), Some(NOBODY)).expect("root may give a folder away");
        }
        let mut copy = command("pg_basebackup");
        copy.arg("-h").arg(&self.dir).args(["-p", &self.port.to_string(), "-U", "postgres"]);
        copy.arg("-D").arg(dir.join("data")).args([
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
        ]);
        let done = as_nobody(&mut copy).current_dir("/").output();
        let done = done.expect("pg_basebackup runs (apt-get install postgresql)");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mut database = Self { child: None, dir, port: free_port() };
        database.begin();
        database
    }

    fn begin(&mut self) {
        let log = std::fs::File::create(self.dir.join("log")).expect("a file for its log");
        let mut server = command("postgres");
        server.arg("-D").arg(self.dir.join("data")).arg("-k").arg(&self.dir);
        server.args(["-p", &self.port.to_string(), "-h", "127.0.0.1"]);
        for setting in [
            "wal_level=logical",
            "max_slot_wal_keep_size=1GB",
            "shared_buffers=16MB",
            "max_prepared_transactions=4",
        ] {
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
}

impl Database for Postgres {
    fn with(schema: &str) -> Self {
        let database = Self::start();
        let mut sql = database.opener()();
        sql.ask(schema);
        sql.ask("CREATE ROLE guira LOGIN REPLICATION PASSWORD 'secret'");
        sql.ask("CREATE PUBLICATION guira FOR ALL TABLES WITH (publish_via_partition_root = true)");
        let made = sql
            .ask("SELECT slot_name FROM pg_create_logical_replication_slot('guira', 'pgoutput')");
        assert_eq!(made, ["guira"]);
        database
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn source(&self) -> String {
        let port = self.port;
        format!(r#""kind": "postgres", "hosts": ["127.0.0.1:{port}"], "database": "postgres""#)
    }

    /// Sessions of its superuser.
    fn opener(&self) -> impl Fn() -> Sql + Clone + Send + 'static {
        let (dir, port) = (self.dir.clone(), self.port);
        move || {
            let mut client = client(&dir, port);
            let mut append = std::fs::OpenOptions::new();
            let errors = append.create(true).append(true).open(dir.join("errors"));
            client.stderr(errors.map_or_else(|_| Stdio::null(), Stdio::from));
            Sql::start(&mut client, "postgresql", |mark| format!("\\echo '{mark}'"))
        }
    }

    /// Without a checkpoint: it has to recover.
    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        send_signal(child.0.id(), Signal::QUIT);
        within(30, "PostgreSQL is gone", || child.0.try_wait().is_ok_and(|it| it.is_some()));
    }

    fn restart(&mut self) {
        self.begin();
    }

    fn end(sql: &mut Sql) -> String {
        sql.ask("SELECT pg_current_wal_insert_lsn()").concat()
    }

    fn has_read(sql: &mut Sql, read: &str, end: &str) -> bool {
        // What isn't a commit is in the log sooner or later.
        sql.try_ask("CHECKPOINT");
        lsn(read) >= lsn(end)
    }
}

/// A place in the log, as a number.
///
/// # Panics
/// If it is none.
#[must_use]
pub fn lsn(text: &str) -> u64 {
    let (high, low) = text.split_once('/').expect("a place in the log");
    let half = |text| u64::from_str_radix(text, 16).expect("a place in the log");
    half(high) << 32 | half(low)
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
        std::fs::remove_dir_all(&self.dir).ok();
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
