//! A page's blocks of commands, in order, with the marks before them.

/// What a page has a reader do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A file that the page shows, or commands that are given: written, or run, before what follows.
    File {
        /// Where the block begins, from 1.
        line: usize,
        /// Its name, from the mark.
        name: String,
        /// What the block holds.
        text: String,
    },
    /// Commands without output, as in a ` ```sh ` block: they must succeed.
    Copied {
        /// Where they begin, from 1.
        line: usize,
        /// The commands.
        script: String,
        /// They run until the page's end.
        stays: bool,
    },
    /// A command of a ` ```console ` block with what it prints.
    Shown {
        /// Where the command stands, from 1.
        line: usize,
        /// What follows `$ `.
        command: String,
        /// The lines below, each with its newline.
        shown: String,
        /// A number stands for any number.
        numbers_vary: bool,
        /// It runs until the page's end.
        stays: bool,
    },
    /// A block that can't run in a test.
    Skipped {
        /// Where it begins, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
}

impl Step {
    /// Where it stands on the page, from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        match self {
            Self::File { line, .. }
            | Self::Copied { line, .. }
            | Self::Shown { line, .. }
            | Self::Skipped { line, .. } => *line,
        }
    }
}

/// The marks before a block.
#[derive(Default)]
struct Marks {
    skip: Option<String>,
    file: Option<String>,
    numbers_vary: bool,
    stays: bool,
    line: usize,
}

impl Marks {
    const fn is_empty(&self) -> bool {
        self.skip.is_none() && self.file.is_none() && !self.numbers_vary && !self.stays
    }
}

/// A block between two fences.
struct Block<'a> {
    line: usize,
    language: &'a str,
    text: String,
}

/// What `text` has a reader do, in order.
///
/// # Errors
/// An unknown mark, a mark without a block, a block that doesn't end.
pub fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut found = Vec::new();
    let mut marks = Marks::default();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let trimmed = line.trim_start();
        if let Some(mark) = trimmed.strip_prefix("<!-- test:") {
            let mark = mark.trim().strip_suffix("-->").ok_or(format!("line {}: no -->", at + 1))?;
            take_mark(mark.trim(), at + 1, &mut marks, &mut found)?;
        } else if let Some(language) = trimmed.strip_prefix("```") {
            let indent = line.len() - trimmed.len();
            let mut block = Block { line: at + 1, language: language.trim(), text: String::new() };
            loop {
                let (_, line) = lines.next().ok_or(format!("line {}: no end", at + 1))?;
                if line.trim() == "```" {
                    break;
                }
                block.text.push_str(line.get(indent..).unwrap_or_default());
                block.text.push('\n');
            }
            take_block(&block, std::mem::take(&mut marks), &mut found)?;
        } else if !trimmed.is_empty() && !marks.is_empty() {
            return Err(format!("line {}: a mark without a block below it", marks.line));
        }
    }
    if marks.is_empty() {
        Ok(found)
    } else {
        Err(format!("line {}: a mark at the end", marks.line))
    }
}

fn take_mark(
    mark: &str,
    line: usize,
    marks: &mut Marks,
    found: &mut Vec<Step>,
) -> Result<(), String> {
    let (word, rest) = mark.split_once(' ').unwrap_or((mark, ""));
    marks.line = line;
    match (word, rest) {
        ("given", script) if !script.is_empty() => {
            refuse_lists(script, line)?;
            found.push(Step::Copied { line, script: script.into(), stays: false });
        }
        ("skip", reason) if !reason.is_empty() => marks.skip = Some(reason.into()),
        ("file", name) if !name.is_empty() => marks.file = Some(name.into()),
        ("numbers", "vary") => marks.numbers_vary = true,
        ("stays", "") => marks.stays = true,
        _ => return Err(format!("line {line}: {mark:?} is no mark")),
    }
    Ok(())
}

/// bash tells nobody of a command that fails before `&&`.
fn refuse_lists(script: &str, line: usize) -> Result<(), String> {
    if script.contains(" && ") {
        return Err(format!("line {line}: `a && b` hides that a fails: write them on two lines"));
    }
    Ok(())
}

fn take_block(block: &Block<'_>, marks: Marks, found: &mut Vec<Step>) -> Result<(), String> {
    let line = block.line;
    if let Some(name) = marks.file {
        found.push(Step::File { line, name, text: block.text.clone() });
        return Ok(());
    }
    match (block.language, marks.skip) {
        ("sh" | "bash" | "console", Some(reason)) => found.push(Step::Skipped { line, reason }),
        ("sh" | "bash", None) => {
            refuse_lists(&block.text, line)?;
            let script = block.text.trim_end().to_owned();
            found.push(Step::Copied { line, script, stays: marks.stays });
        }
        ("console", None) => {
            let begin = found.len();
            take_commands(block, marks.numbers_vary, found)?;
            if found.len() == begin {
                return Err(format!("line {line}: a console block without `$ `"));
            }
            if let Some(Step::Shown { stays, .. }) = found.last_mut() {
                *stays = marks.stays;
            }
        }
        (_, None) if !marks.numbers_vary && !marks.stays => {}
        (language, _) => return Err(format!("line {line}: a mark before a block of {language:?}")),
    }
    Ok(())
}

/// The commands of a console block. A command ends with the first line that doesn't end in a backslash.
fn take_commands(block: &Block<'_>, vary: bool, found: &mut Vec<Step>) -> Result<(), String> {
    let begin = found.len();
    let mut goes_on = false;
    for (at, text) in block.text.lines().enumerate() {
        let line = block.line + 1 + at;
        let first = text.strip_prefix("$ ");
        if let (Some(command), false) = (first, goes_on) {
            let command = command.to_owned();
            let shown = String::new();
            found.push(Step::Shown { line, command, shown, numbers_vary: vary, stays: false });
        } else if let Some(Step::Shown { command, shown, .. }) = found[begin..].last_mut() {
            let target = if goes_on { command } else { shown };
            target.push_str(if goes_on { "\n" } else { "" });
            target.push_str(text);
            target.push_str(if goes_on { "" } else { "\n" });
        } else {
            return Err(format!("line {line}: output before a command"));
        }
        goes_on = text.ends_with('\\') && (goes_on || first.is_some());
    }
    Ok(())
}
