//! Tables for people to read.

use comfy_table::{CellAlignment, Table, presets};

/// Creates a table with columns two spaces apart, each as wide as its content. Columns whose indices are in
/// `words` are left-aligned; the others hold figures.
pub(crate) fn table(header: &[&str], words: &[usize], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if !words.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_on_the_left_and_figures_on_the_right() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = table(
            &["name", "s", "state"],
            &[0, 2],
            [row(["a", "10.25", "well"]), row(["longer", "9.5", ""])],
        );
        assert_eq!(text, "name        s  state\na       10.25  well\nlonger    9.5");
    }
}
