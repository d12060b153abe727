//! A MySQL 9 of a test's own: `tests/databases/get` extracts it into `target/databases`, once. `MYSQL9_ROOT` names another place.
//!
//! Not every machine can get it. Then its tests say so, loudly, and pass; with `GUIRA_DATABASES=required` they fail.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::{Signal, geteuid};

use crate::mariadb;
use crate::server::{
    Running, free_port, own_directory, send_signal, target_directory, within, workspace,
};
use crate::shop::Database;
use crate::sql::Sql;

/// The database; dropped, it is killed and its folder removed.
pub struct MySql {
    child: Option<Running>,
    /// Its folder.
    pub dir: PathBuf,
    /// Its port on 127.0.0.1.
    pub port: u16,
    flags: Vec<String>,
}

/// Whether there is one; says why not.
///
/// # Panics
/// If there is none and there must be.
#[must_use]
pub fn is_there() -> bool {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    let Some(why) = WHY.get_or_init(|| get().err()) else { return true };
    let is_required = std::env::var_os("GUIRA_DATABASES").is_some_and(|it| it == "required");
    assert!(!is_required, "mysql9 can't be had: {why}");
    // Tests' output is kept back unless they fail, but for what goes to the file itself.
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED mysql9: {why}");
    false
}

fn get() -> Result<(), String> {
    if std::env::var_os("MYSQL9_ROOT").is_none() {
        let mut get = Command::new(workspace().join("tests/databases/get"));
        let told = get.arg("mysql9").arg(root()).stdin(Stdio::null()).output();
        let told = told.map_err(|error| format!("tests/databases/get: {error}"))?;
        if !told.status.success() {
            let text = String::from_utf8_lossy(&told.stdout).into_owned();
            return Err(match text.lines().last() {
                Some(last) => last.to_owned(),
                None => format!("tests/databases/get: {}", told.status),
            });
        }
    }
    let told = command().arg("--version").output();
    match told.map(|told| told.status.success()) {
        Ok(true) => Ok(()),
        _ => Err(format!("{} can't be run, by nobody if this is root", root().display())),
    }
}

impl MySql {
    /// Starts one that logs rows as `guira invalidate` needs them, with more flags.
    ///
    /// # Panics
    /// If it doesn't start: with its log.
    #[must_use]
    pub fn start(flags: &[&str]) -> Self {
        let dir = own_directory();
        if geteuid().is_root() {
            chown(&dir, Some(NOBODY), Some(NOBODY)).expect("root may give a folder away");
        }
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut database = Self { child: None, dir, port: free_port(), flags };
        let mut install = database.server();
        install.args(["--initialize-insecure", "--skip-log-bin", "--innodb-flush-method=fsync"]);
        let done = install.output().expect("mysqld runs");
        assert!(done.status.success(), "{}", database.log());
        database.begin();
        database
    }

    fn server(&self) -> Command {
        let own = |path: &str| self.dir.join(path).display().to_string();
        let mut server = command();
        server.args([
            format!("--datadir={}", own("data")),
            format!("--tmpdir={}", own("")),
            format!("--log-error={}", own("log.err")),
        ]);
        server.args([
            "--secure-file-priv=NULL",
            "--mysqlx=OFF",
            "--performance-schema=OFF",
            "--innodb-doublewrite=OFF",
            "--loose-innodb-redo-log-capacity=8M",
            "--innodb-buffer-pool-size=32M",
        ]);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        server
    }

    fn begin(&mut self) {
        for left in ["s", "s.lock", "log.err"] {
            let _ = std::fs::remove_file(self.dir.join(left));
        }
        let mut server = self.server();
        server.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--server-id=1"]);
        server.args(["--log-bin=binlog", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL"]);
        server.args(["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--sync-binlog=1"]);
        server.args(["--binlog-rows-query-log-events=ON", "--innodb-flush-log-at-trx-commit=1"]);
        server.arg(format!("--socket={}", self.dir.join("s").display()));
        server.arg(format!("--pid-file={}", self.dir.join("pid").display()));
        server.arg(format!("--port={}", self.port));
        server.args(&self.flags);
        self.child = Some(Running(server.spawn().expect("mysqld runs")));
        within(60, "MySQL is ready", || {
            let child = self.child.as_mut().map(|child| child.0.try_wait());
            assert!(matches!(child, Some(Ok(None))), "{}", self.log());
            self.log().contains("ready for connections") && mariadb::answers(&self.dir)
        });
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log.err")).unwrap_or_default()
    }

    /// Makes the schema and the user.
    pub(crate) fn prepare(sql: &mut Sql, schema: &str) {
        sql.ask("CREATE DATABASE shop; USE shop");
        sql.ask(schema);
        sql.ask("CREATE USER guira@'%' IDENTIFIED BY 'secret'");
        sql.ask(
            "GRANT REPLICATION SLAVE ON *.* TO guira@'%'; GRANT REFERENCES ON shop.* TO guira@'%'",
        );
    }
}

impl Database for MySql {
    fn with(schema: &str) -> Self {
        let database = Self::start(&[]);
        Self::prepare(&mut database.opener()(), schema);
        database
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    /// By the socket: the server asks for the whole password at a first login.
    fn source(&self) -> String {
        let socket = self.dir.join("s");
        format!(r#""kind": "mysql", "hosts": ["{}"], "server_id": 4242"#, socket.display())
    }

    /// Sessions as root.
    fn opener(&self) -> impl Fn() -> Sql + Clone + Send + 'static {
        mariadb::opener(&self.dir)
    }

    /// As by the power's loss.
    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        send_signal(child.0.id(), Signal::KILL);
        within(30, "MySQL is gone", || child.0.try_wait().is_ok_and(|status| status.is_some()));
    }

    fn restart(&mut self) {
        self.begin();
    }

    fn end(sql: &mut Sql) -> String {
        sql.ask("SELECT @@global.gtid_executed").concat()
    }

    fn has_read(sql: &mut Sql, read: &str, end: &str) -> bool {
        sql.ask(&format!("SELECT GTID_SUBSET('{end}', '{read}')")) == ["1"]
    }
}

impl Drop for MySql {
    fn drop(&mut self) {
        self.child = None;
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

/// Where it lies.
fn root() -> PathBuf {
    let own = || target_directory().join("databases/mysql9");
    std::env::var_os("MYSQL9_ROOT").map_or_else(own, PathBuf::from)
}

/// As nobody, whom it doesn't refuse.
fn command() -> Command {
    let mut command = Command::new(root().join("mysqld"));
    command.current_dir("/");
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

const NOBODY: u32 = 65534;
