//! Cases from bug reports of other preprocessors, each compared with cpp.

use crate::folder;
use crate::reference::{cpp, ours};

/// Fails if the text or the findings differ from cpp's.
fn check(name: &str, text: &str) {
    let dir = folder(name);
    let input = [text.to_owned()];
    let (ours, theirs) = (ours(&input), cpp(&dir, &input));
    let _ = std::fs::remove_dir_all(&dir);
    assert!(ours.agrees_with(&theirs), "{text}\n=== cpp\n{theirs}\n=== ours\n{ours}");
}

/// Empty arguments within and beside `__VA_OPT__` (llvm-project 60268, doxygen 11849).
#[test]
fn placemarkers_in_va_opt() {
    check(
        "placemarkers",
        "#define A(x, ...) __VA_OPT__(q ## x) ## r\n#define B(x, ...) __VA_OPT__(q x ## x) ## r\nA(, 1) A(, ) A(1, 1) B(, 1) B(, )\n\
         #define C(...) __VA_OPT__()/**/__VA_OPT__()\n#define D(x) u ## x ## v\n#define E(x) D(x)\nE(C()) E(C(1))\n\
         #define F(x, ...) #__VA_OPT__(x ## x x##x)\nF(, 0) F(1, 0) F(1)\n\
         #define G(x, r...) f(0, x __VA_OPT__(,) r)\n#define N\nG(a, N) G(a, b) G(a) G(N, N, N)\n",
    );
}

/// Two tokens that would be read as one are separated by a blank (cpip 2).
#[test]
fn tokens_kept_apart() {
    check(
        "apart",
        "#define A +\n+A A+ A= -A\n#define F(x) x\nF(<)F(<) F(&)F(&)F(&) F(|)+F(|) F(8)F(w)F(1) F(.)F(.)F(.) F(>)F(>)F(=) F(/)F(*)\n\
         F(i)F(\"s\") F(1)F(-)1 F(-)F(-) F(:)F(:) F(#)F(#) F(!)= F({)#F(}) x F(x)x F()x\n",
    );
}

/// A deferred call is not expanded if its parenthesis comes too late (arocc 58).
#[test]
fn calls_that_are_put_off() {
    check(
        "put_off",
        "#define N\n#define A(op) op N\n#define B() C\n#define C A(B)()\nC\n#define F(x) x\nF(C) F(F(C))\n#define G() F\nG()(1) G()(G)()(2)\n",
    );
}

/// A name is not expanded within its own expansion, however it got there.
#[test]
fn recursion() {
    check(
        "recursion",
        "#define A B x\n#define B A y\nA B\n#define F(x) G(x) f\n#define G(x) F(x) g\nF(1) G(2) F(F(3)) F(G)(4)\n\
         #define H(x) x(x)\nH(H)(H)\n#define V(...) V __VA_ARGS__\nV(V(1))(2)\n",
    );
}

/// `##` ignores white space, comments and newlines around arguments (jcpp 25).
#[test]
fn arguments_with_white_space() {
    check(
        "white_space",
        "#define A(x) one_##x\n#define B(x) A(two_##x)\nB(good) B(     /* evil\n*/\n  bad)\nA(     // evil\n  bad)\n#define S(x) #x\nS(  a\n  b /* c */ )\n",
    );
}

/// A pasted number is a number (pcpp 19, dice-nx 30).
#[test]
fn pastes_in_conditions() {
    check(
        "conditions",
        "#define P(x, y) x ## y\n#if P(1, 2) == 12\nworks\n#endif\n#define U(v) v ## UL\n#if U(1) > -1\nno\n#else\nworks\n#endif\n\
         #if P(de, fined)(P)\nworks\n#endif\n#if P(0, x10) == 16 && P(<, <) 1\nno\n#endif\n",
    );
}

/// The smallest number divided by -1, shifts by too much and by negative amounts, signs (glslang
/// 1112 and 1126, dice-nx 30).
#[test]
fn arithmetic_at_the_edge() {
    check(
        "edge",
        "#define A (-9223372036854775807 - 1)\n#if A / -1 == A\nx\n#endif\n#if A % -1 == 0\nx\n#endif\n#if 1 << 63 < 0\nx\n#endif\n\
         #if 1 << 64 == 0\nx\n#endif\n#if -1 >> 70 == -1\nx\n#endif\n#if 8 >> -1 == 16\nx\n#endif\n#if 8 << -1 == 4\nx\n#endif\n\
         #if -1 < 0u\nno\n#endif\n#if 18446744073709551615 == -1\nx\n#endif\n#if (0 ? 1u : -1) > 0\nx\n#endif\n\
         #if 0xffffffffffffffff / 2 == 0x7fffffffffffffff\nx\n#endif\n#if 3037000500 * 3037000500\nx\n#endif\n#if -A\n#endif\n",
    );
}

/// A division with an unused result is not evaluated (cc65 1768, SDL_shader_tools 14).
#[test]
fn short_circuits() {
    check(
        "short",
        "#if 1 || 8 / 0\na\n#endif\n#if 0 && 8 / 0\n#else\nb\n#endif\n#if 1 ? 2 : 0 % 0\nc\n#endif\n#if 0 ? 1 / 0 : 3\nd\n#endif\n\
         #if 0 && (1 || 1 / 0) || 1\ne\n#endif\n#if 0\n#elif 1 / 0\n#elif 1\nf\n#endif\n#if 1\n#elif 1 / 0\n#endif\n#if 1 / q\n#endif\n",
    );
}

/// Lines that end with `\r\n` are spliced, too (ack 117, fluffos 535).
#[test]
fn carriage_returns() {
    check(
        "returns",
        "#define A 1 + \\\r\n  2\r\n#include \"h0\"\r\nA\r\n#if A == 3\r\nyes\r\n#endif\r\n\"a\r\nb\" // c \\\r\nd\r\ne\rf\r",
    );
}

/// Comment signs in a string that continues after a splice (fluffos 1382).
#[test]
fn comments_in_spliced_strings() {
    check(
        "spliced_strings",
        "#define A \"abc// \\\n def\"\nA\n#define B \"a /* \\\\\\\n */ \\\" \\\nc\" d\nB /\\\n/ comment\n/\\\n* another *\\\n/ x\n",
    );
}

/// Splices with nothing between them (pcpp 63, pawn compiler 226).
#[test]
fn empty_splices() {
    check(
        "empty_splices",
        "#define A\\\n \\\n\n#include \"h0\"\nA x\n#define F(x)\\\n  hi x\nF(1)\n#\\\ndefine B 3\nB\n\\\n\\\n#define C 4\nC\n#define D \\\n\nD.\n",
    );
}

/// Directives, and lines that only look like one, among arguments (CWG 975).
#[test]
fn directives_in_arguments() {
    check(
        "directives",
        "#define F(x, ...) [x|__VA_ARGS__]\nF(a\n#blah ) b\n)\nF(\n#define A 1\nA\n#undef A\nA\n#if A\nno\n#else\nyes, more\n#endif\n)\nF(\n#undef F\n1)\nF(2)\n",
    );
    check("include_in_arguments", "#define F(x) [x]\nF(\n#include \"h0\"\n)\nx\n");
}

/// cpp treats strings over several lines as separate lines (p4c 2333, p4-constraints 143).
#[test]
fn strings_over_lines() {
    check(
        "strings",
        "#define LIMIT 7\n#define F(x) <x>\n@e(\"\n  a < LIMIT;  // it's\n#ifdef LIMIT\n\tF(1)   F(LIMIT\n  2)\n#else\n  'no\n#endif\n\n  \") LIMIT\nLIMIT\n",
    );
}

/// A pasted name is lexed again, and its errors are reported again.
#[test]
fn names_that_are_pasted() {
    check("pasted", "#define W(x, y) x##/ x##y\nW(__VA_ARGS__,)\nW(__VA_, ARGS__)\n#pragma GCC poison ab\nW(a, b)\n");
}

/// `__LINE__` is the line of the outermost macro's name, or its own in an argument.
#[test]
fn line_numbers() {
    check(
        "lines",
        "#define F(x) x __LINE__ x\n#define O F\nF(\n__LINE__\n)\nO(\n\n__LINE__)\n#define L() __LINE__\n#define G(x) x()\nG(\n\nL)\n\
         __LI\\\nNE__\n#line 100 \"a\\\\b\\\"c\\td\"\n__LINE__ __FILE__\n#if __LINE__ == 102\nyes\n#endif\n#define P(x, y) x ## y\nP(a\n__LINE__,\nb)\n",
    );
}

/// A macro name with its parenthesis in the next line, after a comment or in another macro.
#[test]
fn parentheses_far_away() {
    check(
        "far",
        "#define F(x) <x>\n#define L (\n#define N\nF\n\n(1) F /* c */ (2) F N (3) F L 4) F\n#define A\n(5) F\n#if 1\n(6)\n#endif\nF // c\n(7)\nF\n",
    );
}

/// cpp ends at a missing file with a fatal error; here the rest is read.
#[test]
fn missing_files() {
    for text in ["#include \"none\"\n", "#include <h0>\n", "#include <h0\n", "#define A \"x\\\"y\"\n#include A\n"] {
        let dir = folder("missing");
        let input = [text.to_owned()];
        let (ours, theirs) = (ours(&input), cpp(&dir, &input));
        let _ = std::fs::remove_dir_all(&dir);
        assert_eq!(ours.findings, theirs.findings, "{text}\n{ours}\n{theirs}");
    }
}
