//! P4Info as a tree of fields, each message in the order of its field numbers.

use super::model::*;
use super::tree_types::{type_info, type_spec};
use super::txtpb::Message;

pub(super) fn build(fill: impl FnOnce(&mut Message)) -> Message {
    let mut message = Message::default();
    fill(&mut message);
    message
}

pub(super) fn p4info(info: &P4Info) -> Message {
    build(|m| {
        m.some("pkg_info", pkg_info(&info.pkg_info));
        info.tables.iter().for_each(|t| m.message("tables", table(t)));
        for action in &info.actions {
            m.message("actions", action_message(action));
        }
        info.action_profiles.iter().for_each(|p| m.message("action_profiles", action_profile(p)));
        for c in &info.counters {
            m.message("counters", indexed(&c.preamble, c.unit, c.size, &c.index_type_name));
        }
        for c in &info.direct_counters {
            m.message("direct_counters", direct(&c.preamble, c.unit, c.direct_table_id));
        }
        for c in &info.meters {
            m.message("meters", indexed(&c.preamble, c.unit, c.size, &c.index_type_name));
        }
        for c in &info.direct_meters {
            m.message("direct_meters", direct(&c.preamble, c.unit, c.direct_table_id));
        }
        for header in &info.controller_packet_metadata {
            let message = build(|m| {
                m.message("preamble", preamble(&header.preamble));
                header.metadata.iter().for_each(|f| m.message("metadata", metadata(f)));
            });
            m.message("controller_packet_metadata", message);
        }
        for set in &info.value_sets {
            let message = build(|m| {
                m.message("preamble", preamble(&set.preamble));
                set.matches.iter().for_each(|f| m.message("match", match_field(f)));
                m.word("size", set.size);
            });
            m.message("value_sets", message);
        }
        for register in &info.registers {
            let message = build(|m| {
                m.message("preamble", preamble(&register.preamble));
                m.message("type_spec", type_spec(&register.type_spec));
                m.word("size", register.size);
                named(m, "index_type_name", register.index_type_name.as_deref());
            });
            m.message("registers", message);
        }
        for digest in &info.digests {
            let message = build(|m| {
                m.message("preamble", preamble(&digest.preamble));
                m.message("type_spec", type_spec(&digest.type_spec));
            });
            m.message("digests", message);
        }
        m.some("type_info", type_info(&info.type_info));
    })
}

pub(super) fn named(m: &mut Message, field: &str, name: Option<&str>) {
    if let Some(name) = name {
        m.message(field, build(|m| m.text("name", name)));
    }
}

fn documentation(doc: &Documentation) -> Message {
    build(|m| {
        m.text("brief", &doc.brief);
        m.text("description", &doc.description);
    })
}

pub(super) fn plain(m: &mut Message, annotations: &Annotations) {
    annotations.plain.iter().for_each(|a| m.text("annotations", a));
}

pub(super) fn structured(m: &mut Message, annotations: &Annotations) {
    for annotation in &annotations.structured {
        let message = build(|m| {
            m.text("name", &annotation.name);
            match &annotation.body {
                AnnotationBody::Empty => {}
                AnnotationBody::Expressions(list) => m.message(
                    "expression_list",
                    build(|m| list.iter().for_each(|e| m.message("expressions", expression(e)))),
                ),
                AnnotationBody::Pairs(list) => {
                    let pair = |m: &mut Message, (key, value): &(String, Expression)| {
                        m.message(
                            "kv_pairs",
                            build(|m| {
                                m.text("key", key);
                                m.message("value", expression(value));
                            }),
                        );
                    };
                    m.message("kv_pair_list", build(|m| list.iter().for_each(|p| pair(m, p))));
                }
            }
        });
        m.message("structured_annotations", message);
    }
}

/// A member of a oneof is there also when it has its default.
fn expression(expression: &Expression) -> Message {
    use super::txtpb::Value;
    let (name, value) = match expression {
        Expression::String(text) => ("string_value", Value::Bytes(text.clone().into_bytes())),
        Expression::Int(value) => ("int64_value", Value::Word(value.to_string())),
        Expression::Bool(value) => ("bool_value", Value::Word(value.to_string())),
    };
    Message { fields: vec![(name.into(), value)] }
}

fn pkg_info(info: &PkgInfo) -> Message {
    build(|m| {
        m.text("name", &info.name);
        m.text("version", &info.version);
        m.some("doc", documentation(&info.doc));
        plain(m, &info.annotations);
        m.text("arch", &info.arch);
        m.text("organization", &info.organization);
        m.text("contact", &info.contact);
        m.text("url", &info.url);
        structured(m, &info.annotations);
        let sizes = [
            "multicast_group_table_size",
            "multicast_group_table_total_replicas",
            "multicast_group_table_max_replicas_per_entry",
        ];
        let properties = build(|m| {
            for (name, value) in sizes.iter().filter_map(|n| info.platform_properties.get_key_value(*n)) {
                m.word(name, value);
            }
        });
        m.some("platform_properties", properties);
    })
}

fn preamble(preamble: &Preamble) -> Message {
    build(|m| {
        m.word("id", preamble.id);
        m.text("name", &preamble.name);
        m.text("alias", &preamble.alias);
        plain(m, &preamble.annotations);
        m.some("doc", documentation(&preamble.doc));
        structured(m, &preamble.annotations);
    })
}

fn table(table: &Table) -> Message {
    build(|m| {
        m.message("preamble", preamble(&table.preamble));
        table.match_fields.iter().for_each(|f| m.message("match_fields", match_field(f)));
        table.action_refs.iter().for_each(|a| m.message("action_refs", action_ref(a)));
        m.word("const_default_action_id", table.const_default_action_id);
        m.some("initial_default_action", action_call(&table.initial_default_action));
        m.word("implementation_id", table.implementation_id);
        table.direct_resource_ids.iter().for_each(|id| m.word("direct_resource_ids", id));
        m.word("size", table.size);
        if table.notify_idle_timeout {
            m.word("idle_timeout_behavior", "NOTIFY_CONTROL");
        }
        m.word("is_const_table", table.is_const_table);
        m.word("has_initial_entries", table.has_initial_entries);
    })
}

fn action_call(call: &ActionCall) -> Message {
    build(|m| {
        m.word("action_id", call.action_id);
        for (id, value) in &call.arguments {
            m.message(
                "arguments",
                build(|m| {
                    m.word("param_id", id);
                    m.bytes("value", value);
                }),
            );
        }
    })
}

fn match_field(field: &MatchField) -> Message {
    build(|m| {
        m.word("id", field.id);
        m.text("name", &field.name);
        plain(m, &field.annotations);
        m.word("bitwidth", field.bitwidth);
        if let Some(kind) = field.match_type {
            let word = match kind {
                MatchType::Exact => "EXACT",
                MatchType::Lpm => "LPM",
                MatchType::Ternary => "TERNARY",
                MatchType::Range => "RANGE",
                MatchType::Optional => "OPTIONAL",
            };
            m.word("match_type", word);
        }
        m.some("doc", documentation(&field.doc));
        named(m, "type_name", field.type_name.as_deref());
        structured(m, &field.annotations);
    })
}

fn action_ref(action: &ActionRef) -> Message {
    build(|m| {
        m.word("id", action.id);
        plain(m, &action.annotations);
        match action.scope {
            Scope::TableAndDefault => {}
            Scope::TableOnly => m.word("scope", "TABLE_ONLY"),
            Scope::DefaultOnly => m.word("scope", "DEFAULT_ONLY"),
        }
        structured(m, &action.annotations);
    })
}

fn action_message(action: &Action) -> Message {
    build(|m| {
        m.message("preamble", preamble(&action.preamble));
        for param in &action.params {
            let message = build(|m| {
                m.word("id", param.id);
                m.text("name", &param.name);
                plain(m, &param.annotations);
                m.word("bitwidth", param.bitwidth);
                m.some("doc", documentation(&param.doc));
                named(m, "type_name", param.type_name.as_deref());
                structured(m, &param.annotations);
            });
            m.message("params", message);
        }
    })
}

fn metadata(field: &Param) -> Message {
    build(|m| {
        m.word("id", field.id);
        m.text("name", &field.name);
        plain(m, &field.annotations);
        m.word("bitwidth", field.bitwidth);
        named(m, "type_name", field.type_name.as_deref());
        structured(m, &field.annotations);
    })
}

fn action_profile(profile: &ActionProfile) -> Message {
    build(|m| {
        m.message("preamble", preamble(&profile.preamble));
        profile.table_ids.iter().for_each(|id| m.word("table_ids", id));
        m.word("with_selector", profile.with_selector);
        m.word("size", profile.size);
        m.word("max_group_size", profile.max_group_size);
        match profile.size_semantics {
            Some(SizeSemantics::SumOfWeights) => m.message("sum_of_weights", Message::default()),
            Some(SizeSemantics::SumOfMembers { max_member_weight }) => {
                m.message("sum_of_members", build(|m| m.word("max_member_weight", max_member_weight)));
            }
            None => {}
        }
    })
}

fn spec(unit: Unit) -> Message {
    build(|m| {
        m.word(
            "unit",
            match unit {
                Unit::Bytes => "BYTES",
                Unit::Packets => "PACKETS",
                Unit::Both => "BOTH",
            },
        );
    })
}

fn indexed(p: &Preamble, unit: Unit, size: i64, index_type: &Option<String>) -> Message {
    build(|m| {
        m.message("preamble", preamble(p));
        m.message("spec", spec(unit));
        m.word("size", size);
        named(m, "index_type_name", index_type.as_deref());
    })
}

fn direct(p: &Preamble, unit: Unit, table: u32) -> Message {
    build(|m| {
        m.message("preamble", preamble(p));
        m.message("spec", spec(unit));
        m.word("direct_table_id", table);
    })
}
