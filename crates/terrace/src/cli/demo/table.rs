//! Text tables with aligned columns.

use anstyle::Style;
use std::fmt::Write;

/// A table cell with its colour.
#[derive(Clone, Debug)]
pub struct StyledCell {
    text: String,
    style: Style,
    right: bool,
}

impl StyledCell {
    /// Creates a cell with text.
    pub fn new(text: impl Into<String>) -> StyledCell {
        StyledCell { text: text.into(), style: Style::new(), right: false }
    }

    /// Creates a right-aligned cell, for numbers.
    pub fn number(text: impl Into<String>) -> StyledCell {
        StyledCell { right: true, ..StyledCell::new(text) }
    }

    /// Returns the cell with another colour.
    pub fn styled(self, style: Style) -> StyledCell {
        StyledCell { style, ..self }
    }
}

/// Rows of cells. A row of a single cell is a heading over the whole width.
#[derive(Clone, Debug, Default)]
pub struct StyledTable {
    rows: Vec<Vec<StyledCell>>,
}

impl StyledTable {
    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = StyledCell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Renders the table, each line indented by two blanks. A row of a single cell does not widen
    /// its column.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter(|row| row.len() > 1).filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            // With the blank that the line starts with, two blanks of indentation.
            let mut line = String::from(" ");
            let mut blanks = 1;
            for (cell, width) in row.iter().zip(&widths) {
                let padding = width.saturating_sub(cell.text.chars().count());
                let (before, after) = if cell.right { (padding, 0) } else { (0, padding) };
                // Padding is written only before text, so that lines have no trailing blanks.
                if !cell.text.is_empty() {
                    let StyledCell { text, style, .. } = cell;
                    let _ = write!(line, "{:blanks$}{style}{text}{style:#}", "", blanks = blanks + before);
                    blanks = 0;
                } else {
                    blanks += before;
                }
                blanks += after + 2;
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_with_text() {
        let mut table = StyledTable::default();
        table.row([StyledCell::new("a heading that is long")]);
        table.row([StyledCell::new("red-a"), StyledCell::number("7"), StyledCell::new("x")]);
        table.row([StyledCell::new("green-b"), StyledCell::number("12345"), StyledCell::new("")]);
        table.row([StyledCell::new("b"), StyledCell::new(""), StyledCell::new("y")]);
        assert_eq!(
            table.render(),
            "  a heading that is long\n  red-a        7  x\n  green-b  12345\n  b               y\n"
        );
    }
}
