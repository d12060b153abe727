//! A session of a database's own client, one that stays for many statements.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::server::Running;

/// A session of SQL.
pub struct Sql {
    _child: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
    /// The line that has the client print a mark.
    echo: fn(&str) -> String,
}

impl Sql {
    /// Starts a client that prints rows, columns apart by tabs, and what `echo`'s line asks for.
    ///
    /// # Panics
    /// If the client isn't there; `package` has it.
    #[must_use]
    pub fn start(client: &mut Command, package: &str, echo: fn(&str) -> String) -> Self {
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child: Child = client
            .spawn()
            .unwrap_or_else(|_| panic!("apt-get install {package} brings {client:?}"));
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let output = BufReader::new(output.expect("it is piped"));
        let input = input.expect("it is piped");
        Self { _child: Running(child), input, output, asked: 0, echo }
    }

    /// Executes statements and returns the rows, columns apart by tabs. `None`: the server is gone.
    pub fn try_ask(&mut self, statements: &str) -> Option<Vec<String>> {
        self.asked += 1;
        let mark = format!("-- asked {} --", self.asked);
        writeln!(self.input, "{statements};\n{}", (self.echo)(&mark)).ok()?;
        self.input.flush().ok()?;
        let mut rows = Vec::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            if line == mark {
                return Some(rows);
            }
            rows.push(line.to_owned());
        }
    }

    /// As [`Self::try_ask`].
    ///
    /// # Panics
    /// If the server is gone.
    pub fn ask(&mut self, statements: &str) -> Vec<String> {
        self.try_ask(statements).unwrap_or_else(|| panic!("the database ends at {statements}"))
    }

    /// Sends statements and doesn't wait.
    ///
    /// # Panics
    /// If the client is gone.
    pub fn begin(&mut self, statements: &str) {
        writeln!(self.input, "{statements};").expect("the client reads");
        self.input.flush().expect("the client reads");
    }
}
