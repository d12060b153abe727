//! The tables that the log has described, by the log's numbers.
//!
//! # Invariants
//! 1. Memory is bounded. Of a table without rules only the name is kept. Above [`WEIGHT_MAX`] all tables are dropped
//!    when a statement ends: the next one describes its tables again.
//! 2. A ruled table has all columns that the rules and the outbox need.

use std::collections::HashMap;
use std::sync::Arc;

use super::bytes::Broken;
use super::follower::Stopped;
use super::halt::BAD;
use super::naming::{Naming, OUTBOX_OPTIONS};
use super::rows::Table;
use super::table::{columns, table_map};
use super::values::Column;

/// The described tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    by_id: HashMap<u64, Described>,
    /// The approximate size in memory, in bytes.
    weight: usize,
}

#[derive(Debug)]
struct Described {
    /// The bytes that were read; of a table without rules only the beginning, with the names.
    body: Vec<u8>,
    table: Option<Arc<Table>>,
    weight: usize,
}

impl Tables {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Ends a statement, whose tables aren't needed any more. Drops all tables if there are many.
    pub(super) fn end_statement(&mut self) {
        if self.weight > WEIGHT_MAX {
            self.clear();
        }
    }

    /// Returns a table by its number. `Some(None)`: it has neither rules nor an outbox.
    pub(super) fn get(&self, id: u64) -> Option<Option<&Arc<Table>>> {
        self.by_id.get(&id).map(|known| known.table.as_ref())
    }

    /// Adds or replaces a table by its description.
    pub(super) fn describe<T: From<Broken>>(
        &mut self,
        naming: Naming<'_>,
        body: &[u8],
    ) -> Result<(), Stopped<T>> {
        let map = table_map(body)?;
        if self.by_id.get(&map.id).is_some_and(|known| known.is(body)) {
            return Ok(());
        }
        let described = match naming.about(map.schema, map.table) {
            None => {
                let body = body[..map.head].to_vec();
                Described { weight: DESCRIBED + body.len(), body, table: None }
            }
            Some(_) if body.len() > BODY_MAX => {
                return Err(Broken("a table whose description is too long").into());
            }
            Some(about) => {
                let name = &about.name;
                let Some(columns) = columns(&map)? else {
                    let words = format!(
                        "{name}: columns without names: SET GLOBAL binlog_row_metadata = FULL"
                    );
                    return Err(naming.halt(BAD, &words).into());
                };
                let mut wanted = vec![false; columns.len()];
                let needed = naming.columns(&about);
                for column in needed.chain(Some(OUTBOX_OPTIONS).filter(|_| about.is_outbox)) {
                    match columns.iter().position(|it| it.name == column.as_bytes()) {
                        Some(at) => wanted[at] = true,
                        None if column == OUTBOX_OPTIONS && about.is_outbox => {}
                        None => {
                            let words = format!(
                                "{name} has no column '{column}', which a rule or the outbox needs"
                            );
                            return Err(naming.halt(BAD, &words).into());
                        }
                    }
                }
                let of_columns: usize = columns.iter().map(Column::weight).sum();
                let table = Some(Arc::new(Table { columns, wanted, about }));
                Described {
                    weight: DESCRIBED + body.len() + of_columns,
                    body: body.to_vec(),
                    table,
                }
            }
        };
        self.weight += described.weight;
        if let Some(before) = self.by_id.insert(map.id, described) {
            self.weight -= before.weight;
        }
        match self.weight > 2 * WEIGHT_MAX {
            true => Err(Broken("a statement of more tables than there can be").into()),
            false => Ok(()),
        }
    }
}

impl Described {
    fn is(&self, body: &[u8]) -> bool {
        match self.table {
            Some(_) => self.body == body,
            None => body.starts_with(&self.body),
        }
    }
}

/// The memory of a description in addition to its bytes.
const DESCRIBED: usize = 160;
/// 4096 columns with names of 64 characters take less, unless they are ENUMs.
const BODY_MAX: usize = 1 << 20;
const WEIGHT_MAX: usize = 2 << 20;
