//! Parses the compiler's report and terrace's plan, and renders the table of both.

use super::{Chip, Halves};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;

/// Resources of a chip that a program uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ChipResources {
    /// Last used stage, counted from one.
    pub(super) stages: u64,
    /// SRAM blocks.
    pub(super) sram: u64,
    /// TCAM blocks.
    pub(super) tcam: u64,
}

/// A line of the table, with resource use or the reason of a refusal.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) program: String,
    pub(super) chip: Chip,
    /// Gresses with which the program was accepted, or else refused.
    pub(super) halves: Halves,
    pub(super) compiled: Result<ChipResources, String>,
    pub(super) planned: Result<ChipResources, String>,
}

/// Returns the number of used elements of a list.
fn used_elements(list: &Value) -> u64 {
    let used = |element: &&Value| element["usages"].as_array().is_some_and(|usages| !usages.is_empty());
    list.as_array().map_or(0, |list| list.iter().filter(used).count() as u64)
}

/// Parses the compiler's `resources.json` (format: p4c,
/// `backends/tofino/compiler_interfaces/schemas/resources_schema.py`).
pub(super) fn parse_resources(json: &Value) -> ChipResources {
    let mut all = ChipResources::default();
    for stage in json["resources"]["mau"]["mau_stages"].as_array().into_iter().flatten() {
        let of = |what: &str, list: &str| used_elements(&stage[what][list]);
        let (sram, tcam) = (of("rams", "srams"), of("tcams", "tcams"));
        // A table without memory of its own occupies its stage too.
        let ids = stage["logical_tables"]["ids"].as_array().map_or(0, |ids| ids.len() as u64);
        let others = of("gateways", "gateways") + ids + of("map_rams", "maprams");
        if sram + tcam + others > 0 {
            all.stages = all.stages.max(stage["stage_number"].as_u64().map_or(0, |n| n + 1));
        }
        all.sram += sram;
        all.tcam += tcam;
    }
    all
}

/// Returns the resources if they fit. Checked here because the compiler only warns of too many
/// stages, so that its report can be inspected.
pub(super) fn check_stages(used: ChipResources, stages: u64) -> Result<ChipResources, String> {
    match used.stages <= stages {
        true => Ok(used),
        false => Err(format!(
            "it takes {} stages, the chip has {stages} ({} SRAM and {} TCAM blocks)",
            used.stages, used.sram, used.tcam
        )),
    }
}

/// Parses the resources after the last step from `terrace plan --json`.
pub(super) fn parse_plan(json: &Value) -> Result<ChipResources, String> {
    let step = json["steps"].as_array().and_then(|steps| steps.last()).unwrap_or(&Value::Null);
    if step["placed"] != Value::Bool(true) {
        return Err(json["verdict"].as_str().unwrap_or("no placement").to_owned());
    }
    let mut all = ChipResources::default();
    for row in step["heat"].as_array().into_iter().flatten().flat_map(|pipe| pipe["rows"].as_array()).flatten() {
        let per_stage: Vec<u64> = row["used"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        let last = per_stage.iter().rposition(|n| *n > 0).map_or(0, |at| at as u64 + 1);
        all.stages = all.stages.max(last);
        match row["resource"].as_str() {
            Some("SRAM blocks") => all.sram += per_stage.iter().sum::<u64>(),
            Some("TCAM blocks") => all.tcam += per_stage.iter().sum::<u64>(),
            _ => {}
        }
    }
    Ok(all)
}

/// Returns the first error line of a compiler's output.
pub(super) fn first_error(output: &str) -> String {
    let says = |line: &&str| line.contains("error:") || line.contains("error[") || line.contains("Compiler Bug");
    let line = output.lines().find(says).or_else(|| output.lines().find(|line| !line.trim().is_empty()));
    let line = line.unwrap_or("it said nothing").trim();
    // The path of the file is irrelevant to the reader.
    match line.split_once("error: ") {
        Some((_, what)) => what.to_owned(),
        None => line.to_owned(),
    }
}

/// Renders the table as Markdown.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| program | chip | in | stages | SRAM | TCAM | planned: stages | SRAM | TCAM | refused |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let cells = |used: &Result<ChipResources, String>| match used {
            Ok(used) => format!("{} | {} | {}", used.stages, used.sram, used.tcam),
            Err(_) => "- | - | -".into(),
        };
        let refusals = [&row.compiled, &row.planned].into_iter().filter_map(|r| r.as_ref().err());
        let refusals: Vec<String> = refusals.map(|text| text.replace('|', "\\|")).collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {} | {:?} | {:?} | {} | {} | {} |",
            row.program,
            row.chip,
            row.halves,
            cells(&row.compiled),
            cells(&row.planned),
            refusals.join("; plan: ")
        );
    }
    let accepted = rows.iter().filter(|row| row.compiled.is_ok()).count();
    let _ = writeln!(text, "\n{accepted} of {} are accepted.", rows.len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn blocks_and_stages_are_counted_as_the_report_has_them() {
        let usage = json!([{ "used_by": "t", "used_for": "match" }]);
        let block = json!({ "row": 0, "column": 2, "usages": usage });
        let free = json!({ "row": 0, "column": 3, "usages": [] });
        let stage = |number: u64, srams: Vec<Value>, tcams: Vec<Value>| json!({ "stage_number": number, "rams": { "srams": srams }, "tcams": { "tcams": tcams } });
        let stages = [
            stage(0, vec![block.clone(), block.clone(), free.clone()], vec![]),
            stage(3, vec![], vec![block]),
            json!({ "stage_number": 4, "logical_tables": { "ids": [{ "id": 0, "table_name": "t" }], "size": 16 } }),
            stage(5, vec![free], vec![]),
        ];
        let json = json!({ "resources": { "mau": { "nStages": 12, "mau_stages": stages } } });
        let used = ChipResources { stages: 5, sram: 2, tcam: 1 };
        assert_eq!(parse_resources(&json), used);
        assert_eq!(check_stages(used, 5), Ok(used));
        assert!(check_stages(used, 4).is_err_and(|why| why.contains("5 stages, the chip has 4")));
    }

    #[test]
    fn a_plan_is_read() {
        let rows = json!([{ "resource": "SRAM blocks", "used": [4, 0, 2, 0] }, { "resource": "gateways", "used": [1, 0, 0, 1] }]);
        let json = json!({ "verdict": "fits", "steps": [{ "placed": true, "heat": [{ "rows": rows }] }] });
        assert_eq!(parse_plan(&json), Ok(ChipResources { stages: 4, sram: 6, tcam: 0 }));
        assert_eq!(
            parse_plan(&json!({ "verdict": "too large", "steps": [{ "placed": false }] })),
            Err("too large".into())
        );
    }

    #[test]
    fn errors_come_without_places() {
        let output = "warning: x\n/tmp/a.p4(12): [--Werror=unsupported] error: condition expression too complex\n";
        assert_eq!(first_error(output), "condition expression too complex");
        assert_eq!(first_error(""), "it said nothing");
    }
}
