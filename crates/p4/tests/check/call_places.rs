//! Tests which callables may be called in which contexts.

use super::{check, check_decls, check_states};
use expect_test::expect;

#[test]
fn who_calls_whom() {
    check_decls(
        "parser P() { state start { transition accept; } }\ncontrol D() { apply { } }\nvoid f() { NoAction(); }\n\
         control C()(D d) { D() e; table t { actions = { NoAction; } }\naction a() { t.apply(); e.apply(); NoAction(); }\napply { P.apply(); e.apply(); d.apply(); a(); D.apply(); D() g; } }",
        expect![[r#"
            error[action-call]: actions cannot be called in functions
             --> main.p4:4:12
              |
            4 | void f() { NoAction(); }
              |            ^^^^^^^^^^
              |
              = help: actions are called in a control's `apply` block and in actions

            error[param-type]: parameter `d` cannot be of type `D`, which has a body
             --> main.p4:5:13
              |
            5 | control C()(D d) { D() e; table t { actions = { NoAction; } }
              |             ^^^
              |
              = help: declare a type without a body, as in `control C();`, and use that

            error[apply-place]: a table cannot be applied in an action
             --> main.p4:6:14
              |
            6 | action a() { t.apply(); e.apply(); NoAction(); }
              |              ^^^^^^^^^
              |
              = help: apply tables in the `apply` block of the control

            error[apply-place]: a control cannot be applied in an action
             --> main.p4:6:25
              |
            6 | action a() { t.apply(); e.apply(); NoAction(); }
              |                         ^^^^^^^^^
              |
              = help: controls are applied in the `apply` block of controls

            error[apply-place]: a parser cannot be applied in a control's `apply` block
             --> main.p4:7:9
              |
            7 | apply { P.apply(); e.apply(); d.apply(); a(); D.apply(); D() g; } }
              |         ^^^^^^^^^^
              |
              = help: parsers are applied in parser states

            error[instance-place]: `g` cannot be instantiated in a control's `apply` block
             --> main.p4:7:58
              |
            7 | apply { P.apply(); e.apply(); d.apply(); a(); D.apply(); D() g; } }
              |                                                          ^^^^^^
              |
              = help: declare the instance before the body, among the declarations
        "#]],
    );
    check_states(
        "state start { NoAction();\ntransition accept; }\n",
        expect![[r#"
        error[action-call]: actions cannot be called in parsers
         --> main.p4:3:15
          |
        3 | state start { NoAction();
          |               ^^^^^^^^^^
          |
          = help: actions are called in a control's `apply` block and in actions
    "#]],
    );
}

#[test]
fn verify_is_for_parsers() {
    check(
        "#include <core.p4>\ncontrol C() { apply { verify(true, error.NoError); } }",
        expect![[r#"
        error[verify-place]: `verify` can only be called in parsers, not in a control's `apply` block
         --> main.p4:2:23
          |
        2 | control C() { apply { verify(true, error.NoError); } }
          |                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#]],
    );
}

#[test]
fn packet_methods() {
    check(
        "#include <core.p4>\nheader H { bit<8> a; }\nheader V { varbit<16> v; }\nstruct S { H h; V v; bit<8> b; }\n\
         parser P(packet_in p, out S s) { state start {\np.extract(s.h);\np.extract(s.b);\np.extract(s.v);\np.extract(s.v, 8);\np.extract(s.h, 8);\n\
         s.b = p.lookahead<bit<8>>();\ns.v = p.lookahead<V>();\np.extract<H>(_);\ntransition accept; } }\n\
         control D(packet_out p, in S s) { apply {\np.emit(s.h);\np.emit(s.b);\np.emit(s);\n} }",
        expect![[r#"
            error[packet-method]: `extract` fills headers, and this is of type `bit<8>`
             --> main.p4:7:11
              |
            7 | p.extract(s.b);
              |           ^^^

            error[packet-method]: header `V` has a `varbit` field, whose size is not given
             --> main.p4:8:11
              |
            8 | p.extract(s.v);
              |           ^^^
              |
              = help: give the size in bits of the field as second argument

            error[packet-method]: header `H` has no `varbit` field to give a size to
              --> main.p4:10:11
               |
            10 | p.extract(s.h, 8);
               |           ^^^
               |
               = help: use `extract` with one argument

            error[packet-method]: `lookahead` needs a type of fixed width, and `V` has none
              --> main.p4:12:7
               |
            12 | s.v = p.lookahead<V>();
               |       ^^^^^^^^^^^^^^^^

            error[packet-method]: `emit` takes headers, unions, stacks and structs of them, not `bit<8>`
              --> main.p4:17:8
               |
            17 | p.emit(s.b);
               |        ^^^

            error[packet-method]: `emit` takes headers, unions, stacks and structs of them, not `S`
              --> main.p4:18:8
               |
            18 | p.emit(s);
               |        ^
        "#]],
    );
}
