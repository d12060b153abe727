//! Errors in a configuration, with the line of each.

use std::fmt;
use std::sync::Arc;

/// An error in a configuration, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file; `None`: the given text, or one of several.
    pub file: Option<Arc<str>>,
    /// The line, from 1; 0 if there is none to name.
    pub line: u32,
    /// The column in characters, from 1; 0 if there is none to name.
    pub column: u32,
    /// A description of the error.
    pub message: String,
}

/// The result of most functions that read a configuration.
pub type Result<T> = std::result::Result<T, ConfigError>;

impl ConfigError {
    /// An error in a line of the text.
    pub fn at(line: u32, message: impl Into<String>) -> Self {
        Self { file: None, line, column: 0, message: message.into() }
    }

    /// An error without a line.
    pub fn new(message: impl Into<String>) -> Self {
        Self::at(0, message)
    }

    /// Adds the context in which the error happened.
    #[must_use]
    pub fn within(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Adds the name of the line's file, unless it is known.
    pub fn in_file(mut self, file: &str) -> Self {
        if self.line > 0 && self.file.is_none() {
            self.file = Some(file.into());
        }
        self
    }
}

/// Shows a place as editors and compilers do, `FILE:LINE:COLUMN: `. Without a file, the line follows the
/// message, as in mcrouter.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message } = self;
        match (file, line, column) {
            (_, 0, _) => f.write_str(message),
            (Some(file), _, 0) => write!(f, "{file}:{line}: {message}"),
            (Some(file), ..) => write!(f, "{file}:{line}:{column}: {message}"),
            (None, _, 0) => write!(f, "{message} line: {line}"),
            (None, ..) => write!(f, "{message} line: {line} column: {column}"),
        }
    }
}

impl std::error::Error for ConfigError {}
