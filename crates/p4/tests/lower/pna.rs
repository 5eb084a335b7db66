//! Tests PNA: the four blocks and its externs.

use super::{TYPES, block, check_declarations, pipeline};
use expect_test::expect;

fn program(locals: &str) -> String {
    format!(
        "#include <core.p4>
#include <pna.p4>
{TYPES}
struct meta_t {{ bit<8> a; bit<8> b; FlowId_t flow; PortId_t port; }}
parser main_parser(packet_in pkt, out hdr_t hdr, inout meta_t meta, in pna_main_parser_input_metadata_t istd) {{
    state start {{ meta.port = istd.input_port; pkt.extract(hdr.eth); transition accept; }}
}}
control pre(in hdr_t hdr, inout meta_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {{
    apply {{ meta.a = 1; }}
}}
control main_control(inout hdr_t hdr, inout meta_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {{
{locals}
}}
control deparser(packet_out pkt, in hdr_t hdr, in meta_t meta, in pna_main_output_metadata_t ostd) {{
    apply {{ pkt.emit(hdr.eth); }}
}}
PNA_NIC(main_parser(), pre(), main_control(), deparser()) main;
"
    )
}

/// The pre control has its own data; the deparser sees those of the main control.
#[test]
fn blocks_share_what_they_should() {
    let p = pipeline(&program("apply { meta.b = 2; send_to_port((PortId_t)(PortIdUint_t)3); }"));
    let text = ["main_parser", "pre_control", "main_control", "main_deparser"].map(|role| block(&p, role)).concat();
    expect![[r#"
        control "main_parser" main_parser {
          entry block0
          state "start" block1
        block0:
          jump block1
        block1:
          v0: bit<32> = load $parser_istd.input_port
          store $meta.port, v0
          extract $hdr.eth
          return
        }
        control "pre" pre_control {
          entry block0
        block0:
          v0: bit<8> = const 1:bit<8>
          store $meta_1.a, v0
          return
        }
        control "main_control" main_control {
          entry block0
        block0:
          v0: bit<8> = const 2:bit<8>
          store $meta.b, v0
          v1: bit<32> = const 3:bit<32>
          call send_to_port (v1)
          return
        }
        control "deparser" main_deparser {
          entry block0
        block0:
          emit $hdr.eth
          return
        }
    "#]]
    .assert_eq(&text);
}

#[test]
fn add_on_miss() {
    let locals = "
        action next(bit<8> n) { meta.a = n; restart_expire_timer(); }
        action learn() {
            meta.flow = allocate_flow_id();
            add_entry(action_name = \"next\", action_params = { meta.b }, expire_time_profile_id = (ExpireTimeProfileId_t)8w2);
        }
        table t {
            key = { meta.flow: exact; }
            actions = { @tableonly next; @defaultonly learn; }
            default_action = learn();
            add_on_miss = true;
            pna_idle_timeout = PNA_IdleTimeout_t.AUTO_DELETE;
        }
        apply { t.apply(); }";
    expect![[r#"
        control "main_control" main_control {
          entry block0
        block0:
          v0: bit<32> = load $meta.flow
          apply $main_control.t (v0) {
            $main_control.next => block1
            $main_control.learn => block2
          }
        block1(v1: bool, v2: bit<8>):
          store $meta.a, v2
          call restart_expire_timer (table $main_control.t)
          return
        block2(v3: bool):
          v4: bit<32> = call allocate_flow_id ()
          store $meta.flow, v4
          v5: bit<8> = load $meta.b
          v6: bit<8> = const 2:bit<8>
          v7: bool = call add_entry (table $main_control.t, action $main_control.next, (v5), v6)
          return
        }
    "#]]
    .assert_eq(&block(&pipeline(&program(locals)), "main_control"));
    check_declarations(
        &program(locals),
        &["table"],
        expect![[r#"
        table $main_control.t {
          key "meta.flow": bit<32> exact type "FlowId_t"
          action $main_control.next table_only
          action $main_control.learn default_only
          default $main_control.learn()
          add_on_miss
          idle_timeout
          property "add_on_miss" "true"
          property "pna_idle_timeout" "PNA_IdleTimeout_t.AUTO_DELETE"
        }
    "#]],
    );
}

#[test]
fn direct_objects_and_hashes() {
    let locals = "
        DirectCounter<bit<32>>(PNA_CounterType_t.PACKETS) c;
        DirectMeter(PNA_MeterType_t.BYTES) m;
        Hash<bit<16>>(PNA_HashAlgorithm_t.CRC16) h;
        Register<bit<8>, bit<8>>(8, 3) r;
        action a() { c.count(); if (m.execute() == PNA_MeterColor_t.RED) { drop_packet(); } }
        table t { key = { meta.a: exact; } actions = { a; NoAction; } pna_direct_counter = c; pna_direct_meter = m; }
        apply {
            t.apply();
            meta.b = (bit<8>)h.get_hash({ hdr.eth.src });
            r.write(0, r.read(1));
            meta.a = SelectByDirection(istd.direction, meta.a, meta.b);
        }";
    expect![[r#"
        control "main_control" main_control {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          apply $main_control.t (v0) {
            $main_control.a => block1
            $NoAction => block2
          }
        block1(v1: bool):
          call direct_counter.count $main_control.c (table $main_control.t)
          v2: $PNA_MeterColor_t = call direct_meter.execute $main_control.m (table $main_control.t)
          v3: $PNA_MeterColor_t = const 0:$PNA_MeterColor_t // RED
          v4: bool = eq v2, v3
          branch v4, block3, block4
        block2(v5: bool):
          jump block4
        block3:
          call drop_packet ()
          jump block4
        block4:
          v6: bit<48> = load $hdr.eth.src
          v7: bit<16> = call hash.get $main_control.h ((v6))
          v8: bit<8> = cast bit<8>, v7
          store $meta.b, v8
          v9: bit<8> = const 1:bit<8>
          v10: bit<8> = call register.read $main_control.r (v9)
          v11: bit<8> = const 0:bit<8>
          call register.write $main_control.r (v11, (v10))
          v12: $PNA_Direction_t = load $istd.direction
          v13: $PNA_Direction_t = const 0:$PNA_Direction_t // NET_TO_HOST
          v14: bool = eq v12, v13
          v15: bit<8> = load $meta.a
          v16: bit<8> = select v14, v15, v8
          store $meta.a, v16
          return
        }
    "#]]
    .assert_eq(&block(&pipeline(&program(locals)), "main_control"));
    check_declarations(
        &program(locals),
        &["extern"],
        expect![[r#"
        extern $main_control.c: direct_counter unit packets
        extern $main_control.m: direct_meter unit bytes
        extern $main_control.h: hash crc16 bit<16>
        extern $main_control.r: register size 8 elem (bit<8>) initial (3:bit<8>) data bit<8>
    "#]],
    );
}

#[test]
fn kinds_of_ports() {
    let p = pipeline(&program("apply { if (is_host_port(meta.port)) { meta.a = 1; } }"));
    expect![[r#"
        control "main_control" main_control {
          entry block0
        block0:
          v0: bit<32> = load $meta.port
          v1: bool = call is_host_port (v0)
          branch v1, block1, block2
        block1:
          v2: bit<8> = const 1:bit<8>
          store $meta.a, v2
          return
        block2:
          return
        }
    "#]]
    .assert_eq(&block(&p, "main_control"));
}
