//! Documents: phrases that have to be read twice, sentences and pages too long to be read at once.
//!
//! Words are compared, not characters, so a phrase is found across the end of a line. Code, fenced or in backticks, is no
//! prose. What needs judgement (passive voice, metaphors) is left to readers.

/// Most words of a page, code left out.
pub const WORDS_MAX: usize = 1200;

/// Most words of a sentence, code left out: beyond that a reader goes back to its beginning.
pub const SENTENCE_WORDS_MAX: usize = 30;

/// Phrases, and what to write instead.
pub const BANNED: [(&str, &str); 20] = [
    ("shall", "must, or will"),
    ("whoever", "a client that, a thread that"),
    ("for want of", "because no … was free"),
    ("look-up", "lookup"),
    ("look-ups", "lookups"),
    ("on the average", "on average"),
    ("in the whole", "in total"),
    ("for ever", "forever"),
    ("thrown away", "discarded"),
    ("other than", "unlike, or except"),
    ("otherwise than", "unlike, or except"),
    ("but for", "except"),
    ("anybody", "everybody, a client, a stranger"),
    ("who misses", "a client that misses"),
    ("those who", "clients that"),
    ("he who", "a client that"),
    ("a look at that", "one branch"),
    ("a spoilt", "a corrupt"),
    ("had better", "should"),
    ("as yet", "yet"),
];

/// What there is one of, or so many of, in each of [`UNITS`]: "a line a key" is "one line per key".
const THINGS: [&str; 18] = [
    "user",
    "line",
    "page",
    "bucket",
    "key",
    "request",
    "thread",
    "word",
    "byte",
    "slot",
    "value",
    "connection",
    "copy",
    "token",
    "lock",
    "file",
    "object",
    "pixel",
];

/// Amounts that are read twice in "bytes an item", and not in "bytes per item".
const AMOUNTS: [&str; 8] =
    ["bytes", "bits", "microseconds", "nanoseconds", "instructions", "KiB", "MiB", "one"];

const UNITS: [&str; 21] = [
    "line",
    "thread",
    "key",
    "item",
    "server",
    "worker",
    "processor",
    "class",
    "page",
    "turn",
    "request",
    "connection",
    "batch",
    "bucket",
    "core",
    "row",
    "client",
    "operation",
    "table",
    "user",
    "lookup",
];

/// Complains of banned phrases in a document's prose.
#[must_use]
pub fn check_english(path: &str, text: &str) -> Vec<String> {
    let words = words(text);
    let mut found = Vec::new();
    for at in 0..words.len() {
        let rest = &words[at..];
        for (phrase, instead) in BANNED {
            if begins_with(rest, phrase) {
                found.push(format!("{path}:{}: {phrase:?}: write {instead}", rest[0].line));
            }
        }
        if is_rate(rest) {
            let said = rest.iter().take(4).map(|word| word.plain).collect::<Vec<_>>().join(" ");
            found.push(format!("{path}:{}: {said:?} …: write per", rest[0].line));
        }
        if rest[0].begins_sentence && rest[0].plain == "Who" && !is_question(rest) {
            found.push(format!("{path}:{}: \"Who\" without a noun: name it", rest[0].line));
        }
    }
    found
}

/// Complains of a page of more than [`WORDS_MAX`] words.
#[must_use]
pub fn check_length(path: &str, text: &str) -> Vec<String> {
    let count = words(text).iter().filter(|word| !word.plain.is_empty()).count();
    let is_long = count > WORDS_MAX;
    is_long
        .then(|| format!("{path}: {count} words: make two pages of it, at most {WORDS_MAX} each"))
        .into_iter()
        .collect()
}

/// Complains of sentences of more than [`SENTENCE_WORDS_MAX`] words. Colons and semicolons end one too, and so do cells.
#[must_use]
pub fn check_sentences(path: &str, text: &str) -> Vec<String> {
    let words = words(text);
    let sentences = words.chunk_by(|_, next| !next.begins_sentence);
    let length = |s: &[Word<'_>]| s.iter().filter(|word| !word.plain.is_empty()).count();
    let long = sentences.filter(|s| length(s) > SENTENCE_WORDS_MAX);
    long.map(|s| {
        format!(
            "{path}:{}: a sentence of {} words: make two of it, at most {SENTENCE_WORDS_MAX} each",
            s[0].line,
            length(s)
        )
    })
    .collect()
}

/// A word of prose.
struct Word<'t> {
    line: usize,
    /// As it stands there.
    raw: &'t str,
    /// Without punctuation; empty for a dash or a table's bar.
    plain: &'t str,
    begins_sentence: bool,
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let (mut is_code, mut is_fenced) = (false, false);
    // Paragraphs and headings begin a sentence, whatever the line before ended with.
    let mut begins = true;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if is_fenced {
            continue;
        }
        let is_apart = line.trim().is_empty() || line.starts_with(['#', '|']);
        if is_apart {
            is_code = false;
        }
        begins |= is_apart;
        for (part, piece) in line.split('`').enumerate() {
            is_code ^= part > 0;
            for raw in piece.split_whitespace().filter(|_| !is_code) {
                let plain = raw.trim_matches(|c: char| !c.is_alphanumeric());
                let before = words.last().map_or(".", |word| word.raw);
                begins |= before.ends_with(['.', ':', ';', '?', '!', '|']) || before == "-";
                words.push(Word { line: at + 1, raw, plain, begins_sentence: begins });
                begins &= plain.is_empty();
            }
        }
        begins |= line.starts_with('#');
    }
    words
}

fn begins_with(words: &[Word<'_>], phrase: &str) -> bool {
    let mut wanted = phrase.split(' ');
    let same = wanted.by_ref().zip(words).all(|(w, word)| word.plain.eq_ignore_ascii_case(w));
    same && phrase.split(' ').count() <= words.len()
}

/// "a line a key", "one a thread", "bytes an item".
fn is_rate(words: &[Word<'_>]) -> bool {
    let plain = |at: usize| words.get(at).map_or("", |word| word.plain);
    let is_article = |at: usize| matches!(plain(at), "a" | "an");
    let of_each = |at: usize| is_article(at) && UNITS.contains(&plain(at + 1));
    // A comma, or the end of a sentence, parts two things.
    let is_joined = |at: usize| words.get(at).is_some_and(|word| word.raw.ends_with(word.plain));
    (is_article(0) && THINGS.contains(&plain(1)) && is_joined(1) && of_each(2))
        || (AMOUNTS.contains(&plain(0)) && is_joined(0) && of_each(1))
}

fn is_question(words: &[Word<'_>]) -> bool {
    words
        .iter()
        .find(|word| word.raw.ends_with(['.', '?', ';']))
        .is_some_and(|w| w.raw.ends_with('?'))
}
