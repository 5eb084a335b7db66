//! Tests the chip's form of objects and expressions.

use crate::{check, emitted};
use asic::transform::TableSizes;
use testkit::differ::compile::compile;

/// Returns a PNA program with these declarations, control code, and parser state code.
fn program(decls: &str, apply: &str, parser: &str) -> String {
    format!(
        "#include <core.p4>\n#include <pna.p4>
header h_t {{ bit<8> a; bit<8> b; bit<16> c; bit<32> d; bit<16> sum; bit<16> e; }}
struct headers_t {{ h_t h; h_t g; }}
struct metadata_t {{ bit<16> x; bit<8> y; }}
parser parse(packet_in p, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {{
    InternetChecksum() ck;
    state start {{ p.extract(hdr.h); {parser} }}
    state more {{ p.extract(hdr.g); meta.x = hdr.g.c; transition accept; }}
}}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {{ apply {{ }} }}
control main_block(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {{
    {decls}
    apply {{ {apply} send_to_port((PortId_t) 32w1); }}
}}
control deparse(packet_out p, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {{ apply {{ p.emit(hdr.h); p.emit(hdr.g); }} }}
PNA_NIC(parse(), pre(), main_block(), deparse()) main;\n"
    )
}

/// Returns the emitted text and the omitted constructs.
fn written(decls: &str, apply: &str, parser: &str) -> (String, Vec<String>) {
    let text = program(decls, apply, parser);
    let pipeline = compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let emitted = emitted(&pipeline, &TableSizes::new());
    let errors = check(&emitted.text);
    assert!(errors.is_empty(), "{}\n{}", errors.join("\n"), emitted.text);
    (emitted.text, emitted.left_out.iter().map(ToString::to_string).collect())
}

fn has(text: &str, wanted: &[&str]) {
    for line in wanted {
        assert!(text.contains(line), "`{line}` is missing in\n{text}");
    }
}

/// A move to the destination would be one more operation; code that reads the old value later has a
/// copy.
#[test]
fn a_choice_is_made_where_it_goes() {
    let apply = "bit<16> old = hdr.h.c; hdr.h.c = hdr.h.a == 1 ? hdr.h.sum : 16w7; hdr.h.e = old;";
    let (text, _) = written("", apply, "transition accept;");
    has(&text, &["hdr.h.c = hdr.h.sum;", "hdr.h.c = 7;"]);
    let line = |what: &str| text.lines().position(|line| line.trim().starts_with(what));
    let kept = text.lines().find_map(|line| line.trim().strip_suffix(" = hdr.h.c;")).expect("the old value is kept");
    let kept = kept.rsplit(' ').next().expect("a name");
    assert!(
        line("hdr.h.c = hdr.h.sum;") > text.lines().position(|line| line.contains(&format!("{kept} = hdr.h.c;"))),
        "{text}"
    );
    has(&text, &[&format!("hdr.h.e = {kept};")]);
    let apply = "bit<16> v = hdr.h.a == 1 ? hdr.h.sum : 16w7; hdr.h.c = v; hdr.h.e = v;";
    let (text, _) = written("", apply, "transition accept;");
    assert!(!text.contains("hdr.h.c = hdr.h.sum;"), "it goes to two places: {text}");
}

#[test]
fn a_register_that_is_read_and_written_is_one_step() {
    let decls = "Register<bit<32>, bit<8>>(256, 7) r;";
    let apply = "bit<32> old = r.read(hdr.h.a); r.write(hdr.h.a, old + 1); hdr.h.d = old;";
    let (text, left_out) = written(decls, apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    let update = "RegisterAction<bit<32>, bit<8>, bit<32>>(r) r_update = { void apply(inout bit<32> element, out bit<32> before) { \
                  before = element; element = element + 1; } };";
    has(&text, &["Register<bit<32>, bit<8>>(256, 7) r;", update, "r_update.execute(hdr.h.a)"]);
    assert!(!text.contains("r.write") && !text.contains("r.read"), "{text}");
}

#[test]
fn a_register_that_is_only_read_or_written_is() {
    let decls = "Register<bit<16>, bit<8>>(16) r; Register<bit<16>, bit<8>>(16) w;";
    let apply = "hdr.h.c = r.read(hdr.h.a); w.write(hdr.h.b, hdr.h.e);";
    let (text, left_out) = written(decls, apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    has(&text, &["r.read(hdr.h.a)", "w.write(hdr.h.b, hdr.h.e);"]);
}

#[test]
fn what_no_stateful_alu_does_is_named() {
    for (ty, apply, why) in [
        ("bit<48>", "r.write(hdr.h.a, 1);", "elements of 48 bits"),
        ("bit<32>", "hdr.h.d = r.read(hdr.h.a); if (hdr.h.b == 1) { r.write(hdr.h.a, hdr.h.d); }", "with a decision"),
        ("bit<32>", "hdr.h.d = r.read(hdr.h.a); r.write(hdr.h.b, hdr.h.d + 1);", "another index"),
        ("bit<32>", "bit<32> v = r.read(hdr.h.a); r.write(hdr.h.a, (v << 1) + 1);", "more than one operation"),
    ] {
        let (text, left_out) = written(&format!("Register<{ty}, bit<8>>(16) r;"), apply, "transition accept;");
        assert!(left_out.len() == 1 && left_out[0].contains(why), "{why}: {left_out:?}\n{text}");
        assert!(left_out[0].contains("register `") && left_out[0].contains("made.p4:"), "{left_out:?}");
    }
}

#[test]
fn meters_give_numbers_for_colours() {
    let decls = "Meter<bit<8>>(64, PNA_MeterType_t.BYTES) m;";
    let apply = "if (m.execute(hdr.h.a) == PNA_MeterColor_t.RED) { drop_packet(); } \
                 else { hdr.h.b = 1; }";
    let (text, left_out) = written(decls, apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    has(&text, &["Meter<bit<8>>(64, MeterType_t.BYTES) m;", "m.execute(hdr.h.a)", "== 3) {"]);
    let twice = "hdr.h.b = 0; if (m.execute(hdr.h.a) == PNA_MeterColor_t.RED) { hdr.h.b = 1; } \
                 if (m.execute(hdr.h.b) == PNA_MeterColor_t.RED) { hdr.h.b = 2; }";
    let (_, left_out) = written(decls, twice, "transition accept;");
    assert!(left_out.len() == 1 && left_out[0].contains("meter `"), "{left_out:?}");
}

#[test]
fn a_meter_of_a_table_is_its_property() {
    let decls = "DirectMeter(PNA_MeterType_t.PACKETS) m; PNA_MeterColor_t colour;
        action police() { colour = m.execute(); }
        table t { key = { hdr.h.a: exact; } actions = { police; @defaultonly NoAction; } pna_direct_meter = m; default_action = NoAction(); }";
    let apply = "colour = PNA_MeterColor_t.GREEN; t.apply(); if (colour == PNA_MeterColor_t.YELLOW) { hdr.h.b = 5; }";
    let (text, left_out) = written(decls, apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    has(&text, &["DirectMeter(MeterType_t.PACKETS) m;", "m.execute()", "meters = m;", "colour == 1"]);
}

#[test]
fn a_selector_is_its_tables_implementation() {
    let decls = "ActionSelector(PNA_HashAlgorithm_t.CRC32, 16, 16) s; action set(bit<8> v) { hdr.h.b = v; }
        table t { key = { hdr.h.a: exact; hdr.h.c: selector; } actions = { set; } pna_implementation = s; size = 32; }";
    let (text, left_out) = written(decls, "t.apply();", "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    let selector = "ActionSelector(s_members, s_hash, SelectorMode_t.FAIR, 16, 32) s;";
    has(
        &text,
        &[
            "Hash<bit<16>>(HashAlgorithm_t.CRC32) s_hash;",
            "ActionProfile(16) s_members;",
            selector,
            "implementation = s;",
        ],
    );
}

#[test]
fn hashes_and_random_numbers_within_bounds_are_bits_or_named() {
    let decls = "Hash<bit<16>>(PNA_HashAlgorithm_t.CRC16) k; Random<bit<8>>(8, 23) r;";
    let apply = "hdr.h.c = k.get_hash(16w1000, { hdr.h.d }, 16w64); hdr.h.b = r.read();";
    let (text, left_out) = written(decls, apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    has(&text, &["k.get({ hdr.h.d })", "& 63", "1000 + ", "r.get()", "& 15", "8 + "]);
    let decls = "Hash<bit<16>>(PNA_HashAlgorithm_t.CRC16) k; Random<bit<8>>(3, 5) r;";
    let apply = "hdr.h.c = k.get_hash(16w1000, { hdr.h.d }, 16w100); hdr.h.b = r.read();";
    let (_, left_out) = written(decls, apply, "transition accept;");
    assert_eq!(left_out.len(), 2, "{left_out:?}");
}

#[test]
fn choices_and_comparisons_are_gateways() {
    let apply = "hdr.h.c = hdr.h.e > hdr.h.sum ? 16w1 : 16w2; if (hdr.h.a - 3 != hdr.h.b) { hdr.h.d = 1; }";
    let (text, left_out) = written("", apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    assert!(!text.contains(" ? "), "{text}");
    has(&text, &["|-|", "= hdr.h.a - 3;", "!= hdr.h.b) {"]);
}

#[test]
fn sums_of_a_parser_have_a_unit_each_and_are_added_up_where_headers_are_extracted() {
    let sum = |h: &str| {
        format!("ck.clear(); ck.add({{ hdr.{h}.c, hdr.{h}.sum }}); verify(ck.get() == 0, error.HeaderTooShort);")
    };
    let parser = format!(
        "transition select(hdr.h.a) {{ 1: one; default: accept; }} }}
    state one {{ {} p.extract(hdr.g); transition select(hdr.g.a) {{ 2: two; default: accept; }} }}
    state two {{ {} transition accept;",
        sum("h"),
        sum("g")
    );
    let (text, left_out) = written("", "hdr.h.b = 1;", &parser);
    assert!(left_out.is_empty(), "{left_out:?}");
    has(
        &text,
        &[
            "packet.extract(hdr.h);\n        ck.add({ hdr.h.c, hdr.h.sum });",
            "packet.extract(hdr.g);\n        ck_again.add(",
        ],
    );
    has(&text, &["ck.verify()", "ck_again.verify()"]);
}

#[test]
fn a_write_that_another_one_follows_moves_to_the_ways_without() {
    let parser = "meta.x = 5; transition select(hdr.h.a) { 1: again; default: accept; } }
    state again { meta.x = 6; transition accept;";
    let (text, left_out) = written("", "hdr.h.sum = meta.x;", parser);
    assert!(left_out.is_empty(), "{left_out:?}");
    let (start, rest) = text.split_once("state parse_packet {").expect("the first state");
    let first = rest.split_once("state ").map_or(rest, |(first, _)| first);
    assert!(!first.contains("meta.x ="), "{first}");
    assert_eq!(rest.matches("meta.x = ").count() + start.matches("meta.x = ").count(), 2, "{text}");
}

/// The control copies bytes that the parser has passed; a `select` on the copy matches on the
/// field.
#[test]
fn a_copy_of_what_has_gone_by_is_made_in_the_control() {
    let parser = "transition select(hdr.h.a) { 1: first; default: accept; } }
    state first { meta.y = hdr.h.b; transition asks; }
    state asks { transition select(meta.y) { 3: more; default: accept; }";
    let (text, left_out) = written("", "hdr.h.sum = meta.x; hdr.h.a = meta.y;", parser);
    assert!(left_out.is_empty(), "{left_out:?}");
    has(
        &text,
        &[
            "meta.copy_h_b_1 = true;",
            "transition select(hdr.h.b) {",
            "if (meta.copy_h_b_1) {\n            meta.y = hdr.h.b;",
            // That one is copied where it is extracted.
            "packet.extract(hdr.g);\n        meta.x = hdr.g.c;",
        ],
    );
}

/// The control runs after the parser, so it makes the copy that takes effect of two.
#[test]
fn the_second_of_two_copies_is_made_in_the_control() {
    let parser = "meta.x = hdr.h.c; transition select(hdr.h.a) { 1: more; default: accept; }";
    let (text, left_out) = written("", "hdr.h.sum = meta.x;", parser);
    assert!(left_out.is_empty(), "{left_out:?}");
    let first = "packet.extract(hdr.h);\n        meta.x = hdr.h.c;";
    has(&text, &[first, "if (meta.copy_g_c_1) {\n            meta.x = hdr.g.c;"]);
}

/// Lookahead bits are those before the state that reads them, wherever they are stored.
#[test]
fn what_is_looked_ahead_at_is_kept_past_the_next_header() {
    let parser = "meta.y = p.lookahead<bit<8>>(); transition next; }
        state next { p.extract(hdr.g); transition select(hdr.g.a) { 1: over; default: accept; } }
        state over { meta.y = 7; transition accept;";
    let (text, left_out) = written("", "hdr.h.b = meta.y;", parser);
    assert!(left_out.is_empty(), "{left_out:?}");
    let (before, behind) = text.split_once("packet.extract(hdr.g);").expect("the second header");
    assert!(before.contains(" = packet.lookahead<bit<8>>();"), "{text}");
    let behind = behind.split_once("control ").map_or(behind, |(parser, _)| parser);
    assert!(!behind.contains("lookahead") && behind.matches("meta.y = ").count() == 2, "{text}");
    assert!(!before.contains("meta.y = "), "{text}");
}

#[test]
fn what_a_parser_would_compute_is_named() {
    let (text, left_out) = written("", "hdr.h.sum = meta.x;", "meta.x = hdr.h.c + 1; transition accept;");
    assert!(left_out.len() == 1 && left_out[0].contains("only moves bits"), "{left_out:?}");
    assert!(!text.contains("hdr.h.c + 1"), "{text}");
}

/// Consecutive assignments become one action of the chip, which has few operands per container and
/// one path from its hash units.
#[test]
fn what_one_action_cannot_do_is_several() {
    let decls = "Hash<bit<32>>(PNA_HashAlgorithm_t.CRC32) h1; Hash<bit<16>>(PNA_HashAlgorithm_t.CRC16) h2;";
    let apply = "hdr.h.d = h1.get_hash({ hdr.h.c }); hdr.h.e = h2.get_hash({ hdr.h.a });";
    let (text, left_out) = written(decls, apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    has(&text, &["{ hdr.h.d = h1.get({ hdr.h.c }); }", "{ hdr.h.e = h2.get({ hdr.h.a }); }"]);
    assert!(text.contains("set_d();\n        set_e();"), "{text}");
}

#[test]
fn a_header_field_is_widened_by_the_hash_unit() {
    let apply = "hdr.h.d = (bit<32>) hdr.h.c + 20; hdr.h.e = hdr.h.c + 20; hdr.h.sum = 2w3 ++ hdr.h.d[13:0];";
    let (text, left_out) = written("", apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    has(&text, &["@in_hash { ", " = (bit<32>) hdr.h.c; }", "@in_hash { hdr.h.sum = 2w3 ++ hdr.h.d[13:0]; }"]);
    has(&text, &["hdr.h.e = hdr.h.c + 20;"]);
}

/// Fields that share a byte are in one container, so their sources are written one after the other.
#[test]
fn fields_that_share_a_byte_are_written_one_by_one() {
    let text = program(
        "",
        "hdr.n.x = meta.y[3:0]; hdr.n.z = hdr.h.a[3:0]; hdr.h.b = 4;",
        "p.extract(hdr.n); transition accept;",
    )
    .replace("struct headers_t {", "header n_t { bit<4> x; bit<4> z; }\nstruct headers_t { n_t n;")
    .replace("p.emit(hdr.g);", "p.emit(hdr.g); p.emit(hdr.n);");
    let pipeline = compile(&text, true).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let text = emitted(&pipeline, &TableSizes::new()).text;
    assert!(check(&text).is_empty(), "{:?}\n{text}", check(&text));
    has(
        &text,
        &["action set_x() { ", "action set_z() { ", "        set_x();", "        set_z();", "        hdr.h.b = 4;"],
    );
}

/// An entry of the chip has its counter, whatever its action is.
#[test]
fn a_counter_that_some_actions_use_is_named() {
    let table = |actions: &str| {
        format!(
            "DirectCounter<bit<64>>(PNA_CounterType_t.PACKETS) n; action yes() {{ n.count(); hdr.h.b = 1; }} action no() {{ hdr.h.b = 2; }}
             table t {{ key = {{ hdr.h.a: exact; }} actions = {{ yes; {actions} }} default_action = no(); pna_direct_counter = n; }}"
        )
    };
    let (text, left_out) = written(&table("@defaultonly no;"), "t.apply();", "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    has(&text, &["counters = n;", "n.count();"]);
    let (text, left_out) = written(&table("no;"), "t.apply();", "transition accept;");
    assert!(left_out.len() == 1 && left_out[0].contains("only some actions of its table"), "{left_out:?}");
    assert!(!text.contains("counters = n;") && !text.contains("n.count();"), "{text}");
}

/// A gateway compares two fields, or fields with constants.
#[test]
fn conditions_that_compare_fields_and_more_go_part_by_part() {
    let apply = "if (hdr.h.c != hdr.h.e || (hdr.h.a & 8) == 0 || hdr.h.b == 3) { hdr.h.d = 1; } if (hdr.h.c == hdr.h.e && hdr.h.b == 4) { hdr.h.d = 2; } \
                 if (hdr.h.c != hdr.h.e || hdr.h.b == 5) { hdr.h.d = hdr.h.d + 1; }";
    let (text, left_out) = written("", apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    // Code that sets constants is emitted for each part.
    has(
        &text,
        &[
            "if (hdr.h.c != hdr.h.e) {\n            hdr.h.d = 1;\n        } else if ((hdr.h.a & 8) == 0) {\n            hdr.h.d = 1;",
            "if (hdr.h.c == hdr.h.e) {\n            if (hdr.h.b == 4) {\n                hdr.h.d = 2;",
        ],
    );
    has(&text, &["if (hdr.h.c != hdr.h.e) {\n            holds = true;", "if (holds) {"]);
}

/// An index passes the hash unit, which excludes constants beside it.
#[test]
fn a_count_between_assignments_is_an_action() {
    let decls = "Counter<bit<64>, bit<8>>(256, PNA_CounterType_t.PACKETS) n;";
    let apply = "hdr.h.c = 4789; n.count(hdr.h.a); hdr.h.e = 4790;";
    let (text, left_out) = written(decls, apply, "transition accept;");
    assert!(left_out.is_empty(), "{left_out:?}");
    has(
        &text,
        &["action use_n() { n.count(hdr.h.a); }", "hdr.h.c = 0x12b5;\n        use_n();\n        hdr.h.e = 0x12b6;"],
    );
}
