//! What is wrong with a configuration, and on which line.

use std::fmt;
use std::sync::Arc;

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file; `None`: the text that was given, or one of several.
    pub file: Option<Arc<str>>,
    /// The line, from 1; 0 where none can be named.
    pub line: u32,
    /// The column on it in characters, from 1; 0 where none can be named.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

/// What most of those return who read a configuration.
pub type Result<T> = std::result::Result<T, ConfigError>;

impl ConfigError {
    /// An error that a line of the text is to blame for.
    pub fn at(line: u32, message: impl Into<String>) -> Self {
        Self { file: None, line, column: 0, message: message.into() }
    }

    /// An error that no line is to blame for.
    pub fn new(message: impl Into<String>) -> Self {
        Self::at(0, message)
    }

    /// Says around what the error happened.
    #[must_use]
    pub fn within(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Says in which file the line is, unless that is known.
    pub fn in_file(mut self, file: &str) -> Self {
        if self.line > 0 && self.file.is_none() {
            self.file = Some(file.into());
        }
        self
    }
}

/// As editors and compilers write a place, `FILE:LINE:COLUMN: `; without a file the line stands behind, as mcrouter has it.
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
