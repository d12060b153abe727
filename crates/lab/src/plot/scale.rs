//! The positions of values along an axis, and which of them are labelled.

use crate::number::label;

/// The values from one end of an axis to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Span {
    /// Creates the span of `values`, which are finite, and positive if `is_log`. Without values: from 0 to 1, or from 1
    /// to 10.
    pub(super) fn of(values: impl Iterator<Item = f64>, is_log: bool) -> Self {
        let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let (mut low, mut high) = ends.unwrap_or(if is_log { (1.0, 10.0) } else { (0.0, 1.0) });
        if low == high {
            let apart = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
            (low, high) =
                if is_log { (low / 2.0, high * 2.0) } else { (low - apart, high + apart) };
        }
        Self { low, high, is_log }
    }

    /// Widens the span to round ends, and to zero if that is near.
    pub(super) fn widen(&mut self) {
        if self.is_log {
            self.low = round_log(self.low, false);
            self.high = round_log(self.high, true);
            return;
        }
        if self.low > 0.0 && self.low < self.high * ZERO_IS_NEAR {
            self.low = 0.0;
        }
        let step = step(self.high - self.low, 6.0);
        self.low = (self.low / step + 1e-9).floor() * step;
        self.high = (self.high / step - 1e-9).ceil() * step;
    }

    /// Like [`Self::widen`], from zero, with room above for a figure.
    pub(super) fn widen_for_bars(&mut self) {
        if !self.is_log {
            self.low = self.low.min(0.0);
            self.high += (self.high - self.low) * 0.05;
        }
        self.widen();
    }

    /// Returns round values and their labels, at least `apart` from each other on an axis of `length`.
    pub(super) fn ticks(&self, name: &str, length: f64, apart: f64) -> Vec<(f64, String)> {
        let values = if self.is_log { self.powers() } else { self.multiples(length, apart) };
        let place = Place::new(*self, 0.0, length);
        let decades = |value: &f64| is_decade(*value);
        let crowded = values.windows(2).any(|w| place.at(w[1]) - place.at(w[0]) < apart);
        let mut values = values;
        if self.is_log && crowded && values.iter().filter(|&value| decades(value)).count() > 1 {
            values.retain(decades);
        }
        let most = (length / apart).max(2.0);
        let nth = (values.len() as f64 / most).ceil().max(1.0);
        let kept = values.iter().enumerate().filter(|(at, _)| *at as f64 % nth == 0.0);
        kept.map(|(_, value)| (*value, self.label(name, *value))).collect()
    }

    /// Returns ticks at `values` if these are few and far enough apart, as numbers of threads are. Otherwise returns
    /// round ticks, to which the span is widened.
    pub(super) fn ticks_at(
        &mut self,
        values: &[f64],
        name: &str,
        length: f64,
    ) -> Vec<(f64, String)> {
        let mut few = values.to_vec();
        few.sort_by(f64::total_cmp);
        few.dedup();
        let mut padded = *self;
        padded.pad();
        let place = Place::new(padded, 0.0, length);
        let are_apart = few.windows(2).all(|w| place.at(w[1]) - place.at(w[0]) >= 40.0);
        if few.is_empty() || few.len() > 12 || !are_apart {
            self.widen();
            return self.ticks(name, length, 56.0);
        }
        *self = padded;
        let are_powers = few.iter().all(|&value| power_of_two(value).is_some_and(|n| n >= 10));
        let text = |value: f64| match power_of_two(value).filter(|_| are_powers) {
            Some(power) => format!("2{}", superscript(power)),
            None => self.label(name, value),
        };
        few.iter().map(|&value| (value, text(value))).collect()
    }

    /// Adds a little room at both ends for markers.
    fn pad(&mut self) {
        if self.is_log {
            let room = (self.high / self.low).powf(0.03);
            (self.low, self.high) = (self.low / room, self.high * room);
        } else {
            let room = (self.high - self.low) * 0.03;
            (self.low, self.high) = (self.low - room, self.high + room);
        }
    }

    /// 1, 2, 5, 10, … within the span.
    fn powers(&self) -> Vec<f64> {
        let first = self.low.log10().floor();
        let decades = (0..=40).map(|n| 10f64.powf(first + f64::from(n)));
        let all = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * decade));
        all.filter(|value| (self.low * 0.999..=self.high * 1.001).contains(value)).collect()
    }

    fn multiples(&self, length: f64, apart: f64) -> Vec<f64> {
        let step = step(self.high - self.low, (length / apart).clamp(2.0, 8.0));
        let first = (self.low / step - 1e-9).ceil();
        let all = (0..100).map(|n| (first + f64::from(n)) * step);
        all.take_while(|value| *value <= self.high + step * 1e-6).collect()
    }

    fn label(&self, name: &str, value: f64) -> String {
        match unit_of_time(name) {
            Some((_, unit_s)) if self.is_log => time(value * unit_s),
            _ => label(value),
        }
    }
}

/// Maps the values of a span to positions in the plot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    span: Span,
    from: f64,
    to: f64,
}

impl Place {
    /// The low end at `from`, the high one at `to`.
    pub(super) fn new(span: Span, from: f64, to: f64) -> Self {
        Self { span, from, to }
    }

    /// The place of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let Span { low, high, is_log } = self.span;
        let share = if is_log {
            (value / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Returns where bars begin: at zero, or at the low end if zero isn't on the axis.
    pub(super) fn base(&self) -> f64 {
        let Span { low, high, is_log } = self.span;
        self.at(if is_log || low > 0.0 { low } else { high.min(0.0) })
    }
}

/// If the label ends with a unit of time, returns the label without it, and the unit in seconds.
pub(super) fn unit_of_time(label: &str) -> Option<(&str, f64)> {
    let units = [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    units.iter().find_map(|(unit, seconds)| {
        let plain = label.strip_suffix(&format!(", {unit}"));
        Some((plain.or_else(|| label.strip_suffix(&format!(" ({unit})")))?, *seconds))
    })
}

fn time(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    match units.iter().find(|(unit, _)| seconds >= unit * 0.9999) {
        Some((unit, name)) => format!("{} {name}", label(seconds / unit)),
        None => format!("{} ns", label(seconds / 1e-9)),
    }
}

/// Returns the round step that divides `length` into about `parts`.
fn step(length: f64, parts: f64) -> f64 {
    let rough = length / parts;
    let decade = 10f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * decade >= rough * 0.999);
    digit.unwrap_or(10.0) * decade
}

/// Returns the nearest 1, 2 or 5 times a power of ten that isn't above `value`; with `up`, that isn't below.
fn round_log(value: f64, up: bool) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let digits = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * decade);
    let found = if up {
        digits.into_iter().find(|round| *round >= value * 0.999)
    } else {
        digits.into_iter().rev().find(|round| *round <= value * 1.001)
    };
    found.unwrap_or(value)
}

fn is_decade(value: f64) -> bool {
    (value.log10() - value.log10().round()).abs() < 1e-6
}

fn power_of_two(value: f64) -> Option<u32> {
    (0..64).find(|&n| 2f64.powi(n) == value).and_then(|n| u32::try_from(n).ok())
}

fn superscript(number: u32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digits = number.to_string();
    digits.bytes().map(|digit| DIGITS[usize::from(digit - b'0')]).collect()
}

/// If the least value is below this share of the greatest, the axis begins at zero, so that nearly flat lines look flat.
const ZERO_IS_NEAR: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ticks: &[(f64, String)]) -> Vec<&str> {
        ticks.iter().map(|(_, name)| name.as_str()).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_begin_at_zero_if_that_is_not_far() {
        let mut span = Span::of([0.9, 13.3].into_iter(), false);
        span.widen();
        assert_eq!(
            names(&span.ticks("MB", 300.0, 26.0)),
            ["0", "2", "4", "6", "8", "10", "12", "14"]
        );
        let mut high = Span::of([0.93, 0.96].into_iter(), false);
        high.widen();
        assert_eq!(
            names(&high.ticks("load", 300.0, 40.0)),
            ["0.93", "0.935", "0.94", "0.945", "0.95", "0.955", "0.96"]
        );
    }

    #[test]
    fn logarithmic_ticks_are_decades_and_times_have_units() {
        let mut span = Span::of([120.0, 4.1e6].into_iter(), true);
        span.widen();
        let ticks = span.ticks("insert latency, ns", 300.0, 26.0);
        assert_eq!(names(&ticks), ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]);
        assert_eq!(unit_of_time("insert latency, ns"), Some(("insert latency", 1e-9)));
        assert_eq!(unit_of_time("threads"), None);
    }

    #[test]
    fn few_values_are_their_own_ticks() {
        let values = [1.0, 2.0, 4.0, 8.0];
        let mut span = Span::of(values.into_iter(), false);
        assert_eq!(names(&span.ticks_at(&values, "threads", 600.0)), ["1", "2", "4", "8"]);
        let values = [32768.0, 65536.0];
        let mut span = Span::of(values.into_iter(), true);
        assert_eq!(names(&span.ticks_at(&values, "buckets", 600.0)), ["2¹⁵", "2¹⁶"]);
    }

    #[test]
    fn one_value_or_none_still_makes_a_span() {
        for values in [vec![], vec![0.0], vec![5.0], vec![-3.0, -3.0]] {
            for is_log in [false, true] {
                let usable = values.iter().copied().filter(|value| !is_log || *value > 0.0);
                let mut span = Span::of(usable, is_log);
                span.widen();
                assert!(span.low < span.high && span.ticks("", 300.0, 26.0).len() >= 2, "{span:?}");
            }
        }
    }
}
