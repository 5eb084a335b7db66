//! Region files that are made from others.

/// Returns a text with each of the first parts once replaced by the second one. Each first part is there.
pub fn edited(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}
