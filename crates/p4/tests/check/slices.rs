//! Tests slices and elements.

use super::check_stmts;
use expect_test::expect;

#[test]
fn slices() {
    check_stmts(
        "s.x = n[8:1];\ns.x = n[1:3];\ns.x = n[n:0];\ns.x = s.h[1:0];\ns.x[3:0] = n[7:4];\ns.x = n[1+:9];\ns.x = n[s.y+:4];\ns.x = n[true+:4];",
        expect![[r#"
            error[slice]: there is no bit 8 in a value of 8 bits
             --> main.p4:4:9
              |
            4 | s.x = n[8:1];
              |         ^
              |
              = help: bits are numbered from 0 to 7

            error[slice]: the lowest bit 3 is above the highest bit 1
             --> main.p4:5:7
              |
            5 | s.x = n[1:3];
              |       ^^^^^^
              |
              = help: the highest bit comes first: `[3:1]`

            error[not-constant]: the highest bit of a slice must be a constant integer
             --> main.p4:6:9
              |
            6 | s.x = n[n:0];
              |         ^
              |
              = help: use a literal, or a `const` of an integer type

            error[slice]: bits are cut from `bit` and `int` values, and this is of type `H`
             --> main.p4:7:7
              |
            7 | s.x = s.h[1:0];
              |       ^^^^^^^^

            error[slice]: a slice of 9 bits from a value of 8 bits is not possible
             --> main.p4:9:12
              |
            9 | s.x = n[1+:9];
              |            ^

            error[type-mismatch]: `bit<8>` is needed here, and this is of type `bit<4>`
              --> main.p4:10:7
               |
            10 | s.x = n[s.y+:4];
               | ---   ^^^^^^^^^
               | |
               | the assigned l-value
               |
               = help: to convert explicitly, write `(bit<8>)(n[s.y+:4])`

            error[slice]: the lowest bit of a slice is of an unsigned type, not `bool`
              --> main.p4:11:9
               |
            11 | s.x = n[true+:4];} }
               |         ^^^^
        "#]],
    );
}

#[test]
fn indices() {
    check_stmts(
        "s.x = s.stack[4].f;\ns.x = s.stack[0-1].f;\ns.x = s.stack[true].f;\ns.x = s.stack[n].f;\ns.x = n[0];",
        expect![[r#"
            error[index]: there is no element 4 in a stack of 4
             --> main.p4:4:15
              |
            4 | s.x = s.stack[4].f;
              |               ^
              |
              = help: elements are numbered from 0 to 3

            error[index]: there is no element -1 in a stack of 4
             --> main.p4:5:15
              |
            5 | s.x = s.stack[0-1].f;
              |               ^^^
              |
              = help: elements are numbered from 0 to 3

            error[index]: an index is an integer, not `bool`
             --> main.p4:6:15
              |
            6 | s.x = s.stack[true].f;
              |               ^^^^

            error[index]: `bit<8>` has no elements; stacks and tuples have
             --> main.p4:8:7
              |
            8 | s.x = n[0];} }
              |       ^^^^
        "#]],
    );
}
