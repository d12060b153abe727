//! Numbers formatted for people.

/// Formats a number with four significant digits.
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

/// Formats an axis label: 2500 is "2.5k", a million "1M". 2048, which three digits can't represent, stays as it is.
pub(crate) fn label(number: f64) -> String {
    let magnitude = number.abs();
    let steps = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.iter().find(|(step, _)| magnitude >= 0.9999 * step) {
        Some((step, unit)) => {
            let short = three_digits(number / step);
            let is_exact = (short * step - number).abs() < magnitude * 1e-6;
            if is_exact || magnitude >= 1e5 {
                trimmed(&format!("{short:.2}")) + unit
            } else {
                format!("{number:.0}")
            }
        }
        None if number != 0.0 && magnitude < 1e-3 => format!("{number:e}"),
        None => trimmed(&format!("{number:.4}")),
    }
}

/// Rounds to three significant digits.
pub(crate) fn three_digits(number: f64) -> f64 {
    rounded(number, 2)
}

/// Rounds to two significant digits.
pub(crate) fn two_digits(number: f64) -> f64 {
    rounded(number, 1)
}

fn rounded(number: f64, further_digits: i32) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let unit = number.abs().log10().floor() - f64::from(further_digits);
    // With a division by a whole power of ten instead of a multiplication by a fraction, 7.1 stays 7.1.
    if unit < 0.0 {
        let scale = 10f64.powf(-unit);
        (number * scale).round() / scale
    } else {
        let scale = 10f64.powf(unit);
        (number / scale).round() * scale
    }
}

/// Removes zeros after the last significant digit.
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
            (2048.0, "2048"),
            (65536.0, "65536"),
            (1_048_576.0, "1.05M"),
            (0.9375, "0.9375"),
            (1e6, "1M"),
            (-2e9, "-2G"),
            (1e-5, "1e-5"),
        ];
        for (number, text) in cases {
            assert_eq!(label(number), text);
        }
    }
}
