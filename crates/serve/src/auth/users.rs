//! The users that logins are checked against.

use super::config;
use super::failures::Failures;
use super::passwords::{Format, Passwords, PasswordsError, Watched};
use crate::settings::{EXIT_VALUE, Refusal, ServerSettings, WireProtocol};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// The sources of users and passwords, and the recent failures.
pub(crate) struct Auth {
    /// The path and the users of the file of `-Y`. The users stay as they are if a reload fails.
    file: Option<(PathBuf, Mutex<Passwords>)>,
    sasl: Option<Sasl>,
    /// The sources of recent failed logins, whose next attempts wait.
    pub(crate) failures: Failures,
}

/// The settings of binary logins.
struct Sasl {
    /// The file named by `MEMCACHED_SASL_PWDB`.
    pwdb: Option<Watched>,
    /// The names of the mechanisms, separated by spaces.
    mechanisms: String,
}

impl Auth {
    /// Reads the files that `settings` and the environment name.
    ///
    /// # Errors
    /// The file of `-Y` can't be read or is malformed, or `-S` has no passwords to check against.
    pub(crate) fn open(settings: &ServerSettings) -> Result<Auth, Refusal> {
        let file = match &settings.auth_file {
            None => None,
            Some(path) => {
                // The path is made absolute, because the server may change its directory later.
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                let read = Passwords::read(&path, Format::AuthFile);
                let passwords = read.map_err(|error| {
                    Refusal::new(EXIT_VALUE, format!("-Y {}: {error}", path.display()))
                })?;
                Some((path, Mutex::new(passwords)))
            }
        };
        let sasl = match settings.sasl {
            false => None,
            true => Some(Sasl::open(file.is_some())?),
        };
        Ok(Auth { file, sasl, failures: Failures::default() })
    }

    /// Whether a connection of this protocol must begin with a login.
    pub(crate) fn is_required(&self, protocol: WireProtocol) -> bool {
        match protocol {
            WireProtocol::Binary => self.sasl.is_some(),
            WireProtocol::Ascii | WireProtocol::Auto => self.file.is_some(),
        }
    }

    /// Whether logins are required over any protocol.
    pub(crate) fn is_on(&self) -> bool {
        self.file.is_some() || self.sasl.is_some()
    }

    /// Whether binary logins are on.
    pub(crate) fn has_sasl(&self) -> bool {
        self.sasl.is_some()
    }

    /// The names of the mechanisms for binary logins, separated by spaces.
    pub(crate) fn mechanisms(&self) -> &str {
        self.sasl.as_ref().map_or("", |sasl| &sasl.mechanisms)
    }

    /// Whether a text login has the right password.
    pub(crate) fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        self.file.as_ref().is_some_and(|(_, passwords)| passwords.lock().admit(user, password))
    }

    /// Whether `ask` returns true for any source of binary logins. All sources are asked, so that the
    /// time reveals nothing.
    pub(super) fn any_source(&self, ask: impl Fn(&Passwords) -> bool) -> bool {
        let mut admitted = false;
        if let Some((_, passwords)) = &self.file {
            admitted |= ask(&passwords.lock());
        }
        if let Some(pwdb) = self.sasl.as_ref().and_then(|sasl| sasl.pwdb.as_ref()) {
            admitted |= pwdb.with(&ask);
        }
        admitted
    }

    /// Reads the file of `-Y` again, for SIGHUP. Returns its path and the result; `None` without `-Y`. If
    /// the file can't be read or is malformed, the users before the reload can still log in.
    pub(crate) fn reload(&self) -> Option<(&Path, Result<(), PasswordsError>)> {
        let (path, passwords) = self.file.as_ref()?;
        let read = Passwords::read(path, Format::AuthFile).map(|read| *passwords.lock() = read);
        Some((path, read))
    }

    /// Returns a warning if binary logins are on and nobody can log in.
    pub(crate) fn warn_of_no_users(&self) -> Option<String> {
        let pwdb = self.sasl.as_ref()?.pwdb.as_ref()?;
        if self.any_source(|passwords| !passwords.is_empty()) {
            return None;
        }
        Some(format!(
            "-S: nobody can log in: there are no users in {pwdb}, which MEMCACHED_SASL_PWDB names. Write lines of \
             user:password to it; a restart isn't needed."
        ))
    }
}

impl Sasl {
    /// Finds the file of users and the mechanisms. `has_file`: the users of the file of `-Y` can log in too.
    fn open(has_file: bool) -> Result<Sasl, Refusal> {
        let named = config::mechanisms()?;
        let pwdb = std::env::var_os("MEMCACHED_SASL_PWDB").map(PathBuf::from);
        // The path is made absolute, because the server may change its directory later.
        let pwdb = pwdb.map(|path| Watched::new(std::path::absolute(&path).unwrap_or(path)));
        if pwdb.is_none() && !has_file {
            let message = "-S has no passwords to check against: name a file of user:password lines by \
                           MEMCACHED_SASL_PWDB in the environment or by -Y (saslpasswd2's database isn't read)";
            return Err(Refusal::new(EXIT_VALUE, message));
        }
        let is_wanted = |name: &&str| match &named {
            None => true,
            Some(wanted) => wanted.iter().any(|other| other.eq_ignore_ascii_case(name)),
        };
        let mechanisms: Vec<&str> = MECHANISMS.into_iter().filter(is_wanted).collect();
        if mechanisms.is_empty() {
            let message = "-S: mech_list has neither PLAIN nor CRAM-MD5, and there are no others";
            return Err(Refusal::new(EXIT_VALUE, message));
        }
        Ok(Sasl { pwdb, mechanisms: mechanisms.join(" ") })
    }
}

/// The names of the supported mechanisms; `sasl.rs` implements their exchanges.
const MECHANISMS: [&str; 2] = ["CRAM-MD5", "PLAIN"];
