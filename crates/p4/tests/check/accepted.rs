//! Programs that must be accepted.

use super::accept;

#[test]
fn the_include_files() {
    accept("#include <core.p4>");
    accept("#include <v1model.p4>");
    accept("#define V1MODEL_VERSION 20200408\n#include <v1model.p4>");
    accept("#include <pna.p4>");
}

#[test]
fn a_v1model_program() {
    accept(
        "#include <v1model.p4>\nheader E { bit<48> d; bit<48> s; bit<16> t; }\nstruct Hs { E e; }\nstruct M { bit<8> x; }\n\
         parser P(packet_in p, out Hs h, inout M m, inout standard_metadata_t sm) { state start { p.extract(h.e); transition accept; } }\n\
         control V(inout Hs h, inout M m) { apply { } }\n\
         control I(inout Hs h, inout M m, inout standard_metadata_t sm) {\ncounter(16, CounterType.packets) c; register<bit<32>>(4) r; direct_counter(CounterType.bytes) d;\n\
         action drop() { mark_to_drop(sm); d.count(); }\naction go(bit<9> port) { sm.egress_spec = port; c.count((bit<32>)port); }\n\
         table t { key = { h.e.d: lpm; } actions = { drop; go; } default_action = drop; counters = d; size = 512; implementation = action_profile(32); }\n\
         apply { t.apply(); bit<32> v; r.read(v, 1); r.write(1, v + 1); hash(m.x, HashAlgorithm.crc16, 8w0, { h.e.s, v }, 8w255); digest(1, m); clone_preserving_field_list(CloneType.I2E, 5, 0); } }\n\
         control G(inout Hs h, inout M m, inout standard_metadata_t sm) { apply { } }\n\
         control K(inout Hs h, inout M m) { apply { update_checksum(h.e.isValid(), { h.e.d }, h.e.t, HashAlgorithm.csum16); } }\n\
         control D(packet_out p, in Hs h) { apply { p.emit(h); } }\nV1Switch(P(), V(), I(), G(), K(), D()) main;",
    );
}

#[test]
fn overloads_by_number_by_name_and_by_type() {
    accept(
        "extern void f(in bit<8> a);\nextern void f(in bit<8> a, in bit<8> b);\nextern void g(in bit<8> a);\nextern void g(in bool b);\n\
         control C() { apply { f(1); f(1, 2); g(b = true); g(8w1); g(true); } }",
    );
}

#[test]
fn the_name_of_a_local_action_does_not_hide_a_function_in_its_own_body() {
    accept("extern void hash();\ncontrol C() { action hash() { hash(); } apply { hash(); } }");
}

#[test]
fn types_from_typedefs_mean_the_same() {
    accept(
        "typedef bit<8> a;\ntypedef a b;\nstruct S<T> { T t; }\ntypedef S<b> s;\nconst s x = { 1 };\nconst S<bit<8>> y = x;",
    );
}

#[test]
fn tables_apply_tables_in_their_keys() {
    accept(
        "#include \"prelude.p4\"\ncontrol C(inout S s) { table t { actions = { } } table u { key = { t.apply().hit: exact; } actions = { } } apply { u.apply(); } }",
    );
}

#[test]
fn an_underscore_in_a_package_is_any_type_at_each_instantiation() {
    accept(
        "control Ct<T>(in T x);\npackage P(Ct<_> c);\ncontrol A(in bit<8> x) { apply { } }\ncontrol B(in bool x) { apply { } }\nP(A()) a;\nP(B()) b;",
    );
}
