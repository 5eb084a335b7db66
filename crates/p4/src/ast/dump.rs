//! Dumps the syntax tree as S-expressions without positions, for `--dump syntax` and golden files.

mod decl;
mod expr;
mod node;
mod stmt;
mod variable;

use super::Program;
use decl::decl;

/// Returns the whole program with one list per declaration. Expressions are in prefix form: `(+ a
/// 1)`.
pub fn dump(program: &Program) -> String {
    let mut out = String::new();
    for top in &program.decls {
        decl(top).write(0, &mut out);
        out.push('\n');
    }
    out
}
