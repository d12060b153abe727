//! Names that mean something where an expression stands: variables, parameters, a loop's key and item.

use std::cell::RefCell;
use std::rc::Rc;

use guira_config::{ConfigError, Json, Result};

/// Names of an object or a call, and the scope around it.
pub(super) struct Scope<'o> {
    locals: RefCell<Vec<(String, Local)>>,
    outer: Option<&'o Scope<'o>>,
}

/// What a name means.
#[derive(Clone)]
pub(super) enum Local {
    /// A value.
    Expanded(Rc<Json>),
    /// A variable, to be expanded in its own scope when somebody asks.
    Raw(Rc<Json>),
    /// A variable that is being expanded.
    Expanding,
}

impl<'o> Scope<'o> {
    /// A scope from which no other is seen: of a file, of a macro's body.
    pub(super) fn base() -> Self {
        Self { locals: RefCell::default(), outer: None }
    }

    /// A scope from which `outer` is seen.
    pub(super) fn inside(outer: &'o Self) -> Self {
        Self { locals: RefCell::default(), outer: Some(outer) }
    }

    /// Adds a name that the scope doesn't have.
    pub(super) fn add(&self, name: &str, local: Local) -> Result<()> {
        if self.local(name).is_some() {
            return Err(ConfigError::new(format!("'{name}' already exists in local scope")));
        }
        self.set(name, local);
        Ok(())
    }

    /// Gives a name its meaning, whatever it meant.
    pub(super) fn set(&self, name: &str, local: Local) {
        let mut locals = self.locals.borrow_mut();
        match locals.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = local,
            None => locals.push((name.to_owned(), local)),
        }
    }

    /// What the scope itself says of a name.
    pub(super) fn local(&self, name: &str) -> Option<Local> {
        let locals = self.locals.borrow();
        locals.iter().find(|(known, _)| known == name).map(|(_, local)| local.clone())
    }

    /// The scope to ask next.
    pub(super) fn outer(&self) -> Option<&'o Self> {
        self.outer
    }

    /// Whether the name means anything here.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.local(name).is_some() || self.outer.is_some_and(|outer| outer.contains(name))
    }
}
