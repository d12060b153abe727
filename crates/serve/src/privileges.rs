//! The process's privileges: giving up root, raising limits, locking memory.
//!
//! Users are looked up as the system does (NSS): in `/etc/passwd`, LDAP, or wherever `/etc/nsswitch.conf`
//! says. A number that isn't a user's is taken as a user id. The server takes the user's supplementary
//! groups and none of root's.

use crate::options::{EXIT_NO_USER, EXIT_USAGE};
use crate::settings::{DESCRIPTORS_RESERVED, EXIT_SYSTEM, Refusal, ServerSettings};
use nix::errno::Errno;
use nix::unistd::{Gid, Uid, User, initgroups, setresgid, setresuid};
use rustix::process::{Resource, Rlimit};
use std::ffi::CString;

/// Raises the limits as `settings` demand and switches to the user they name. Returns whether memory is
/// to be locked and can be: like memcached, the server warns and goes on when it can't. Messages are
/// added to `notes`, because there is no log yet.
///
/// # Errors
/// The system refuses, or the server was started by root and there is no user to switch to.
pub(crate) fn apply(settings: &ServerSettings, notes: &mut Vec<String>) -> Result<bool, Refusal> {
    if settings.core_dumps {
        raise(Resource::Core, None).map_err(|_| system("failed to ensure corefile creation"))?;
    }
    let most = u64::from(settings.connections_max);
    // The hard limit has to include the reserve too, if the system permits; [`keep_reserve`] raises the soft limit later.
    let _ = raise(Resource::Nofile, Some(most + DESCRIPTORS_RESERVED));
    raise(Resource::Nofile, Some(most)).map_err(|_| {
        let may_be = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        system(&format!(
            "failed to set rlimit for open files: -c {most} needs {most}, and the system allows {may_be}. Raise its limit \
             (ulimit -Hn, LimitNOFILE=), start as root, or lower -c."
        ))
    })?;
    if settings.lock_memory {
        // Root may raise the limit; other users have to do with the limit they have.
        let unlimited = Rlimit { current: None, maximum: None };
        let _ = rustix::process::setrlimit(Resource::Memlock, unlimited);
    }
    become_user(settings, notes)?;
    Ok(settings.lock_memory && lock_memory(notes))
}

/// Lets the process open more descriptors than the `-c` clients need, for the HTTP port and files. To be
/// called once everything that `-c` must leave room for is open.
pub(crate) fn keep_reserve(settings: &ServerSettings) {
    let with_reserve = u64::from(settings.connections_max) + DESCRIPTORS_RESERVED;
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let current = Some(maximum.map_or(with_reserve, |hard| hard.min(with_reserve)));
    // A process may always raise its soft limit to the hard one.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

/// Sets the soft limit to `to`, or to the hard limit if `None`; raises the hard limit if `to` needs it.
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
            find_user(name)?.ok_or_else(|| Refusal::new(EXIT_NO_USER, message))?
        }
        None => {
            let user = match find_user("memcache")? {
                Some(user) => Some(user),
                None => find_user("nobody")?,
            };
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
    if user.uid.is_root() {
        return Ok(());
    }
    let failed = |what: &str, error| {
        system(&format!("failed to assume identity of user {}: {what}: {error}", user.name))
    };
    let name = CString::new(&*user.name).unwrap_or_default();
    initgroups(&name, user.gid).map_err(|error| failed("groups", error))?;
    setresgid(user.gid, user.gid, user.gid).map_err(|error| failed("group", error))?;
    setresuid(user.uid, user.uid, user.uid).map_err(|error| failed("user", error))
}

/// The user to switch to.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    name: String,
    uid: Uid,
    gid: Gid,
}

/// Finds the user with this name, or else with this number. A number that isn't a user's stands for itself.
///
/// # Errors
/// A service that knows users, such as LDAP, doesn't answer.
fn find_user(name: &str) -> Result<Option<Identity>, Refusal> {
    let found = |found: nix::Result<Option<User>>| match found {
        Ok(user) => Ok(user.map(|User { name, uid, gid, .. }| Identity { name, uid, gid })),
        // There is no file of users, for example in a container.
        Err(Errno::ENOENT | Errno::ESRCH) => Ok(None),
        Err(error) => Err(system(&format!("can't look up the user {name} (-u): {error}"))),
    };
    let by_name = found(User::from_name(name))?;
    let number = name.parse::<u32>();
    match (by_name, number) {
        (None, Ok(number)) => {
            let (uid, gid) = (number.into(), number.into());
            let unnamed = Identity { name: name.to_owned(), uid, gid };
            Ok(Some(found(User::from_uid(uid))?.unwrap_or(unnamed)))
        }
        (by_name, _) => Ok(by_name),
    }
}

/// Locks the pages that are touched from now on; the items' memory is touched and locked as it is mapped.
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
        let find = |name| find_user(name).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        let root = find("root").unwrap();
        assert_eq!((root.uid.as_raw(), root.gid.as_raw()), (0, 0));
        assert_eq!(find("0"), Some(root));
        let name = "3987654321".to_owned();
        let (uid, gid) = (Uid::from_raw(3_987_654_321), Gid::from_raw(3_987_654_321));
        assert_eq!(find("3987654321"), Some(Identity { name, uid, gid }));
        assert_eq!(find("no such user"), None);
        assert_eq!(find("-1"), None);
    }
}
