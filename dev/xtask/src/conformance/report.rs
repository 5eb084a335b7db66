//! Renders the results as text, JSON and lists.

use super::{CaseOutcome, CaseResult, Category, CategoryTarget};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Numbers of a category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CategoryCounts {
    /// Counted cases: passed and failed.
    pub total: usize,
    /// Passed cases.
    pub passed: usize,
    /// Skipped cases, which are not counted.
    pub skipped: usize,
}

impl CategoryCounts {
    /// Counts the results of a category.
    pub fn of(done: &[CaseResult], category: Category) -> CategoryCounts {
        let mut tally = CategoryCounts::default();
        for one in done.iter().filter(|one| one.category == category) {
            match one.outcome {
                CaseOutcome::Pass => tally.passed += 1,
                CaseOutcome::Fail { .. } => {}
                CaseOutcome::Skip { .. } => tally.skipped += 1,
            }
            tally.total += usize::from(!matches!(one.outcome, CaseOutcome::Skip { .. }));
        }
        tally
    }

    /// Returns the percentage of passed cases.
    pub fn percent(self) -> f64 {
        if self.total == 0 { 0.0 } else { 100.0 * self.passed as f64 / self.total as f64 }
    }

    /// Returns whether the target is reached, without rounding: 96.99 % is below 97 %.
    pub fn reaches(self, bar: CategoryTarget) -> bool {
        match bar {
            CategoryTarget::Count(count) => self.passed >= count,
            CategoryTarget::Percent(percent) => self.total > 0 && self.passed * 100 >= percent * self.total,
        }
    }
}

/// Formats a target.
pub fn bar_text(bar: CategoryTarget) -> String {
    match bar {
        CategoryTarget::Count(count) => format!("{count}"),
        CategoryTarget::Percent(percent) => format!("{percent} %"),
    }
}

/// Returns the categories that ran and missed their target.
pub fn missed_categories(done: &[CaseResult]) -> Vec<Category> {
    let ran = |category: &Category| done.iter().any(|one| one.category == *category);
    Category::ALL
        .into_iter()
        .filter(ran)
        .filter(|c| !CategoryCounts::of(done, *c).reaches(c.category_target()))
        .collect()
}

/// Groups the failures of a category by cause, most frequent first.
pub fn by_cause(done: &[CaseResult], category: Category) -> Vec<(&str, Vec<(&str, &str)>)> {
    let mut causes: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for one in done.iter().filter(|one| one.category == category) {
        if let CaseOutcome::Fail { cause, detail } = &one.outcome {
            causes.entry(cause).or_default().push((&one.program, detail));
        }
    }
    let mut causes: Vec<_> = causes.into_iter().collect();
    causes.sort_by_key(|(_, programs)| std::cmp::Reverse(programs.len()));
    causes
}

/// Renders the table, and the failures by cause.
pub fn text(results: &[CaseResult], list_failures: bool) -> String {
    let mut text = format!(
        "{:<8} {:>8} {:>8} {:>8} {:>8} {:>8}  {}\n",
        "category", "programs", "passed", "share", "bar", "skipped", "reached"
    );
    for category in Category::ALL {
        let tally = CategoryCounts::of(results, category);
        if tally == CategoryCounts::default() {
            continue;
        }
        let _ = writeln!(
            text,
            "{:<8} {:>8} {:>8} {:>6.1} % {:>8} {:>8}  {}",
            category.name(),
            tally.total,
            tally.passed,
            tally.percent(),
            bar_text(category.category_target()),
            tally.skipped,
            if tally.reaches(category.category_target()) { "yes" } else { "NO" }
        );
    }
    for category in Category::ALL {
        for (cause, programs) in by_cause(results, category) {
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

/// Returns all results as one document.
pub fn json(done: &[CaseResult]) -> serde_json::Value {
    let mut summary = serde_json::Map::new();
    for category in Category::ALL {
        let tally = CategoryCounts::of(done, category);
        let bar = match category.category_target() {
            CategoryTarget::Count(count) => serde_json::json!({ "count": count }),
            CategoryTarget::Percent(percent) => serde_json::json!({ "percent": percent }),
        };
        let document = serde_json::json!({
            "total": tally.total, "passed": tally.passed, "skipped": tally.skipped, "percent": tally.percent(),
            "bar": bar, "reached": tally.reaches(category.category_target()),
        });
        summary.insert(category.name().to_owned(), document);
    }
    serde_json::json!({ "summary": summary, "cases": done })
}

/// Writes one file for each category that ran, with a line `name: cause: detail` for each failure.
pub fn write_lists(dir: &Path, done: &[CaseResult], ran: &dyn Fn(Category) -> bool) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    for category in Category::ALL.into_iter().filter(|category| ran(*category)) {
        let tally = CategoryCounts::of(done, category);
        let mut text = format!("# {} of {} passed ({:.1} %)\n", tally.passed, tally.total, tally.percent());
        for one in done.iter().filter(|one| one.category == category) {
            if let CaseOutcome::Fail { cause, detail } = &one.outcome {
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

    fn done(category: Category, outcome: CaseOutcome) -> CaseResult {
        CaseResult { category, program: "a.p4".into(), outcome }
    }

    #[test]
    fn skipped_cases_do_not_count_and_rounding_does_not_help() {
        let mut all = vec![done(Category::Accept, CaseOutcome::Skip { reason: "x".into() })];
        all.extend((0..9699).map(|_| done(Category::Accept, CaseOutcome::Pass)));
        all.extend((0..301).map(|_| done(Category::Accept, CaseOutcome::fail("a", "b"))));
        let tally = CategoryCounts::of(&all, Category::Accept);
        assert_eq!((tally.total, tally.passed, tally.skipped), (10_000, 9699, 1));
        assert_eq!(missed_categories(&all), [Category::Accept]);
        all.push(done(Category::Accept, CaseOutcome::Pass));
        assert!(!CategoryCounts::of(&all, Category::Accept).reaches(CategoryTarget::Percent(97)), "9700 of 10001");
        assert!(CategoryCounts { total: 100, passed: 97, skipped: 0 }.reaches(CategoryTarget::Percent(97)));
    }

    #[test]
    fn a_category_that_did_not_run_is_not_missed() {
        assert_eq!(missed_categories(&[done(Category::P4info, CaseOutcome::Pass)]), []);
    }
}
