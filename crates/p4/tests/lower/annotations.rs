//! Tests the text of annotations in P4Info: tokens separated by one blank, as p4c writes them (its
//! `ToP4` and `serializeOneAnnotation`).

use super::{compiled, pipeline, v1model};
use expect_test::{Expect, expect};
use ir::p4info::{AnnotationBody, Annotations, Documentation, NewType, P4Info, SizeSemantics, generate};

const TABLE: &str = "table t { key = { meta.a: exact @name(\"a\"); } actions = { NoAction; } } apply { t.apply(); }";

/// Formats annotations as lines, the structured ones with their contents.
fn shown(annotations: &Annotations) -> String {
    let mut lines = annotations.plain.clone();
    lines.extend(annotations.structured.iter().map(|a| match &a.body {
        AnnotationBody::Empty => format!("{}: nothing", a.name),
        AnnotationBody::Expressions(list) => format!("{}: {list:?}", a.name),
        AnnotationBody::Pairs(pairs) => format!("{}: {pairs:?}", a.name),
    }));
    lines.join("\n")
}

fn p4info(top: &str, ingress: &str) -> P4Info {
    generate(&pipeline(&v1model(top, ingress)))
}

/// Compares the annotations of a table.
fn check(top: &str, annotations: &str, expect: Expect) {
    let info = p4info(top, &format!("{annotations}\n{TABLE}"));
    expect.assert_eq(&shown(&info.tables[0].preamble.annotations));
}

/// Compares the text of one annotation.
fn check_one(annotation: &str, expected: &str) {
    let info = p4info("", &format!("{annotation}\n{TABLE}"));
    assert_eq!(shown(&info.tables[0].preamble.annotations), expected, "of {annotation}");
}

#[test]
fn tokens_stand_one_blank_apart() {
    for (written, text) in [
        ("@a(x=1,y)", "@a(x = 1 , y)"),
        ("@a(a==b&&c.d)", "@a(a == b && c . d)"),
        ("@a(  x\n\t  y  )", "@a(x y)"),
        ("@a(p::q)", "@a(p : : q)"),
        ("@a(f(x),g())", "@a(f ( x ) , g ( ))"),
        ("@a(@b(x))", "@a(@ b ( x ))"),
        ("@a(A/B)", "@a(A / B)"),
        ("@a([{<>}])", "@a([ { < > } ])"),
        ("@a(x>>y)", "@a(x > > y)"),
        ("@a(x<<y|z&&&w)", "@a(x << y | z &&& w)"),
        ("@a(x>=y<=z!=w)", "@a(x >= y <= z != w)"),
        ("@a(!x|+|-y|-|~z++w)", "@a(! x |+| - y |-| ~ z ++ w)"),
        ("@a(1..2,h[3:0])", "@a(1 .. 2 , h [ 3 : 0 ])"),
        ("@a(bit<8> table if)", "@a(bit < 8 > table if)"),
        ("@a(x ## y # z)", "@a(x # # y # z)"),
        ("@a($x)", "@a($ x)"),
        ("@a(x;y?z)", "@a(x ; y ? z)"),
    ] {
        check_one(written, text);
    }
}

#[test]
fn nothing_between_parentheses_is_nothing() {
    check_one("@a()", "@a");
    check_one("@a", "@a");
    check_one("@a( /* nothing */ )", "@a");
}

#[test]
fn comments_go_and_macros_are_expanded() {
    check_one("@a(x /* between */ y) // behind\n", "@a(x y)");
    check_one("@a(x// to the end\n,y)", "@a(x , y)");
    check("#define WORD seen(1)", "@a(WORD, WORD)", expect!["@a(seen ( 1 ) , seen ( 1 ))"]);
    check(
        "#define ROLE(x) @role(#x) @id_of(x)",
        "ROLE(sdn)",
        expect![[r#"
        @role("sdn")
        @id_of(sdn)"#]],
    );
}

#[test]
fn numbers_are_as_written() {
    for number in ["0", "007", "0x10", "0XfF", "8w0xF", "4s0b1010", "1_000", "0o17", "0d9", "16w0x_ff"] {
        check_one(&format!("@a({number})"), &format!("@a({number})"));
    }
    // A word that starts with a digit and is no number is split where p4c splits it.
    check_one("@a(3com)", "@a(3 com)");
    check_one("@a(10.0.0.0/8)", "@a(10 . 0 . 0 . 0 / 8)");
    check_one("@a(00:1b:0x1G)", "@a(00 : 1 b : 0x1 G)");
}

#[test]
fn strings_keep_blanks_escapes_and_newlines() {
    check_one(r#"@a("a  b","c")"#, r#"@a("a  b" , "c")"#);
    check_one(r#"@a("say \"hi\" \\ \n")"#, r#"@a("say \"hi\" \\ \n")"#);
    check_one(
        "@a(\"line one\n  // no comment here\n  x::y == 1;\n\")",
        "@a(\"line one\n  // no comment here\n  x::y == 1;\n\")",
    );
    check_one(r#"@a("x" "y")"#, r#"@a("x" "y")"#);
    check_one("@a(\"ä\")", "@a(\"ä\")");
}

#[test]
fn a_pragma_is_an_annotation_whose_line_is_its_body() {
    check(
        "",
        "@pragma pack x=1 // end\n@pragma alone\n",
        expect![[r#"
        @pack(x = 1)
        @alone"#]],
    );
}

#[test]
fn structured_annotations_hold_constants() {
    check(
        "const bit<8> LIMIT = 8w7; const bool ON = true;",
        "@list[LIMIT + 1, \"a\" ++ \"b\", ON, -3] @none[] @pairs[k = 1 << 4, l = LIMIT == 7, m = \"x\\\"y\"]",
        expect![[r#"
            list: [Int(8), String("ab"), Bool(true), Int(-3)]
            none: nothing
            pairs: [("k", Int(16)), ("l", Bool(true)), ("m", String("x\\\"y"))]"#]],
    );
}

/// Declarations for [`names_ids_and_documentation_have_fields_of_their_own`].
const DESCRIBED: &str = r#"
@brief("sets") action set(@name("v") @id(9) @brief("a parameter") @description("more") @unit(s) bit<8> x) { meta.a = x; }
@name("n") @id(5) @brief("short") @description("long
text") @kept(1) @list["structured"]
table t {
    key = { meta.a: exact @name("k") @id(3) @brief("a key") @format(X,Y); }
    actions = { @name("z") @why(b) @tableonly set; @defaultonly @more NoAction; }
    default_action = NoAction();
}
apply { t.apply(); }"#;

#[test]
fn names_ids_and_documentation_have_fields_of_their_own() {
    let info = p4info("", DESCRIBED);
    let doc = |brief: &str, description: &str| Documentation { brief: brief.into(), description: description.into() };
    let table = &info.tables[0];
    assert_eq!((table.preamble.name.as_str(), table.preamble.id), ("ingress.n", 0x0200_0005));
    assert_eq!(table.preamble.doc, doc("short", "long\ntext"));
    assert_eq!(shown(&table.preamble.annotations), "@kept(1)\nlist: [String(\"structured\")]");
    let key = &table.match_fields[0];
    assert_eq!((key.name.as_str(), key.id), ("k", 3));
    assert_eq!((key.doc.clone(), shown(&key.annotations)), (doc("a key", ""), "@format(X , Y)".into()));
    let listed: Vec<String> = table.action_refs.iter().map(|action| shown(&action.annotations)).collect();
    assert_eq!(listed, ["@why(b)\n@tableonly", "@defaultonly\n@more"]);
    let set = info.actions.iter().find(|action| action.preamble.name == "ingress.set").expect("it is listed");
    let param = &set.params[0];
    assert_eq!(set.preamble.doc, doc("sets", ""));
    assert_eq!((param.name.as_str(), param.id), ("v", 9));
    assert_eq!((param.doc.clone(), shown(&param.annotations)), (doc("a parameter", "more"), "@unit(s)".into()));
}

#[test]
fn an_action_that_says_nothing_of_its_scope_shows_it() {
    let info = p4info("", "table t { actions = { @x NoAction; } } apply { t.apply(); }");
    assert_eq!(shown(&info.tables[0].action_refs[0].annotations), "@x");
    let info = p4info("", "action a() {} table t { key = { meta.a: exact; } actions = { a; } } apply { t.apply(); }");
    let listed: Vec<String> = info.tables[0].action_refs.iter().map(|action| shown(&action.annotations)).collect();
    assert_eq!(listed, ["", "@defaultonly"], "NoAction is the default because nothing else is");
}

#[test]
fn annotations_stand_where_the_program_has_them() {
    let top = "@p4runtime_translation(\"example.org/a,b\", bit<32>) @shown(x,y) @more[1] type bit<16> vni_t;
        @controller_header(\"packet_in\") @on_header(1,2) header in_t { @on_field(a,b) @id(4) bit<8> x; @padding bit<8> y; }";
    let ingress = "@on_counter(a,b) counter<bit<32>>(8, CounterType.packets) c;
        @on_meter[m = 1] direct_meter<bit<8>>(MeterType.bytes) m;
        @on_profile(p) @max_group_size(0x8) @selector_size_semantics(\"sum_of_members\") @max_member_weight(5)
        action_selector(HashAlgorithm.crc16, 16, 8) s;
        action a(vni_t v) { m.read(meta.b); }
        table t { key = { meta.a: exact; meta.b: selector; } actions = { a; NoAction; } implementation = s; meters = m; }
        apply { t.apply(); c.count(0); }";
    let info = p4info(top, ingress);
    assert_eq!(shown(&info.counters[0].preamble.annotations), "@on_counter(a , b)");
    assert_eq!(shown(&info.direct_meters[0].preamble.annotations), "on_meter: [(\"m\", Int(1))]");
    let profile = &info.action_profiles[0];
    assert_eq!(shown(&profile.preamble.annotations), "@on_profile(p)");
    assert_eq!(profile.max_group_size, 8);
    assert_eq!(profile.size_semantics, Some(SizeSemantics::SumOfMembers { max_member_weight: 5 }));
    assert_eq!(info.type_info.new_types["vni_t"], NewType::Translated("example.org/a,b".into(), Some(32)));
    assert_eq!(shown(&info.type_info.new_type_annotations["vni_t"]), "@shown(x , y)\nmore: [Int(1)]");
    let header = &info.controller_packet_metadata[0];
    assert_eq!(shown(&header.preamble.annotations), "@controller_header(\"packet_in\")\n@on_header(1 , 2)");
    let fields: Vec<(u32, String)> = header.metadata.iter().map(|f| (f.id, shown(&f.annotations))).collect();
    assert_eq!(fields, [(4, "@on_field(a , b)".into()), (2, "@padding".into())]);
}

#[test]
fn a_name_in_front_of_a_control_names_nothing_in_it() {
    let source = v1model("", TABLE).replace("control ingress", "@name(\"other\") control ingress");
    assert_eq!(generate(&pipeline(&source)).tables[0].preamble.name, "ingress.t");
}

/// Returns the findings about annotations before `main`, and the package's description.
fn package(annotations: &str) -> (String, ir::p4info::PkgInfo) {
    let source = v1model("", "apply {}").replace("V1Switch(", &format!("{annotations}\nV1Switch("));
    let compiled = compiled(&source);
    let mut said = String::new();
    for d in &compiled.diagnostics {
        let kind = if d.is_error() { "error" } else { "warning" };
        let at = compiled.source_map.text(d.primary);
        said.push_str(&format!("{kind} at `{at}`: {} ({})\n", d.message, d.help.as_deref().unwrap_or_default()));
    }
    let info = compiled.pipeline.map(|pipeline| generate(&pipeline).pkg_info).unwrap_or_default();
    (said, info)
}

#[test]
fn the_package_is_described() {
    let (said, info) = package(
        "@pkginfo(name=\"n\"++\"m\", version = \"1.2\", organization=\"o\", contact=\"c\", url=\"u\")
        @platform_property(multicast_group_table_size = 0x10, multicast_group_table_max_replicas_per_entry = 3)
        @brief(\"b\") @description(\"d\") @other(x,y) @pairs[k = 1]",
    );
    assert_eq!(said, "");
    assert_eq!((info.name.as_str(), info.version.as_str(), info.arch.as_str()), ("nm", "1.2", "v1model"));
    assert_eq!((info.organization.as_str(), info.contact.as_str(), info.url.as_str()), ("o", "c", "u"));
    assert_eq!((info.doc.brief.as_str(), info.doc.description.as_str()), ("b", "d"));
    assert_eq!(shown(&info.annotations), "@other(x , y)\npairs: [(\"k\", Int(1))]");
    let sizes: Vec<(&str, i64)> = info.platform_properties.iter().map(|(k, v)| (k.as_str(), *v)).collect();
    assert_eq!(sizes, [("multicast_group_table_max_replicas_per_entry", 3), ("multicast_group_table_size", 16)]);
}

#[test]
fn a_package_that_is_described_wrongly() {
    for (annotations, expected) in [
        (
            "@pkginfo(name = \"x\", version = LATEST)",
            "error at `LATEST`: the value of `version` in `@pkginfo` is not a string (write version = \"...\")\n",
        ),
        (
            "@pkginfo(version = 1)",
            "error at `1`: the value of `version` in `@pkginfo` is not a string (write version = \"...\")\n",
        ),
        (
            "@pkginfo[arch = true]",
            "error at `true`: the value of `arch` in `@pkginfo` is not a string (write arch = \"...\")\n",
        ),
        (
            "@pkginfo(name = \"x\", name = \"y\")",
            "error at `name = \"y\"`: `name` is given twice in `@pkginfo` (remove one of them)\n",
        ),
        (
            "@pkginfo(license = APACHE)",
            "warning at `license = APACHE`: `@pkginfo` has no key `license`; it is not shown in P4Info (the keys are name, version, organization, contact, url, arch)\n",
        ),
        (
            "@pkginfo(arch = \"mine\")",
            "warning at `arch = \"mine\"`: the compiler sets `arch`; this value replaces it in P4Info (leave it out)\n",
        ),
        (
            "@platform_property(multicast_group_table_size = \"9\")",
            "error at `\"9\"`: the value of `multicast_group_table_size` in `@platform_property` is not an integer of 31 bits (write multicast_group_table_size = 1024)\n",
        ),
        (
            "@platform_property(multicast_group_table_size = 0x80000000)",
            "error at `0x80000000`: the value of `multicast_group_table_size` in `@platform_property` is not an integer of 31 bits (write multicast_group_table_size = 1024)\n",
        ),
        (
            "@platform_property(ports = 4)",
            "warning at `ports = 4`: `@platform_property` has no key `ports`; it is not shown in P4Info (the keys are multicast_group_table_size, multicast_group_table_total_replicas, multicast_group_table_max_replicas_per_entry)\n",
        ),
        (
            "@platform_property(4)",
            "error at `@platform_property(4)`: `@platform_property` needs pairs (write @platform_property(multicast_group_table_size = ...))\n",
        ),
    ] {
        assert_eq!(package(annotations).0, expected, "of {annotations}");
    }
    let several = package("@pkginfo(name = \"n\") @pkginfo(version = \"v\")").1;
    assert_eq!((several.name.as_str(), several.version.as_str()), ("n", "v"));
    assert_eq!(package("@pkginfo(arch = \"mine\", name = \"n\", extra = 3)").1.arch, "mine");
    assert_eq!(package("@pkginfo(arch = \"mine\", name = \"n\", extra = 3)").1.name, "n", "what is known is kept");
}

/// Returns the errors of a program with these declarations before and in its ingress control.
fn refused(top: &str, ingress: &str) -> String {
    let compiled = compiled(&v1model(top, ingress));
    let errors = compiled.diagnostics.iter().filter(|d| d.is_error());
    errors.map(|d| format!("{}: {} ({})\n", d.code, d.message, d.help.as_deref().unwrap_or_default())).collect()
}

#[test]
fn ids_that_two_objects_have_or_that_are_none() {
    let table = |id: &str, key: &str| {
        format!(
            "@id({id}) table t {{ key = {{ meta.a: exact {key}; meta.b: exact @id(2); }} actions = {{ NoAction; }} }}"
        )
    };
    let second = "@id(5) table u { actions = { NoAction; } } apply { t.apply(); u.apply(); }";
    assert_eq!(refused("", &format!("{} {second}", table("6", "@id(1)"))), "");
    // The byte of the object type is optional.
    for id in ["5", "0x02000005"] {
        let expected = "bad-id: two tables have the id 0x5 (give one of them another `@id`, or none: then the id is derived from the name)\n";
        assert_eq!(refused("", &format!("{} {second}", table(id, ""))), expected);
    }
    // Objects of other types have other ids.
    assert_eq!(refused("", &format!("@id(5) action a() {{}} {TABLE}").replace("NoAction", "a")), "");
    let expected = "bad-id: the highest byte of `@id(0x1000005)` is not that of a table (write @id(0x02000005), or leave the byte 0)\n";
    assert_eq!(refused("", &format!("{} {second}", table("0x01000005", ""))), expected);
    let expected = "bad-id: the id 2 is given twice (give another `@id`, or none: then an unused number is assigned)\n";
    assert_eq!(refused("", &format!("{} {second}", table("6", "@id(2)"))), expected);
    let expected = "bad-id: 0 is not a valid id (give another `@id`, or none: then an unused number is assigned)\n";
    assert_eq!(refused("", &format!("{} {second}", table("6", "@id(0)"))), expected);
    let twice = "action a(@id(3) bit<8> x, @id(3) bit<8> y) {}";
    assert!(
        refused("", &format!("{twice} {TABLE}").replace("NoAction", "a"))
            .starts_with("bad-id: the id 3 is given twice")
    );
    let header = "@controller_header(\"packet_in\") header in_t { @id(4) bit<8> x; @id(4) bit<8> y; }";
    assert!(refused(header, "apply {}").starts_with("bad-id: the id 4 is given twice"));
    let headers = "@controller_header(\"packet_in\") header a_t { bit<8> x; } @controller_header(\"packet_in\") header b_t { bit<8> x; }";
    assert!(refused(headers, "apply {}").starts_with("duplicate-name: two packet headers have"));
}

#[test]
fn annotations_whose_body_is_of_the_wrong_form() {
    for annotation in [
        "@id(\"x\")",
        "@id(1, 2)",
        "@id",
        "@id(0x100000000)",
        "@brief(x)",
        "@description(1)",
        "@hidden(1)",
        "@max_group_size(\"8\")",
        "@selector_size_semantics(sum_of_weights)",
    ] {
        let name = annotation.split('(').next().unwrap_or_default();
        let expected = format!("bad-annotation: the body of `{name}` has the wrong form (write {name}");
        let said = refused("", &format!("{annotation} {TABLE}"));
        assert!(said.starts_with(&expected), "of {annotation}: {said}");
    }
    let listed = TABLE.replace("NoAction", "@tableonly(yes) NoAction");
    assert!(
        refused("", &listed)
            .starts_with("bad-annotation: the body of `@tableonly` has the wrong form (write @tableonly)")
    );
    assert!(
        refused("", &format!("@x[0x8000000000000000] {TABLE}"))
            .starts_with("annotation: an integer in a structured annotation")
    );
    assert!(refused("", &format!("@x[meta.a] {TABLE}")).starts_with("annotation: this is not a valid value"));
}
