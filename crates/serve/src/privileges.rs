//! Giving up root, limits of the process, locked memory.
//!
//! Identities are set for the calling thread only (that is what the system call does); it runs
//! before any other thread is started, so all inherit them. User names are looked up in
//! `/etc/passwd`; a number is taken as it is.

use crate::options::{EXIT_NO_USER, EXIT_USAGE};
use crate::settings::{EXIT_SYSTEM, Refusal, ServerSettings};
use rustix::process::{Resource, Rlimit};
use std::fs;

/// Raises the limits that `settings` ask for and becomes the user it names. Whether memory is to be
/// locked and can be: like memcached, the server warns and goes on when it can't. What there is to say is left in
/// `notes`: there is no log before.
///
/// # Errors
/// The system refuses, or root is to be kept without being told so and nobody else is there.
pub(crate) fn apply(settings: &ServerSettings, notes: &mut Vec<String>) -> Result<bool, Refusal> {
    if settings.core_dumps {
        raise(Resource::Core, None).map_err(|_| system("failed to ensure corefile creation"))?;
    }
    raise(Resource::Nofile, Some(u64::from(settings.connections_max))).map_err(|_| {
        system(
            "failed to set rlimit for open files. Try starting as root or requesting smaller \
             maxconns value.",
        )
    })?;
    if settings.lock_memory {
        // Root may; for others the limit that they have must do.
        let unlimited = Rlimit { current: None, maximum: None };
        let _ = rustix::process::setrlimit(Resource::Memlock, unlimited);
    }
    become_user(settings, notes)?;
    Ok(settings.lock_memory && lock_memory(notes))
}

/// Sets the soft limit to `to`, or to the hard limit; raises the hard one when `to` needs it.
fn raise(resource: Resource, to: Option<u64>) -> rustix::io::Result<()> {
    let limit = rustix::process::getrlimit(resource);
    let soft = to.or(limit.maximum);
    let maximum = match (soft, limit.maximum) {
        (Some(soft), Some(hard)) => Some(hard.max(soft)),
        (_, hard) => hard,
    };
    rustix::process::setrlimit(resource, Rlimit { current: soft, maximum })
}

fn become_user(settings: &ServerSettings, notes: &mut Vec<String>) -> Result<(), Refusal> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let user = match &settings.user {
        Some(name) => {
            let message = format!("can't find the user {name} to switch to (-u)");
            find_user(name).ok_or_else(|| Refusal::new(EXIT_NO_USER, message))?
        }
        None => {
            let user = ["memcache", "nobody"].iter().find_map(|name| find_user(name));
            let user = user.ok_or_else(|| {
                let message = "must add '-u root' to start as root, or -u NAME for another user";
                Refusal::new(EXIT_USAGE, message)
            })?;
            notes.push(format!(
                "started by root without -u: running as user \"{}\". Say -u NAME to choose, \
                 -u root to stay root.",
                user.name
            ));
            user
        }
    };
    if user.uid == 0 {
        return Ok(());
    }
    let failed = |what: &str, error| {
        system(&format!("failed to assume identity of user {}: {what}: {error}", user.name))
    };
    rustix::thread::set_thread_groups(&[]).map_err(|e| failed("groups", e))?;
    let gid = rustix::fs::Gid::from_raw(user.gid);
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(|e| failed("group", e))?;
    let uid = rustix::fs::Uid::from_raw(user.uid);
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(|e| failed("user", e))
}

struct User {
    name: String,
    uid: u32,
    gid: u32,
}

fn find_user(name: &str) -> Option<User> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    find_in(&passwd, name)
}

/// The line of `passwd` for `name`; a number stands for itself when no line has it as a name.
fn find_in(passwd: &str, name: &str) -> Option<User> {
    let by = |wanted: &dyn Fn(&str, u32) -> bool| {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, _, uid, gid) =
                (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
            wanted(name, uid).then(|| User { name: name.to_owned(), uid, gid })
        })
    };
    by(&|n, _| n == name).or_else(|| {
        let number = name.parse::<u32>().ok()?;
        let unnamed = User { name: name.to_owned(), uid: number, gid: number };
        Some(by(&|_, uid| uid == number).unwrap_or(unnamed))
    })
}

/// Locks what is touched from now on; the item memory is touched and locked as it is mapped.
fn lock_memory(notes: &mut Vec<String>) -> bool {
    use rustix::mm::{MlockAllFlags, mlockall};
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    let locked = mlockall(all);
    if let Err(error) = locked {
        notes.push(format!(
            "-k invalid, mlockall() failed: {error}; raise the limit on locked memory"
        ));
    }
    locked.is_ok()
}

fn system(message: &str) -> Refusal {
    Refusal::new(EXIT_SYSTEM, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_then_by_number_and_a_free_number_stands_for_itself() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nmemcache:x:101:104::/nonexistent:/bin/false\nbroken\n";
        let ids = |name| find_in(passwd, name).map(|u| (u.uid, u.gid));
        assert_eq!(ids("memcache"), Some((101, 104)));
        assert_eq!(ids("101"), Some((101, 104)));
        assert_eq!(ids("4711"), Some((4711, 4711)));
        assert_eq!(ids("broken"), None);
        assert_eq!(ids("-1"), None);
    }
}
