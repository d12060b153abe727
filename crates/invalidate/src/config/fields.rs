//! One object of the configuration: reads its fields by name and type, and reports what is wrong with it.

use std::time::Duration;

use guira_config::{ConfigError, Json, Object, Result, is_comment, perhaps};

/// An object whose fields are all known.
pub(super) struct Fields<'j> {
    object: &'j Object,
    /// A description of the object for messages, such as `source 'orders'`.
    pub(super) at: String,
    line: u32,
}

impl<'j> Fields<'j> {
    /// Checks the names of all fields.
    ///
    /// # Errors
    /// It is no object, or has an unknown field, or one of `later`, which isn't supported yet.
    pub(super) fn new(at: String, json: &'j Json, known: &[&str], later: &[&str]) -> Result<Self> {
        let Some(object) = json.as_object() else {
            return Err(ConfigError::at(
                json.line,
                format!("{at}: expected an object, found {}", json.type_name()),
            ));
        };
        for (name, value) in object.iter().filter(|(name, _)| !is_comment(name)) {
            let words = if known.contains(&name) {
                continue;
            } else if later.contains(&name) {
                format!("'{name}' isn't there yet")
            } else {
                format!("unknown field '{name}'{}", perhaps(name, known))
            };
            return Err(ConfigError::at(value.line, format!("{at}: {words}")));
        }
        Ok(Self { object, at, line: json.line })
    }

    pub(super) fn get(&self, name: &str) -> Option<&'j Json> {
        self.object.get(name)
    }

    /// Creates an error about a field, with its line.
    pub(super) fn error(&self, name: &str, words: impl AsRef<str>) -> ConfigError {
        let line = self.get(name).map_or(self.line, |json| json.line);
        ConfigError::at(line, format!("{}: '{name}' {}", self.at, words.as_ref()))
    }

    pub(super) fn needed(&self, name: &str) -> Result<&'j Json> {
        self.get(name).ok_or_else(|| self.error(name, "is missing"))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'j str>> {
        let read =
            |json: &'j Json| json.as_str().ok_or_else(|| self.error(name, "is a text in quotes"));
        self.get(name).map(read).transpose()
    }

    pub(super) fn needed_text(&self, name: &str) -> Result<&'j str> {
        self.needed(name)?;
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.error(name, "is empty"))
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<&'j str>>> {
        let Some(json) = self.get(name) else { return Ok(None) };
        let texts = json.as_array().map(|array| array.iter().map(Json::as_str).collect());
        match texts {
            Some(Some(texts)) => Ok(Some(texts)),
            _ => Err(self.error(name, "is a list of texts")),
        }
    }

    /// Reads a whole number between `least` and `most`.
    pub(super) fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>> {
        let Some(json) = self.get(name) else { return Ok(None) };
        let number = json.as_int().and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| (least..=most).contains(number));
        let words = || format!("is a whole number from {least} to {most}");
        number.map(Some).ok_or_else(|| self.error(name, words()))
    }

    /// Reads a size in bytes: `"64MiB"`, or a number.
    pub(super) fn size(&self, name: &str, least: u64) -> Result<Option<u64>> {
        let Some(json) = self.get(name) else { return Ok(None) };
        let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        let size = guira_front::size::parse(&text)
            .map_err(|words| self.error(name, format!(": {words}")))?;
        match size >= least {
            true => Ok(Some(size)),
            false => Err(self.error(name, format!("is at least {least} bytes"))),
        }
    }

    /// Reads a time: `"2s"`, `"500ms"`, `"24h"`.
    pub(super) fn duration(&self, name: &str) -> Result<Option<Duration>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        duration(text).map(Some).ok_or_else(|| self.error(name, DURATION))
    }

    pub(super) fn truth(&self, name: &str) -> Result<bool> {
        let Some(json) = self.get(name) else { return Ok(false) };
        json.as_bool().ok_or_else(|| self.error(name, "is true or false"))
    }

    /// Reads one of several words; the first one is the default. Words of `later` aren't supported yet.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
        later: &[&str],
    ) -> Result<T> {
        let text = self.text(name)?.unwrap_or(choices[0].0);
        if later.contains(&text) {
            return Err(self.error(name, format!(": '{text}' isn't there yet")));
        }
        let found = choices.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let perhaps = perhaps(text, &words);
            let words = match &words[..] {
                [only] => format!("can only be '{only}', not '{text}'"),
                _ => format!("is one of {}: '{text}' is none{perhaps}", words.join(", ")),
            };
            self.error(name, words)
        })
    }
}

/// Parses a time with its unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let milliseconds = match text[digits..].trim() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

pub(super) const DURATION: &str =
    "is a time with its unit, as in \"500ms\", \"2s\", \"10m\", \"24h\"";
