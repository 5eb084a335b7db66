//! Two tables of which a packet meets one become one: IPv4 and IPv6 in the same memory.
//!
//! A bit in front says which of the two an entry is of. The keys are put beside each other in their order, the shorter one widened: an exact or ternary one
//! by zeros in front, a prefix by zeros behind. Both applications become one, behind which the ways part again, unless both go on with the same code.

use super::entries::{Words, write};
use super::graph::{self, Code, Site};
use super::reroute;
use super::shadow::{EntryChange, Rule, Shadowed};
use super::{RewriteError, Rewritten, Sizes};
use entries::{Entry, KeyLayout, Update, UpdateKind};
use ir::{Arm, BlockCall, Cfg, Const, Inst, Key, MatchKind, Pipeline, Preamble, Table, TableId, Term, Type, Value};
use std::sync::Arc;

/// The name of the table that two (control-plane names) become.
pub fn pooled_name(first: &str, second: &str) -> String {
    format!("{first}_{}", second.rsplit('.').next().unwrap_or(second))
}

/// Makes one of two tables (control-plane names).
///
/// # Errors
/// Tables that a packet can meet both of, or with other actions, another default, or keys that do not go together.
pub fn pool(first: &Arc<Pipeline>, sizes: &Sizes, names: [&str; 2]) -> Result<Rewritten, RewriteError> {
    let ids = [graph::find(first, names[0])?, graph::find(first, names[1])?];
    let tables = [graph::plain(first, ids[0])?, graph::plain(first, ids[1])?];
    let sites = [graph::site(first, ids[0])?, graph::site(first, ids[1])?];
    let keys = fitting(tables)?;
    exclusive(first, names, sites)?;

    let mut second = (**first).clone();
    let entries = tables.map(|table| sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(1024));
    let name = pooled_name(names[0], names[1]);
    let pooled = &mut second.tables[ids[0]];
    pooled.preamble = Preamble { name: name.clone(), hidden: true, ..Preamble::default() };
    (pooled.entries, pooled.const_entries, pooled.size) = (Vec::new(), false, Some(entries[0] + entries[1]));
    pooled.keys = keys.clone();

    let control = sites[0].control;
    merge(&mut second, sites, ids[0], &keys, names)?;
    let numbers = graph::remove(&mut second, ids[1], ids[0]);
    reroute::repair(&mut second, control);
    let to = numbers[ids[0].0 as usize];
    let rule = Pooled { from: ids, to, layouts: tables.map(|t| KeyLayout::new(&t.keys)), wide: KeyLayout::new(&keys) };
    let (map, pipeline) = Shadowed::new(first, second, numbers, &[to], rule)?;
    let mut sizes = sizes.clone();
    sizes.retain(|name, _| !names.contains(&name.as_str()));
    sizes.insert(name, entries[0] + entries[1]);
    Ok(Rewritten { pipeline, sizes, map: Box::new(map) })
}

/// The keys of both, if they go together.
fn fitting(tables: [&Table; 2]) -> Result<Vec<Key>, RewriteError> {
    let [one, other] = tables;
    let name = &other.preamble.name;
    let refused = |reason: String| Err(RewriteError::new(&one.preamble.name, format!("{reason} {name}")));
    let mut actions =
        tables.map(|t| t.actions.iter().map(|a| (a.action, a.table_only, a.default_only)).collect::<Vec<_>>());
    actions.iter_mut().for_each(|list| list.sort_unstable());
    if actions[0] != actions[1] {
        return refused("it has other actions than".to_owned());
    }
    if !(one.const_default && other.const_default && one.default_action == other.default_action) {
        return refused(
            "one default action cannot stand for both: it is not constant, or another one than that of".to_owned(),
        );
    }
    if one.keys.len() != other.keys.len() {
        return refused("it has more or fewer keys than".to_owned());
    }
    let which = Key::new("which", Type::Bit(1), MatchKind::Exact);
    let mut keys = vec![which];
    for (a, b) in one.keys.iter().zip(&other.keys) {
        if a.kind != b.kind || !matches!(a.kind, MatchKind::Exact | MatchKind::Lpm | MatchKind::Ternary) {
            return refused(format!("its key {} is not matched like {} of", a.name, b.name));
        }
        let wide = if a.ty.width() >= b.ty.width() { a } else { b };
        keys.push(Key {
            ty: Type::Bit(wide.ty.width()),
            annotations: Vec::new(),
            id: 0,
            type_name: None,
            ..wide.clone()
        });
    }
    Ok(keys)
}

/// Whether no packet meets both.
fn exclusive(pipeline: &Pipeline, names: [&str; 2], sites: [Site; 2]) -> Result<(), RewriteError> {
    if sites[0].control != sites[1].control {
        return Err(RewriteError::new(names[0], format!("{} is applied in another control", names[1])));
    }
    let body = &pipeline.controls[sites[0].control].body;
    let [a, b] = sites.map(|site| site.block);
    if body.leads_to(a, b) || body.leads_to(b, a) || !Cfg::new(body).is_reachable(a) || !Cfg::new(body).is_reachable(b)
    {
        return Err(RewriteError::new(
            names[0],
            format!("a packet can meet both it and {}, or one of them never", names[1]),
        ));
    }
    Ok(())
}

/// Both applications as one.
fn merge(
    pipeline: &mut Pipeline,
    sites: [Site; 2],
    table: TableId,
    keys: &[Key],
    names: [&str; 2],
) -> Result<(), RewriteError> {
    let actions = pipeline.actions.clone();
    let body = &mut pipeline.controls[sites[0].control].body;
    let mut taken = Vec::new();
    for site in sites {
        taken.extend(graph::take_apply(body, site.block));
    }
    let [(keys_a, arms_a, loc), (keys_b, arms_b, _)] = taken.as_slice() else {
        return Err(RewriteError::new(names[0], "its application is gone, which is a bug"));
    };
    let mut code = Code { body, block: sites[0].block, loc: *loc };
    let met = code.new_block();
    let params: Vec<Value> = keys.iter().map(|key| code.body.values.push(key.ty)).collect();
    code.body.blocks[met].params = params.clone();
    for (number, (site, given)) in sites.iter().zip([keys_a, keys_b]).enumerate() {
        code.block = site.block;
        let mut args = vec![code.bits(1, number as u32)];
        for (key, value) in keys[1..].iter().zip(given) {
            let value = widen(&mut code, key, *value);
            args.push(value);
        }
        code.end(Term::Jump(BlockCall { block: met, args }));
    }
    let mut arms = Vec::new();
    for arm in arms_a {
        let Some(other) = arms_b.iter().find(|other| other.action == arm.action) else { continue };
        let block = if reroute::same(code.body, arm.block, other.block) {
            arm.block
        } else {
            let types: Vec<Type> = actions[arm.action].params.iter().map(|param| param.ty).collect();
            let (block, args) = code.arm_block(&types);
            code.block = block;
            let [then, els] = [other.block, arm.block].map(|block| BlockCall { block, args: args.clone() });
            let one = code.inst(Inst::Const(Const::new(Type::Bit(1), 1u32)), Type::Bit(1));
            let cond = code.inst(Inst::Binary(ir::BinaryOp::Eq, params[0], one), Type::Bool);
            code.end(Term::Branch { cond, then, els });
            block
        };
        arms.push(Arm { action: arm.action, block });
    }
    code.block = met;
    code.end(Term::Apply { table, keys: params, arms });
    Ok(())
}

/// The value as wide as the key.
fn widen(code: &mut Code<'_>, key: &Key, value: Value) -> Value {
    let width = code.body.value_type(value).width();
    let value = code.cast(Type::Bit(width), value);
    match key.ty.width() - width {
        0 => value,
        more if key.kind == MatchKind::Lpm => {
            let zeros = code.bits(more, 0u32);
            code.concat(value, zeros)
        }
        _ => code.cast(key.ty, value),
    }
}

/// Entries of both tables in one.
struct Pooled {
    from: [TableId; 2],
    to: TableId,
    layouts: [KeyLayout; 2],
    wide: KeyLayout,
}

impl Pooled {
    fn key(&self, which: usize, key: &[u64]) -> Words {
        let mut out: Words = std::iter::repeat_n(0, self.wide.len).collect();
        out[0] = which as u64;
        for (from, to) in self.layouts[which].fields.iter().zip(&self.wide.fields[1..]) {
            let value = from.value(key);
            let shift = if from.kind == MatchKind::Lpm { to.width - from.width } else { 0 };
            shifted(value, shift, to.value_mut(&mut out));
            let second = from.second(key);
            to.second_mut(&mut out)[..second.len()].copy_from_slice(second);
        }
        out
    }
}

/// Copies a number in words, moved up by so many bits.
fn shifted(from: &[u64], bits: u32, to: &mut [u64]) {
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

impl Rule for Pooled {
    fn owns(&self, table: TableId) -> bool {
        self.from.contains(&table)
    }

    fn begin(&mut self) {}

    fn undo(&mut self) {}

    fn entry(&mut self, table: TableId, change: EntryChange<'_>, out: &mut Vec<Update>) -> Result<(), String> {
        let (kind, entry): (UpdateKind, &Entry) = match change {
            EntryChange::Inserted(entry) => (UpdateKind::Insert, entry),
            EntryChange::Modified(_, entry) => (UpdateKind::Modify, entry),
            EntryChange::Deleted(entry) => (UpdateKind::Delete, entry),
        };
        let which = usize::from(table == self.from[1]);
        out.push(write(kind, self.to, &self.key(which, entry.key()), entry, entry.priority()));
        Ok(())
    }

    fn figures(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}
