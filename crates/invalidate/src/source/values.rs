//! Values of columns as MariaDB and MySQL log them, converted to the text that SQL shows.
//!
//! Times of TIMESTAMP columns are in UTC. Texts are the bytes in the column's character set.
//!
//! # Bad at
//! UUID, INET4 and INET6 columns, which the log calls BINARY: their text is their bytes, which are hardly ever a key.

use std::borrow::Cow;

use super::bytes::{Broken, Bytes};
use crate::template::Cell;

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) is_unsigned: bool,
    /// The words of an ENUM or SET.
    pub(super) words: Words,
}

/// Texts in one buffer. An empty text costs four bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl Words {
    pub(super) fn push(&mut self, word: &[u8]) {
        self.text.extend_from_slice(word);
        // All texts came in one event, whose length has 32 bits.
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.text.get(start..end)
    }

    /// The size in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<u32>()
    }
}

impl Column {
    /// The size in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.words.weight()
    }
}

/// The form in which a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// With this many bytes.
    Int(u8),
    Float,
    Double,
    Decimal {
        digits: u8,
        after_point: u8,
    },
    Year,
    Date,
    /// Without fractions, as before MariaDB 10.1.
    OldTime,
    OldDateTime,
    OldTimestamp,
    /// With this many digits of a fraction.
    Time(u8),
    DateTime(u8),
    Timestamp(u8),
    /// After a length of this many bytes.
    Text(u8),
    /// Like [`Self::Text`], of a type without a text.
    Opaque(u8),
    /// Like [`Self::Text`], of MySQL's JSON: an update may have differences of it.
    Json(u8),
    Enum(u8),
    Set(u8),
    Bits(u8),
}

/// The length of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Fixed(usize),
    /// Given by a length of this many bytes before the value.
    After(usize),
}

impl Kind {
    /// Reads a type from its byte, and its sizes from the sizes of all columns.
    pub(super) fn read(kind: u8, sizes: &mut Bytes<'_>) -> Result<Self, Broken> {
        let length_bytes = |longest: u16| if longest < 256 { 1 } else { 2 };
        Ok(match kind {
            1 => Self::Int(1),
            2 => Self::Int(2),
            9 => Self::Int(3),
            3 => Self::Int(4),
            8 => Self::Int(8),
            4 => sizes.byte().map(|_| Self::Float)?,
            5 => sizes.byte().map(|_| Self::Double)?,
            7 => Self::OldTimestamp,
            10 | 14 => Self::Date,
            11 => Self::OldTime,
            12 => Self::OldDateTime,
            13 => Self::Year,
            15 | 253 => Self::Text(length_bytes(sizes.short()?)),
            141 => Self::Opaque(length_bytes(sizes.short()?)),
            16 => {
                let (bits, bytes) = (sizes.byte()?, sizes.byte()?);
                Self::Bits(bytes.checked_add(u8::from(bits > 0)).filter(|it| *it <= 8).ok_or(ODD)?)
            }
            17 => Self::Timestamp(fraction(sizes.byte()?)?),
            18 => Self::DateTime(fraction(sizes.byte()?)?),
            19 => Self::Time(fraction(sizes.byte()?)?),
            246 => {
                let (digits, after_point) = (sizes.byte()?, sizes.byte()?);
                if digits > 65 || after_point > digits {
                    return Err(ODD);
                }
                Self::Decimal { digits, after_point }
            }
            249..=252 => Self::Text(length(sizes.byte()?)?),
            245 => Self::Json(length(sizes.byte()?)?),
            140 | VECTOR | 255 => Self::Opaque(length(sizes.byte()?)?),
            254 => {
                let (real, size) = (sizes.byte()?, sizes.byte()?);
                match real {
                    247 if matches!(size, 1 | 2) => Self::Enum(size),
                    248 if (1..=8).contains(&size) => Self::Set(size),
                    _ => {
                        let high = u16::from((real & 0x30) ^ 0x30) << 4;
                        Self::Text(length_bytes(high | u16::from(size)))
                    }
                }
            }
            _ => return Err(Broken("a column of an unknown type")),
        })
    }

    pub(super) fn width(self) -> Width {
        Width::Fixed(match self {
            Self::Int(size) | Self::Enum(size) | Self::Set(size) | Self::Bits(size) => size.into(),
            Self::Float | Self::OldTimestamp => 4,
            Self::Double | Self::OldDateTime => 8,
            Self::Decimal { digits, after_point } => {
                let whole = usize::from(digits - after_point);
                digits_bytes(whole) + digits_bytes(after_point.into())
            }
            Self::Year => 1,
            Self::Date | Self::OldTime => 3,
            Self::Timestamp(digits) => 4 + usize::from(digits.div_ceil(2)),
            Self::DateTime(digits) => 5 + usize::from(digits.div_ceil(2)),
            Self::Time(digits) => 3 + usize::from(digits.div_ceil(2)),
            Self::Text(size) | Self::Opaque(size) | Self::Json(size) => {
                return Width::After(size.into());
            }
        })
    }

    /// Whether the values are texts.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Text(_))
    }

    /// Whether the log has a sign for the column. YEAR has one, too.
    pub(super) fn is_number(self) -> bool {
        matches!(
            self,
            Self::Int(_) | Self::Float | Self::Double | Self::Decimal { .. } | Self::Year
        )
    }

    pub(super) fn is_json(self) -> bool {
        matches!(self, Self::Json(_))
    }

    pub(super) fn is_enum(self) -> bool {
        matches!(self, Self::Enum(_))
    }

    pub(super) fn is_set(self) -> bool {
        matches!(self, Self::Set(_))
    }
}

fn fraction(digits: u8) -> Result<u8, Broken> {
    if digits <= 6 { Ok(digits) } else { Err(ODD) }
}

fn length(bytes: u8) -> Result<u8, Broken> {
    if (1..=4).contains(&bytes) { Ok(bytes) } else { Err(ODD) }
}

/// Reads a value. If it isn't `wanted`, the value is only skipped.
pub(super) fn value<'p>(
    column: &Column,
    bytes: &mut Bytes<'p>,
    wanted: bool,
) -> Result<Cell<'p>, Broken> {
    if !wanted {
        return skip(column.kind, bytes).map(|()| Cell::Null);
    }
    let text = match column.kind {
        Kind::Int(size) => int(bytes.little(size.into())?, size, column.is_unsigned),
        Kind::Float => f32::from_bits(bytes.long()?).to_string(),
        Kind::Double => f64::from_bits(bytes.little(8)?).to_string(),
        Kind::Decimal { digits, after_point } => decimal(bytes, digits.into(), after_point.into())?,
        Kind::Year => match bytes.byte()? {
            0 => "0000".to_owned(),
            year => (1900 + u16::from(year)).to_string(),
        },
        Kind::Date | Kind::OldTime | Kind::OldDateTime | Kind::OldTimestamp => {
            old_time(column.kind, bytes)?
        }
        Kind::Timestamp(_) | Kind::DateTime(_) | Kind::Time(_) => new_time(column.kind, bytes)?,
        Kind::Text(size) => {
            let length = bytes.count(size.into())?;
            return Ok(Cell::Text(Cow::Borrowed(bytes.take(length)?)));
        }
        Kind::Opaque(_) | Kind::Json(_) => {
            skip(column.kind, bytes)?;
            return Ok(Cell::Opaque);
        }
        Kind::Enum(size) => {
            let number = bytes.count(size.into())?;
            match number.checked_sub(1) {
                None => String::new(),
                Some(index) => {
                    let word = column.words.get(index).map(<[u8]>::to_vec);
                    return Ok(Cell::Text(
                        word.unwrap_or_else(|| number.to_string().into()).into(),
                    ));
                }
            }
        }
        Kind::Set(size) => {
            let set = bytes.little(size.into())?;
            let is_in = |index: &usize| set >> index & 1 != 0;
            let words = (0..64).filter(is_in).filter_map(|index| column.words.get(index));
            let words: Vec<&[u8]> = words.collect();
            return Ok(Cell::Text(words.join(&b","[..]).into()));
        }
        Kind::Bits(size) => bytes.big(size.into())?.to_string(),
    };
    Ok(Cell::Text(text.into_bytes().into()))
}

/// Formats a date or time in a form without fractions.
fn old_time(kind: Kind, bytes: &mut Bytes<'_>) -> Result<String, Broken> {
    Ok(match kind {
        Kind::Date => {
            let packed = bytes.little(3)?;
            format!("{:04}-{:02}-{:02}", packed >> 9, packed >> 5 & 15, packed & 31)
        }
        Kind::OldTime => {
            let packed = bytes.little(3)?;
            let is_negative = packed & 0x80_0000 != 0;
            let packed = if is_negative { 0x100_0000 - packed } else { packed };
            let sign = if is_negative { "-" } else { "" };
            format!("{sign}{:02}:{:02}:{:02}", packed / 10_000, packed / 100 % 100, packed % 100)
        }
        Kind::OldDateTime => {
            let packed = bytes.little(8)?;
            let (date, time) = (packed / 1_000_000, packed % 1_000_000);
            format!(
                "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
                date / 10_000,
                date / 100 % 100,
                date % 100,
                time / 10_000,
                time / 100 % 100,
                time % 100
            )
        }
        Kind::OldTimestamp => timestamp(bytes.little(4)?),
        _ => String::new(),
    })
}

/// Formats a time in a form with fractions.
fn new_time(kind: Kind, bytes: &mut Bytes<'_>) -> Result<String, Broken> {
    Ok(match kind {
        Kind::Timestamp(digits) => {
            let seconds = bytes.big(4)?;
            timestamp(seconds) + &fraction_text(bytes, digits)?
        }
        Kind::DateTime(digits) => {
            let packed = bytes.big(5)? & 0x7f_ffff_ffff;
            let (month, day) = (packed >> 22, packed >> 17 & 31);
            let (hour, minute, second) = (packed >> 12 & 31, packed >> 6 & 63, packed & 63);
            format!(
                "{:04}-{:02}-{day:02} {hour:02}:{minute:02}:{second:02}{}",
                month / 13,
                month % 13,
                fraction_text(bytes, digits)?
            )
        }
        Kind::Time(digits) => time(bytes, digits)?,
        _ => String::new(),
    })
}

fn skip(kind: Kind, bytes: &mut Bytes<'_>) -> Result<(), Broken> {
    let length = match kind.width() {
        Width::Fixed(length) => length,
        Width::After(size) => bytes.count(size)?,
    };
    bytes.take(length).map(drop)
}

fn int(number: u64, size: u8, is_unsigned: bool) -> String {
    if is_unsigned {
        return number.to_string();
    }
    let unused = 64 - 8 * u32::from(size);
    (number.wrapping_shl(unused).cast_signed() >> unused).to_string()
}

/// Formats a fraction, such as `.012`, that is stored in pairs of digits.
fn fraction_text(bytes: &mut Bytes<'_>, digits: u8) -> Result<String, Broken> {
    let stored = usize::from(digits.div_ceil(2));
    Ok(fraction_of(bytes.big(stored)?, digits))
}

fn fraction_of(stored: u64, digits: u8) -> String {
    let digits = usize::from(digits);
    if digits == 0 {
        return String::new();
    }
    let pairs = format!("{stored:0width$}", width = digits.div_ceil(2) * 2);
    format!(".{}", &pairs[..digits])
}

/// Formats a time, such as `-12:34:56.789`: one number with its sign, stored with an offset of half its range.
fn time(bytes: &mut Bytes<'_>, digits: u8) -> Result<String, Broken> {
    let stored = u32::from(digits.div_ceil(2)) * 8;
    let packed = bytes.big(3 + usize::from(digits.div_ceil(2)))?.cast_signed();
    let packed = packed - (0x80_0000 << stored);
    let (sign, packed) = (if packed < 0 { "-" } else { "" }, packed.unsigned_abs());
    let (whole, part) = (packed >> stored, packed & ((1 << stored) - 1));
    let (hour, minute, second) = (whole >> 12 & 0x3ff, whole >> 6 & 63, whole & 63);
    Ok(format!("{sign}{hour:02}:{minute:02}:{second:02}{}", fraction_of(part, digits)))
}

/// Formats Unix seconds as `2026-01-02 03:04:05` in UTC. 0 is the zero date.
fn timestamp(seconds: u64) -> String {
    if seconds == 0 {
        return "0000-00-00 00:00:00".to_owned();
    }
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years, so that the leap day ends a year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let day = day - (153 * shifted + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}

/// The bytes of a number of digits: nine digits take four bytes, fewer take what they need.
fn digits_bytes(digits: usize) -> usize {
    digits / 9 * 4 + LEFT_BYTES[digits % 9]
}

/// Formats a decimal: big-endian groups of nine digits, the odd group at the outer ends. The first bit is the sign, and
/// a negative number has all bits inverted.
fn decimal(bytes: &mut Bytes<'_>, digits: usize, after_point: usize) -> Result<String, Broken> {
    let before = digits - after_point;
    let mut stored = bytes.take(digits_bytes(before) + digits_bytes(after_point))?.to_vec();
    let Some(first) = stored.first_mut() else { return Ok("0".to_owned()) };
    let is_negative = *first & 0x80 == 0;
    *first ^= 0x80;
    if is_negative {
        stored.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let mut groups = Bytes(&stored);
    let mut text = String::new();
    let mut add = |text: &mut String, digits: usize| -> Result<(), Broken> {
        let number = groups.big(LEFT_BYTES.get(digits).copied().unwrap_or(4))?;
        let group = format!("{number:0digits$}");
        text.push_str(group.get(group.len() - digits..).unwrap_or_default());
        Ok(())
    };
    if !before.is_multiple_of(9) {
        add(&mut text, before % 9)?;
    }
    for _ in 0..before / 9 {
        add(&mut text, 9)?;
    }
    let mut whole = text.trim_start_matches('0').to_owned();
    if whole.is_empty() {
        whole.push('0');
    }
    if after_point > 0 {
        whole.push('.');
        for _ in 0..after_point / 9 {
            add(&mut whole, 9)?;
        }
        if !after_point.is_multiple_of(9) {
            add(&mut whole, after_point % 9)?;
        }
    }
    Ok(if is_negative { format!("-{whole}") } else { whole })
}

/// A type of MySQL 9.
const VECTOR: u8 = 242;
const LEFT_BYTES: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
const ODD: Broken = Broken("a column whose size can't be");

#[cfg(test)]
mod tests;
