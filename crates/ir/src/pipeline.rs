//! The pipeline: all declarations of a program, flattened.

use crate::body::Body;
use crate::declaration::{DataType, Preamble, SourceLoc};
use crate::entity::*;
use crate::externs::ExternInst;
use crate::table::{Action, Table};
use crate::types::Type;
use std::collections::BTreeMap;

/// The architecture that a program is written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Arch {
    /// bmv2's v1model.
    V1Model,
    /// The Portable NIC Architecture.
    Pna,
}

/// A lowered program: one architecture, all generics instantiated, all calls inlined, all
/// aggregates flattened.
#[derive(Clone, PartialEq, Debug)]
pub struct Pipeline {
    /// Name: the file's stem, or the `@pkginfo` name.
    pub name: String,
    /// Architecture.
    pub arch: Arch,
    /// `@pkginfo` and other annotations of `main`, each as P4Info shows it.
    pub annotations: Vec<String>,
    /// Source files, indexed by [`SourceLoc`].
    pub files: Vec<String>,
    /// Error names (without `error.`); core.p4's come first, NoError is 0.
    pub errors: Vec<String>,
    /// Enumerations.
    pub enums: EntityMap<EnumId, Enum>,
    /// Header types.
    pub header_types: EntityMap<HeaderTypeId, HeaderType>,
    /// Variables.
    pub vars: EntityMap<VarId, Var>,
    /// Header instances.
    pub headers: EntityMap<HeaderId, Header>,
    /// Header stacks.
    pub stacks: EntityMap<StackId, Stack>,
    /// Header unions.
    pub unions: EntityMap<UnionId, Union>,
    /// Actions that tables list, and actions that a control's body calls (for P4Info; without
    /// parameters if no table lists them).
    pub actions: EntityMap<ActionId, Action>,
    /// Tables. Lowering leaves out tables that are never applied.
    pub tables: EntityMap<TableId, Table>,
    /// Extern objects.
    pub externs: EntityMap<ExternId, ExternInst>,
    /// Parser value sets.
    pub value_sets: EntityMap<ValueSetId, ValueSet>,
    /// The architecture's programmable blocks, in the order in which a packet passes them, each at
    /// most once.
    pub controls: EntityMap<ControlId, Control>,
    /// Variables with a meaning to the architecture, by their P4 name
    /// (`standard_metadata.egress_spec`, `istd.input_port`, `ostd.class_of_service`;
    /// `parser_istd.`, `pre_istd.`, `pre_ostd.` for PNA's other blocks).
    pub intrinsics: BTreeMap<String, VarId>,
    /// v1model `@field_list(n)`: metadata kept over clone, resubmit and recirculate.
    pub field_lists: BTreeMap<u32, Vec<VarId>>,
    /// Named types that P4Info has to describe.
    pub named_types: Vec<(String, NamedType)>,
    /// Annotations that P4Info shows for a `type`, by its name; no entry for a type without
    /// annotations.
    pub type_annotations: BTreeMap<String, Vec<String>>,
    /// Values of the strings of types that the control plane sees as strings, by type:
    /// `@p4runtime_translation_mappings`.
    pub mappings: BTreeMap<String, Vec<(String, num_bigint::BigUint)>>,
    /// Headers with `@controller_header`: P4Info's packet_in and packet_out.
    pub controller_headers: Vec<ControllerHeader>,
}

/// An enumeration without underlying type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enum {
    /// P4 name.
    pub name: String,
    /// Members; a value is an index into them.
    pub members: Vec<String>,
}

/// A header type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderType {
    /// P4 name.
    pub name: String,
    /// Fields in wire order, first field first.
    pub fields: Vec<HeaderField>,
}

/// A field of a header type. Structs in headers are flattened (`a.b`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeaderField {
    /// Name.
    pub name: String,
    /// Type; at most one field is a varbit.
    pub ty: Type,
}

/// A mutable scalar. It is zero when a packet enters the pipeline, and lives until the packet
/// leaves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Var {
    /// Dotted name, unique in the pipeline (`hdr.ipv4.ttl`, `meta.vni`, `ingress.tmp`).
    pub name: String,
    /// Type.
    pub ty: Type,
    /// Storage class.
    pub kind: VarKind,
    /// Source position of the declaration.
    pub loc: SourceLoc,
}

/// Storage class of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum VarKind {
    /// Field number `n` of a header.
    Field(HeaderId, u32),
    /// User metadata: kept from one programmable block to the next.
    Meta,
    /// The architecture's own metadata.
    Intrinsic,
    /// Local to one programmable block.
    Local,
    /// A header stack's next index (`bit<32>`).
    NextIndex(StackId),
}

/// A header instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Dotted name, unique (`hdr.ipv4`, `hdr.vlan[1]`).
    pub name: String,
    /// Type.
    pub ty: HeaderTypeId,
    /// One variable for each field of the type.
    pub fields: Vec<VarId>,
    /// The union that the header is a member of.
    pub union: Option<UnionId>,
    /// Local to one programmable block (a temporary), as opposed to part of the parsed
    /// representation.
    pub local: bool,
}

/// A header stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// Dotted name.
    pub name: String,
    /// Elements, lowest index first. Empty if the elements are unions.
    pub elements: Vec<HeaderId>,
    /// `nextIndex`, a `bit<32>`.
    pub next: VarId,
}

/// A header union.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Union {
    /// Dotted name.
    pub name: String,
    /// Members.
    pub members: Vec<HeaderId>,
}

/// A parser value set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueSet {
    /// Control-plane identity.
    pub preamble: Preamble,
    /// Maximum number of members.
    pub size: u64,
    /// Keys of a member, as `Table::keys`. The one key of a set of scalars has no name.
    pub keys: Vec<crate::table::MatchKey>,
    /// Source position of the declaration.
    pub loc: SourceLoc,
}

/// The role of a programmable block in its architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum ControlKind {
    Parser,
    VerifyChecksum,
    Ingress,
    Egress,
    ComputeChecksum,
    Deparser,
    /// PNA.
    MainParser,
    /// PNA.
    PreControl,
    /// PNA.
    MainControl,
    /// PNA.
    MainDeparser,
}

impl ControlKind {
    /// Reports whether the block is a parser.
    pub fn is_parser(self) -> bool {
        matches!(self, ControlKind::Parser | ControlKind::MainParser)
    }
}

/// A programmable block: a parser, control or deparser.
#[derive(Clone, PartialEq, Debug)]
pub struct Control {
    /// P4 name of the parser or control.
    pub name: String,
    /// Role.
    pub kind: ControlKind,
    /// The code of the block.
    pub body: Body,
}

/// Definition of a named type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NamedType {
    /// A struct's members.
    Struct(Vec<(String, DataType)>),
    /// A header's members.
    Header(Vec<(String, DataType)>),
    /// A header union's members (header type names).
    Union(Vec<(String, String)>),
    /// An enumeration's members.
    Enum(Vec<String>),
    /// An enumeration with underlying `bit<W>`: width, members, values.
    SerializableEnum(u32, Vec<(String, num_bigint::BigUint)>),
    /// `type`: the original type, and its `@p4runtime_translation` (URI, width in bits or `None`
    /// for a string).
    NewType(DataType, Option<(String, Option<u32>)>),
}

/// A header exchanged with the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerHeader {
    /// Identity: the name is `packet_in` or `packet_out`.
    pub preamble: Preamble,
    /// P4 header type.
    pub header: HeaderTypeId,
    /// Fields: name, width in bits, annotations, `@id` or 0, name of a `type` or enum.
    pub fields: Vec<crate::table::Param>,
}
