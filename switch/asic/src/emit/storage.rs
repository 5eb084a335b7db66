//! Headers and metadata as structs: what was flattened, put together again by its dotted names.

use super::expr::type_text;
use super::mentions::Mentions;
use super::text::Lines;
use ir::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Where a variable outside headers is.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// In a struct that all blocks share, under this name.
    Shared(String),
    /// A variable of one block.
    Local,
}

/// A struct's members by name, in order.
#[derive(Clone, Default, Debug)]
struct Tree(Vec<(String, Member)>);

#[derive(Clone, Debug)]
enum Member {
    Struct(Tree),
    /// A type, by its text.
    Leaf(String),
}

/// Which of the shared structs a root is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Headers,
    Metadata,
    /// The pre control's own copies.
    Pre,
}

/// The shared structs.
#[derive(Debug, Default)]
pub(super) struct Storage {
    /// Name of the headers' parameter.
    pub(super) hdr: String,
    /// Name of the metadata's parameter.
    pub(super) meta: String,
    /// Local stacks and unions: their name in the program and in the text.
    pub(super) containers: BTreeMap<String, String>,
    headers: Tree,
    metadata: Tree,
    parts: HashMap<VarId, Part>,
    shared: HashMap<HeaderId, String>,
    roles: Vec<(String, Role)>,
}

impl Storage {
    /// The structs of a pipeline; `meta` is the metadata's name, if it is known.
    pub(super) fn new(p: &Pipeline, mentions: &[Mentions], meta: Option<&str>) -> Storage {
        let mut storage = Storage::default();
        storage.find_roots(p, meta);
        let named = |role| storage.roles.iter().find(|(_, r)| *r == role).map(|(name, _)| name.clone());
        storage.hdr = named(Role::Headers).unwrap_or_else(|| "hdr".into());
        storage.meta = named(Role::Metadata).unwrap_or_else(|| "meta".into());
        storage.add_headers(p);
        storage.add_vars(p, mentions);
        storage
    }

    /// The first components of names, in the order in which the architecture's parameters were made.
    fn find_roots(&mut self, p: &Pipeline, meta: Option<&str>) {
        let mut seen_intrinsic = false;
        let mut found: Vec<(String, bool, bool)> = Vec::new();
        for var in p.vars.values() {
            let with_header = match var.kind {
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
            let root = root(&var.name);
            let own = root == meta.unwrap_or("meta");
            match found.iter_mut().find(|(name, ..)| *name == root) {
                Some((_, headers, _)) => *headers |= with_header,
                None => found.push((root, with_header, seen_intrinsic && p.arch == Arch::Pna && !own)),
            }
        }
        for header in p.headers.values().filter(|h| !h.local) {
            let root = root(&header.name);
            if !found.iter().any(|(name, ..)| *name == root) {
                found.insert(0, (root, true, false));
            }
        }
        let lone = found.iter().filter(|(.., pre)| !pre).count() == 1;
        let mut number = 0;
        for (name, headers, pre) in found {
            let role = match (pre, number) {
                (true, _) => Role::Pre,
                (false, 0) if meta != Some(name.as_str()) && (headers || !lone) => Role::Headers,
                _ => Role::Metadata,
            };
            number += usize::from(!pre);
            self.roles.push((name, role));
        }
    }

    fn role(&self, name: &str) -> Role {
        let root = root(name);
        self.roles.iter().find(|(known, _)| *known == root).map_or(Role::Metadata, |(_, role)| *role)
    }

    /// The path in the text of something with that name.
    fn path(&self, name: &str) -> String {
        match self.role(name) {
            // Several roots of metadata share one struct.
            Role::Metadata if root(name) != self.meta => format!("{}.{name}", self.meta),
            _ => name.to_owned(),
        }
    }

    fn add(&mut self, name: &str, ty: String) -> String {
        let role = self.role(name);
        let path = self.path(name);
        let tree = match role {
            Role::Headers => &mut self.headers,
            Role::Metadata => &mut self.metadata,
            Role::Pre => return path,
        };
        let mut components: Vec<&str> = path.split('.').skip(1).collect();
        let last = components.pop().unwrap_or(name).to_owned();
        let mut at = tree;
        for component in components {
            at = at.child(component);
        }
        if !at.0.iter().any(|(known, _)| *known == last) {
            at.0.push((last.clone(), Member::Leaf(ty)));
        }
        if path.contains('.') { path } else { format!("{path}.{last}") }
    }

    fn add_headers(&mut self, p: &Pipeline) {
        let in_stack: BTreeSet<HeaderId> = p.stacks.values().flat_map(|s| s.elements.iter().copied()).collect();
        for (id, header) in p.headers.iter().filter(|(_, h)| !h.local) {
            let listed = |list: &&Vec<VarId>| header.fields.first().is_some_and(|f| list.contains(f));
            let lists: Vec<String> =
                p.field_lists.iter().filter(|(_, vars)| listed(vars)).map(|(n, _)| n.to_string()).collect();
            let told = if lists.is_empty() { String::new() } else { format!("@field_list({}) ", lists.join(", ")) };
            let ty = told + &p.header_types[header.ty].name;
            let path = if in_stack.contains(&id) || header.union.is_some() {
                self.path(&header.name)
            } else {
                self.add(&header.name, ty)
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
            self.add(&stack.name, format!("{ty}[{size}]"));
        }
        for (id, union) in p.unions.iter() {
            let local = union.members.iter().all(|h| p.headers[*h].local);
            if !local && !union.name.ends_with(']') {
                self.add(&union.name, union_type(p, id));
            }
        }
    }

    fn add_vars(&mut self, p: &Pipeline, mentions: &[Mentions]) {
        for (id, var) in p.vars.iter() {
            let users = mentions.iter().filter(|m| m.vars.contains(&id)).count();
            let part = match var.kind {
                VarKind::Field(..) | VarKind::Intrinsic => continue,
                VarKind::Meta => {
                    let lists: Vec<String> = p
                        .field_lists
                        .iter()
                        .filter(|(_, vars)| vars.contains(&id))
                        .map(|(n, _)| n.to_string())
                        .collect();
                    let told =
                        if lists.is_empty() { String::new() } else { format!("@field_list({}) ", lists.join(", ")) };
                    Part::Shared(self.add(&var.name, told + &type_text(p, var.ty)))
                }
                VarKind::Local | VarKind::NextIndex(_) if users <= 1 => Part::Local,
                VarKind::Local | VarKind::NextIndex(_) => {
                    let name = format!("{}.{}", self.meta, super::names::flat(&var.name));
                    let name = if var.name.contains("$") { name.replace('$', "_") } else { name };
                    if !self.roles.iter().any(|(_, role)| *role == Role::Metadata) {
                        self.roles.push((self.meta.clone(), Role::Metadata));
                    }
                    Part::Shared(self.add(&name, type_text(p, var.ty)))
                }
            };
            self.parts.insert(id, part);
        }
    }

    /// The path of a header that all blocks share.
    pub(super) fn shared_header(&self, id: HeaderId) -> Option<&String> {
        self.shared.get(&id)
    }

    /// Where a variable outside headers is.
    pub(super) fn part_of(&self, id: VarId) -> Option<&Part> {
        self.parts.get(&id)
    }

    /// Of a local header in a stack or union: that one's name, and what follows it.
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

    /// Names of the shared parameters.
    pub(super) fn roots(&self) -> Vec<String> {
        let mut roots = vec![self.hdr.clone(), self.meta.clone()];
        roots.extend(self.roles.iter().map(|(name, _)| name.clone()));
        roots
    }

    /// Writes the structs, with further members of the metadata.
    pub(super) fn declare(&self, lines: &mut Lines, headers: &str, metadata: &str, more: &[(String, String)]) {
        let mut meta = self.metadata.clone();
        meta.0.extend(more.iter().map(|(name, ty)| (name.clone(), Member::Leaf(ty.clone()))));
        declare(lines, headers, &self.headers);
        declare(lines, metadata, &meta);
    }
}

fn declare(lines: &mut Lines, name: &str, tree: &Tree) {
    let stem = name.strip_suffix("_t").unwrap_or(name);
    for (member, inner) in &tree.0 {
        if let Member::Struct(inner) = inner {
            declare(lines, &format!("{stem}_{member}_t"), inner);
        }
    }
    lines.gap();
    lines.open(&format!("struct {name}"));
    for (member, of) in &tree.0 {
        match of {
            Member::Struct(_) => lines.line(&format!("{stem}_{member}_t {member};")),
            Member::Leaf(ty) => lines.line(&format!("{ty} {member};")),
        }
    }
    lines.close();
}

impl Tree {
    fn child(&mut self, name: &str) -> &mut Tree {
        let at = match self.0.iter().position(|(known, m)| known == name && matches!(m, Member::Struct(_))) {
            Some(at) => at,
            None => {
                self.0.push((name.to_owned(), Member::Struct(Tree::default())));
                self.0.len() - 1
            }
        };
        match &mut self.0[at].1 {
            Member::Struct(tree) => tree,
            Member::Leaf(_) => unreachable!("it was found or made as a struct"),
        }
    }
}

/// The first component of a dotted name.
fn root(name: &str) -> String {
    name.split(['.', '[']).next().unwrap_or(name).to_owned()
}

/// The unions that are elements of a stack.
pub(super) fn union_elements(p: &Pipeline, stack: &str) -> Vec<UnionId> {
    let element = |(id, union): (UnionId, &Union)| {
        let rest = union.name.strip_prefix(stack)?;
        (rest.starts_with('[') && rest.ends_with(']')).then_some(id)
    };
    p.unions.iter().filter_map(element).collect()
}

/// Whether a stack is local to a block.
pub(super) fn is_local(p: &Pipeline, stack: StackId) -> bool {
    let stack = &p.stacks[stack];
    let unions = union_elements(p, &stack.name);
    let members = unions.iter().flat_map(|u| p.unions[*u].members.iter());
    stack.elements.iter().chain(members).all(|h| p.headers[*h].local)
}

/// Name of a union's type: unions of the same members share one.
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
