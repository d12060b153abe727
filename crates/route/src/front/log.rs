//! Lines for people, to standard error or a file.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use parking_lot::Mutex;

use super::calendar::Moment;

/// Where lines go.
#[derive(Debug)]
pub(crate) struct Log {
    /// `None`: standard error.
    file: Option<Mutex<File>>,
}

impl Log {
    /// A log in a file, or on standard error.
    ///
    /// # Errors
    /// The file can't be opened.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { file: path.map(open).transpose()?.map(Mutex::new) })
    }

    /// Writes a line. One that can't be written is lost: there is nowhere to say so.
    pub(crate) fn say(&self, line: fmt::Arguments<'_>) {
        let line = format!("{} {line}\n", Moment::now());
        let _ = match &self.file {
            Some(file) => file.lock().write_all(line.as_bytes()),
            None => io::stderr().lock().write_all(line.as_bytes()),
        };
    }
}
