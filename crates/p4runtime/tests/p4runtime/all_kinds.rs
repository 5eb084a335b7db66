//! P4Info with every kind of object, including those that no program of the repository has.

use ir::p4info::*;

fn preamble(kind: u32, number: u32, name: &str) -> Preamble {
    Preamble { id: kind << 24 | number, name: format!("in.{name}"), alias: name.into(), ..Default::default() }
}

fn annotations() -> Annotations {
    let pairs = vec![("a".into(), Expression::Int(-1)), ("b".into(), Expression::Bool(false))];
    let list = vec![Expression::Int(0), Expression::String("x\"\n".into()), Expression::Bool(true)];
    let structured = [
        ("none", AnnotationBody::Empty),
        ("list", AnnotationBody::Expressions(list)),
        ("pairs", AnnotationBody::Pairs(pairs)),
    ];
    let structured = structured.map(|(name, body)| StructuredAnnotation { name: name.into(), body });
    Annotations { plain: vec!["@x".into(), "@y(1)".into()], structured: structured.into() }
}

fn documentation() -> Documentation {
    Documentation { brief: "brief".into(), description: "länger: '\\\u{1}\t?\u{7f}0".into() }
}

fn key(id: u32, match_type: Option<MatchType>) -> MatchField {
    MatchField { id, name: format!("key{id}"), bitwidth: 8 * id, match_type, ..Default::default() }
}

fn table() -> Table {
    let mut match_fields = vec![
        key(1, Some(MatchType::Exact)),
        key(2, Some(MatchType::Lpm)),
        key(3, Some(MatchType::Ternary)),
        key(4, Some(MatchType::Range)),
        key(5, Some(MatchType::Optional)),
        key(6, None),
    ];
    match_fields[0].annotations = annotations();
    match_fields[0].doc = documentation();
    match_fields[0].type_name = Some("translated_t".into());
    let scopes = [Scope::TableAndDefault, Scope::TableOnly, Scope::DefaultOnly];
    let action_refs = scopes.map(|scope| ActionRef { id: 0x0100_0001, scope, annotations: annotations() });
    Table {
        preamble: Preamble { annotations: annotations(), doc: documentation(), ..preamble(2, 1, "t") },
        match_fields,
        action_refs: action_refs.into(),
        const_default_action_id: 0x0100_0001,
        initial_default_action: ActionCall { action_id: 0x0100_0001, arguments: vec![(1, vec![0, 255]), (2, vec![0])] },
        implementation_id: 0x1100_0001,
        direct_resource_ids: vec![0x1300_0001, 0x1500_0001],
        size: 1 << 40,
        notify_idle_timeout: true,
        is_const_table: true,
        has_initial_entries: true,
    }
}

fn param(id: u32, doc: Documentation) -> Param {
    let type_name = Some("new_t".into());
    Param { id, name: format!("p{id}"), annotations: annotations(), bitwidth: 9, doc, type_name }
}

fn profiles() -> Vec<ActionProfile> {
    let semantics = [
        None,
        Some(SizeSemantics::SumOfWeights),
        Some(SizeSemantics::SumOfMembers { max_member_weight: 7 }),
        Some(SizeSemantics::SumOfMembers { max_member_weight: 0 }),
    ];
    let profile = |(size_semantics, number): (Option<SizeSemantics>, u32)| ActionProfile {
        preamble: preamble(0x11, number, &format!("profile{number}")),
        table_ids: vec![0x0200_0001],
        with_selector: size_semantics.is_some(),
        size: 128,
        max_group_size: 8,
        size_semantics,
    };
    semantics.into_iter().zip(1..).map(profile).collect()
}

fn counters(info: &mut P4Info) {
    for (unit, n) in [(Unit::Bytes, 1), (Unit::Packets, 2), (Unit::Both, 3)] {
        let preamble = |kind, name: &str| preamble(kind, n, &format!("{name}{n}"));
        let index_type_name = (n == 1).then(|| "new_t".into());
        info.counters.push(Counter { preamble: preamble(0x12, "counter"), unit, size: 10, index_type_name });
        info.direct_counters.push(DirectCounter { preamble: preamble(0x13, "dc"), unit, direct_table_id: 0x0200_0001 });
        if unit != Unit::Both {
            let index_type_name = (n == 2).then(|| "new_t".into());
            info.meters.push(Meter { preamble: preamble(0x14, "meter"), unit, size: 20, index_type_name });
            info.direct_meters.push(DirectMeter { preamble: preamble(0x15, "dm"), unit, direct_table_id: 0x0200_0001 });
        }
    }
}

fn types() -> TypeInfo {
    let members = vec![
        ("a".into(), TypeSpec::Bit(128)),
        ("b".into(), TypeSpec::Int(5)),
        ("c".into(), TypeSpec::Varbit(32)),
        ("d".into(), TypeSpec::Bool),
        ("e".into(), TypeSpec::Tuple(vec![TypeSpec::Bit(1), TypeSpec::Tuple(Vec::new())])),
        ("f".into(), TypeSpec::Struct("inner_t".into())),
        ("g".into(), TypeSpec::Header("header_t".into())),
        ("h".into(), TypeSpec::HeaderUnion("union_t".into())),
        ("i".into(), TypeSpec::HeaderStack("header_t".into(), 3)),
        ("j".into(), TypeSpec::HeaderUnionStack("union_t".into(), 2)),
        ("k".into(), TypeSpec::Enum("enum_t".into())),
        ("l".into(), TypeSpec::Error),
        ("m".into(), TypeSpec::SerializableEnum("kind_t".into())),
        ("n".into(), TypeSpec::NewType("new_t".into())),
    ];
    let fields =
        vec![("f".into(), TypeSpec::Bit(8)), ("g".into(), TypeSpec::Int(8)), ("o".into(), TypeSpec::Varbit(64))];
    let kind = SerializableEnum { bitwidth: 16, members: vec![("A".into(), vec![0, 0]), ("B".into(), vec![0x81, 0])] };
    TypeInfo {
        structs: [("struct_t".into(), members), ("inner_t".into(), Vec::new())].into(),
        headers: [("header_t".into(), fields)].into(),
        header_unions: [("union_t".into(), vec![("h".into(), "header_t".into())])].into(),
        enums: [("enum_t".into(), vec!["X".into(), "Y".into()])].into(),
        error: Some(vec!["NoError".into(), "Other".into()]),
        serializable_enums: [("kind_t".into(), kind)].into(),
        new_types: [
            ("new_t".into(), NewType::Original(TypeSpec::Bit(9))),
            ("translated_t".into(), NewType::Translated("example.org/width".into(), Some(32))),
            ("named_t".into(), NewType::Translated("example.org/name".into(), None)),
        ]
        .into(),
        new_type_annotations: [("new_t".into(), annotations())].into(),
    }
}

/// Returns the P4Info.
pub fn p4info() -> P4Info {
    let properties = ["size", "total_replicas", "max_replicas_per_entry"];
    let mut info = P4Info {
        pkg_info: PkgInfo {
            name: "all".into(),
            version: "1".into(),
            doc: documentation(),
            annotations: annotations(),
            arch: "v1model".into(),
            organization: "o".into(),
            contact: "c".into(),
            url: "u".into(),
            platform_properties: (1..)
                .zip(properties)
                .map(|(n, what)| (format!("multicast_group_table_{what}"), n))
                .collect(),
        },
        tables: vec![table()],
        actions: vec![Action {
            preamble: preamble(1, 1, "set"),
            params: vec![param(1, documentation()), param(2, Documentation::default())],
        }],
        action_profiles: profiles(),
        controller_packet_metadata: vec![ControllerPacketMetadata {
            preamble: preamble(4, 1, "packet_in"),
            metadata: vec![param(1, Documentation::default())],
        }],
        value_sets: vec![ValueSet {
            preamble: preamble(3, 1, "vs"),
            matches: vec![key(1, Some(MatchType::Exact)), key(2, Some(MatchType::Ternary))],
            size: 4,
        }],
        registers: vec![Register {
            preamble: preamble(0x16, 1, "reg"),
            type_spec: TypeSpec::Struct("struct_t".into()),
            size: 30,
            index_type_name: Some("new_t".into()),
        }],
        digests: vec![Digest { preamble: preamble(0x17, 1, "digest"), type_spec: TypeSpec::Bit(3) }],
        type_info: types(),
        ..Default::default()
    };
    counters(&mut info);
    info
}
