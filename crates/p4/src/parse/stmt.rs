//! Parses statements.

use super::cursor::{P4Parser, ParseResult, SyntaxErrorReported};
use super::scope::NameKind;
use crate::ast::{
    Annotations, Arg, BinaryOp, Block, ConstDecl, Expr, ExprKind, ForInStmt, ForStmt, InstanceDecl, Stmt, StmtKind,
    SwitchCase, Type, VarDecl,
};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;

/// A construct that begins with a type at the start of a statement.
enum TypedItem {
    Var(VarDecl),
    Instance(InstanceDecl),
    /// `T.apply(args)` or another expression that begins with a type.
    Expr(Expr),
}

impl P4Parser<'_> {
    /// Parses `{ ... }` after its annotations, in its own scope.
    pub fn parse_block(&mut self, annotations: Annotations) -> ParseResult<Block> {
        let start = self.span();
        let scope = self.scopes.depth();
        self.scopes.push();
        let stmts = self.parse_nested(|p| p.parse_braced(Self::parse_stmt));
        self.scopes.truncate(scope);
        Ok(Block { annotations, stmts: stmts?, span: self.span_since(start) })
    }

    /// Parses a statement, or a declaration in a block.
    pub fn parse_stmt(&mut self) -> ParseResult<Stmt> {
        self.parse_nested(|p| {
            let start = p.span();
            let kind = p.stmt_kind()?;
            Ok(Stmt { kind, span: p.span_since(start) })
        })
    }

    /// Parses a statement with its annotations. A statement that begins like a declaration is one.
    fn stmt_kind(&mut self) -> ParseResult<StmtKind> {
        let start = self.span();
        let annotations = self.parse_annotations()?;
        match self.kind() {
            Tok::LBrace => return Ok(StmtKind::Block(self.parse_block(annotations)?)),
            Tok::For => return self.parse_for(annotations),
            Tok::Const => return Ok(StmtKind::Const(self.const_decl(annotations, start)?)),
            _ => {}
        }
        if self.at_declaration() {
            return self.declaration_stmt(annotations, start);
        }
        if !annotations.is_empty() {
            return self.fail("annotations belong to a declaration, a block or a `for` loop; none follows");
        }
        match self.kind() {
            Tok::Semi => {
                self.bump();
                Ok(StmtKind::Empty)
            }
            Tok::If => self.parse_if(),
            Tok::Switch => self.switch_stmt(),
            Tok::Return => {
                self.bump();
                let value =
                    if matches!(self.kind(), Tok::Semi | Tok::RBrace) { None } else { Some(self.parse_expr()?) };
                self.expect(Tok::Semi)?;
                Ok(StmtKind::Return(value))
            }
            Tok::Break => self.keyword_stmt(StmtKind::Break),
            Tok::Continue => self.keyword_stmt(StmtKind::Continue),
            Tok::Exit => self.keyword_stmt(StmtKind::Exit),
            Tok::Action | Tok::Table | Tok::State | Tok::Transition if self.is_misplaced_decl() => {
                self.fail_misplaced_decl()
            }
            _ => {
                let stmt = self.parse_assign_or_call()?;
                self.expect(Tok::Semi)?;
                Ok(stmt)
            }
        }
    }

    fn keyword_stmt(&mut self, kind: StmtKind) -> ParseResult<StmtKind> {
        self.bump();
        self.expect(Tok::Semi)?;
        Ok(kind)
    }

    /// Returns whether the current keyword begins a declaration that is not allowed here, as
    /// opposed to a name.
    pub fn is_misplaced_decl(&self) -> bool {
        !self.is(Tok::State) || (self.is_name_at(1) && self.kind_at(2) == Tok::LBrace)
    }

    /// Reports a misplaced declaration and the place where it belongs.
    pub fn fail_misplaced_decl<T>(&mut self) -> ParseResult<T> {
        let (what, help) = match self.kind() {
            Tok::Transition => ("a transition", "it belongs at the end of a parser state"),
            Tok::State => ("a parser state", "it belongs in a parser, next to the other states"),
            Tok::Table => ("a table", "declare it in the control, before `apply`"),
            _ => ("an action", "declare it in the control, before `apply`"),
        };
        let diagnostic = Diagnostic::error("syntax", self.span(), format!("{what} is not allowed here"));
        self.fail_with(diagnostic.help(help))
    }

    /// Returns whether a variable, an instance or a direct application begins here, as opposed to
    /// an assignment or call. Two adjacent names are a declaration with an unknown type.
    fn at_declaration(&self) -> bool {
        if self.at_type() {
            return !(self.is(Tok::Error) && self.kind_at(1) == Tok::Dot);
        }
        self.is(Tok::Ident) && self.is_name_at(1)
    }

    fn declaration_stmt(&mut self, annotations: Annotations, start: Span) -> ParseResult<StmtKind> {
        let declared = self.parse_typed_item(annotations, start)?;
        match declared {
            TypedItem::Var(mut var) => {
                self.expect(Tok::Semi)?;
                var.span = self.span_since(start);
                Ok(StmtKind::Var(var))
            }
            TypedItem::Instance(instance) => Ok(StmtKind::Instance(instance)),
            TypedItem::Expr(expr) => {
                let stmt = self.parse_assign_or_call_after(expr)?;
                self.expect(Tok::Semi)?;
                Ok(stmt)
            }
        }
    }

    /// Parses a construct that begins with a type: `T x`, `T x = e` (both without `;`), `T(args)
    /// x;`, or an expression.
    fn parse_typed_item(&mut self, annotations: Annotations, start: Span) -> ParseResult<TypedItem> {
        let ty = self.parse_type()?;
        match self.kind() {
            Tok::Dot => {
                let base = self.parse_type_suffix(ty)?;
                return Ok(TypedItem::Expr(self.parse_suffixes(base, true)?));
            }
            Tok::LParen => return Ok(TypedItem::Instance(self.instance_decl(annotations, ty, start)?)),
            _ => {}
        }
        Ok(TypedItem::Var(self.var_decl(annotations, ty, start)?))
    }

    /// Parses a variable declaration after its type, without `;`.
    pub fn var_decl(&mut self, annotations: Annotations, ty: Type, start: Span) -> ParseResult<VarDecl> {
        let (ty, name) = self.parse_declarator(ty)?;
        let init = if self.eat(Tok::Assign) { Some(self.parse_expr()?) } else { None };
        self.scopes.declare(&name.name, NameKind::Value);
        Ok(VarDecl { annotations, ty, name, init, span: self.span_since(start) })
    }

    /// Parses `const T x = e;`.
    pub fn const_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<ConstDecl> {
        self.expect(Tok::Const)?;
        let ty = self.parse_type()?;
        let (ty, name) = self.parse_declarator(ty)?;
        if !self.is(Tok::Assign) {
            let message = format!("expected `=`, found {}", self.token().describe());
            let diagnostic = Diagnostic::error("syntax", self.span(), message);
            return self.fail_with(diagnostic.help(format!("give the constant a value: `const ... {name} = value;`")));
        }
        self.bump();
        let value = self.parse_expr()?;
        self.expect(Tok::Semi)?;
        self.scopes.declare(&name.name, NameKind::Value);
        Ok(ConstDecl { annotations, ty, name, value, span: self.span_since(start) })
    }

    /// Parses an assignment or call, without `;`.
    fn parse_assign_or_call(&mut self) -> ParseResult<StmtKind> {
        let first = self.parse_primary()?;
        let target = self.parse_suffixes(first, true)?;
        self.parse_assign_or_call_after(target)
    }

    fn parse_assign_or_call_after(&mut self, target: Expr) -> ParseResult<StmtKind> {
        let Some((op, tokens)) = self.assign_operator() else { return self.call_stmt(target) };
        if !is_lvalue(&target) {
            let diagnostic = Diagnostic::error("syntax", target.span, "this cannot be assigned to");
            return self.fail_with(diagnostic.help("the left side is a variable, field, element or slice"));
        }
        let mut op_span = self.bump();
        for _ in 1..tokens {
            op_span = op_span.to(self.bump());
        }
        let value = self.parse_expr()?;
        Ok(StmtKind::Assign { target, op, op_span, value })
    }

    /// Returns the `=` or `op=` at the current position and its number of tokens. The operator is
    /// `None` for `=`. `>>=` is two tokens, because `>>` can also close two lists of type
    /// arguments.
    fn assign_operator(&self) -> Option<(Option<BinaryOp>, usize)> {
        let op = match self.kind() {
            Tok::Assign => return Some((None, 1)),
            Tok::PlusAssign => BinaryOp::Add,
            Tok::MinusAssign => BinaryOp::Sub,
            Tok::StarAssign => BinaryOp::Mul,
            Tok::SlashAssign => BinaryOp::Div,
            Tok::PercentAssign => BinaryOp::Mod,
            Tok::PlusSatAssign => BinaryOp::AddSat,
            Tok::MinusSatAssign => BinaryOp::SubSat,
            Tok::AmpAssign => BinaryOp::BitAnd,
            Tok::BarAssign => BinaryOp::BitOr,
            Tok::CaretAssign => BinaryOp::BitXor,
            Tok::ShlAssign => BinaryOp::Shl,
            Tok::Gt if self.kind_at(1) == Tok::Ge && !self.peek_at(1).has_space_before => {
                return Some((Some(BinaryOp::Shr), 2));
            }
            _ => return None,
        };
        Some((Some(op), 1))
    }

    /// Converts the parsed expression `expr` of a statement without `=`, which must be a call.
    /// Anything else is reported, as the misspelling that it probably is.
    fn call_stmt(&mut self, expr: Expr) -> ParseResult<StmtKind> {
        let unknown_type = |callee: &Expr| match &callee.kind {
            ExprKind::Name(path) => Some(path.name.clone()),
            _ => None,
        };
        match expr.kind {
            ExprKind::Call { callee, type_args, args } => {
                if self.is_name_at(0)
                    && let Some(name) = unknown_type(&callee)
                {
                    return self.fail_unknown_type(&name);
                }
                if !is_lvalue(&callee) {
                    let message = "the result of a call cannot be called on as a statement";
                    let diagnostic = Diagnostic::error("syntax", expr.span, message);
                    return self.fail_with(diagnostic.help("assign the first call's result to a variable"));
                }
                Ok(build_call_stmt(expr.span, *callee, type_args, args))
            }
            ExprKind::Error => Err(SyntaxErrorReported),
            _ => {
                let message = format!("expected `=` or a call, found {}", self.token().describe());
                let mut diagnostic = Diagnostic::error("syntax", self.span(), message);
                if self.is(Tok::EqEq) {
                    diagnostic = diagnostic.help("`==` compares; `=` assigns");
                } else {
                    diagnostic = diagnostic.label(expr.span, "an expression alone is not a statement");
                }
                self.fail_with(diagnostic)
            }
        }
    }

    fn parse_if(&mut self) -> ParseResult<StmtKind> {
        self.expect(Tok::If)?;
        self.expect(Tok::LParen)?;
        let condition = self.parse_expr()?;
        self.expect(Tok::RParen)?;
        let then_branch = Box::new(self.parse_stmt()?);
        let else_branch = if self.eat(Tok::Else) { Some(Box::new(self.parse_stmt()?)) } else { None };
        Ok(StmtKind::If { condition, then_branch, else_branch })
    }

    fn switch_stmt(&mut self) -> ParseResult<StmtKind> {
        self.expect(Tok::Switch)?;
        self.expect(Tok::LParen)?;
        let subject = self.parse_expr()?;
        self.expect(Tok::RParen)?;
        let cases = self.parse_braced(Self::switch_case)?;
        Ok(StmtKind::Switch { subject, cases })
    }

    fn switch_case(&mut self) -> ParseResult<SwitchCase> {
        let start = self.span();
        let label = match self.kind() {
            Tok::Default => Expr { kind: ExprKind::Default, span: self.bump() },
            Tok::LBrace => return self.fail_expected("a case label"),
            _ => self.parse_expr()?,
        };
        self.expect(Tok::Colon)?;
        let block = if matches!(self.kind(), Tok::LBrace | Tok::At) {
            let annotations = self.parse_annotations()?;
            Some(self.parse_block(annotations)?)
        } else {
            None
        };
        Ok(SwitchCase { label, block, span: self.span_since(start) })
    }

    fn parse_for(&mut self, annotations: Annotations) -> ParseResult<StmtKind> {
        self.expect(Tok::For)?;
        self.expect(Tok::LParen)?;
        let scope = self.scopes.depth();
        self.scopes.push();
        let kind = if self.at_for_in() {
            self.parse_for_in(annotations).map(|stmt| StmtKind::ForIn(Box::new(stmt)))
        } else {
            self.parse_for_loop(annotations).map(|stmt| StmtKind::For(Box::new(stmt)))
        };
        self.scopes.truncate(scope);
        kind
    }

    /// Returns whether `in` occurs before the first `;`, `,` or `=` of the parentheses.
    fn at_for_in(&self) -> bool {
        let mut depth = 0usize;
        let mut ahead = 0;
        loop {
            match self.kind_at(ahead) {
                Tok::In if depth == 0 => return true,
                Tok::Semi | Tok::Assign | Tok::LBrace | Tok::RBrace | Tok::Eof if depth == 0 => return false,
                Tok::Eof => return false,
                Tok::LParen => depth += 1,
                Tok::RParen if depth == 0 => return false,
                Tok::RParen => depth -= 1,
                _ => {}
            }
            ahead += 1;
        }
    }

    fn parse_for_in(&mut self, annotations: Annotations) -> ParseResult<ForInStmt> {
        let var_annotations = self.parse_annotations()?;
        if self.is_name_at(0) && self.kind_at(1) == Tok::In {
            let name = self.token().text.clone();
            let message = format!("the type of `{name}` is missing");
            let diagnostic = Diagnostic::error("syntax", self.peek_at(1).span, message);
            return self.fail_with(diagnostic.help(format!("write `for (bit<8> {name} in ...)`")));
        }
        let ty = self.parse_type()?;
        let var = self.parse_name()?;
        self.expect(Tok::In)?;
        let first = self.parse_expr()?;
        let collection = self.parse_mask_or_range_after(first)?;
        self.expect(Tok::RParen)?;
        self.scopes.declare(&var.name, NameKind::Value);
        let body = self.parse_stmt()?;
        Ok(ForInStmt { annotations, var_annotations, ty, var, collection, body })
    }

    fn parse_for_loop(&mut self, annotations: Annotations) -> ParseResult<ForStmt> {
        let init = self.parse_for_parts(Tok::Semi)?;
        if self.is(Tok::Semi) {
            let diagnostic = Diagnostic::error("syntax", self.span(), "the loop's condition is missing");
            return self.fail_with(diagnostic.help("write `true` if `break` ends the loop"));
        }
        let condition = self.parse_expr()?;
        self.expect(Tok::Semi)?;
        let update = self.parse_for_parts(Tok::RParen)?;
        let body = self.parse_stmt()?;
        Ok(ForStmt { annotations, init, condition, update, body })
    }

    /// Parses comma-separated assignments, calls and (before the first `;`) variables, up to
    /// `close`.
    fn parse_for_parts(&mut self, close: Tok) -> ParseResult<Vec<Stmt>> {
        self.parse_comma_list(close, false, |p| {
            let start = p.span();
            let annotations = p.parse_annotations()?;
            let kind = if close == Tok::Semi && p.at_declaration() {
                match p.parse_typed_item(annotations, start)? {
                    TypedItem::Var(var) => StmtKind::Var(var),
                    TypedItem::Instance(instance) => StmtKind::Instance(instance),
                    TypedItem::Expr(expr) => p.parse_assign_or_call_after(expr)?,
                }
            } else {
                p.parse_assign_or_call()?
            };
            Ok(Stmt { kind, span: p.span_since(start) })
        })
    }
}

/// Builds a call statement, or the direct application of a type.
fn build_call_stmt(span: Span, callee: Expr, type_args: Vec<Type>, args: Vec<Arg>) -> StmtKind {
    match callee.kind {
        ExprKind::Member { base, member } if type_args.is_empty() && &*member.name == "apply" => match base.kind {
            ExprKind::Type(ty) => StmtKind::DirectApply { ty: *ty, args },
            kind => {
                let base = Box::new(Expr { kind, span: base.span });
                let callee = Expr { kind: ExprKind::Member { base, member }, span: callee.span };
                StmtKind::Call(Expr { kind: ExprKind::Call { callee: Box::new(callee), type_args, args }, span })
            }
        },
        kind => {
            let callee = Box::new(Expr { kind, span: callee.span });
            StmtKind::Call(Expr { kind: ExprKind::Call { callee, type_args, args }, span })
        }
    }
}

/// Returns whether the grammar allows the expression before `=` or the arguments of a call.
fn is_lvalue(expr: &Expr) -> bool {
    let mut expr = expr;
    loop {
        expr = match &expr.kind {
            ExprKind::Name(_) | ExprKind::This | ExprKind::Type(_) => return true,
            ExprKind::Member { base, .. }
            | ExprKind::Index { base, .. }
            | ExprKind::Slice { base, .. }
            | ExprKind::PlusSlice { base, .. } => base,
            _ => return false,
        };
    }
}
