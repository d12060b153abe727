//! Huge pages for what the lab allocates, and without them where that is the point.
//!
//! glibc's allocator asks for huge pages if it is told to before the program starts (`GLIBC_TUNABLES`), so the lab
//! starts itself again. Afterwards the system can be told, for a while, to give none.

use std::ffi::OsStr;

/// Bytes of this process that are in huge pages now.
pub(crate) fn huge_bytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or_default() * 1024.0
}

/// Starts the program again so that large allocations get huge pages; returns if it was, or if that is not possible.
pub(crate) fn start_with_huge_pages() {
    use std::os::unix::process::CommandExt as _;
    if cfg!(target_env = "gnu") && std::env::var_os(TUNABLES).is_none() {
        let Ok(program) = std::env::current_exe() else { return };
        let arguments = std::env::args_os().skip(1);
        // Returns only if it failed, and then the lab goes on with small pages, and says so.
        let _ = std::process::Command::new(program).args(arguments).env(TUNABLES, HUGE).exec();
    }
}

/// Takes the setting from a program that is to run as its users run it.
pub(crate) fn unset(program: &mut std::process::Command) -> &mut std::process::Command {
    program.env_remove(OsStr::new(TUNABLES))
}

/// Makes something whose memory, first touched in `make`, has small pages.
pub(crate) fn with_small_pages<T>(make: impl FnOnce() -> T) -> T {
    let disable = rustix::thread::disable_transparent_huge_pages;
    let was_disabled = disable(true).is_ok();
    let made = make();
    if was_disabled {
        // It could be set, so it can be reset.
        let _ = disable(false);
    }
    made
}

const TUNABLES: &str = "GLIBC_TUNABLES";
const HUGE: &str = "glibc.malloc.hugetlb=1";
