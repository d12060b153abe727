//! Parses JSON as mcrouter does: with comments of both kinds, commas after the last member, and lines for error messages.
//!
//! The parser is Guira's own because each value must know its line: errors about a route name it.

use super::budget::{BUDGET_BYTES, Budget, DEPTH_MAX, MEMBER_BYTES, VALUE_BYTES};
use super::error::ConfigError;
use super::findings::ConfigFindings;
use super::{Json, Object, Value};

/// Parses one value; only comments may follow it.
///
/// # Errors
/// The text isn't valid; the error has the expected token and its line.
pub fn parse(text: &str) -> Result<Json, ConfigError> {
    parse_within(text, &Budget::new(BUDGET_BYTES), &mut ConfigFindings::default())
}

/// Like [`parse`], for a text that is one of several. Reports duplicate members as mistakes.
pub fn parse_within(
    text: &str,
    budget: &Budget,
    findings: &mut ConfigFindings,
) -> Result<Json, ConfigError> {
    let mut parser = Parser { text, rest: text, line: 1, depth: 0, budget, findings };
    let json = parser.value()?;
    parser.skip_blanks()?;
    if parser.rest.is_empty() { Ok(json) } else { Err(parser.error("the end of the text")) }
}

struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    line: u32,
    depth: usize,
    budget: &'t Budget,
    findings: &'t mut ConfigFindings,
}

impl Parser<'_> {
    fn error(&self, expected: &str) -> ConfigError {
        let found: String =
            self.rest.chars().take(20).take_while(|character| *character != '\n').collect();
        let found = if self.rest.is_empty() {
            "the end of the text".to_owned()
        } else {
            format!("'{found}'")
        };
        let message = format!("parse error: expected {expected}, found {found}");
        ConfigError { column: self.column(), ..ConfigError::at(self.line, message) }
    }

    /// The column at which the rest of the text begins, in characters.
    fn column(&self) -> u32 {
        let gone = &self.text[..self.text.len() - self.rest.len()];
        let line = gone.rsplit('\n').next().unwrap_or_default();
        u32::try_from(line.chars().count() + 1).unwrap_or(u32::MAX)
    }

    fn skip_blanks(&mut self) -> Result<(), ConfigError> {
        loop {
            let trimmed = self.rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']);
            self.consume(self.rest.len() - trimmed.len());
            let comment = match self.rest.get(..2) {
                Some("//") => self.rest.find('\n').unwrap_or(self.rest.len()),
                Some("/*") => {
                    self.rest.find("*/").ok_or_else(|| self.error("the end of a comment"))? + 2
                }
                _ => return Ok(()),
            };
            self.consume(comment);
        }
    }

    /// Advances by `bytes`, counting lines.
    fn consume(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        let lines = gone.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest;
    }

    fn eat(&mut self, character: char) -> Result<bool, ConfigError> {
        self.skip_blanks()?;
        let found = self.rest.starts_with(character);
        if found {
            self.consume(character.len_utf8());
        }
        Ok(found)
    }

    fn value(&mut self) -> Result<Json, ConfigError> {
        self.skip_blanks()?;
        let line = self.line;
        self.budget.charge(VALUE_BYTES)?;
        let value = match self.rest.bytes().next() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Value::String(self.string()?),
            _ => self.scalar()?,
        };
        Ok(Json { line, value })
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Value, ConfigError>,
    ) -> Result<Value, ConfigError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(ConfigError::at(self.line, format!("nested more than {DEPTH_MAX} deep")));
        }
        self.consume(1);
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, ConfigError> {
        let mut members = Object::default();
        loop {
            if self.eat('}')? {
                return Ok(Value::Object(members));
            }
            if !self.rest.starts_with('"') {
                return Err(self.error("a name in quotes or '}'"));
            }
            let name = self.string()?;
            if !self.eat(':')? {
                return Err(self.error("':'"));
            }
            self.budget.charge(MEMBER_BYTES)?;
            if members.get(&name).is_some() {
                let message = format!("'{name}' stands twice, and the last one counts");
                self.findings.mistake(self.line, message);
            }
            members.insert(name, self.value()?);
            if !self.eat(',')? && !self.rest.starts_with('}') {
                return Err(self.error("',' or '}'"));
            }
        }
    }

    fn array(&mut self) -> Result<Value, ConfigError> {
        let mut elements = Vec::new();
        loop {
            if self.eat(']')? {
                return Ok(Value::Array(elements));
            }
            elements.push(self.value()?);
            if !self.eat(',')? && !self.rest.starts_with(']') {
                return Err(self.error("',' or ']'"));
            }
        }
    }

    fn scalar(&mut self) -> Result<Value, ConfigError> {
        let end = self.rest.find(|character: char| {
            !character.is_ascii_alphanumeric() && !"+-.".contains(character)
        });
        let word = &self.rest[..end.unwrap_or(self.rest.len())];
        let value = match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ if !word.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
                return Err(self.error("a value"));
            }
            _ => match (word.parse(), word.parse()) {
                (Ok(integer), _) => Value::Int(integer),
                (Err(_), Ok(double)) => Value::Double(double),
                _ => return Err(self.error("a number")),
            },
        };
        self.consume(word.len());
        Ok(value)
    }

    fn string(&mut self) -> Result<String, ConfigError> {
        self.consume(1);
        let mut string = String::new();
        loop {
            let plain =
                self.rest.find(['"', '\\']).ok_or_else(|| self.error("the end of a string"))?;
            string.push_str(&self.rest[..plain]);
            let is_end = self.rest[plain..].starts_with('"');
            self.consume(plain + 1);
            if is_end {
                self.budget.charge(string.len())?;
                return Ok(string);
            }
            string.push(self.escape()?);
        }
    }

    /// Parses an escape, after its backslash.
    fn escape(&mut self) -> Result<char, ConfigError> {
        let letter = self.rest.chars().next().ok_or_else(|| self.error("an escape"))?;
        let character = match letter {
            '"' | '\\' | '/' => letter,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return self.unicode_escape(),
            _ => return Err(self.error("one of \" \\ / b f n r t u after a backslash")),
        };
        self.consume(1);
        Ok(character)
    }

    /// Parses `u0041`, or two of these for a character beyond the first plane: `uD83D\uDE00`.
    fn unicode_escape(&mut self) -> Result<char, ConfigError> {
        let first = self.code_unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first)
                .ok_or_else(|| self.error("the first half of a character"));
        }
        if !self.rest.starts_with('\\') {
            return Err(self.error("the second half of a character"));
        }
        self.consume(1);
        let second = self.code_unit()?;
        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400);
        let code = low.map(|low| 0x10000 + ((first - 0xd800) << 10) + low);
        code.and_then(char::from_u32).ok_or_else(|| self.error("the second half of a character"))
    }

    fn code_unit(&mut self) -> Result<u32, ConfigError> {
        let digits = self.rest.strip_prefix('u').and_then(|rest| rest.get(..4));
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.error("four hexadecimal digits"))?;
        self.consume(5);
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_commas_after_the_last_are_read_and_lines_counted() {
        let text = "// pools\n{\n \"a\": [1, -2.5, 1e3, /* not\n 2 */ 3,],\n \"b\": {\"c\": null, \"d\": true,},\n}\n";
        let json = parse(text).unwrap();
        assert_eq!(json.to_string(), r#"{"a":[1,-2.5,1000.0,3],"b":{"c":null,"d":true}}"#);
        assert_eq!(json.get("b").unwrap().line, 5);
        assert_eq!(json.get("a").unwrap().as_array().unwrap()[3].line, 4);
    }

    #[test]
    fn strings_mean_what_their_escapes_say() {
        let json = parse(r#""a\n\"\\\/\u0041\ud83d\ude00 // no comment""#).unwrap();
        assert_eq!(json.as_str(), Some("a\n\"\\/A\u{1f600} // no comment"));
        assert_eq!(parse(&json.to_string()).unwrap(), json);
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        for (text, line, column) in [
            ("", 1, 1),
            ("{\n\"a\" 1}", 2, 5),
            ("{\n\"ä\" 1}", 2, 5),
            ("[1\n\n2]", 3, 1),
            ("{a: 1}", 1, 2),
            ("\"\\ud83d\"", 1, 8),
            ("\"\\x\"", 1, 3),
            ("[1] 2", 1, 5),
            ("/* open", 1, 1),
            ("nul", 1, 1),
            ("-", 1, 1),
            (",", 1, 1),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{text:?}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
