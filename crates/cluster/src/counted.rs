//! Numbers of things in sentences.

use std::fmt::Display;

/// A number with what it counts, and with a verb that fits: `1 slot has`, `2 slots have`.
pub(crate) fn counted(number: impl Display, one: &str, several: &str) -> String {
    let number = number.to_string();
    let what = if number == "1" { one } else { several };
    format!("{number} {what}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_not_several() {
        let slots = |number: u32| counted(number, "slot has", "slots have");
        assert_eq!(
            [0, 1, 2, 11].map(slots),
            ["0 slots have", "1 slot has", "2 slots have", "11 slots have"]
        );
        assert_eq!(counted(1.0, "node", "nodes"), "1 node");
    }
}
