//! Tests the externs of v1model.

use super::{check_declarations, check_ingress, v1model, v1model_with};
use expect_test::expect;

#[test]
fn counters_meters_registers() {
    let ingress = "counter<bit<8>>(16, CounterType.bytes) c;
        meter<bit<8>>(16, MeterType.packets) m;
        register<bit<8>, bit<32>>(4) r;
        apply { c.count(meta.a); m.execute_meter(meta.a, meta.b); r.read(meta.a, 2); r.write(3, meta.b); }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          call counter.count $ingress.c (v0)
          v1: bit<8> = call meter.execute $ingress.m (v0)
          store $meta.b, v1
          v2: bit<32> = const 2:bit<32>
          v3: bit<8> = call register.read $ingress.r (v2)
          store $meta.a, v3
          v4: bit<32> = const 3:bit<32>
          call register.write $ingress.r (v4, (v1))
          return
        }
    "#]],
    );
}

#[test]
fn register_of_a_struct() {
    let top = "struct pair { bit<8> x; bit<16> y; }";
    let ingress = "register<pair, bit<32>>(4) r; apply { pair p; r.read(p, 0); p.x = p.x + 1; r.write(0, p); }";
    check_ingress(
        top,
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<32> = const 0:bit<32>
          v1: bit<8>, v2: bit<16> = call register.read $ingress.r (v0)
          v3: bit<8> = const 1:bit<8>
          v4: bit<8> = add v1, v3
          v5: bit<32> = const 0:bit<32>
          call register.write $ingress.r (v5, (v4, v2))
          return
        }
    "#]],
    );
    check_declarations(
        &v1model(top, ingress),
        &["extern", "type"],
        expect![[r#"
        type "pair" struct { x: bit<8>, y: bit<16> }
        extern $ingress.r: register size 4 elem (bit<8>, bit<16>) initial () data named "pair"
    "#]],
    );
}

/// A hit counts and meters implicitly; `read` copies the hit's color.
#[test]
fn direct_objects() {
    let ingress = "direct_counter(CounterType.packets) c;
        direct_meter<bit<8>>(MeterType.bytes) m;
        action a() { c.count(); m.read(meta.b); }
        table t { key = { meta.a: exact; } actions = { a; NoAction; } counters = c; meters = m; }
        apply { t.apply(); }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = load $meta.a
          v1: bit<8> = const 0:bit<8>
          store $"ingress.t.$colour", v1
          apply $ingress.t (v0) {
            $ingress.a => block1
            $NoAction => block2
          }
        block1(v2: bool):
          v3: bit<8> = load $"ingress.t.$colour"
          store $meta.b, v3
          return
        block2(v4: bool):
          return
        }
    "#]],
    );
    check_declarations(
        &v1model("", ingress),
        &["table", "extern"],
        expect![[r#"
        extern $ingress.c: direct_counter unit packets
        extern $ingress.m: direct_meter unit bytes
        table $ingress.t {
          key "meta.a": bit<8> exact
          action $ingress.a
          action $NoAction
          default $NoAction()
          direct_counter $ingress.c
          direct_meter $ingress.m
          meter_result $"ingress.t.$colour"
        }
    "#]],
    );
}

#[test]
fn hashes_checksums_random() {
    let ingress = "apply {
            hash(meta.a, HashAlgorithm.crc16, 8w1, { hdr.eth.src, 16w7 }, 8w10);
            random(meta.b, 8w1, 8w6);
            update_checksum(meta.t, { hdr.eth.dst, hdr.eth.src }, meta.c, HashAlgorithm.csum16);
        }";
    check_ingress(
        "",
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<8> = const 1:bit<8>
          v1: bit<48> = load $hdr.eth.src
          v2: bit<16> = const 7:bit<16>
          v3: bit<8> = const 10:bit<8>
          v4: bit<8> = call hash ("crc16", v0, (v1, v2), v3)
          store $meta.a, v4
          v5: bit<8> = const 1:bit<8>
          v6: bit<8> = const 6:bit<8>
          v7: bit<8> = call random (v5, v6)
          store $meta.b, v7
          v8: bool = load $meta.t
          v9: bit<48> = load $hdr.eth.dst
          v10: bit<16> = load $meta.c
          v11: bit<16> = call update_checksum (v8, (v9, v1), v10, "csum16")
          store $meta.c, v11
          return
        }
    "#]],
    );
}

#[test]
fn clones_keep_field_lists() {
    let meta = "@field_list(1) bit<8> a; @field_list(1, 2) bit<16> b; bit<8> c;";
    let ingress = "apply {
            clone(CloneType.I2E, 5);
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            resubmit_preserving_field_list(2);
            clone3(CloneType.I2E, 6, { meta.c, sm.ingress_port });
        }";
    let source = v1model_with("", meta, "state start { transition accept; }", ingress);
    expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<32> = const 5:bit<32>
          call clone ("I2E", v0, vars ())
          v1: bit<32> = const 5:bit<32>
          call clone ("I2E", v1, vars ($meta.a, $meta.b))
          call resubmit (vars ($meta.b))
          v2: bit<32> = const 6:bit<32>
          call clone ("I2E", v2, vars ($meta.c, $sm.ingress_port))
          return
        }
    "#]]
    .assert_eq(&super::block(&super::pipeline(&source), "ingress"));
}

#[test]
fn digest_log_assert_drop() {
    let top = "struct learn_t { bit<48> mac; bit<9> port; }";
    let ingress = "apply {
            digest<learn_t>(1, { hdr.eth.src, sm.ingress_port });
            digest(1, { meta.a });
            log_msg(\"a is {}\", { meta.a });
            assert(meta.a < meta.b);
            mark_to_drop(sm);
            truncate(64);
        }";
    check_ingress(
        top,
        ingress,
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<48> = load $hdr.eth.src
          v1: bit<9> = load $sm.ingress_port
          call digest.pack $learn_t ((v0, v1))
          v2: bit<8> = load $meta.a
          call digest.pack $digest_0 ((v2))
          call log_msg ("a is {}", (v2))
          v3: bit<8> = load $meta.b
          v4: bool = lt v2, v3
          call assert (v4, "meta.a < meta.b")
          call mark_to_drop ()
          v5: bit<32> = const 64:bit<32>
          call truncate (v5)
          return
        }
    "#]],
    );
    check_declarations(
        &v1model(top, ingress),
        &["extern", "type"],
        expect![[r#"
        type "learn_t" struct { mac: bit<48>, port: bit<9> }
        extern $learn_t: digest data named "learn_t" fields (bit<48>, bit<9>)
        extern $digest_0: digest data tuple(bit<8>) fields (bit<8>)
    "#]],
    );
}

/// On a copy of the standard metadata, `mark_to_drop` sets the fields of the copy.
#[test]
fn mark_to_drop_on_a_copy() {
    check_ingress(
        "",
        "apply { standard_metadata_t copy = sm; mark_to_drop(copy); sm = copy; }",
        expect![[r#"
        control "ingress" ingress {
          entry block0
        block0:
          v0: bit<9> = load $sm.ingress_port
          v1: bit<9> = load $sm.egress_port
          v2: bit<32> = load $sm.instance_type
          v3: bit<32> = load $sm.packet_length
          v4: bit<32> = load $sm.enq_timestamp
          v5: bit<19> = load $sm.enq_qdepth
          v6: bit<32> = load $sm.deq_timedelta
          v7: bit<19> = load $sm.deq_qdepth
          v8: bit<48> = load $sm.ingress_global_timestamp
          v9: bit<48> = load $sm.egress_global_timestamp
          v10: bit<16> = load $sm.egress_rid
          v11: bit<1> = load $sm.checksum_error
          v12: error = load $sm.parser_error
          v13: bit<3> = load $sm.priority
          v14: bit<9> = const 511:bit<9>
          v15: bit<16> = const 0:bit<16>
          store $sm.ingress_port, v0
          store $sm.egress_spec, v14
          store $sm.egress_port, v1
          store $sm.instance_type, v2
          store $sm.packet_length, v3
          store $sm.enq_timestamp, v4
          store $sm.enq_qdepth, v5
          store $sm.deq_timedelta, v6
          store $sm.deq_qdepth, v7
          store $sm.ingress_global_timestamp, v8
          store $sm.egress_global_timestamp, v9
          store $sm.mcast_grp, v15
          store $sm.egress_rid, v10
          store $sm.checksum_error, v11
          store $sm.parser_error, v12
          store $sm.priority, v13
          return
        }
    "#]],
    );
}

#[test]
fn profiles() {
    let ingress = "action a(bit<8> x) { meta.a = x; }
        table t {
            key = { meta.a: exact; meta.b: selector; }
            actions = { a; NoAction; }
            @name(\"ap\") implementation = action_selector(HashAlgorithm.crc16, 64, 10);
            support_timeout = true;
        }
        apply { t.apply(); }";
    check_declarations(
        &v1model("", ingress),
        &["table", "extern"],
        expect![[r#"
        extern $ap: action_selector crc16 size 64 width 10
        table $ingress.t {
          key "meta.a": bit<8> exact
          key "meta.b": bit<8> selector
          action $ingress.a
          action $NoAction
          default $NoAction()
          implementation $ap
          idle_timeout
          property "support_timeout" "true"
        }
    "#]],
    );
}
