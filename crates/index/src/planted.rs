//! Runs every loom model of this crate: without a fault, when it must hold, and with planted faults, when it must
//! fail.

use crate::sync::Mutation;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs a model without a fault, when it must hold, and with each of `faults`, when it must fail.
pub(crate) fn holds_but_for(faults: &[Mutation], preemptions: usize, model: fn()) {
    let run = |fault| {
        Mutation::plant(fault);
        let executions = std::sync::Arc::new(AtomicUsize::new(0));
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 20_000;
        let counted = AssertUnwindSafe(executions.clone());
        let result = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                model();
            });
        }));
        Mutation::plant(None);
        (result.is_ok(), executions.load(Ordering::Relaxed))
    };
    let (held, executions) = run(None);
    println!("{executions} executions");
    assert!(held, "the model fails without a fault");
    for &fault in faults {
        let (held, executions) = run(Some(fault));
        println!("{fault:?}: {} after {executions}", if held { "missed" } else { "caught" });
        assert!(!held, "the model does not catch {fault:?}");
    }
}
