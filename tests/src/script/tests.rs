//! The tables' form: what a line means, what a pattern takes and refuses.

use super::*;

fn reply(text: &str) -> Reply {
    Reply { bytes: text.as_bytes().to_vec(), closed: false }
}

fn only_step(text: &str) -> Step {
    let mut script = Script::parse(text);
    script.cases.pop().unwrap().steps.pop().unwrap()
}

#[test]
fn lines_end_in_crlf_unless_a_backslash_ends_them() {
    let step = only_step("# c\n> a\\x41\\\n> ${b*3}\n< x\\ny\n");
    assert_eq!(step.send, [Piece::Bytes(b"aAbbb\r\n".to_vec())]);
    assert_eq!(step.expect.text(), "x\ny\r\n");
}

#[test]
fn an_answer_or_an_empty_line_ends_a_step() {
    let script =
        Script::parse("@ -M\n# c\n> a\n> b\n< 1\n> c\n\n> d\n<eof\n# e\n@ -m 8\n> f\n~ old\n");
    assert_eq!(script.flags, ["-M"]);
    assert_eq!(script.cases[0].steps.len(), 3);
    assert!(script.cases[0].steps[2].expect.closed);
    assert_eq!(
        script.cases[1].flags.as_deref(),
        Some(["-m".to_owned(), "8".to_owned()].as_slice())
    );
    assert_eq!(script.cases[1].steps[0].older.as_ref().unwrap().text(), "old\r\n");
}

#[test]
fn a_named_number_must_stay_the_same() {
    let step = only_step("# c\n> gets a\n< VALUE a 0 1 $one\n");
    let mut numbers = Numbers::new();
    let normal = step.expect.take(&reply("VALUE a 0 1 77\r\n"), &mut numbers).unwrap();
    assert_eq!(normal, b"VALUE a 0 1 $one\r\n");
    assert_eq!(numbers["one"], "77");
    assert!(step.expect.take(&reply("VALUE a 0 1 77\r\n"), &mut numbers).is_ok());
    assert!(step.expect.take(&reply("VALUE a 0 1 78\r\n"), &mut numbers).is_err());
}

#[test]
fn a_pattern_takes_neither_more_nor_less_than_it_says() {
    let step = only_step("# c\n> x\n< OK $*\n");
    let mut numbers = Numbers::new();
    assert!(step.expect.take(&reply("OK yes\r\n"), &mut numbers).is_ok());
    for other in ["OK yes\r\nOK", "OK yes", "OK a b\r\n", "", "ok yes\r\n"] {
        assert!(step.expect.take(&reply(other), &mut numbers).is_err(), "{other:?}");
    }
    let closed = Reply { bytes: b"OK yes\r\n".to_vec(), closed: true };
    assert!(step.expect.take(&closed, &mut numbers).is_err());
}

#[test]
#[should_panic(expected = "line 2")]
fn a_line_of_no_known_form_is_refused() {
    let _ = Script::parse("# c\nset a 0 0 1\n");
}

#[test]
#[should_panic(expected = "line 1 is in no case")]
fn a_step_outside_a_case_is_refused() {
    let _ = Script::parse("> get a\n");
}
