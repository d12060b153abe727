//! Names that are visible to an expression: variables, parameters, and a loop's key and item.

use std::cell::RefCell;
use std::rc::Rc;

use guira_config::{ConfigError, Json, Result};

/// The names of an object or a call, and the scope around it.
pub(super) struct Scope<'o> {
    locals: RefCell<Vec<(String, Local)>>,
    outer: Option<&'o Scope<'o>>,
}

/// The meaning of a name.
#[derive(Clone)]
pub(super) enum Local {
    /// A value.
    Expanded(Rc<Json>),
    /// A variable, which is expanded in its own scope at its first use.
    Raw(Rc<Json>),
    /// A variable that is being expanded.
    Expanding,
}

impl<'o> Scope<'o> {
    /// A scope without an outer one, for a file or a macro's body.
    pub(super) fn base() -> Self {
        Self { locals: RefCell::default(), outer: None }
    }

    /// A scope that also sees the names of `outer`.
    pub(super) fn inside(outer: &'o Self) -> Self {
        Self { locals: RefCell::default(), outer: Some(outer) }
    }

    /// Adds a name, which must be new in this scope.
    pub(super) fn add(&self, name: &str, local: Local) -> Result<()> {
        if self.local(name).is_some() {
            return Err(ConfigError::new(format!("'{name}' already exists in local scope")));
        }
        self.set(name, local);
        Ok(())
    }

    /// Sets the meaning of a name, new or not.
    pub(super) fn set(&self, name: &str, local: Local) {
        let mut locals = self.locals.borrow_mut();
        match locals.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = local,
            None => locals.push((name.to_owned(), local)),
        }
    }

    /// The meaning of a name in this scope alone.
    pub(super) fn local(&self, name: &str) -> Option<Local> {
        let locals = self.locals.borrow();
        locals.iter().find(|(known, _)| known == name).map(|(_, local)| local.clone())
    }

    /// The outer scope, which is searched next.
    pub(super) fn outer(&self) -> Option<&'o Self> {
        self.outer
    }

    /// Whether the name is visible here.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.local(name).is_some() || self.outer.is_some_and(|outer| outer.contains(name))
    }
}
