//! Wrong results, planted to test whether an experiment's checks detect them.
//!
//! A check that passes whatever was measured proves nothing. So an experiment's data is falsified in several ways, and
//! judged again. Each time something must fail:
//!
//! - **swapped**: two lines change places. For each line at least one such exchange must be detected.
//! - **flat**: a line keeps its first value. If the claim is that a line is flat, it is made steep instead.
//! - **constant**: every line is 1 everywhere.
//! - **not a number**: a line was not measured.
//!
//! A check that this run can't judge, because a control is too weak, counts as well if its bound would detect the change.
//!
//! Lines on which no claim rests ([`Role::Aside`]) stay unchanged: they are controls and circumstances. If nothing could be
//! judged, since what is measured isn't installed, there is nothing to falsify.

use crate::data::{Data, Line, Role};
use crate::experiment::Experiment;
use crate::outcome::CheckStanding;

/// Returns the plants that `experiment` doesn't detect in `data`, described in words.
pub(crate) fn unnoticed(experiment: &Experiment, data: &Data) -> Vec<String> {
    let truth = (experiment.judge)(data).checks;
    let is_judged = |line: &Line| line.role != Role::Aside;
    if !truth.is_empty()
        && truth.iter().all(|check| check.standing() == CheckStanding::NotJudged)
        && !data.lines.iter().any(is_judged)
    {
        return Vec::new();
    }
    let is_noticed = |falsified: &Data| {
        let checks = (experiment.judge)(falsified).checks;
        checks.iter().zip(&truth).any(|(check, of_truth)| match check.standing() {
            CheckStanding::Fails => true,
            CheckStanding::Holds => false,
            CheckStanding::NotJudged => {
                let differs = check.measured.to_bits() != of_truth.measured.to_bits();
                differs && !check.bound.holds(check.measured)
            }
        })
    };
    let planted = plants(data).into_iter();
    let unnoticed = planted.filter(|plant| !plant.results.iter().any(is_noticed));
    unnoticed.map(|plant| plant.what).collect()
}

/// A falsification, and its possible results, one of which must be detected.
struct Plant {
    what: String,
    results: Vec<Data>,
}

fn plants(data: &Data) -> Vec<Plant> {
    let judged: Vec<usize> =
        (0..data.lines.len()).filter(|&line| data.lines[line].role != Role::Aside).collect();
    let mut all = Vec::new();
    for &line in &judged {
        let name = &data.lines[line].name;
        let of_its_length = |&other: &usize| {
            other != line && data.lines[other].points.len() == data.lines[line].points.len()
        };
        let others = judged.iter().copied().filter(of_its_length);
        let results: Vec<Data> = others.map(|other| swapped(data, line, other)).collect();
        if !results.is_empty() {
            all.push(Plant { what: format!("\"{name}\" exchanged with another line"), results });
        }
        let results = vec![not_measured(data, line)];
        all.push(Plant { what: format!("\"{name}\" not a number"), results });
        if data.lines[line].points.len() > 1 {
            let (how, bend): (_, fn(&mut Line)) = match data.lines[line].role {
                Role::Flat => ("made steep", steepen),
                _ => ("made flat", flatten),
            };
            let mut falsified = data.clone();
            bend(&mut falsified.lines[line]);
            all.push(Plant { what: format!("\"{name}\" {how}"), results: vec![falsified] });
        }
    }
    let mut constant = data.clone();
    for &line in &judged {
        constant.lines[line].points.iter_mut().for_each(|point| point.samples.fill(1.0));
    }
    all.push(Plant { what: "every line 1 everywhere".into(), results: vec![constant] });
    all
}

/// Exchanges the figures of two lines.
fn swapped(data: &Data, one: usize, other: usize) -> Data {
    let mut data = data.clone();
    for place in 0..data.lines[one].points.len() {
        let samples = std::mem::take(&mut data.lines[one].points[place].samples);
        let samples = std::mem::replace(&mut data.lines[other].points[place].samples, samples);
        data.lines[one].points[place].samples = samples;
    }
    data
}

/// Removes all figures of a line: functions that take a minimum or maximum must not ignore it.
fn not_measured(data: &Data, line: usize) -> Data {
    let mut data = data.clone();
    data.lines[line].points.iter_mut().for_each(|point| point.samples.fill(f64::NAN));
    data
}

fn flatten(line: &mut Line) {
    let first = line.points[0].samples.clone();
    line.points.iter_mut().for_each(|point| point.samples.clone_from(&first));
}

/// Makes the second point twice the first, the third three times, and so on.
fn steepen(line: &mut Line) {
    let first = line.points[0].samples.clone();
    for (place, point) in line.points.iter_mut().enumerate() {
        point.samples = first.iter().map(|it| it * (place + 1) as f64).collect();
    }
}

/// Checks that all of an experiment's checks hold of `data`, and that they notice each plant in it.
#[cfg(test)]
pub(crate) fn assert_faultless(experiment: &Experiment, data: &Data) {
    for check in (experiment.judge)(data).checks {
        let (claim, measured, bound) = (&check.claim, check.measured, check.bound);
        assert_eq!(check.standing(), CheckStanding::Holds, "{claim}: {measured}, must be {bound}");
    }
    assert_eq!(unnoticed(experiment, data), Vec::<String>::new());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::{BLIND, HOLDS, measured};

    #[test]
    fn an_experiment_that_checks_height_and_shape_notices_everything() {
        assert_eq!(unnoticed(&HOLDS, &measured(2.0)), Vec::<String>::new());
    }

    #[test]
    fn an_experiment_that_always_holds_is_found_out() {
        let unnoticed = unnoticed(&BLIND, &measured(2.0));
        assert_eq!(
            unnoticed,
            [
                "\"cuckoo\" exchanged with another line",
                "\"cuckoo\" not a number",
                "\"cuckoo\" made flat",
                "\"chaining\" exchanged with another line",
                "\"chaining\" not a number",
                "\"chaining\" made steep",
                "every line 1 everywhere"
            ]
        );
    }
}
