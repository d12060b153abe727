//! What a configuration says that has no use: notes of those who read it, and of those who check it.

use super::Object;
use super::error::ConfigError;
use super::meant::meant;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfigFindings {
    /// Mistakes, each with its line and what was perhaps meant.
    pub mistakes: Vec<ConfigError>,
    /// Fields of mcrouter's that have no effect here.
    pub without_effect: Vec<ConfigError>,
    /// What can be built and hardly be meant: pools without servers, which mcrouter takes.
    pub warnings: Vec<ConfigError>,
}

impl ConfigFindings {
    /// Says in which file all of it stands.
    pub fn name_file(&mut self, file: &str) {
        let Self { mistakes, without_effect, warnings } = self;
        for finding in mistakes.iter_mut().chain(without_effect).chain(warnings) {
            *finding = finding.clone().in_file(file);
        }
    }

    /// Notes a mistake, unless it is known: a macro's body is looked at wherever the macro is used.
    pub fn mistake(&mut self, line: u32, message: String) {
        let mistake = ConfigError::at(line, message);
        if self.mistakes.len() < MISTAKES_MAX && !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
    }

    /// Looks for members of a call or of a definition that aren't among `known`.
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

/// `, did you mean 'hash'?`, or nothing where nothing is like it.
pub fn perhaps(word: &str, known: &[&str]) -> String {
    let best = meant(word, known.iter().copied());
    best.map(|best| format!(", did you mean '{best}'?")).unwrap_or_default()
}

/// Names that people write beside their configuration's own.
pub fn is_comment(name: &str) -> bool {
    name.starts_with(['_', '#', '/'])
}

/// Further mistakes are dropped.
const MISTAKES_MAX: usize = 100;
