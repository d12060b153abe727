//! Who may use the server: the file of `-Y`, and the sources of passwords for `-S`.
//!
//! ```text
//! -Y FILE                 text logins; with -S binary ones too
//! MEMCACHED_SASL_PWDB     binary logins, memcached's own database of users (`user:password` lines)
//! ```
//! # Invariants
//! 1. Where a login is required, a connection that has none executes nothing (connection/login.rs).
//! 2. How long a check takes depends on how many users there are, not on what is right or wrong.
//!
//! # Costs
//! A request: nothing; being logged in is a state of the connection. A login over binary: one `stat` of
//! the database by the worker, where memcached opens and reads it each time, so it belongs on a local
//! disk. `-Y`'s file is read at the start and on SIGHUP.

mod passwords;
mod sasl;

pub(crate) use sasl::{Exchange, MECHANISMS, Verdict};

use crate::settings::{EXIT_VALUE, Protocol, Refusal, Settings};
use parking_lot::Mutex;
use passwords::{Format, Passwords, PasswordsError, Watched};
use std::path::PathBuf;

/// What there is to check a login against.
pub(crate) struct Auth {
    /// `-Y`'s file; kept as it was when a reload fails.
    file: Option<(PathBuf, Mutex<Passwords>)>,
    sasl: Option<Vec<Watched>>,
}

impl Auth {
    /// Reads what `settings` name.
    ///
    /// # Errors
    /// `-Y`'s file can't be read, or is none; `-S` has no passwords to check against.
    pub(crate) fn open(settings: &Settings) -> Result<Auth, Refusal> {
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
            true => Some(sasl_sources(file.is_some())?),
        };
        Ok(Auth { file, sasl })
    }

    /// Whether a connection of this protocol begins with a login.
    pub(crate) fn is_required(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Binary => self.sasl.is_some(),
            Protocol::Ascii | Protocol::Auto => self.file.is_some(),
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

    /// Checks a text login.
    pub(crate) fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        self.file.as_ref().is_some_and(|(_, passwords)| passwords.lock().admit(user, password))
    }

    /// Asks each source of binary logins by `ask`; all of them, so that the time tells nothing.
    fn any_source(&self, ask: impl Fn(&Passwords) -> bool) -> bool {
        let mut admitted = false;
        if let Some((_, passwords)) = &self.file {
            admitted |= ask(&passwords.lock());
        }
        for source in self.sasl.iter().flatten() {
            admitted |= source.with(&ask);
        }
        admitted
    }

    /// Reads `-Y`'s file again, for SIGHUP.
    ///
    /// # Errors
    /// It can't be read or is no such file; those who could log in still can.
    pub(crate) fn reload(&self) -> Result<(), PasswordsError> {
        if let Some((path, passwords)) = &self.file {
            let read = Passwords::read(path, Format::AuthFile)?;
            *passwords.lock() = read;
        }
        Ok(())
    }
}

/// The databases of users for binary logins beside `-Y`'s file.
fn sasl_sources(has_file: bool) -> Result<Vec<Watched>, Refusal> {
    let mut sources = Vec::new();
    if let Some(path) = std::env::var_os("MEMCACHED_SASL_PWDB") {
        let path = std::path::absolute(&path).unwrap_or_else(|_| PathBuf::from(path));
        sources.push(Watched::new(path, Format::Pwdb));
    }
    if sources.is_empty() && !has_file {
        let message = "-S has no passwords to check against: name a file of user:password lines \
                       by MEMCACHED_SASL_PWDB in the environment, or by -Y";
        return Err(Refusal::new(EXIT_VALUE, message));
    }
    Ok(sources)
}
