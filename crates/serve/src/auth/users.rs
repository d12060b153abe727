//! Whom logins are checked against.

use super::config;
use super::failures::Failures;
use super::passwords::{Format, Passwords, PasswordsError, Watched};
use crate::settings::{EXIT_VALUE, Refusal, ServerSettings, WireProtocol};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};

/// What there is to check a login against.
pub(crate) struct Auth {
    /// `-Y`'s file; kept as it was when a reload fails.
    file: Option<(PathBuf, Mutex<Passwords>)>,
    sasl: Option<Sasl>,
    /// Who failed lately: their attempts wait.
    pub(crate) failures: Failures,
}

/// Binary logins.
struct Sasl {
    /// `MEMCACHED_SASL_PWDB`'s file.
    pwdb: Option<Watched>,
    /// The names of the mechanisms, by spaces.
    mechanisms: String,
}

impl Auth {
    /// Reads what `settings` name.
    ///
    /// # Errors
    /// `-Y`'s file can't be read, or is none; `-S` has no passwords to check against.
    pub(crate) fn open(settings: &ServerSettings) -> Result<Auth, Refusal> {
        let file = match &settings.auth_file {
            None => None,
            Some(path) => {
                // The server may change its directory later.
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

    /// Whether a connection of this protocol begins with a login.
    pub(crate) fn is_required(&self, protocol: WireProtocol) -> bool {
        match protocol {
            WireProtocol::Binary => self.sasl.is_some(),
            WireProtocol::Ascii | WireProtocol::Auto => self.file.is_some(),
        }
    }

    /// Whether anybody must log in.
    pub(crate) fn is_on(&self) -> bool {
        self.file.is_some() || self.sasl.is_some()
    }

    /// Whether there are binary logins.
    pub(crate) fn has_sasl(&self) -> bool {
        self.sasl.is_some()
    }

    /// The names of the mechanisms of binary logins, by spaces.
    pub(crate) fn mechanisms(&self) -> &str {
        self.sasl.as_ref().map_or("", |sasl| &sasl.mechanisms)
    }

    /// Checks a text login.
    pub(crate) fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        self.file.as_ref().is_some_and(|(_, passwords)| passwords.lock().admit(user, password))
    }

    /// Asks each source of binary logins by `ask`; all of them, so that the time tells nothing.
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

    /// Reads `-Y`'s file again, for SIGHUP, and tells which that is; `None` without one. If it can't be read or is no such
    /// file, those who could log in still can.
    pub(crate) fn reload(&self) -> Option<(&Path, Result<(), PasswordsError>)> {
        let (path, passwords) = self.file.as_ref()?;
        let read = Passwords::read(path, Format::AuthFile).map(|read| *passwords.lock() = read);
        Some((path, read))
    }

    /// What is to be said where nobody can log in.
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
    /// Finds the file of users and the mechanisms. `has_file`: users of `-Y`'s file can log in too.
    fn open(has_file: bool) -> Result<Sasl, Refusal> {
        let named = config::mechanisms()?;
        let pwdb = std::env::var_os("MEMCACHED_SASL_PWDB").map(PathBuf::from);
        // The server may change its directory later.
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

/// The names of the mechanisms; `sasl.rs` has the exchanges.
const MECHANISMS: [&str; 2] = ["CRAM-MD5", "PLAIN"];
