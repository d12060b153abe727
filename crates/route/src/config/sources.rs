//! What the text of a configuration may need besides itself.

/// The source of imports and of pool members.
pub(crate) trait Sources {
    /// Reads the text at a path: `file:/etc/x.json`, or a path relative to the configuration. The implementation
    /// records the path, so that the file can be watched.
    ///
    /// # Errors
    /// Why the text can't be read.
    fn read(&mut self, path: &str) -> Result<String, String>;

    /// The servers that a pool entry `srv:NAME` or `all:HOST:PORT` stands for, written as in a pool.
    ///
    /// # Errors
    /// Why the entry can't be resolved.
    fn members(&mut self, _entry: &str) -> Result<Vec<String>, String> {
        Err("names can't be looked up here".to_owned())
    }
}
