//! A MariaDB of a test's own, from Debian's packages: installed ones, or extracted below the folder that `MARIADB_ROOT` names.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Signal, geteuid};

use crate::server::{Running, free_port, own_directory, send_signal, within};
use crate::shop::Database;
use crate::sql::Sql;

/// The database; dropped, it is killed and its folder removed.
pub struct MariaDb {
    child: Option<Running>,
    /// Its folder.
    pub dir: PathBuf,
    /// Its port on 127.0.0.1.
    pub port: u16,
    flags: Vec<String>,
}

impl MariaDb {
    /// Starts one that logs rows as `guira invalidate` needs them, with more flags.
    ///
    /// # Panics
    /// If MariaDB isn't there, or doesn't start: with the package's name or its log.
    #[must_use]
    pub fn start(flags: &[&str]) -> Self {
        let dir = own_directory();
        let data = dir.join("data");
        std::fs::create_dir_all(&data).expect("a folder for the data");
        std::fs::create_dir_all(dir.join("tmp")).expect("a folder for temporary files");
        let mut install = command("usr/bin/mariadb-install-db");
        install.args([
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        install.args([
            format!("--basedir={}", root().join("usr").display()),
            "--builddir=".to_owned(),
        ]);
        install.arg(format!("--datadir={}", data.display()));
        install.arg(format!("--tmpdir={}", dir.join("tmp").display()));
        let done = as_this_user(&mut install).output();
        let done = done.expect("mariadb-install-db runs (apt-get install mariadb-server)");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut database = Self { child: None, dir, port: free_port(), flags };
        database.begin();
        database
    }

    fn begin(&mut self) {
        let (root, dir) = (root(), &self.dir);
        let place = |path: &str| root.join(path).display().to_string();
        let own = |path: &str| dir.join(path).display().to_string();
        let mut server = command("usr/sbin/mariadbd");
        server.args([
            "--no-defaults",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--server-id=1",
        ]);
        server.args(["--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL"]);
        server.args([
            "--binlog-row-metadata=FULL",
            "--binlog-annotate-row-events=ON",
            "--sync-binlog=1",
        ]);
        server.args(["--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=16M"]);
        server.args([
            format!("--basedir={}", place("usr")),
            format!("--lc-messages-dir={}", place("usr/share/mysql")),
            format!("--plugin-dir={}", place("usr/lib/mysql/plugin")),
            format!("--datadir={}", own("data")),
            format!("--tmpdir={}", own("tmp")),
            format!("--socket={}", own("s")),
            format!("--pid-file={}", own("pid")),
            format!("--log-error={}", own("log")),
            format!("--port={}", self.port),
        ]);
        server.args(&self.flags);
        let child = as_this_user(&mut server).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(Running(child.expect("mariadbd runs (apt-get install mariadb-server)")));
        let log = || std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        for _ in 0..1500 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() && answers(&self.dir)
            {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        panic!("MariaDB doesn't answer: {}", log());
    }

    /// Ends it, and starts it with more flags.
    ///
    /// # Panics
    /// If it doesn't start again.
    pub fn restart_with(&mut self, flags: &[String]) {
        self.kill();
        self.flags.extend_from_slice(flags);
        self.begin();
    }

    /// Makes the schema and the user.
    pub(crate) fn prepare(sql: &mut Sql, schema: &str) {
        sql.ask("CREATE DATABASE shop; USE shop");
        sql.ask(schema);
        sql.ask("CREATE USER guira@'127.0.0.1' IDENTIFIED BY 'secret'");
        sql.ask("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO guira@'127.0.0.1'");
        sql.ask("GRANT REFERENCES ON shop.* TO guira@'127.0.0.1'");
    }
}

impl Database for MariaDb {
    fn with(schema: &str) -> Self {
        let database = Self::start(&[]);
        Self::prepare(&mut database.opener()(), schema);
        database
    }

    fn dir(&self) -> &Path {
        &self.dir
    }

    fn source(&self) -> String {
        let port = self.port;
        format!(r#""kind": "mariadb", "hosts": ["127.0.0.1:{port}"], "server_id": 4242"#)
    }

    /// Sessions as root.
    fn opener(&self) -> impl Fn() -> Sql + Clone + Send + 'static {
        opener(&self.dir)
    }

    /// As by the power's loss.
    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        send_signal(child.0.id(), Signal::KILL);
        within(30, "MariaDB is gone", || child.0.try_wait().is_ok_and(|status| status.is_some()));
    }

    fn restart(&mut self) {
        self.begin();
    }

    fn end(sql: &mut Sql) -> String {
        sql.ask("SELECT @@gtid_binlog_pos").concat()
    }

    fn has_read(_: &mut Sql, read: &str, end: &str) -> bool {
        read == end
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.child = None;
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

/// What opens sessions as root, of MySQL too.
pub(crate) fn opener(dir: &Path) -> impl Fn() -> Sql + Clone + Send + 'static {
    let dir = dir.to_path_buf();
    move || {
        let mut client = client(&dir);
        client.args(["-N", "-B", "-n", "--raw", "--skip-reconnect", "--comments"]);
        client.stderr(Stdio::null());
        Sql::start(&mut client, "mariadb-client", |mark| format!("SELECT '{mark}';"))
    }
}

/// A client of a database whose socket is in `dir`.
pub(crate) fn client(dir: &Path) -> Command {
    let mut client = command("usr/bin/mariadb");
    client.arg("--no-defaults").arg("-S").arg(dir.join("s")).args(["-u", "root"]);
    client
}

/// Whether that database answers.
pub(crate) fn answers(dir: &Path) -> bool {
    let mut client = client(dir);
    client.args(["-e", "SELECT 1"]).stdout(Stdio::null()).stderr(Stdio::null());
    client.status().is_ok_and(|status| status.success())
}

/// Where the packages lie.
fn root() -> PathBuf {
    std::env::var_os("MARIADB_ROOT").map_or_else(|| "/".into(), PathBuf::from)
}

fn command(program: &str) -> Command {
    let root = root();
    let mut command = Command::new(root.join(program));
    if root != Path::new("/") {
        command.env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
    }
    command.stdin(Stdio::null());
    command
}

/// MariaDB refuses to be root's unless it is told to.
fn as_this_user(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.arg("--user=root");
    }
    command
}
