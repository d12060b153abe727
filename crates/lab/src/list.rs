//! `guira lab list`: what there is to run.

use std::fmt::Write;

use crate::console::table;
use crate::experiment::Experiment;

/// The table of `declared`, or with `long` a paragraph an experiment.
pub(crate) fn list(declared: &[&Experiment], long: bool) -> String {
    if long {
        return declared.iter().map(|it| paragraph(it)).collect::<Vec<_>>().join("\n");
    }
    let mut table = table(&["id", "paper", "what", "verdict"]);
    for it in declared {
        let quick = if it.is_quick { " (quick)" } else { "" };
        table.add_row([
            it.id.to_owned(),
            it.paper.name().to_owned(),
            format!("{}{quick}", it.title),
            it.verdict.short().to_owned(),
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
    row("verdict:", it.verdict.short());
    if let Some(why) = it.verdict.why() {
        row("because:", why);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{ENDS, HOLDS};

    #[test]
    fn the_list_names_id_paper_title_and_verdict_and_the_long_one_claim_and_shape() {
        let short = list(&[&HOLDS, &ENDS], false);
        for word in
            ["planted-holds", "planted-error", "ours", HOLDS.title, "not testable", "(quick)"]
        {
            assert!(short.contains(word), "{word} is missing\n{short}");
        }
        let long = list(&[&HOLDS], true);
        for word in [HOLDS.claim, HOLDS.shape, "one and two | are not measured"] {
            assert!(long.contains(word), "{word} is missing\n{long}");
        }
    }
}
