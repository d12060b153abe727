//! Decimal numbers, read as memcached reads them and written without allocation.
//!
//! There are two grammars. The strict one (lengths, deltas, cas, times of `touch` and of the meta flags)
//! takes digits, with one `-` if the type is signed. The C one (flags and exptime of the `set` family)
//! also takes a `+`. Where memcached would truncate a value that exceeds 32 bits, it refuses a flag and
//! saturates a time.

/// Strict, at most 22 digits as sent.
#[inline]
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 22 {
        return None;
    }
    // 19 digits always fit, so the common case needs no check per digit.
    let (safe, rest) = text.split_at(text.len().min(19));
    let mut sum = 0u64;
    for &b in safe {
        sum = sum * 10 + digit(b)?;
    }
    for &b in rest {
        sum = sum.checked_mul(10)?.checked_add(digit(b)?)?;
    }
    Some(sum)
}

/// Strict, at most 11 digits as sent.
#[inline]
pub(crate) fn parse_u32(text: &[u8]) -> Option<u32> {
    if text.len() > 11 { None } else { u32::try_from(parse_u64(text)?).ok() }
}

/// Strict, with an optional `-`, at most 11 characters.
#[inline]
pub(crate) fn parse_i32(text: &[u8]) -> Option<i32> {
    if text.len() > 11 { None } else { i32::try_from(parse_i64(text)?).ok() }
}

/// Strict, with an optional `-`, at most 22 characters.
#[inline]
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] if text.len() <= 22 => 0i64.checked_sub_unsigned(parse_u64(digits)?),
        _ => i64::try_from(parse_u64(text)?).ok(),
    }
}

/// Parses client flags by C's rules; a value that is negative or exceeds 32 bits is refused.
#[inline]
pub(crate) fn parse_client_flags(text: &[u8]) -> Option<u32> {
    match text {
        [b'+', digits @ ..] => u32::try_from(parse_digits(digits)?).ok(),
        // C reads -0 as 0.
        [b'-', digits @ ..] => (parse_digits(digits)? == 0).then_some(0),
        digits => u32::try_from(parse_digits(digits)?).ok(),
    }
}

/// Parses an exptime by C's rules, saturated to 32 bits; 4,294,967,295 is libmemcached's form of -1.
#[inline]
pub(crate) fn parse_exptime(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let size = i64::try_from(parse_digits(digits)?).unwrap_or(i64::MAX);
    let value = match size {
        MINUS_ONE if !negative => -1,
        size if negative => -size,
        size => size,
    };
    Some(i32::try_from(value).unwrap_or(if negative { i32::MIN } else { i32::MAX }))
}

/// The form in which a client with unsigned times sends -1.
const MINUS_ONE: i64 = 0xffff_ffff;

/// Parses a finite decimal fraction.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() < 32)?;
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Parses any number of digits; the result saturates.
fn parse_digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut sum = 0u64;
    for &b in text {
        sum = sum.saturating_mul(10).saturating_add(digit(b)?);
    }
    Some(sum)
}

#[inline]
fn digit(b: u8) -> Option<u64> {
    let digit = b.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}

/// Appends `n` in decimal.
#[inline]
pub(crate) fn append_u64(out: &mut Vec<u8>, n: u64) {
    match u8::try_from(n) {
        // Most client flags are one digit; a push takes half the instructions of a buffer and a copy.
        Ok(n @ 0..10) => out.push(b'0' + n),
        _ => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
    }
}

/// Appends `n` in decimal.
pub(crate) fn append_i64(out: &mut Vec<u8>, n: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_numbers_are_digits_within_their_type() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("0018446744073709551615", Some(u64::MAX)),
            ("00018446744073709551615", None),
            ("18446744073709551616", None),
            ("99999999999999999999", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1a", None),
            ("1\t", None),
        ] {
            assert_eq!(parse_u64(text.as_bytes()), expected, "{text:?}");
        }
        for (text, expected) in [
            ("2147483647", Some(i32::MAX)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("-2147483649", None),
            ("000000000001", None),
            ("-", None),
            ("--1", None),
            ("-0", Some(0)),
        ] {
            assert_eq!(parse_i32(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(parse_u32(b"4294967296"), None);
    }

    #[test]
    fn c_numbers_take_a_sign_and_never_truncate() {
        for (text, flags, exptime) in [
            ("5", Some(5), Some(5)),
            ("+5", Some(5), Some(5)),
            ("-0", Some(0), Some(0)),
            ("-5", None, Some(-5)),
            ("4294967294", Some(u32::MAX - 1), Some(i32::MAX)),
            ("4294967295", Some(u32::MAX), Some(-1)),
            ("4294967296", None, Some(i32::MAX)),
            ("99999999999999999999999999", None, Some(i32::MAX)),
            ("-99999999999999999999999999", None, Some(i32::MIN)),
            ("1.5", None, None),
            ("+", None, None),
            ("-", None, None),
            ("+-1", None, None),
        ] {
            assert_eq!(parse_client_flags(text.as_bytes()), flags, "{text:?}");
            assert_eq!(parse_exptime(text.as_bytes()), exptime, "{text:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for shift in 0..64 {
            for n in [(1u64 << shift) - 1, 1 << shift, u64::MAX >> shift, 10u64.pow(shift % 20)] {
                let mut out = Vec::new();
                append_u64(&mut out, n);
                assert_eq!(out, n.to_string().into_bytes());
            }
        }
        let mut out = Vec::new();
        append_i64(&mut out, i64::MIN);
        assert_eq!(out, b"-9223372036854775808");
    }
}
