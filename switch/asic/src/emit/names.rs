//! Names in the emitted source: those of the program, made unique.

use super::mentions::Mentions;
use super::storage::{SharedStructs, VarStorage};
use ir::*;
use std::collections::{BTreeMap, HashSet};

/// Reserved words, in addition to the names in the architecture's include file.
const KEYWORDS: &str = "abstract action actions apply bool bit break const continue control default else entries enum error exit extern \
    false for header header_union if in inout int key match_kind type of out package parser priority return select state static string \
    struct switch table this transition true tuple typedef value_set varbit void main start accept reject NoAction packet list pragma \
    standard_metadata istd ostd parser_istd pre_istd pre_ostd ig_intr_md ig_prsr_md ig_dprsr_md ig_tm_md eg_intr_md eg_prsr_md \
    eg_dprsr_md eg_oport_md";

/// Names of a pipeline's objects in the emitted source.
pub(super) struct EmittedNames {
    /// Expression for each variable.
    pub(super) vars: Vec<String>,
    /// Expression for each header.
    pub(super) headers: Vec<String>,
    /// Local name of each table.
    pub(super) tables: Vec<String>,
    /// Local name of each action.
    pub(super) actions: Vec<String>,
    /// Name of each extern object.
    pub(super) externs: Vec<String>,
    /// Name of each value set.
    pub(super) value_sets: Vec<String>,
    /// Objects that each block refers to, in the order of the controls.
    pub(super) mentions: Vec<Mentions>,
    /// Extern objects that several blocks use, or that no block owns.
    pub(super) global: HashSet<ExternId>,
    /// Structs of headers and metadata.
    pub(super) storage: SharedStructs,
    taken: HashSet<String>,
    /// Names that code in actions can refer to, so parameters must not shadow them.
    reserved: HashSet<String>,
}

impl EmittedNames {
    /// Chooses names for all objects of a pipeline. `include` is the text of the architecture's
    /// include file.
    pub(super) fn new(p: &Pipeline, include: &str, meta: Option<&str>) -> EmittedNames {
        let mentions: Vec<Mentions> = p.controls.values().map(|c| Mentions::collect(p, &c.body)).collect();
        let is_separator = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let code = include.lines().map(|line| line.split("//").next().unwrap_or_default());
        let words = code.flat_map(|line| line.split(is_separator)).chain(KEYWORDS.split(is_separator));
        let mut taken: HashSet<String> = words.filter(|w| !w.is_empty()).map(str::to_owned).collect();
        taken.extend(p.header_types.values().map(|h| h.name.clone()));
        taken.extend(p.named_types.iter().map(|(name, _)| name.clone()));
        taken.extend(p.enums.values().map(|e| e.name.clone()));
        taken.extend(p.controls.values().map(|c| c.name.clone()));
        let storage = SharedStructs::new(p, &mentions, meta);
        taken.extend(storage.roots());
        let mut names = EmittedNames {
            vars: Vec::new(),
            headers: Vec::new(),
            tables: Vec::new(),
            actions: Vec::new(),
            externs: Vec::new(),
            value_sets: Vec::new(),
            mentions,
            global: HashSet::new(),
            storage,
            taken,
            reserved: HashSet::new(),
        };
        names.reserved = names.taken.clone();
        names.name_objects(p);
        names.name_data(p);
        names.reserved.extend(names.externs.iter().cloned());
        names.reserved.extend(names.vars.iter().filter(|v| !v.contains('.')).cloned());
        names.reserved.extend(names.headers.iter().filter(|v| !v.contains('.')).cloned());
        // Names chosen later must not equal a parameter's name, because the parameter would shadow
        // them.
        names.taken.extend(p.actions.values().flat_map(|a| &a.params).map(|param| to_identifier(&param.name)));
        names
    }

    /// Chooses the names of tables, actions, objects and value sets, and decides which objects are
    /// global: those that several controls use.
    fn name_objects(&mut self, p: &Pipeline) {
        let prefixes: Vec<String> = p.controls.values().map(|c| format!("{}.", c.name)).collect();
        let local = |name: &str| {
            let inside = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()));
            inside.unwrap_or(name).to_owned()
        };
        // Prefers the last component; falls back to the full name as one identifier.
        let choose_names = |names: &mut EmittedNames, full: Vec<&str>| -> Vec<String> {
            full.into_iter().map(|name| names.fresh_short_name(&local(name))).collect()
        };
        self.tables = choose_names(self, p.tables.values().map(|t| t.preamble.name.as_str()).collect());
        self.actions = choose_names(self, p.actions.values().map(|a| a.preamble.name.as_str()).collect());
        for (id, action) in p.actions.iter() {
            if action.preamble.name == "NoAction" && action.params.is_empty() {
                self.actions[id.index()] = "NoAction".into();
            }
        }
        self.externs = choose_names(self, p.externs.values().map(|e| e.preamble.name.as_str()).collect());
        self.value_sets = choose_names(self, p.value_sets.values().map(|v| v.preamble.name.as_str()).collect());
        for (id, object) in p.externs.iter() {
            let users = self.mentions.iter().filter(|m| m.externs.contains(&id)).count();
            let is_owned = prefixes.iter().any(|prefix| object.preamble.name.starts_with(prefix.as_str()));
            if users > 1 || (!is_owned && users != 1) || !object.preamble.name.contains('.') {
                self.global.insert(id);
            }
        }
    }

    /// Chooses the names of headers and variables: the path in a shared struct, or a local name.
    fn name_data(&mut self, p: &Pipeline) {
        let prefixes: Vec<String> = p.controls.values().map(|c| format!("{}.", c.name)).collect();
        let local = |name: &str| {
            let inside = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()));
            inside.unwrap_or(name).to_owned()
        };
        let mut arrays: BTreeMap<String, String> = BTreeMap::new();
        for (id, header) in p.headers.iter() {
            let name = match self.storage.shared_header(id) {
                Some(path) => path.to_owned(),
                None => match self.storage.local_container(p, id) {
                    Some((container, element)) => {
                        let base = match arrays.get(&container) {
                            Some(known) => known.clone(),
                            None => self.fresh_flat(&local(&container)),
                        };
                        arrays.insert(container, base.clone());
                        format!("{base}{element}")
                    }
                    None => self.fresh_flat(&local(&header.name)),
                },
            };
            self.headers.push(name);
        }
        self.storage.containers = arrays;
        let intrinsics: BTreeMap<VarId, &String> = p.intrinsics.iter().map(|(name, var)| (*var, name)).collect();
        for (id, var) in p.vars.iter() {
            let name = match (&var.kind, intrinsics.get(&id)) {
                (_, Some(name)) => (*name).clone(),
                (VarKind::Field(header, n), _) => {
                    let ty = &p.header_types[p.headers[*header].ty];
                    format!("{}.{}", self.headers[header.index()], to_identifier(&ty.fields[*n as usize].name))
                }
                _ => match self.storage.storage_of(id) {
                    Some(VarStorage::Shared(path)) => path.clone(),
                    Some(VarStorage::Local) | None => self.fresh_flat(&local(&var.name)),
                },
            };
            self.vars.push(name);
        }
    }

    /// Returns whether code in an action can refer to another object by this name.
    pub(super) fn is_reserved(&self, name: &str) -> bool {
        self.reserved.contains(name)
    }

    /// Returns an unused name close to the last component of `full`.
    fn fresh_short_name(&mut self, full: &str) -> String {
        let last = full.rsplit('.').next().unwrap_or(full);
        let (short, long) = (to_identifier(last), to_identifier(full));
        let free = |name: &String| !self.taken.contains(name);
        let name = [short, long.clone()].into_iter().find(free);
        let name = name.unwrap_or_else(|| self.numbered(&long));
        self.taken.insert(name.clone());
        name
    }

    fn fresh_flat(&mut self, full: &str) -> String {
        self.fresh_short_name(full)
    }

    /// Returns an unused name close to `wanted`.
    pub(super) fn fresh_name(&mut self, wanted: &str) -> String {
        let wanted = to_identifier(wanted);
        let name = if self.taken.contains(&wanted) { self.numbered(&wanted) } else { wanted };
        self.taken.insert(name.clone());
        name
    }

    fn numbered(&self, name: &str) -> String {
        let free = (2..).map(|n| format!("{name}_{n}")).find(|name| !self.taken.contains(name));
        free.unwrap_or_else(|| name.to_owned())
    }
}

/// Converts a name to a P4 identifier.
pub(super) fn to_identifier(name: &str) -> String {
    let mut out: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    while out.ends_with('_') && out.len() > 1 {
        out.pop();
    }
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, '_');
    }
    out
}
