//! Tests operators and casts.

use super::{check_stmts, in_control, rendered, run};
use expect_test::expect;

#[test]
fn operands() {
    check_stmts(
        "s.x = ~true;\ns.x = -s.h;\nbool b = !n;\ns.x = n + true;\ns.x = n + 16w1;\nb = n && true;\ns.x = n ++ n ++ 1;\ns.x = n |+| s.c;",
        expect![[r#"
            error[operand]: `~` does not apply to `bool`
             --> main.p4:4:7
              |
            4 | s.x = ~true;
              |       ^^^^^
              |
              = help: `!` is the negation of a `bool`

            error[operand]: `-` does not apply to `H`
             --> main.p4:5:7
              |
            5 | s.x = -s.h;
              |       ^^^^

            error[operand]: `!` does not apply to `bit<8>`
             --> main.p4:6:10
              |
            6 | bool b = !n;
              |          ^^
              |
              = help: `~` inverts bits; `== 0` tests for zero

            error[operand]: `+` does not apply to `bit<8>` and `bool`
             --> main.p4:7:7
              |
            7 | s.x = n + true;
              |       ^^^^^^^^

            error[operand]: `+` does not apply to `bit<8>` and `bit<16>`
             --> main.p4:8:7
              |
            8 | s.x = n + 16w1;
              |       ^^^^^^^^
              |
              = help: cast one side, as in `... + (bit<8>)...`

            error[operand]: `&&` does not apply to `bit<8>` and `bool`
             --> main.p4:9:5
              |
            9 | b = n && true;
              |     ^^^^^^^^^
              |
              = help: both sides must be `bool`

            error[operand]: `++` does not apply to `bit<16>` and `int`
              --> main.p4:10:7
               |
            10 | s.x = n ++ n ++ 1;
               |       ^^^^^^^^^^^
               |
               = help: give the number a width, as in `8w1`

            error[operand]: `|+|` does not apply to `bit<8>` and `Colour`
              --> main.p4:11:7
               |
            11 | s.x = n |+| s.c;} }
               |       ^^^^^^^^^
        "#]],
    );
}

#[test]
fn comparisons() {
    check_stmts(
        "bool b = n == 16w1;\nb = s == { 1 };\nb = s.h == s.u;\nb = s.c == 1;\nb = n < true;\nb = s.k == 1;\nb = s.h == {#};",
        expect![[r#"
            error[compare]: `bit<8>` cannot be compared to `bit<16>`
             --> main.p4:4:10
              |
            4 | bool b = n == 16w1;
              |          ^^^^^^^^^
              |
              = help: cast the right side: `(bit<8>)...`

            error[list-length]: a list of 1 values does not fit `S`, which has 7
             --> main.p4:5:10
              |
            5 | b = s == { 1 };
              |          ^^^^^
              |
              = help: end the list with `...` to give the rest their default values

            error[compare]: `H` cannot be compared to `U`
             --> main.p4:6:5
              |
            6 | b = s.h == s.u;
              |     ^^^^^^^^^^

            error[compare]: `Colour` cannot be compared to `int`
             --> main.p4:7:5
              |
            7 | b = s.c == 1;
              |     ^^^^^^^^

            error[operand]: `<` does not apply to `bit<8>` and `bool`
             --> main.p4:8:5
              |
            8 | b = n < true;
              |     ^^^^^^^^
        "#]],
    );
}

#[test]
fn shifts() {
    check_stmts(
        "s.x = n << -1;\ns.x = 1 << n;\ns.x = n << 8s1;\ns.x = n << 300;\ns.x = n >> s.y;\ns.x = true << 1;",
        expect![[r#"
            error[shift]: a shift by the negative amount -1
             --> main.p4:4:7
              |
            4 | s.x = n << -1;
              |       ^^^^^^^

            error[operand]: `<<` does not apply to `int` and `bit<8>`
             --> main.p4:5:7
              |
            5 | s.x = 1 << n;
              |       ^^^^^^
              |
              = help: give the left side a width, as in `32w1 << x`

            error[operand]: `<<` does not apply to `bool` and `int`
             --> main.p4:9:7
              |
            9 | s.x = true << 1;} }
              |       ^^^^^^^^^
        "#]],
    );
}

#[test]
fn division() {
    check_stmts(
        "s.x = n / 0;\ns.x = n % (0 - 2);\nint<8> i = 1;\ni = i / 2;\ns.x = n / 2;",
        expect![[r#"
        error[division]: this divides by zero
         --> main.p4:4:7
          |
        4 | s.x = n / 0;
          |       ^^^^^

        error[division]: `%` is not defined on negative numbers
         --> main.p4:5:7
          |
        5 | s.x = n % (0 - 2);
          |       ^^^^^^^^^^^

        error[division]: `/` is not defined on signed values
         --> main.p4:7:5
          |
        7 | i = i / 2;
          |     ^^^^^
    "#]],
    );
}

#[test]
fn saturation_needs_a_width() {
    check_stmts(
        "s.x = 1 |+| 2;",
        expect![[r#"
        error[operand]: `|+|` does not apply to `int` and `int`
         --> main.p4:4:7
          |
        4 | s.x = 1 |+| 2;} }
          |       ^^^^^^^
          |
          = help: saturation needs a width: write one, as in `8w1`
    "#]],
    );
}

#[test]
fn choice() {
    check_stmts(
        "s.x = n ? 8w1 : 2;\nbool b = true;\ns.x = b ? 8w1 : 16w2;\ntake(b ? 1 : 2);",
        expect![[r#"
        error[condition]: the condition of `?:` is of type `bit<8>`
         --> main.p4:4:7
          |
        4 | s.x = n ? 8w1 : 2;
          |       ^
          |
          = help: a condition is a `bool`: compare it, as in `x != 0`

        error[type-mismatch]: `bit<8>` is needed here, and this is of type `bit<16>`
         --> main.p4:6:17
          |
        6 | s.x = b ? 8w1 : 16w2;
          |           ---   ^^^^
          |           |
          |           because of the value here
          |
          = help: to convert explicitly, write `(bit<8>)16w2`

        error[infer-width]: the width of these numbers is not known
         --> main.p4:7:6
          |
        7 | take(b ? 1 : 2);} }
          |      ^^^^^^^^^
          |
          = help: give one of them a width, as in `8w1`
    "#]],
    );
}

#[test]
fn casts() {
    check_stmts(
        "s.x = (bit<8>)true;\nbool b = (bool)n;\nb = (bool)2;\nint<16> i = (int<16>)n;\ns.c = (Colour)1;\n\
         s.k = (Kind)3;\ns.x = (bit<8>)s.k;\nb = (bool)1w1;\ns.x = (varbit<8>)n;",
        expect![[r#"
            error[cast]: `bool` cannot be cast to `bit<8>`
             --> main.p4:4:7
              |
            4 | s.x = (bit<8>)true;
              |       ^^^^^^^^^^^^

            error[cast]: `bit<8>` cannot be cast to `bool`
             --> main.p4:5:10
              |
            5 | bool b = (bool)n;
              |          ^^^^^^^

            error[cast]: `int` cannot be cast to `bool`
             --> main.p4:6:5
              |
            6 | b = (bool)2;
              |     ^^^^^^^
              |
              = help: only 0 and 1 can be cast to `bool`

            error[cast]: `bit<8>` cannot be cast to `int<16>`
             --> main.p4:7:13
              |
            7 | int<16> i = (int<16>)n;
              |             ^^^^^^^^^^
              |
              = help: change width and signedness in two casts, as in `(int<8>)(bit<8>)x`

            error[cast]: `int` cannot be cast to `Colour`
             --> main.p4:8:7
              |
            8 | s.c = (Colour)1;
              |       ^^^^^^^^^

            error[cast]: `bit<8>` cannot be cast to `varbit<8>`
              --> main.p4:12:7
               |
            12 | s.x = (varbit<8>)n;} }
               |       ^^^^^^^^^^^^
        "#]],
    );
}

#[test]
fn implicit_casts_are_from_int_and_from_enums_only() {
    check_stmts(
        "bit<16> w = n;\ns.x = s.k;\ns.k = 1;\ns.x = 5;\nint<8> i = n;\ns.x = s.h;\nbool b = 1;",
        expect![[r#"
        error[type-mismatch]: `bit<16>` is needed here, and this is of type `bit<8>`
         --> main.p4:4:13
          |
        4 | bit<16> w = n;
          | -------     ^
          | |
          | the type of the variable
          |
          = help: to convert explicitly, write `(bit<16>)n`

        error[type-mismatch]: `Kind` is needed here, and this is of type `int`
         --> main.p4:6:7
          |
        6 | s.k = 1;
          | ---   ^
          | |
          | the assigned l-value
          |
          = help: to convert explicitly, write `(Kind)1`

        error[type-mismatch]: `int<8>` is needed here, and this is of type `bit<8>`
         --> main.p4:8:12
          |
        8 | int<8> i = n;
          | ------     ^
          | |
          | the type of the variable
          |
          = help: to convert explicitly, write `(int<8>)n`

        error[type-mismatch]: `bit<8>` is needed here, and this is of type `H`
         --> main.p4:9:7
          |
        9 | s.x = s.h;
          | ---   ^^^
          | |
          | the assigned l-value

        error[type-mismatch]: `bool` is needed here, and this is of type `int`
          --> main.p4:10:10
           |
        10 | bool b = 1;} }
           | ----     ^
           | |
           | the type of the variable
           |
           = help: to convert explicitly, write `(bool)1`
    "#]],
    );
}

#[test]
fn a_suggested_cast_applies_to_the_whole_expression() {
    let fix_for = |expression: &str| {
        let (_, diagnostics, map) = run(&in_control("", &format!("bit<16> w = {expression};")));
        let text = rendered(&diagnostics, &map);
        text.lines().find_map(|line| line.trim().strip_prefix("= help: ")).unwrap_or_default().to_owned()
    };
    assert_eq!(fix_for("(n) + (n)"), "to convert explicitly, write `(bit<16>)((n) + (n))`");
    assert_eq!(fix_for("((n) + n)"), "to convert explicitly, write `(bit<16>)((n) + n)`");
}
