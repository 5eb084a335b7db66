//! Tests annotations and the names that they give.

use super::{check, check_decls, check_locals};
use expect_test::expect;

#[test]
fn annotations() {
    check(
        "@k[a = 1, a = 2] const bit<8> a = 1;\n@l[1] @l[2] const bit<8> b = 1;\n@m[{1}] const bit<8> c = 1;\n\
         @match(1) const bit<8> d = 1;",
        expect![[r#"
            error[duplicate]: `a` is declared twice
             --> main.p4:1:11
              |
            1 | @k[a = 1, a = 2] const bit<8> a = 1;
              |    -      ^ declared again here
              |    |
              |    first declared here
              |
              = help: rename or remove one of the two

            error[annotation]: `@l` is given twice
             --> main.p4:2:7
              |
            2 | @l[1] @l[2] const bit<8> b = 1;
              | ----- ^^^^^
              | |
              | the first
              |
              = help: a structured annotation can be given only once

            error[annotation]: this is not a valid value for a structured annotation
             --> main.p4:3:4
              |
            3 | @m[{1}] const bit<8> c = 1;
              |    ^^^
              |
              = help: use constant integers, strings and bools

            error[annotation]: `@match` needs a match kind, such as `exact` or `ternary`
             --> main.p4:4:8
              |
            4 | @match(1) const bit<8> d = 1;
              |        ^
        "#]],
    );
}

#[test]
fn names_that_the_control_plane_sees() {
    check_locals(
        "@name(\"a\") action b() { }\n@name(\"a\") action c() { }\n\
         @name(\".t\") table t { actions = { } }\n@name(\".t\") table u { actions = { } }\n",
        expect![[r#"
            error[control-plane-name]: the control plane sees two actions named `C.a`
             --> main.p4:4:19
              |
            3 | @name("a") action b() { }
              |                   - the other one
            4 | @name("a") action c() { }
              |                   ^
              |
              = help: give one of them another `@name`

            error[control-plane-name]: the control plane sees two tables named `t`
             --> main.p4:6:19
              |
            5 | @name(".t") table t { actions = { } }
              |                   - the other one
            6 | @name(".t") table u { actions = { } }
              |                   ^
              |
              = help: give one of them another `@name`
        "#]],
    );
    check_decls(
        "control D() { @name(\".t\") table t { actions = { } } apply { } }\ncontrol E() { D() a; D() b; apply { } }",
        expect![[r#"
            error[control-plane-name]: table `t` has an absolute name, and its control has several instances
             --> main.p4:2:33
              |
            2 | control D() { @name(".t") table t { actions = { } } apply { } }
              |                                 ^
            3 | control E() { D() a; D() b; apply { } }
              |               -----  ----- another instance
              |               |
              |               an instance
              |
              = help: remove the dot before the name
        "#]],
    );
}

/// The number of a field list is a constant integer, evaluated at the annotation.
#[test]
fn field_lists() {
    let field = |annotation: &str| {
        format!("const bit<8> KEEP = 1;\nconst bool YES = true;\nstruct M {{ {annotation} bit<8> a; }}\n")
    };
    for fine in ["(KEEP)", "(KEEP + 1, 3)", "[KEEP << 1]", "((bit<8>)Kind.two)", "(Kind.one, 255)"] {
        check(&format!("#include \"prelude.p4\"\n{}", field(&format!("@field_list{fine}"))), expect![""]);
    }
    check(
        &field("@field_list(YES)"),
        expect![[r#"
            error[not-constant]: the number of a field list must be a constant integer
             --> main.p4:3:24
              |
            3 | struct M { @field_list(YES) bit<8> a; }
              |                        ^^^
              |
              = help: use a literal, or a `const` of an integer type
        "#]],
    );
    check(
        &field("@field_list(Keep)"),
        expect![[r#"
            error[unknown-name]: no name `Keep` is declared here
             --> main.p4:3:24
              |
            3 | struct M { @field_list(Keep) bit<8> a; }
              |                        ^^^^
              |
              = help: did you mean `KEEP`?
        "#]],
    );
    check(
        &field("@field_list(256, 0 - 1)"),
        expect![[r#"
            error[annotation]: there is no field list 256
             --> main.p4:3:24
              |
            3 | struct M { @field_list(256, 0 - 1) bit<8> a; }
              |                        ^^^
              |
              = help: field lists have numbers from 0 to 255

            error[annotation]: there is no field list -1
             --> main.p4:3:29
              |
            3 | struct M { @field_list(256, 0 - 1) bit<8> a; }
              |                             ^^^^^
              |
              = help: field lists have numbers from 0 to 255
        "#]],
    );
    check(
        &field("@field_list"),
        expect![[r#"
            error[annotation]: `@field_list` needs the numbers of the lists
             --> main.p4:3:12
              |
            3 | struct M { @field_list bit<8> a; }
              |            ^^^^^^^^^^^
              |
              = help: write `@field_list(1)`, or `@field_list(1, 2)` for several lists
        "#]],
    );
}
