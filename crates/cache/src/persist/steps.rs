//! The steps that a start took on its files, in order. For the test that a crash of the machine leaves no file that
//! the next start would wrongly trust.

#[cfg(not(test))]
pub(super) fn note(_: &'static str) {}

#[cfg(test)]
pub(super) use taken::note;

#[cfg(test)]
pub(super) mod taken {
    use std::cell::RefCell;

    std::thread_local! {
        pub(in super::super) static STEPS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    pub(in super::super) fn note(step: &'static str) {
        STEPS.with_borrow_mut(|steps| steps.push(step));
    }
}
