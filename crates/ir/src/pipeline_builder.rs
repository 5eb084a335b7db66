//! Builder of pipelines: declarations and the links between them.

use crate::declaration::SourceLoc;
use crate::entity::*;
use crate::pipeline::*;
use crate::types::Type;

/// Errors that core.p4 declares, in its order. Each pipeline starts with them, so `NoError` is 0.
pub const CORE_ERRORS: [&str; 7] = [
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
];

impl Pipeline {
    /// Iterates over all instructions of all controls and parsers.
    pub fn insts(&self) -> impl Iterator<Item = &crate::body::InstData> {
        self.controls.values().flat_map(|control| control.body.insts())
    }

    /// Returns the source file of a position; `None` without a position.
    pub fn file_of(&self, loc: SourceLoc) -> Option<&str> {
        self.files.get(usize::from(loc.file)).filter(|_| loc.line > 0).map(String::as_str)
    }

    /// Creates a pipeline without declarations except the errors of core.p4.
    pub fn new(name: impl Into<String>, arch: Arch) -> Self {
        Pipeline {
            name: name.into(),
            arch,
            annotations: Vec::new(),
            files: Vec::new(),
            errors: CORE_ERRORS.map(String::from).to_vec(),
            enums: EntityMap::new(),
            header_types: EntityMap::new(),
            vars: EntityMap::new(),
            headers: EntityMap::new(),
            stacks: EntityMap::new(),
            unions: EntityMap::new(),
            actions: EntityMap::new(),
            tables: EntityMap::new(),
            externs: EntityMap::new(),
            value_sets: EntityMap::new(),
            controls: EntityMap::new(),
            intrinsics: Default::default(),
            field_lists: Default::default(),
            named_types: Vec::new(),
            type_annotations: Default::default(),
            mappings: Default::default(),
            controller_headers: Vec::new(),
        }
    }

    /// Returns the index of the error of this name (without `error.`), declaring it if it is new.
    pub fn add_error(&mut self, name: &str) -> u32 {
        let known = self.errors.iter().position(|e| e == name);
        let index = known.unwrap_or_else(|| {
            self.errors.push(name.to_string());
            self.errors.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Declares a variable.
    pub fn add_var(&mut self, name: impl Into<String>, ty: Type, kind: VarKind, loc: SourceLoc) -> VarId {
        self.vars.push(Var { name: name.into(), ty, kind, loc })
    }

    /// Declares a header instance, and one variable (`header.field`) for each field of its type.
    pub fn add_header(&mut self, name: impl Into<String>, ty: HeaderTypeId, local: bool, loc: SourceLoc) -> HeaderId {
        let name = name.into();
        let header = self.headers.next_key();
        let types = self.header_types.get(ty).map(|t| t.fields.clone()).unwrap_or_default();
        let fields = types.into_iter().zip(0..).map(|(field, n)| {
            let kind = VarKind::Field(header, n);
            self.vars.push(Var { name: format!("{name}.{}", field.name), ty: field.ty, kind, loc })
        });
        let fields = fields.collect();
        self.headers.push(Header { name, ty, fields, union: None, local })
    }

    /// Declares a stack of these headers, and the variable (`stack.nextIndex`) for its next index.
    pub fn add_stack(&mut self, name: impl Into<String>, elements: Vec<HeaderId>, loc: SourceLoc) -> StackId {
        let name = name.into();
        let stack = self.stacks.next_key();
        let next = self.add_var(format!("{name}.nextIndex"), Type::Bit(32), VarKind::NextIndex(stack), loc);
        self.stacks.push(Stack { name, elements, next })
    }

    /// Declares a union of these headers, and links them to it.
    pub fn add_union(&mut self, name: impl Into<String>, members: Vec<HeaderId>) -> UnionId {
        let union = self.unions.next_key();
        for member in &members {
            if let Some(header) = self.headers.get_mut(*member) {
                header.union = Some(union);
            }
        }
        self.unions.push(Union { name: name.into(), members })
    }
}
