//! Numbers as people read them.

/// Four digits that say something.
pub(crate) fn figure(number: f64) -> String {
    let magnitude = number.abs();
    if !number.is_finite() {
        return "no number".into();
    }
    if magnitude != 0.0 && magnitude < 1e-4 {
        return format!("{number:.1e}");
    }
    let decimals = [1000.0, 100.0, 10.0, 1.0].iter().take_while(|&&step| magnitude < step).count();
    trimmed(&format!("{number:.decimals$}"))
}

/// A label of an axis: 2500 is "2.5k", a million "1M".
pub(crate) fn label(number: f64) -> String {
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let exact = |value: f64, unit: &str| trimmed(&format!("{value:.3}")) + unit;
    match steps.iter().find(|(step, _)| number.abs() >= 0.9999 * step) {
        Some((step, unit)) => exact(number / step, unit),
        None if number != 0.0 && number.abs() < 1e-3 => format!("{number:e}"),
        None => exact(number, ""),
    }
}

/// Without zeros behind the last digit that counts.
fn trimmed(number: &str) -> String {
    if !number.contains('.') {
        return number.to_owned();
    }
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_four_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.945_67, "0.9457"),
            (12.345_6, "12.35"),
            (1.25, "1.25"),
            (-3.0, "-3"),
            (123_456.7, "123457"),
            (0.000_012, "1.2e-5"),
            (f64::NAN, "no number"),
            (f64::INFINITY, "no number"),
        ];
        for (number, text) in cases {
            assert_eq!(figure(number), text);
        }
    }

    #[test]
    fn labels_are_short() {
        let cases = [
            (0.0, "0"),
            (0.05, "0.05"),
            (500.0, "500"),
            (1000.0, "1k"),
            (2500.0, "2.5k"),
            (1e6, "1M"),
            (-2e9, "-2G"),
            (1e-5, "1e-5"),
        ];
        for (number, text) in cases {
            assert_eq!(label(number), text);
        }
    }
}
