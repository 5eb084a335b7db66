//! The tree as text, for `--dump syntax` and goldens: nested lists of words, without positions.

mod decl;
mod expr;
mod node;
mod stmt;
mod variable;

use super::Program;
use decl::decl;

/// The whole program, one list per declaration. Expressions are in prefix form: `(+ a 1)`.
pub fn dump(program: &Program) -> String {
    let mut out = String::new();
    for top in &program.decls {
        decl(top).write(0, &mut out);
        out.push('\n');
    }
    out
}
