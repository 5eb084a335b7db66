//! The messages of `p4info.proto` and `p4types.proto` as plain structs, under the same names. A
//! field with its protobuf default (0, empty) counts as absent.

#![allow(missing_docs)]

use std::collections::BTreeMap;

/// `P4Info`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct P4Info {
    pub pkg_info: PkgInfo,
    pub tables: Vec<Table>,
    pub actions: Vec<Action>,
    pub action_profiles: Vec<ActionProfile>,
    pub counters: Vec<Counter>,
    pub direct_counters: Vec<DirectCounter>,
    pub meters: Vec<Meter>,
    pub direct_meters: Vec<DirectMeter>,
    pub controller_packet_metadata: Vec<ControllerPacketMetadata>,
    pub value_sets: Vec<ValueSet>,
    pub registers: Vec<Register>,
    pub digests: Vec<Digest>,
    pub type_info: TypeInfo,
}

/// `Documentation`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Documentation {
    pub brief: String,
    pub description: String,
}

/// `PkgInfo`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PkgInfo {
    pub name: String,
    pub version: String,
    pub doc: Documentation,
    pub annotations: Annotations,
    pub arch: String,
    pub organization: String,
    pub contact: String,
    pub url: String,
    /// Sizes of `@platform_property`, by their name.
    pub platform_properties: BTreeMap<String, i64>,
}

/// The two lists of annotations that several messages have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Annotations {
    /// As written.
    pub plain: Vec<String>,
    pub structured: Vec<StructuredAnnotation>,
}

/// `StructuredAnnotation`: `@name[...]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructuredAnnotation {
    pub name: String,
    pub body: AnnotationBody,
}

/// Body of a structured annotation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnnotationBody {
    Empty,
    Expressions(Vec<Expression>),
    Pairs(Vec<(String, Expression)>),
}

/// `Expression`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    String(String),
    Int(i64),
    Bool(bool),
}

/// `Preamble`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Preamble {
    pub id: u32,
    pub name: String,
    pub alias: String,
    pub annotations: Annotations,
    pub doc: Documentation,
}

/// `Table`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    pub preamble: Preamble,
    pub match_fields: Vec<MatchField>,
    pub action_refs: Vec<ActionRef>,
    /// 0 if the default action is not const.
    pub const_default_action_id: u32,
    pub initial_default_action: ActionCall,
    /// Action profile or selector, or 0.
    pub implementation_id: u32,
    pub direct_resource_ids: Vec<u32>,
    /// Number of entries.
    pub size: i64,
    /// `NOTIFY_CONTROL`, as opposed to `NO_TIMEOUT`.
    pub notify_idle_timeout: bool,
    pub is_const_table: bool,
    pub has_initial_entries: bool,
}

/// `TableActionCall`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActionCall {
    pub action_id: u32,
    /// Parameter id, value in network byte order, padded to the parameter's width.
    pub arguments: Vec<(u32, Vec<u8>)>,
}

/// `MatchField`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MatchField {
    pub id: u32,
    pub name: String,
    pub annotations: Annotations,
    /// In bits, as the control plane sends it; 0 for a string.
    pub bitwidth: u32,
    /// None: not set.
    pub match_type: Option<MatchType>,
    pub doc: Documentation,
    pub type_name: Option<String>,
}

/// `MatchField.MatchType`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchType {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

/// `ActionRef`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActionRef {
    pub id: u32,
    pub scope: Scope,
    pub annotations: Annotations,
}

/// `ActionRef.Scope`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    #[default]
    TableAndDefault,
    TableOnly,
    DefaultOnly,
}

/// `Action`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Action {
    pub preamble: Preamble,
    pub params: Vec<Param>,
}

/// `Action.Param`, and `ControllerPacketMetadata.Metadata`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Param {
    pub id: u32,
    pub name: String,
    pub annotations: Annotations,
    /// In bits, as the control plane sends it; 0 for a string or an enumeration.
    pub bitwidth: u32,
    /// Set for parameters only.
    pub doc: Documentation,
    pub type_name: Option<String>,
}

/// `ActionProfile`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ActionProfile {
    pub preamble: Preamble,
    pub table_ids: Vec<u32>,
    pub with_selector: bool,
    /// Number of members.
    pub size: i64,
    /// 0: not set.
    pub max_group_size: i64,
    pub size_semantics: Option<SizeSemantics>,
}

/// `ActionProfile.selector_size_semantics`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeSemantics {
    SumOfWeights,
    SumOfMembers { max_member_weight: i64 },
}

/// `CounterSpec.Unit`, and `MeterSpec.Unit` without `Both`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Bytes,
    Packets,
    Both,
}

/// `Counter`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    pub preamble: Preamble,
    pub unit: Unit,
    pub size: i64,
    pub index_type_name: Option<String>,
}

/// `DirectCounter`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectCounter {
    pub preamble: Preamble,
    pub unit: Unit,
    pub direct_table_id: u32,
}

/// `Meter`; RFC 2698, two rates and three colors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meter {
    pub preamble: Preamble,
    pub unit: Unit,
    pub size: i64,
    pub index_type_name: Option<String>,
}

/// `DirectMeter`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectMeter {
    pub preamble: Preamble,
    pub unit: Unit,
    pub direct_table_id: u32,
}

/// `ControllerPacketMetadata`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ControllerPacketMetadata {
    pub preamble: Preamble,
    pub metadata: Vec<Param>,
}

/// `ValueSet`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ValueSet {
    pub preamble: Preamble,
    pub matches: Vec<MatchField>,
    pub size: i64,
}

/// `Register`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    pub preamble: Preamble,
    pub type_spec: TypeSpec,
    pub size: i64,
    pub index_type_name: Option<String>,
}

/// `Digest`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digest {
    pub preamble: Preamble,
    pub type_spec: TypeSpec,
}

/// `P4TypeInfo`: the referenced types, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TypeInfo {
    pub structs: BTreeMap<String, Vec<(String, TypeSpec)>>,
    pub headers: BTreeMap<String, Vec<(String, TypeSpec)>>,
    /// Members: name, header type.
    pub header_unions: BTreeMap<String, Vec<(String, String)>>,
    pub enums: BTreeMap<String, Vec<String>>,
    /// Members of `error`, if a type uses it.
    pub error: Option<Vec<String>>,
    pub serializable_enums: BTreeMap<String, SerializableEnum>,
    pub new_types: BTreeMap<String, NewType>,
    /// Annotations of new types, by name; no entry for a type without any.
    pub new_type_annotations: BTreeMap<String, Annotations>,
}

/// `P4SerializableEnumTypeSpec`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SerializableEnum {
    /// Width of the underlying `bit<W>`.
    pub bitwidth: u32,
    /// Name, value in network byte order padded to the width.
    pub members: Vec<(String, Vec<u8>)>,
}

/// `P4NewTypeSpec`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NewType {
    Original(TypeSpec),
    /// URI, and the width in bits that the control plane sends; `None`: a string.
    Translated(String, Option<u32>),
}

/// `P4DataTypeSpec`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TypeSpec {
    Bit(u32),
    Int(u32),
    Varbit(u32),
    Bool,
    Tuple(Vec<TypeSpec>),
    Struct(String),
    Header(String),
    HeaderUnion(String),
    HeaderStack(String, u32),
    HeaderUnionStack(String, u32),
    Enum(String),
    Error,
    SerializableEnum(String),
    NewType(String),
}
