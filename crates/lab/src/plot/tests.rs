//! Plots that are well formed whatever their points, and one in full.

use super::*;
use crate::outcome::Series;
use crate::planted::{HOLDS, measured};
use expect_test::expect_file;

fn axis(label: &str, is_log: bool, categories: &[&str]) -> Axis {
    Axis {
        label: label.into(),
        is_log,
        categories: categories.iter().map(|&name| name.into()).collect(),
    }
}

fn series(name: &str, points: &[(f64, f64)], is_papers: bool) -> Series {
    Series { name: name.into(), points: points.to_vec(), is_papers }
}

/// How many elements of that class a plot has; it must be XML without anything that isn't a number.
fn count(plot: &Plot, class: &str) -> usize {
    let text = svg(plot);
    let tree = roxmltree::Document::parse(&text).expect("well-formed XML");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let classes = |node: &roxmltree::Node<'_, '_>| node.attribute("class").map(str::to_owned);
    let all = tree.descendants().filter_map(|node| classes(&node));
    all.filter(|it| it.split(' ').any(|word| word == class)).count()
}

#[test]
fn a_plot_is_the_same_bytes_each_time() {
    let plot = &(HOLDS.judge)(&measured(2.0)).plots[0];
    expect_file!["small.svg"].assert_eq(&svg(plot));
}

#[test]
fn points_that_no_axis_can_show_are_left_out() {
    let points = [
        (1.0, 1.0),
        (2.0, f64::NAN),
        (f64::INFINITY, 3.0),
        (4.0, f64::NEG_INFINITY),
        (5.0, 2.0),
        (0.0, 1.0),
        (6.0, -1.0),
    ];
    for (is_log, shown) in [(true, 2), (false, 4)] {
        let plot = Plot {
            title: "a < b & \"c\"".into(),
            x: axis("x, ns", is_log, &[]),
            y: axis("y", is_log, &[]),
            series: vec![series("<s>", &points, false)],
        };
        assert_eq!(count(&plot, "mark"), shown + 1, "and one in the legend");
    }
}

#[test]
fn a_plot_of_nothing_says_so() {
    for points in [&[][..], &[(f64::NAN, 1.0)]] {
        for is_log in [false, true] {
            let plot = Plot {
                title: String::new(),
                x: axis("", is_log, &[]),
                y: axis("", is_log, &[]),
                series: vec![series("", points, false)],
            };
            assert_eq!(count(&plot, "mark"), 1, "in the legend");
            assert!(svg(&plot).contains("no figures"));
        }
    }
}

#[test]
fn categories_have_a_bar_a_series_and_the_papers_are_marked() {
    let points = [(0.0, 13.3), (1.0, 9.5), (2.0, f64::NAN)];
    let plot = Plot {
        title: "bytes a key".into(),
        x: axis(
            "",
            false,
            &[
                "chaining",
                "cuckoo with a very_long_name_that_fits_nowhere_at_all_as_a_word",
                "none",
            ],
        ),
        y: axis("bytes", false, &[]),
        series: vec![series("here", &points, false), series("paper", &points, true)],
    };
    assert_eq!(count(&plot, "bar"), 4 + 2, "and one a series in the legend");
    assert_eq!(count(&plot, "papers"), 2 + 1);
}

#[test]
fn long_series_have_fewer_markers_than_points() {
    let points: Vec<_> = (0..1000).map(|n| (f64::from(n), f64::from(n))).collect();
    let plot = Plot {
        title: String::new(),
        x: axis("x", false, &[]),
        y: axis("y", false, &[]),
        series: vec![series("s", &points, false)],
    };
    assert!(count(&plot, "mark") <= 42);
}
