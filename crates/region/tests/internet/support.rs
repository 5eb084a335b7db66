//! The gateway's program, and entries as text.

use entries::{TableEntry, format_entry};
use region::{GatewayApi, IdAssignments, RegionPart, ResolvedRegion};
use std::path::Path;
use std::sync::Arc;

pub fn pipeline() -> Arc<ir::Pipeline> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/gateway/gateway.ir");
    Arc::new(ir::text::parse(&std::fs::read_to_string(path).unwrap()).unwrap())
}

/// Calls `visitor` with each entry of a part and its line in the file.
pub fn visit(
    region: &ResolvedRegion,
    pipeline: &ir::Pipeline,
    part: &RegionPart,
    mut visitor: impl FnMut(TableEntry, u32),
) {
    let mut numbers = IdAssignments::default();
    numbers.assign(region);
    let api = GatewayApi::new(pipeline).unwrap();
    region::visit(region, &api, &numbers, part, &mut |entry, source| visitor(entry, source.at.line));
}

/// Returns the entries of a part in these tables, each with its line in the file.
pub fn entries_of(region: &ResolvedRegion, pipeline: &ir::Pipeline, part: &RegionPart, tables: &[&str]) -> Vec<String> {
    let tables: Vec<ir::TableId> = tables.iter().map(|name| entries::find_table(pipeline, name).unwrap()).collect();
    let mut found = Vec::new();
    visit(region, pipeline, part, |entry, line| {
        if tables.contains(&entry.table) {
            found.push(format!("{line}: {}", format_entry(pipeline, &entry)));
        }
    });
    found
}
