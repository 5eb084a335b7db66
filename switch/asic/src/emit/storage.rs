//! Structs of headers and metadata, reconstructed from flattened dotted names.

use super::expr::type_text;
use super::mentions::Mentions;
use super::text::IndentedText;
use ir::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Storage of a variable that is not a header field.
#[derive(Clone, Debug)]
pub(super) enum VarStorage {
    /// Member of a shared struct, with its path.
    Shared(String),
    /// Local variable of one block.
    Local,
}

/// Members of a struct by name, in order.
#[derive(Clone, Default, Debug)]
struct StructTree(Vec<(String, StructMember)>);

#[derive(Clone, Debug)]
enum StructMember {
    Struct(StructTree),
    /// Member of another type, as P4 text.
    Leaf(String),
}

/// Role of the first component of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RootRole {
    Headers,
    Metadata,
    /// Copies that belong to the pre control.
    Pre,
}

/// Structs that all blocks share.
#[derive(Debug, Default)]
pub(super) struct SharedStructs {
    /// Name of the headers parameter.
    pub(super) hdr: String,
    /// Name of the metadata parameter.
    pub(super) meta: String,
    /// Local stacks and unions: name in the program to name in the source.
    pub(super) containers: BTreeMap<String, String>,
    headers: StructTree,
    metadata: StructTree,
    parts: HashMap<VarId, VarStorage>,
    shared: HashMap<HeaderId, String>,
    roles: Vec<(String, RootRole)>,
}

impl SharedStructs {
    /// Reconstructs the structs of a pipeline; `meta` is the metadata's name, if known.
    pub(super) fn new(p: &Pipeline, mentions: &[Mentions], meta: Option<&str>) -> SharedStructs {
        let mut storage = SharedStructs::default();
        storage.find_roots(p, meta);
        let named = |role| storage.roles.iter().find(|(_, r)| *r == role).map(|(name, _)| name.clone());
        storage.hdr = named(RootRole::Headers).unwrap_or_else(|| "hdr".into());
        storage.meta = named(RootRole::Metadata).unwrap_or_else(|| "meta".into());
        storage.add_headers(p);
        storage.add_vars(p, mentions);
        storage
    }

    /// Collects the first components of names, in the order of the architecture's parameters, and
    /// their roles: variables declared after PNA's intrinsics belong to the pre control, the first
    /// other root has the headers. `meta` is the metadata's root, if known.
    fn find_roots(&mut self, p: &Pipeline, meta: Option<&str>) {
        let mut seen_intrinsic = false;
        let mut roots: Vec<(String, bool, bool)> = Vec::new();
        for var in p.vars.values() {
            let is_header_part = match var.kind {
                VarKind::Intrinsic => {
                    seen_intrinsic = true;
                    continue;
                }
                VarKind::Local => continue,
                VarKind::Field(h, _) if p.headers[h].local => continue,
                VarKind::NextIndex(s) if is_local(p, s) => continue,
                VarKind::Field(..) | VarKind::NextIndex(_) => true,
                VarKind::Meta => false,
            };
            let root = root_name(&var.name);
            let is_meta = root == meta.unwrap_or("meta");
            match roots.iter_mut().find(|(name, ..)| *name == root) {
                Some((_, has_header, _)) => *has_header |= is_header_part,
                None => roots.push((root, is_header_part, seen_intrinsic && p.arch == Arch::Pna && !is_meta)),
            }
        }
        for header in p.headers.values().filter(|h| !h.local) {
            let root = root_name(&header.name);
            if !roots.iter().any(|(name, ..)| *name == root) {
                roots.insert(0, (root, true, false));
            }
        }
        let is_only_root = roots.iter().filter(|(.., is_pre)| !is_pre).count() == 1;
        let mut non_pre_count = 0;
        for (name, has_header, is_pre) in roots {
            let role = match (is_pre, non_pre_count) {
                (true, _) => RootRole::Pre,
                (false, 0) if meta != Some(name.as_str()) && (has_header || !is_only_root) => RootRole::Headers,
                _ => RootRole::Metadata,
            };
            non_pre_count += usize::from(!is_pre);
            self.roles.push((name, role));
        }
    }

    fn root_role(&self, name: &str) -> RootRole {
        let root = root_name(name);
        self.roles.iter().find(|(known, _)| *known == root).map_or(RootRole::Metadata, |(_, role)| *role)
    }

    /// Returns the path of a name in the emitted source.
    fn emitted_path(&self, name: &str) -> String {
        match self.root_role(name) {
            // Several metadata roots share one struct.
            RootRole::Metadata if root_name(name) != self.meta => format!("{}.{name}", self.meta),
            _ => name.to_owned(),
        }
    }

    fn add_member(&mut self, name: &str, ty: String) -> String {
        let role = self.root_role(name);
        let path = self.emitted_path(name);
        let tree = match role {
            RootRole::Headers => &mut self.headers,
            RootRole::Metadata => &mut self.metadata,
            RootRole::Pre => return path,
        };
        let mut components: Vec<&str> = path.split('.').skip(1).collect();
        let last = components.pop().unwrap_or(name).to_owned();
        let mut at = tree;
        for component in components {
            at = at.child(component);
        }
        if !at.0.iter().any(|(known, _)| *known == last) {
            at.0.push((last.clone(), StructMember::Leaf(ty)));
        }
        if path.contains('.') { path } else { format!("{path}.{last}") }
    }

    /// Declares headers, stacks and unions as members of their structs. Members of stacks and
    /// unions have a path, but no declaration of their own.
    fn add_headers(&mut self, p: &Pipeline) {
        let in_stack: BTreeSet<HeaderId> = p.stacks.values().flat_map(|s| s.elements.iter().copied()).collect();
        for (id, header) in p.headers.iter().filter(|(_, h)| !h.local) {
            let lists_header = |list: &&Vec<VarId>| header.fields.first().is_some_and(|f| list.contains(f));
            let lists: Vec<String> =
                p.field_lists.iter().filter(|(_, vars)| lists_header(vars)).map(|(n, _)| n.to_string()).collect();
            let annotation =
                if lists.is_empty() { String::new() } else { format!("@field_list({}) ", lists.join(", ")) };
            let ty = annotation + &p.header_types[header.ty].name;
            let path = if in_stack.contains(&id) || header.union.is_some() {
                self.emitted_path(&header.name)
            } else {
                self.add_member(&header.name, ty)
            };
            self.shared.insert(id, path);
        }
        for (_, stack) in p.stacks.iter().filter(|(id, _)| !is_local(p, *id)) {
            let ty = match stack.elements.first() {
                Some(first) => p.header_types[p.headers[*first].ty].name.clone(),
                None => match union_elements(p, &stack.name).first() {
                    Some(union) => union_type(p, *union),
                    None => continue,
                },
            };
            let size =
                if stack.elements.is_empty() { union_elements(p, &stack.name).len() } else { stack.elements.len() };
            self.add_member(&stack.name, format!("{ty}[{size}]"));
        }
        for (id, union) in p.unions.iter() {
            let is_local_union = union.members.iter().all(|h| p.headers[*h].local);
            if !is_local_union && !union.name.ends_with(']') {
                self.add_member(&union.name, union_type(p, id));
            }
        }
    }

    /// Chooses the storage of each variable: a member of a shared struct, or a local of the one
    /// programmable block that uses it.
    fn add_vars(&mut self, p: &Pipeline, mentions: &[Mentions]) {
        for (id, var) in p.vars.iter() {
            let users = mentions.iter().filter(|m| m.vars.contains(&id)).count();
            let storage = match var.kind {
                VarKind::Field(..) | VarKind::Intrinsic => continue,
                VarKind::Meta => {
                    let lists: Vec<String> = p
                        .field_lists
                        .iter()
                        .filter(|(_, vars)| vars.contains(&id))
                        .map(|(n, _)| n.to_string())
                        .collect();
                    let annotation =
                        if lists.is_empty() { String::new() } else { format!("@field_list({}) ", lists.join(", ")) };
                    VarStorage::Shared(self.add_member(&var.name, annotation + &type_text(p, var.ty)))
                }
                VarKind::Local | VarKind::NextIndex(_) if users <= 1 => VarStorage::Local,
                VarKind::Local | VarKind::NextIndex(_) => {
                    let name = format!("{}.{}", self.meta, super::names::to_identifier(&var.name));
                    let name = if var.name.contains("$") { name.replace('$', "_") } else { name };
                    if !self.roles.iter().any(|(_, role)| *role == RootRole::Metadata) {
                        self.roles.push((self.meta.clone(), RootRole::Metadata));
                    }
                    VarStorage::Shared(self.add_member(&name, type_text(p, var.ty)))
                }
            };
            self.parts.insert(id, storage);
        }
    }

    /// Returns the path of a shared header.
    pub(super) fn shared_header(&self, id: HeaderId) -> Option<&String> {
        self.shared.get(&id)
    }

    /// Returns the storage of a variable that is not a header field.
    pub(super) fn storage_of(&self, id: VarId) -> Option<&VarStorage> {
        self.parts.get(&id)
    }

    /// For a local header in a stack or union, returns that container's name and the rest of the
    /// header's name.
    pub(super) fn local_container(&self, p: &Pipeline, id: HeaderId) -> Option<(String, String)> {
        let header = &p.headers[id];
        let stack = p.stacks.values().find(|s| s.elements.contains(&id));
        let outer = match (stack, header.union) {
            (Some(stack), _) => stack.name.clone(),
            (None, Some(union)) => {
                let name = p.unions[union].name.clone();
                let of = p.stacks.values().find(|s| s.elements.is_empty() && name.starts_with(&format!("{}[", s.name)));
                of.map_or(name, |stack| stack.name.clone())
            }
            (None, None) => return None,
        };
        let rest = header.name.strip_prefix(&outer).unwrap_or_default().to_owned();
        Some((outer, rest))
    }

    /// Returns the names of the shared parameters.
    pub(super) fn roots(&self) -> Vec<String> {
        let mut roots = vec![self.hdr.clone(), self.meta.clone()];
        roots.extend(self.roles.iter().map(|(name, _)| name.clone()));
        roots
    }

    /// Declares the structs, with `more` members of the metadata.
    pub(super) fn declare(&self, lines: &mut IndentedText, headers: &str, metadata: &str, more: &[(String, String)]) {
        let mut meta = self.metadata.clone();
        meta.0.extend(more.iter().map(|(name, ty)| (name.clone(), StructMember::Leaf(ty.clone()))));
        declare(lines, headers, &self.headers);
        declare(lines, metadata, &meta);
    }
}

fn declare(lines: &mut IndentedText, name: &str, tree: &StructTree) {
    let stem = name.strip_suffix("_t").unwrap_or(name);
    for (member, inner) in &tree.0 {
        if let StructMember::Struct(inner) = inner {
            declare(lines, &format!("{stem}_{member}_t"), inner);
        }
    }
    lines.separate();
    lines.open_block(&format!("struct {name}"));
    for (member, of) in &tree.0 {
        match of {
            StructMember::Struct(_) => lines.line(&format!("{stem}_{member}_t {member};")),
            StructMember::Leaf(ty) => lines.line(&format!("{ty} {member};")),
        }
    }
    lines.close_block();
}

impl StructTree {
    fn child(&mut self, name: &str) -> &mut StructTree {
        let at = match self.0.iter().position(|(known, m)| known == name && matches!(m, StructMember::Struct(_))) {
            Some(at) => at,
            None => {
                self.0.push((name.to_owned(), StructMember::Struct(StructTree::default())));
                self.0.len() - 1
            }
        };
        match &mut self.0[at].1 {
            StructMember::Struct(tree) => tree,
            StructMember::Leaf(_) => unreachable!("it was found or made as a struct"),
        }
    }
}

/// Returns the first component of a dotted name.
fn root_name(name: &str) -> String {
    name.split(['.', '[']).next().unwrap_or(name).to_owned()
}

/// Returns the unions that are elements of a stack.
pub(super) fn union_elements(p: &Pipeline, stack: &str) -> Vec<UnionId> {
    let element = |(id, union): (UnionId, &Union)| {
        let rest = union.name.strip_prefix(stack)?;
        (rest.starts_with('[') && rest.ends_with(']')).then_some(id)
    };
    p.unions.iter().filter_map(element).collect()
}

/// Returns whether a stack is local to a block.
pub(super) fn is_local(p: &Pipeline, stack: StackId) -> bool {
    let stack = &p.stacks[stack];
    let unions = union_elements(p, &stack.name);
    let members = unions.iter().flat_map(|u| p.unions[*u].members.iter());
    stack.elements.iter().chain(members).all(|h| p.headers[*h].local)
}

/// Returns the name of a union's type; unions with the same members share one.
pub(super) fn union_type(p: &Pipeline, id: UnionId) -> String {
    let shape = |id: UnionId| -> Vec<(String, HeaderTypeId)> {
        let union = &p.unions[id];
        let member = |h: &HeaderId| {
            let name = p.headers[*h].name.rsplit('.').next().unwrap_or_default().to_owned();
            (name, p.headers[*h].ty)
        };
        union.members.iter().map(member).collect()
    };
    let wanted = shape(id);
    let first = p.unions.iter().find(|(other, _)| shape(*other) == wanted).map_or(id, |(other, _)| other);
    format!("union_{}_t", first.index())
}
