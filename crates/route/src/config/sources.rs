//! What the text of a configuration may ask for besides itself.

/// Where `@import` and pools of other files are read from.
pub trait Sources {
    /// The text at a path: `file:/etc/x.json`, or a bare path, which begins where the configuration stands. Whoever reads
    /// remembers the path, to watch it.
    ///
    /// # Errors
    /// Why it can't be read.
    fn read(&mut self, path: &str) -> Result<String, String>;

    /// The servers that an entry `srv:NAME` or `all:HOST:PORT` of a pool stands for, each as a pool writes it.
    ///
    /// # Errors
    /// Why they can't be told.
    fn members(&mut self, _entry: &str) -> Result<Vec<String>, String> {
        Err("names can't be looked up here".to_owned())
    }
}
