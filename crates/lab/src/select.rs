//! Which experiments a command line names.

use anyhow::{Result, bail};
use guira_front::meant::meant;

use crate::experiment::{Experiment, Paper};

/// Returns the experiments that `names` select: ids, papers, "quick" or "all". Each comes once, in the order of
/// declaration.
///
/// # Errors
/// If a name is unknown, with the nearest known one; or if nothing is left to run.
pub(crate) fn select<'e>(
    names: &[String],
    declared: &[&'e Experiment],
) -> Result<Vec<&'e Experiment>> {
    for name in names {
        if !declared.iter().any(|it| is_meant(it, name)) && !is_group(name) {
            bail!("{}", unknown(name, declared));
        }
    }
    let is_named = |it: &&&Experiment| names.iter().any(|name| is_meant(it, name));
    let chosen: Vec<_> = declared.iter().filter(is_named).copied().collect();
    if chosen.is_empty() {
        bail!("no experiment is of {}; \"guira lab list\" shows them all", names.join(", "));
    }
    Ok(chosen)
}

fn is_meant(experiment: &Experiment, name: &str) -> bool {
    let is = |word: &str| name.eq_ignore_ascii_case(word);
    is(experiment.id)
        || is(experiment.paper.name())
        || is("all")
        || is("quick") && experiment.is_quick
}

fn is_group(name: &str) -> bool {
    groups().any(|group| name.eq_ignore_ascii_case(group))
}

fn groups() -> impl Iterator<Item = &'static str> + Clone {
    Paper::ALL.into_iter().map(Paper::name).chain(["quick", "all"])
}

fn unknown(name: &str, declared: &[&Experiment]) -> String {
    let known = declared.iter().map(|it| it.id).chain(groups());
    let hint = meant(name, known)
        .map_or_else(|| ";".into(), |nearest| format!("; did you mean \"{nearest}\"?"));
    format!("there is no experiment \"{name}\"{hint} \"guira lab list\" shows them all")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{HOLDS, NOISY};

    fn ids(names: &[&str]) -> Result<Vec<&'static str>> {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        Ok(select(&names, &[&HOLDS, &NOISY])?.into_iter().map(|it| it.id).collect())
    }

    #[test]
    fn ids_papers_and_groups_select_each_experiment_once_in_the_declared_order() {
        assert_eq!(
            ids(&["planted-noisy", "planted-holds", "planted-noisy"]).unwrap(),
            ids(&["all"]).unwrap()
        );
        assert_eq!(ids(&["Ours"]).unwrap(), ["planted-holds", "planted-noisy"]);
        assert_eq!(ids(&["quick"]).unwrap(), ["planted-holds"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_and_where_to_look() {
        let error = ids(&["planted-hold"]).unwrap_err().to_string();
        assert!(error.contains("did you mean \"planted-holds\"?"), "{error}");
        assert!(error.contains("guira lab list"), "{error}");
        assert!(!ids(&["xyz"]).unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn a_paper_without_experiments_says_so() {
        assert!(ids(&["mercury"]).unwrap_err().to_string().contains("no experiment is of mercury"));
    }
}
