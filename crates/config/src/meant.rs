//! The word that a mistyped word probably stands for, for each program's "did you mean".

/// Returns the word of `known` that `word` probably stands for; `None` if none is similar.
///
/// This is the word with the fewest wrong letters, if these are at most one plus a quarter of the length
/// of `word`. Otherwise it is the first word that contains `word` or is contained in it. Case is ignored.
/// Cost: the product of the words' lengths, for each known word.
pub fn meant<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let word = word.to_ascii_lowercase();
    let far = |other: &&str| strsim::damerau_levenshtein(&word, &other.to_ascii_lowercase());
    let near = known.clone().min_by_key(far).filter(|best| far(best) <= 1 + word.len() / 4);
    let mut within = known.filter(|_| word.len() >= PART_MIN);
    near.or_else(|| within.find(|known| known.contains(&word) || word.contains(known)))
}

/// Shorter words are part of too many others.
const PART_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn a_word_with_few_wrong_letters_or_a_part_of_one_is_taken_for_it() {
        let known = ["protocol", "pool", "server_timeout", "int"];
        for (word, expected) in [
            ("protocl", Some("protocol")),
            ("Pool", Some("pool")),
            ("polo", Some("pool")),
            ("pols", Some("pool")),
            ("plate", None),
            ("timeout", Some("server_timeout")),
            ("integer", Some("int")),
            ("in", Some("int")),
            ("to", None),
            ("shadow", None),
            ("", None),
        ] {
            assert_eq!(meant(word, known.into_iter()), expected, "{word}");
        }
    }
}
