use super::*;

fn bound(row: &str, name: &str, text: &str, by: &str) -> Bound {
    let edit = Edit { file: "xtask/src/bounds/list/tests.rs".into(), text: text.into(), by: by.into() };
    let tests = vec!["xtask/src/bounds/list/tests.rs#texts_are_replaced".into()];
    Bound { row: row.into(), name: name.into(), without: String::new(), edits: vec![edit], tests }
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const ONE: usize = 4;

/// Checks that a text which occurs once is replaced, with the name of the bound in the switch.
#[test]
fn texts_are_replaced() {
    let text = concat!("ONE: usize", " = 4;");
    let list = List { bounds: vec![bound("1", "ONE", text, "ONE: u8 = f(TAKEN_OUT);")], kept: Vec::new() };
    let patches = list.patches(&root()).unwrap();
    assert!(patches["xtask/src/bounds/list/tests.rs"].contains("ONE: u8 = f(crate::taken_out(\"1 ONE\"));"));
    assert_eq!(ONE, 4);
}

#[test]
fn texts_that_are_not_found_once_or_overlap_are_faults() {
    let fault = |bounds| List { bounds, kept: Vec::new() }.patches(&root()).unwrap_err();
    let missing = bound("1", "ONE", concat!("no ", "such text"), "TAKEN_OUT");
    assert!(fault(vec![missing]).starts_with("`1 ONE`: 0 times in"));
    assert!(fault(vec![bound("1", "ONE", "assert", "TAKEN_OUT")]).contains(" times in "));
    let [a, b] = [concat!("const ", "ONE: usize"), concat!("ONE: ", "usize = ")];
    let two = vec![bound("1", "ONE", a, "TAKEN_OUT"), bound("1", "TWO", b, "TAKEN_OUT")];
    assert!(fault(two).starts_with("two bounds change the same text"));
    assert!(fault(vec![bound("1", "ONE", a, "2")]).contains("lacks TAKEN_OUT"));
}

#[test]
fn rows_have_their_bounds_and_tests() {
    let page = "| # | Attack |\n| 1 | a | b | `a/b.rs#MAX_A`, `field` | `a/b.rs#row_1` | 8 |\n\nOthers: `a/c.rs#MAX_C`\n\
                (`a/c.rs#a_test`).\n";
    let rows = rows(page);
    let row = |index: usize| (&*rows[index].number, rows[index].names.clone(), rows[index].tests.clone());
    assert_eq!(row(0), ("–", vec!["a/c.rs#MAX_C".to_owned()], vec!["a/c.rs#a_test".to_owned()]));
    assert_eq!(row(1), ("1", vec!["a/b.rs#MAX_A".to_owned()], vec!["a/b.rs#row_1".to_owned()]));
    let list = List { bounds: vec![bound("1", "MAX_A and others", "", "")], kept: Vec::new() };
    assert_eq!(list.lacks(&rows[1]), Vec::<String>::new());
    assert_eq!(list.lacks(&rows[0]), ["row –: nothing takes out `MAX_C`", "row –: nothing is taken out"]);
}

/// The list itself is read, and each entry has another name.
#[test]
fn the_list_is_read() {
    let list = read().unwrap();
    assert!(list.bounds.len() > 100);
}
