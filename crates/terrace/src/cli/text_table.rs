//! [`TextTable`]: the text and CSV form of what `terrace show` prints.

use super::failure::CommandError;
use super::ui::{print_line, style};
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use node::status::ShownValue;

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Text tables.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// Comma-separated values with a header (RFC 4180).
    Csv,
}

pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), CommandError> {
    print_line(&serde_json::to_string_pretty(value).map_err(|error| CommandError::Bug(error.to_string()))?)
}

/// Returns a sort key in which numbers are ordered by value.
pub(super) fn numeric_sort_key(keys: &[ShownValue]) -> Vec<(u128, String)> {
    let parts = keys.iter().flat_map(|key| key.value.split(['.', '/', ':', ' ']));
    parts.map(|part| (part.parse().unwrap_or(u128::MAX), part.to_owned())).collect()
}

pub(super) fn format_optional(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Rows under column headings.
pub(super) struct TextTable {
    title: Option<&'static str>,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Columns of text, which are left-aligned. Other columns are right-aligned.
    left: Vec<usize>,
}

impl TextTable {
    pub(super) fn new(head: &[&'static str], left: &[usize], rows: impl Iterator<Item = Vec<String>>) -> TextTable {
        TextTable { title: None, head: head.to_vec(), rows: rows.collect(), left: left.to_vec() }
    }

    pub(super) fn titled(self, title: &'static str) -> TextTable {
        TextTable { title: Some(title), ..self }
    }

    /// Returns whether there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Prints the table: CSV with its header, or aligned text without borders.
    pub(super) fn print(&self, format: OutputFormat) -> Result<(), CommandError> {
        if format == OutputFormat::Csv {
            let mut writer = csv::Writer::from_writer(Vec::new());
            let failed = |error: csv::Error| CommandError::Bug(error.to_string());
            writer.write_record(&self.head).map_err(failed)?;
            self.rows.iter().try_for_each(|row| writer.write_record(row)).map_err(failed)?;
            let bytes = writer.into_inner().map_err(|error| CommandError::Bug(error.to_string()))?;
            return print_line(&String::from_utf8_lossy(&bytes));
        }
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(self.head.clone()).add_rows(self.rows.clone());
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if !self.left.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        let (header_line, rows) =
            lines.split_first().map_or(("", &[][..]), |(header_line, rows)| (header_line.as_str(), rows));
        let (bold, name) = (style::HEAD, style::NAME);
        let title = self.title.map(|title| format!("{name}{title}{name:#}\n")).unwrap_or_default();
        print_line(&format!("{title}{bold}{header_line}{bold:#}\n{}", rows.join("\n")))
    }
}
