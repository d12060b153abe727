//! `guira lab list`: the experiments that can be run.

use std::fmt::Write;

use crate::console::table;
use crate::experiment::Experiment;

/// Returns a table of `declared`, or with `long` a paragraph for each experiment. It has no verdicts: those belong to a
/// run.
pub(crate) fn list(declared: &[&Experiment], long: bool) -> String {
    if long {
        return declared.iter().map(|it| paragraph(it)).collect::<Vec<_>>().join("\n");
    }
    let mut table = table(&["id", "paper", "what"]);
    for it in declared {
        let quick = if it.is_quick { " (quick)" } else { "" };
        table.add_row([
            it.id.to_owned(),
            it.paper.name().to_owned(),
            format!("{}{quick}", it.title),
        ]);
    }
    table.to_string()
}

fn paragraph(it: &Experiment) -> String {
    let mut text = format!("{}  ({}) {}\n", it.id, it.paper.name(), it.title);
    let mut row = |name: &str, what: &str| {
        writeln!(text, "    {name:<12} {what}").expect("a string takes all");
    };
    row("claim:", it.claim);
    row("must show:", it.shape);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{ENDS, HOLDS};

    #[test]
    fn the_list_names_id_paper_and_title_and_the_long_one_claim_and_shape() {
        let short = list(&[&HOLDS, &ENDS], false);
        for word in ["planted-holds", "planted-error", "ours", HOLDS.title, "(quick)"] {
            assert!(short.contains(word), "{word} is missing\n{short}");
        }
        let long = list(&[&HOLDS], true);
        for word in [HOLDS.claim, HOLDS.shape] {
            assert!(long.contains(word), "{word} is missing\n{long}");
        }
    }
}
