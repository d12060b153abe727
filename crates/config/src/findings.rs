//! Parts of a configuration that have no use: collected by its readers and checkers.

use super::Object;
use super::error::ConfigError;
use super::meant::meant;

/// What was found in a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigFindings {
    /// Mistakes, each with its line and perhaps with what was meant.
    pub mistakes: Vec<ConfigError>,
    /// Fields of mcrouter that have no effect in Guira.
    pub without_effect: Vec<ConfigError>,
    /// Parts that can be built but are hardly intended: pools without servers, which mcrouter accepts.
    pub warnings: Vec<ConfigError>,
}

impl ConfigFindings {
    /// Sets the file of all findings that don't have one.
    pub fn name_file(&mut self, file: &str) {
        let Self { mistakes, without_effect, warnings } = self;
        for finding in mistakes.iter_mut().chain(without_effect).chain(warnings) {
            *finding = finding.clone().in_file(file);
        }
    }

    /// Adds a mistake, unless it is known already: a macro's body is checked wherever the macro is used.
    pub fn mistake(&mut self, line: u32, message: String) {
        let mistake = ConfigError::at(line, message);
        if self.mistakes.len() < MISTAKES_MAX && !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
    }

    /// Adds a mistake for each member of a call or a definition that isn't among `known`.
    pub fn look_at_call(&mut self, at: &str, object: &Object, known: &[&str]) {
        let is_every_calls = |name: &str| ["type", "vars"].contains(&name) || is_comment(name);
        for (name, value) in object.iter() {
            if !known.contains(&name) && !is_every_calls(name) {
                let message = format!("{at}: unknown field '{name}'{}", perhaps(name, known));
                self.mistake(value.line, message);
            }
        }
    }
}

/// Returns `, did you mean 'hash'?`, or nothing if no known word is similar.
pub fn perhaps(word: &str, known: &[&str]) -> String {
    let best = meant(word, known.iter().copied());
    best.map(|best| format!(", did you mean '{best}'?")).unwrap_or_default()
}

/// Whether a name is one that people use for comments among their members.
pub fn is_comment(name: &str) -> bool {
    name.starts_with(['_', '#', '/'])
}

/// The limit of mistakes; further ones are dropped.
const MISTAKES_MAX: usize = 100;
