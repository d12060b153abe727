//! Whether a paper's claim holds: computed from the checks of the run that made the page, never written by hand.
//!
//! Each check that has the paper's statement about its figure ([`Said`]) agrees with the paper, shows a weaker effect,
//! or contradicts it. The experiment's verdict is the worst of these.

use crate::outcome::{Check, CheckStanding, Said};
use std::fmt;

/// What became of the claims of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The worst of the claims that could be judged.
    pub finding: Finding,
    /// Checks that could not be judged in this run, the paper's and ours.
    pub not_judged: usize,
}

/// What became of a claim; the better first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// The figure is where the paper's is.
    Reproduced,
    /// The effect is there, and smaller than in the paper.
    Weaker,
    /// The effect is absent, or the other way round.
    Contradicted,
    /// The machine can't show it.
    NotTestable,
}

impl Verdict {
    /// Of the checks of a run.
    #[must_use]
    pub(crate) fn of(checks: &[Check]) -> Self {
        let findings = || checks.iter().filter_map(finding);
        let judged = findings().filter(|it| *it != Finding::NotTestable);
        Self {
            finding: judged.max().unwrap_or(Finding::NotTestable),
            not_judged: checks
                .iter()
                .filter(|it| it.standing() == CheckStanding::NotJudged)
                .count(),
        }
    }
}

/// Returns what a check shows about the paper's claim; `None` if the paper makes none about that figure.
#[must_use]
pub(crate) fn finding(check: &Check) -> Option<Finding> {
    let said = check.paper.as_ref()?;
    Some(match check.standing() {
        CheckStanding::NotJudged => Finding::NotTestable,
        _ => compare(said, check.measured),
    })
}

fn compare(said: &Said, measured: f64) -> Finding {
    if said.bound.holds(measured) {
        return Finding::Reproduced;
    }
    let (least, most) = said.bound.ends();
    let is_weaker = said.absent_at.is_some_and(|absent| {
        (absent < measured && measured < least) || (most < measured && measured < absent)
    });
    if is_weaker { Finding::Weaker } else { Finding::Contradicted }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reproduced => "reproduced",
            Self::Weaker => "weaker",
            Self::Contradicted => "contradicted",
            Self::NotTestable => "not testable here",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.finding)?;
        match (self.finding, self.not_judged) {
            (Finding::NotTestable, _) | (_, 0) => Ok(()),
            (_, 1) => f.write_str(", one check not judged"),
            (_, n) => write!(f, ", {n} checks not judged"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::check;
    use crate::outcome::Bound;

    fn twice(measured: f64) -> Check {
        check("", measured, Bound::AtLeast(0.0), "").paper("2", Bound::AtLeast(1.8))
    }

    #[test]
    fn an_effect_is_there_or_weaker_or_absent() {
        let found = [2.0, 1.8, 1.2, 1.0, 0.5, f64::NAN].map(|it| finding(&twice(it)).unwrap());
        use Finding::{Contradicted, Reproduced, Weaker};
        assert_eq!(
            found,
            [Reproduced, Reproduced, Weaker, Contradicted, Contradicted, Contradicted]
        );
        let fewer = |it| {
            let check = check("", it, Bound::AtLeast(0.0), "");
            finding(&check.paper("a third", Bound::AtMost(0.4))).unwrap()
        };
        assert_eq!([0.3, 0.7, 1.5].map(fewer), [Reproduced, Weaker, Contradicted]);
        let exact = |it| {
            let check = check("", it, Bound::AtLeast(0.0), "");
            finding(&check.paper_exactly("12.6", Bound::Between(12.0, 13.0))).unwrap()
        };
        assert_eq!([12.5, 13.5].map(exact), [Reproduced, Contradicted]);
    }

    #[test]
    fn the_worst_claim_counts_and_what_is_not_judged_is_said() {
        let blind = || twice(2.0).judged_if(false, || "one processor".into());
        let ours = check("", 0.0, Bound::AtLeast(1.0), "");
        let our_blind = ours.clone().judged_if(false, || "no huge pages".into());
        let verdict = |checks: &[Check]| Verdict::of(checks).to_string();
        assert_eq!(verdict(&[twice(2.0), ours.clone()]), "reproduced");
        assert_eq!(verdict(&[twice(2.0), twice(1.2)]), "weaker");
        assert_eq!(verdict(&[twice(0.5), twice(1.2)]), "contradicted");
        assert_eq!(verdict(&[twice(2.0), blind()]), "reproduced, one check not judged");
        assert_eq!(verdict(&[twice(2.0), our_blind]), "reproduced, one check not judged");
        assert_eq!(verdict(&[blind(), ours]), "not testable here");
    }
}
