//! Comma-separated values: columns found by the names in the first line, or given, or those of Twitter's traces.
//!
//! Bad at: commas inside quotes. None of the published traces has them.

use std::io::BufRead;
use std::str::FromStr;

use super::lines::{Lines, decimal, saturated, shown};
use crate::trace::request::{Place, ReadError, TraceOp, TraceRequest};

/// What stands in which column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns(Vec<Option<Column>>);

/// What a column tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time,
    Key,
    /// Several such columns, as key's and value's, are summed.
    Size,
    Op,
    Ttl,
}

impl FromStr for Columns {
    type Err = ColumnsError;

    /// Names in their order, parted by commas; a name that isn't known is a column to skip.
    fn from_str(text: &str) -> Result<Self, ColumnsError> {
        let columns: Vec<_> = text.split(',').map(named).collect();
        let keys = columns.iter().filter(|&&column| column == Some(Column::Key)).count();
        if keys == 1 { Ok(Self(columns)) } else { Err(ColumnsError { keys }) }
    }
}

/// Columns among which not exactly one is the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnsError {
    /// How many are.
    keys: usize,
}

impl std::fmt::Display for ColumnsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} columns are called `key`, `id` or `obj_id`; one must be", self.keys)
    }
}

impl std::error::Error for ColumnsError {}

pub(super) fn read(
    columns: Option<&Columns>,
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(TraceRequest),
) -> Result<(), ReadError> {
    let mut lines = Lines::new(input);
    let mut known = columns.cloned();
    let mut is_first = true;
    while let Some((number, line)) = lines.next()? {
        if line.is_empty() {
            continue;
        }
        if std::mem::take(&mut is_first) {
            let header = header(line);
            let is_header = header.is_some();
            known = known.or(header).or_else(|| without_header(line));
            if is_header {
                continue;
            }
        }
        let Some(columns) = &known else {
            let what = "no column is named `key`, `id` or `obj_id`; name them with --columns";
            return Err(ReadError { at: Place::Line(number), what: what.into() });
        };
        if let Some(request) = request(columns, line, number)? {
            each(request);
        }
    }
    Ok(())
}

/// The columns, if the line names them; some files begin theirs with `#`.
fn header(line: &[u8]) -> Option<Columns> {
    let line = line.strip_prefix(b"#").unwrap_or(line);
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// What a file without names holds: a key a line, or what Twitter published.
fn without_header(line: &[u8]) -> Option<Columns> {
    let columns = match line.split(|&byte| byte == b',').count() {
        1 => "key",
        7 => TWITTER,
        _ => return None,
    };
    columns.parse().ok()
}

fn named(name: &str) -> Option<Column> {
    match name.trim().trim_matches('"').to_ascii_lowercase().replace([' ', '-'], "_").as_str() {
        "time" | "timestamp" | "ts" | "time_s" | "clock_time" => Some(Column::Time),
        "key" | "id" | "obj_id" | "object" | "obj" | "object_id" | "anonymized_key" => {
            Some(Column::Key)
        }
        "size" | "obj_size" | "bytes" | "object_size" | "key_size" | "value_size" => {
            Some(Column::Size)
        }
        "op" | "operation" | "op_name" => Some(Column::Op),
        "ttl" | "ttl_s" => Some(Column::Ttl),
        _ => None,
    }
}

/// The request on a line; `None` where the operation is none of a cache's reads, writes and removals.
fn request(columns: &Columns, line: &[u8], number: u64) -> Result<Option<TraceRequest>, ReadError> {
    let mut request = TraceRequest::get(0);
    let mut fields = line.split(|&byte| byte == b',');
    let mut has_op = true;
    for (place, column) in columns.0.iter().enumerate() {
        let Some(field) = fields.next() else {
            let what = format!("has {place} columns, not {}", columns.0.len());
            return Err(ReadError { at: Place::Line(number), what });
        };
        let field = field.trim_ascii();
        match column {
            None => {}
            Some(Column::Key) if field.is_empty() => {
                let what = "the key is empty".into();
                return Err(ReadError { at: Place::Line(number), what });
            }
            Some(Column::Key) => request.key = rapidhash::v3::rapidhash_v3(field),
            Some(Column::Time) => request.time_s = seconds(field, number, "the time")?,
            Some(Column::Ttl) => request.ttl_s = seconds(field, number, "the time to live")?,
            Some(Column::Size) => {
                let bytes = saturated(decimal(field, number, "the size")?);
                request.bytes = request.bytes.saturating_add(bytes);
            }
            Some(Column::Op) => match op(field, number)? {
                Some(op) => request.op = op,
                None => has_op = false,
            },
        }
    }
    Ok(has_op.then_some(request))
}

/// Whole seconds of a number that may have a fraction; an empty field is 0.
fn seconds(field: &[u8], number: u64, name: &str) -> Result<u32, ReadError> {
    let whole = field.split(|&byte| byte == b'.').next().unwrap_or_default();
    if whole.is_empty() { Ok(0) } else { Ok(saturated(decimal(whole, number, name)?)) }
}

/// memcached's commands, in Twitter's spelling; the numbers are libCacheSim's for get and set.
fn op(field: &[u8], number: u64) -> Result<Option<TraceOp>, ReadError> {
    Ok(Some(match field.to_ascii_lowercase().as_slice() {
        b"get" | b"gets" | b"read" | b"1" | b"2" => TraceOp::Get,
        b"set" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"write" | b"3" => {
            TraceOp::Set
        }
        b"delete" | b"4" => TraceOp::Delete,
        // Arithmetic changes what is there and stores nothing that wasn't.
        b"incr" | b"decr" => return Ok(None),
        _ => {
            let what = format!("`{}` is no operation that is known", shown(field));
            return Err(ReadError { at: Place::Line(number), what });
        }
    }))
}

/// The columns of Twitter's traces (Yang, Yue, Rashmi, OSDI 2020), which have no header.
const TWITTER: &str = "timestamp,key,key_size,value_size,client_id,operation,ttl";
