//! Results as text, JSON and lists.

use super::{Bar, Category, Done, Outcome};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A category's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Cases that count: passed and failed.
    pub total: usize,
    /// As they have to be.
    pub passed: usize,
    /// Not counted.
    pub skipped: usize,
}

impl Tally {
    /// Of the results, those of a category.
    pub fn of(done: &[Done], category: Category) -> Tally {
        let mut tally = Tally::default();
        for one in done.iter().filter(|one| one.category == category) {
            match one.outcome {
                Outcome::Pass => tally.passed += 1,
                Outcome::Fail { .. } => {}
                Outcome::Skip { .. } => tally.skipped += 1,
            }
            tally.total += usize::from(!matches!(one.outcome, Outcome::Skip { .. }));
        }
        tally
    }

    /// Passed of a hundred.
    pub fn percent(self) -> f64 {
        if self.total == 0 { 0.0 } else { 100.0 * self.passed as f64 / self.total as f64 }
    }

    /// Whether the bar is reached. Rounding never helps: 96.99 % is below 97 %.
    pub fn reaches(self, bar: Bar) -> bool {
        match bar {
            Bar::Count(count) => self.passed >= count,
            Bar::Percent(percent) => self.total > 0 && self.passed * 100 >= percent * self.total,
        }
    }
}

/// The bar as text.
pub fn bar_text(bar: Bar) -> String {
    match bar {
        Bar::Count(count) => format!("{count}"),
        Bar::Percent(percent) => format!("{percent} %"),
    }
}

/// The categories that ran and missed their bar.
pub fn missed(done: &[Done]) -> Vec<Category> {
    let ran = |category: &Category| done.iter().any(|one| one.category == *category);
    Category::ALL.into_iter().filter(ran).filter(|c| !Tally::of(done, *c).reaches(c.bar())).collect()
}

/// Failures of a category by cause, the most frequent cause first.
pub fn by_cause(done: &[Done], category: Category) -> Vec<(&str, Vec<(&str, &str)>)> {
    let mut causes: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for one in done.iter().filter(|one| one.category == category) {
        if let Outcome::Fail { cause, detail } = &one.outcome {
            causes.entry(cause).or_default().push((&one.program, detail));
        }
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, programs)| std::cmp::Reverse(programs.len()));
    causes
}

/// The table, and the failures by cause.
pub fn text(done: &[Done], list_failures: bool) -> String {
    let mut text = format!(
        "{:<8} {:>8} {:>8} {:>8} {:>8} {:>8}  {}\n",
        "category", "programs", "passed", "share", "bar", "skipped", "reached"
    );
    for category in Category::ALL {
        let tally = Tally::of(done, category);
        if tally == Tally::default() {
            continue;
        }
        let _ = writeln!(
            text,
            "{:<8} {:>8} {:>8} {:>6.1} % {:>8} {:>8}  {}",
            category.name(),
            tally.total,
            tally.passed,
            tally.percent(),
            bar_text(category.bar()),
            tally.skipped,
            if tally.reaches(category.bar()) { "yes" } else { "NO" }
        );
    }
    for category in Category::ALL {
        for (cause, programs) in by_cause(done, category) {
            let _ = writeln!(text, "\n{}: {} x {cause}", category.name(), programs.len());
            let shown = if list_failures { programs.len() } else { 3 };
            for (program, detail) in programs.iter().take(shown) {
                let _ = writeln!(text, "  {program}: {detail}");
            }
            if programs.len() > shown {
                let _ = writeln!(text, "  ... (--list-failures names all)");
            }
        }
    }
    text
}

/// All results as one document.
pub fn json(done: &[Done]) -> serde_json::Value {
    let mut summary = serde_json::Map::new();
    for category in Category::ALL {
        let tally = Tally::of(done, category);
        let bar = match category.bar() {
            Bar::Count(count) => serde_json::json!({ "count": count }),
            Bar::Percent(percent) => serde_json::json!({ "percent": percent }),
        };
        let document = serde_json::json!({
            "total": tally.total, "passed": tally.passed, "skipped": tally.skipped, "percent": tally.percent(),
            "bar": bar, "reached": tally.reaches(category.bar()),
        });
        summary.insert(category.name().to_owned(), document);
    }
    serde_json::json!({ "summary": summary, "cases": done })
}

/// One file a category that ran, with a line `name: cause: detail` for each failure.
pub fn write_lists(dir: &Path, done: &[Done], ran: &dyn Fn(Category) -> bool) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    for category in Category::ALL.into_iter().filter(|category| ran(*category)) {
        let tally = Tally::of(done, category);
        let mut text = format!("# {} of {} passed ({:.1} %)\n", tally.passed, tally.total, tally.percent());
        for one in done.iter().filter(|one| one.category == category) {
            if let Outcome::Fail { cause, detail } = &one.outcome {
                let _ = writeln!(text, "{}: {cause}: {detail}", one.program);
            }
        }
        let file = dir.join(format!("{}.txt", category.name()));
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(category: Category, outcome: Outcome) -> Done {
        Done { category, program: "a.p4".into(), outcome }
    }

    #[test]
    fn skipped_cases_do_not_count_and_rounding_does_not_help() {
        let mut all = vec![done(Category::Accept, Outcome::Skip { reason: "x".into() })];
        all.extend((0..9699).map(|_| done(Category::Accept, Outcome::Pass)));
        all.extend((0..301).map(|_| done(Category::Accept, Outcome::fail("a", "b"))));
        let tally = Tally::of(&all, Category::Accept);
        assert_eq!((tally.total, tally.passed, tally.skipped), (10_000, 9699, 1));
        assert_eq!(missed(&all), [Category::Accept]);
        all.push(done(Category::Accept, Outcome::Pass));
        assert!(!Tally::of(&all, Category::Accept).reaches(Bar::Percent(97)), "9700 of 10001");
        assert!(Tally { total: 100, passed: 97, skipped: 0 }.reaches(Bar::Percent(97)));
    }

    #[test]
    fn a_category_that_did_not_run_is_not_missed() {
        assert_eq!(missed(&[done(Category::P4info, Outcome::Pass)]), []);
    }
}
