//! Dumps the typed program as P4-like text, for `--dump typed` and golden files.
//!
//! The text makes the results of checking explicit: casts, widths of literals, type arguments and
//! default arguments. It omits constants, typedefs, annotations, and included declarations without
//! a body, because lowering does not use them.

mod expr;
mod object;
mod stmt;

use super::{Direction, LocalId, LocalKind, Method, Program, Ty};
use std::fmt::Write;

/// Returns the program as text.
pub fn dump(program: &Program) -> String {
    let mut dump = HirDump { program, text: String::new(), indent: 0 };
    dump.write_program();
    dump.text
}

/// The text written until now.
struct HirDump<'p> {
    program: &'p Program,
    text: String,
    indent: usize,
}

impl HirDump<'_> {
    /// Writes a line at the current indentation.
    fn write_line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = self.indent * 4);
    }

    /// Writes lines one level deeper, between braces.
    fn write_braced(&mut self, head: &str, inside: impl FnOnce(&mut Self)) {
        self.write_line(&format!("{head} {{"));
        self.indent += 1;
        inside(self);
        self.indent -= 1;
        self.write_line("}");
    }

    /// Writes the declarations of the program: types first, then functions, global actions, objects
    /// with a body, and instances.
    fn write_program(&mut self) {
        let program = self.program;
        self.write_line(&format!("error {{ {} }}", program.errors.join(", ")));
        self.write_line(&format!("match_kind {{ {} }}", program.match_kinds.join(", ")));
        for e in &program.enums {
            let underlying = e.underlying.map_or(String::new(), |ty| format!("{} ", self.type_text(ty)));
            let members = e.members.iter().map(|(name, value)| match value {
                Some(value) => format!("{name} = {value}"),
                None => name.to_string(),
            });
            let members: Vec<String> = members.collect();
            self.write_line(&format!("enum {underlying}{} {{ {} }}", e.name, members.join(", ")));
        }
        for n in &program.newtypes {
            self.write_line(&format!("type {} {};", self.type_text(n.of), n.name));
        }
        for s in &program.structs {
            let signature = format!("{} {}{}", s.kind.as_str(), s.name, self.type_params_text(&s.type_params));
            self.write_braced(&signature, |d| {
                for f in &s.fields {
                    d.write_line(&format!("{} {};", d.type_text(f.ty), f.name));
                }
            });
        }
        for f in &program.functions {
            let signature = format!(
                "{} {}{}({})",
                self.type_text(f.result),
                f.name,
                self.type_params_text(&f.type_params),
                self.params_text(&f.params)
            );
            self.write_braced(&signature, |d| d.write_stmts(&f.body));
        }
        for a in program.actions.iter().filter(|a| a.owner.is_none()) {
            self.write_action(a);
        }
        for o in &program.objects {
            self.write_object(o);
        }
        for id in &program.globals {
            self.write_instance(*id);
        }
    }

    fn type_text(&self, ty: Ty) -> String {
        self.program.type_text(ty)
    }

    fn type_args_text(&self, types: &[Ty]) -> String {
        match types {
            [] => String::new(),
            types => format!("<{}>", types.iter().map(|t| self.type_text(*t)).collect::<Vec<_>>().join(", ")),
        }
    }

    fn type_params_text(&self, params: &[super::TypeParamId]) -> String {
        match params {
            [] => String::new(),
            params => {
                let names: Vec<&str> = params.iter().map(|p| &*self.program.type_params[p.index()]).collect();
                format!("<{}>", names.join(", "))
            }
        }
    }

    fn local_name(&self, id: LocalId) -> &str {
        &self.program.locals[id.index()].name
    }

    fn params_text(&self, params: &[LocalId]) -> String {
        params.iter().map(|p| self.param_text(*p)).collect::<Vec<_>>().join(", ")
    }

    fn param_text(&self, id: LocalId) -> String {
        let local = &self.program.locals[id.index()];
        let (direction, default, optional) = match &local.kind {
            LocalKind::Param(direction, default, optional) => (*direction, default.as_ref(), *optional),
            LocalKind::ConstructorParam(default, optional) => (Direction::None, default.as_ref(), *optional),
            LocalKind::Var => (Direction::None, None, false),
        };
        let mut text = if optional { "@optional ".to_owned() } else { String::new() };
        if direction != Direction::None {
            let _ = write!(text, "{} ", direction.as_str());
        }
        let _ = write!(text, "{} {}", self.type_text(local.ty), local.name);
        if let Some(default) = default {
            let _ = write!(text, " = {}", self.expr_text(default));
        }
        text
    }

    /// Returns the name of a method of an extern.
    fn method_name(methods: &[Method], at: usize) -> &str {
        methods.get(at).map_or("?", |m| &m.name)
    }
}
