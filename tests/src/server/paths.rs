//! Where the programs under test lie, and what tests write.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The path of the `guira` binary under test; builds it the first time.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn guira() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            if let Some(path) = std::env::var_os("GUIRA_BIN") {
                return path.into();
            }
            let profile = profile_directory();
            let name = profile.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
            let name = if name == "debug" { "dev" } else { name };
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let status = Command::new(cargo)
                .args(["build", "--quiet", "--package", "guira", "--bin", "guira"])
                .args(["--profile", name, "--manifest-path"])
                .arg(workspace().join("Cargo.toml"))
                .arg("--target-dir")
                .arg(profile.parent().expect("a profile's directory lies in the target directory"))
                .stdin(Stdio::null())
                .status();
            assert!(status.is_ok_and(|s| s.success()), "`cargo build --bin guira` failed");
            profile.join("guira")
        })
        .clone()
}

/// The path or name of memcached.
#[must_use]
pub fn memcached() -> PathBuf {
    std::env::var_os("MEMCACHED_BIN").map_or_else(|| "memcached".into(), PathBuf::from)
}

/// The workspace's root.
///
/// # Panics
/// Never: the crate lies in it.
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// A fresh directory; short, because a unix socket's path has 107 bytes at most.
///
/// # Panics
/// If the system's temporary directory cannot be written.
#[must_use]
pub fn own_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("guira-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for the server");
    dir
}

/// A directory as [`own_directory`] makes it, for what outlives a server. Dropped, it is removed.
#[derive(Debug)]
pub struct OwnDirectory(PathBuf);

impl OwnDirectory {
    /// Makes one.
    #[must_use]
    pub fn new() -> Self {
        Self(own_directory())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Default for OwnDirectory {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// `target`, for what is got or made once.
///
/// # Panics
/// If the test doesn't lie in one.
#[must_use]
pub fn target_directory() -> PathBuf {
    profile_directory().parent().expect("target/debug lies in target").to_path_buf()
}

/// `target/debug` or `target/release`, from the path of the running test.
fn profile_directory() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    let mut dir = exe.parent().expect("a file lies in a directory");
    if dir.ends_with("deps") || dir.ends_with("examples") {
        dir = dir.parent().expect("deps lies in the profile's directory");
    }
    dir.to_path_buf()
}
