//! Merges two tables of which a packet meets only one, such as IPv4 and IPv6 in the same memory.
//!
//! The first key bit selects the table of an entry. The keys are paired in order, and the shorter
//! one is extended: exact and ternary keys by leading zeros, a prefix by trailing zeros. Both
//! applications become one. The paths split again after it, unless both continue with the same
//! code.

use super::apply_site::{self, CodeInserter, TableSite};
use super::entries::{KeyWords, entry_update};
use super::reroute;
use super::shadowed_map::{EntryChange, EntryMapping, ShadowedMap};
use super::{TableSizes, TransformError, TransformedPipeline};
use entries::{KeyLayout, StateUpdate, StoredEntry, UpdateKind};
use ir::{
    ActionArm, BlockCall, Cfg, Const, Inst, MatchKey, MatchKind, Pipeline, Preamble, Table, TableId, Terminator, Type,
    Value,
};
use std::sync::Arc;

/// Returns the name of the merged table (from control-plane names).
pub fn pooled_name(first: &str, second: &str) -> String {
    format!("{first}_{}", second.rsplit('.').next().unwrap_or(second))
}

/// Merges two tables (control-plane names). The pooled table has a first key that tells the two
/// apart.
///
/// # Errors
/// [`TransformError`]: a packet can meet both tables, or their actions, default actions or keys
/// differ.
pub fn pool_tables(
    original: &Arc<Pipeline>,
    sizes: &TableSizes,
    names: [&str; 2],
) -> Result<TransformedPipeline, TransformError> {
    let ids = [apply_site::find_table(original, names[0])?, apply_site::find_table(original, names[1])?];
    let tables = [apply_site::check_movable(original, ids[0])?, apply_site::check_movable(original, ids[1])?];
    let sites = [apply_site::find_apply_site(original, ids[0])?, apply_site::find_apply_site(original, ids[1])?];
    let keys = merged_keys(tables)?;
    check_exclusive(original, names, sites)?;

    let mut transformed = (**original).clone();
    let entries = tables.map(|table| sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(1024));
    let name = pooled_name(names[0], names[1]);
    let pooled = &mut transformed.tables[ids[0]];
    pooled.preamble = Preamble { name: name.clone(), hidden: true, ..Preamble::default() };
    (pooled.entries, pooled.const_entries, pooled.size) = (Vec::new(), false, Some(entries[0] + entries[1]));
    pooled.keys = keys.clone();

    let control = sites[0].control;
    merge_applications(&mut transformed, sites, ids[0], &keys, names)?;
    let numbers = apply_site::remove_table(&mut transformed, ids[1], ids[0]);
    reroute::repair_uses(&mut transformed, control);
    let pooled_id = numbers[ids[0].0 as usize];
    let rule = PooledTables {
        from: ids,
        to: pooled_id,
        layouts: tables.map(|t| KeyLayout::new(&t.keys)),
        wide: KeyLayout::new(&keys),
    };
    let (map, pipeline) = ShadowedMap::new(original, transformed, numbers, &[pooled_id], rule)?;
    let mut sizes = sizes.clone();
    sizes.retain(|name, _| !names.contains(&name.as_str()));
    sizes.insert(name, entries[0] + entries[1]);
    Ok(TransformedPipeline { pipeline, sizes, map: Box::new(map) })
}

/// Returns the merged keys, if the tables are compatible: a bit for the table, then each pair of
/// keys with the larger width.
fn merged_keys(tables: [&Table; 2]) -> Result<Vec<MatchKey>, TransformError> {
    let [first, second] = tables;
    let name = &second.preamble.name;
    let refused = |reason: String| Err(TransformError::new(&first.preamble.name, format!("{reason} {name}")));
    let mut actions =
        tables.map(|t| t.actions.iter().map(|a| (a.action, a.table_only, a.default_only)).collect::<Vec<_>>());
    actions.iter_mut().for_each(|list| list.sort_unstable());
    if actions[0] != actions[1] {
        return refused("it has other actions than".to_owned());
    }
    if !(first.const_default && second.const_default && first.default_action == second.default_action) {
        return refused(
            "one default action cannot stand for both: it is not constant, or another one than that of".to_owned(),
        );
    }
    if first.keys.len() != second.keys.len() {
        return refused("it has more or fewer keys than".to_owned());
    }
    let which_table = MatchKey::new("which", Type::Bit(1), MatchKind::Exact);
    let mut keys = vec![which_table];
    for (a, b) in first.keys.iter().zip(&second.keys) {
        if a.kind != b.kind || !matches!(a.kind, MatchKind::Exact | MatchKind::Lpm | MatchKind::Ternary) {
            return refused(format!("its key {} is not matched like {} of", a.name, b.name));
        }
        let wider = if a.ty.width() >= b.ty.width() { a } else { b };
        keys.push(MatchKey {
            ty: Type::Bit(wider.ty.width()),
            annotations: Vec::new(),
            id: 0,
            type_name: None,
            ..wider.clone()
        });
    }
    Ok(keys)
}

/// Checks that no packet meets both tables.
fn check_exclusive(pipeline: &Pipeline, names: [&str; 2], sites: [TableSite; 2]) -> Result<(), TransformError> {
    if sites[0].control != sites[1].control {
        return Err(TransformError::new(names[0], format!("{} is applied in another control", names[1])));
    }
    let body = &pipeline.controls[sites[0].control].body;
    let [a, b] = sites.map(|site| site.block);
    if body.can_reach(a, b)
        || body.can_reach(b, a)
        || !Cfg::new(body).is_reachable(a)
        || !Cfg::new(body).is_reachable(b)
    {
        return Err(TransformError::new(
            names[0],
            format!("a packet can meet both it and {}, or one of them never", names[1]),
        ));
    }
    Ok(())
}

/// Merges both applications: both sites jump to one block, with the table's number and the widened
/// keys as arguments. An arm branches on that number if the two tables continue differently.
fn merge_applications(
    pipeline: &mut Pipeline,
    sites: [TableSite; 2],
    table: TableId,
    keys: &[MatchKey],
    names: [&str; 2],
) -> Result<(), TransformError> {
    let actions = pipeline.actions.clone();
    let body = &mut pipeline.controls[sites[0].control].body;
    let (keys_a, arms_a, loc) = &apply_site::take_apply(body, sites[0].block, names[0])?;
    let (keys_b, arms_b, _) = &apply_site::take_apply(body, sites[1].block, names[1])?;
    let mut code = CodeInserter { body, block: sites[0].block, loc: *loc };
    let join = code.new_block();
    let params: Vec<Value> = keys.iter().map(|key| code.body.values.push(key.ty)).collect();
    code.body.blocks[join].params = params.clone();
    for (number, (site, site_keys)) in sites.iter().zip([keys_a, keys_b]).enumerate() {
        code.block = site.block;
        let mut args = vec![code.const_bits(1, number as u32)];
        for (key, value) in keys[1..].iter().zip(site_keys) {
            let value = widen_value(&mut code, key, *value);
            args.push(value);
        }
        code.set_terminator(Terminator::Jump(BlockCall { block: join, args }));
    }
    let mut arms = Vec::new();
    for arm in arms_a {
        let Some(other) = arms_b.iter().find(|other| other.action == arm.action) else { continue };
        let block = if reroute::is_same_code(code.body, arm.block, other.block) {
            arm.block
        } else {
            let types: Vec<Type> = actions[arm.action].params.iter().map(|param| param.ty).collect();
            let (block, args) = code.arm_block(&types);
            code.block = block;
            let [then, els] = [other.block, arm.block].map(|block| BlockCall { block, args: args.clone() });
            let second_number = code.push_inst(Inst::Const(Const::new(Type::Bit(1), 1u32)), Type::Bit(1));
            let cond = code.push_inst(Inst::Binary(ir::BinaryOp::Eq, params[0], second_number), Type::Bool);
            code.set_terminator(Terminator::Branch { cond, then, els });
            block
        };
        arms.push(ActionArm { action: arm.action, block });
    }
    code.block = join;
    code.set_terminator(Terminator::Apply { table, keys: params, arms });
    Ok(())
}

/// Extends the value to the key's width.
fn widen_value(code: &mut CodeInserter<'_>, key: &MatchKey, value: Value) -> Value {
    let width = code.body.value_type(value).width();
    let value = code.cast(Type::Bit(width), value);
    match key.ty.width() - width {
        0 => value,
        more if key.kind == MatchKind::Lpm => {
            let zeros = code.const_bits(more, 0u32);
            code.concat(value, zeros)
        }
        _ => code.cast(key.ty, value),
    }
}

/// Entry mapping of two merged tables.
struct PooledTables {
    from: [TableId; 2],
    to: TableId,
    layouts: [KeyLayout; 2],
    wide: KeyLayout,
}

impl PooledTables {
    fn pooled_key(&self, which: usize, key: &[u64]) -> KeyWords {
        let mut out: KeyWords = std::iter::repeat_n(0, self.wide.len).collect();
        out[0] = which as u64;
        for (from, to) in self.layouts[which].fields.iter().zip(&self.wide.fields[1..]) {
            let value = from.value(key);
            let shift = if from.kind == MatchKind::Lpm { to.width - from.width } else { 0 };
            copy_shifted(value, shift, to.value_mut(&mut out));
            let second = from.second(key);
            to.second_mut(&mut out)[..second.len()].copy_from_slice(second);
        }
        out
    }
}

/// Copies a number in words, shifted left by `bits`.
fn copy_shifted(from: &[u64], bits: u32, to: &mut [u64]) {
    let (words, bits) = ((bits / 64) as usize, bits % 64);
    for (at, word) in from.iter().enumerate() {
        if let Some(low) = to.get_mut(at + words) {
            *low |= word << bits;
        }
        if let Some(high) = to.get_mut(at + words + 1).filter(|_| bits > 0) {
            *high |= word >> (64 - bits);
        }
    }
}

impl EntryMapping for PooledTables {
    fn is_mapped(&self, table: TableId) -> bool {
        self.from.contains(&table)
    }

    fn begin_batch(&mut self) {}

    fn undo_batch(&mut self) {}

    fn map_entry(&mut self, table: TableId, change: EntryChange<'_>, out: &mut Vec<StateUpdate>) -> Result<(), String> {
        let (kind, entry): (UpdateKind, &StoredEntry) = match change {
            EntryChange::Inserted(entry) => (UpdateKind::Insert, entry),
            EntryChange::Modified(_, entry) => (UpdateKind::Modify, entry),
            EntryChange::Deleted(entry) => (UpdateKind::Delete, entry),
        };
        let which = usize::from(table == self.from[1]);
        out.push(entry_update(kind, self.to, &self.pooled_key(which, entry.key()), entry, entry.priority()));
        Ok(())
    }

    fn stats(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}
