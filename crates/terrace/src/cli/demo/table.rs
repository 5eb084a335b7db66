//! Tables for people: columns as wide as they have to be.

use anstyle::Style;
use std::fmt::Write;

/// A cell with its colour.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    style: Style,
    right: bool,
}

impl Cell {
    /// Text.
    pub fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), style: Style::new(), right: false }
    }

    /// A number, at the right of its column.
    pub fn number(text: impl Into<String>) -> Cell {
        Cell { right: true, ..Cell::new(text) }
    }

    /// The same with a colour.
    pub fn styled(self, style: Style) -> Cell {
        Cell { style, ..self }
    }
}

/// Rows of cells; a row may be a heading over the whole width.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The text, each line indented by two blanks. A row of one cell does not make its column wider.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter(|row| row.len() > 1).filter_map(|row| row.get(column));
            cells.map(|cell| cell.text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::from(" ");
            let mut blanks = 1;
            for (cell, width) in row.iter().zip(&widths) {
                let padding = width.saturating_sub(cell.text.chars().count());
                let (before, after) = if cell.right { (padding, 0) } else { (0, padding) };
                // Blanks are written only in front of something: lines have none at their ends.
                if !cell.text.is_empty() {
                    let Cell { text, style, .. } = cell;
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
        let mut table = Table::default();
        table.row([Cell::new("a heading that is long")]);
        table.row([Cell::new("red-a"), Cell::number("7"), Cell::new("x")]);
        table.row([Cell::new("green-b"), Cell::number("12345"), Cell::new("")]);
        table.row([Cell::new("b"), Cell::new(""), Cell::new("y")]);
        assert_eq!(
            table.render(),
            "  a heading that is long\n  red-a        7  x\n  green-b  12345\n  b               y\n"
        );
    }
}
