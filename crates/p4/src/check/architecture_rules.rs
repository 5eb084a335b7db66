//! Checks rules of the architectures, mainly v1model.

use super::Checker;
use super::scope::ScopeEntity;
use crate::diag::Diagnostic;
use crate::hir::{ExprKind, KeysetItem, LocalId, ObjectKind, TransitionKind, Ty, TyKind};
use crate::span::Span;
use num_traits::ToPrimitive;

/// The first and last supported version of v1model.p4.
const VERSIONS: (u32, u32) = (20180101, 20200408);

/// Table properties that v1model adds to the language.
const V1MODEL_PROPERTIES: &[&str] = &["implementation", "counters", "meters", "support_timeout"];
/// Table properties that PNA adds to the language.
const PNA_PROPERTIES: &[&str] = &[
    "add_on_miss",
    "pna_idle_timeout",
    "pna_direct_counter",
    "pna_direct_meter",
    "pna_implementation",
    "pna_empty_group_action",
    "idle_timeout_with_auto_delete",
    "default_idle_timeout_for_data_plane_added_entries",
];

impl Checker<'_> {
    /// Checks rules about the whole program after all declarations.
    pub(super) fn check_whole_program(&mut self) {
        self.check_control_plane_names();
        self.check_constant_keysets();
        self.check_shared_direct_externs();
        if matches!(self.scopes.global("add_entry"), Some(ScopeEntity::Functions(_))) {
            self.check_add_on_miss();
        }
        if self.is_v1model() {
            self.check_v1model_version();
        }
    }

    fn is_v1model(&self) -> bool {
        matches!(self.scopes.global("V1Switch"), Some(ScopeEntity::Object(_)))
    }

    /// Warns about a property that neither the language nor the architecture defines, because it is
    /// probably misspelled.
    pub(super) fn warn_unknown_property(&mut self, name: &str, span: Span) {
        let known = match self.is_v1model() {
            true => V1MODEL_PROPERTIES,
            false if matches!(self.scopes.global("PNA_NIC"), Some(ScopeEntity::Object(_))) => PNA_PROPERTIES,
            false => return,
        };
        if known.contains(&name) {
            return;
        }
        let mut diagnostic =
            Diagnostic::warning("unknown-property", span, format!("the architecture has no table property `{name}`"));
        if let Some(near) = crate::suggest::closest_name(name, known.iter().copied()) {
            diagnostic = diagnostic.help(format!("did you mean `{near}`?"));
        }
        self.report(diagnostic);
    }

    fn check_v1model_version(&mut self) {
        let Some(ScopeEntity::Const(version)) = self.scopes.global("__v1model_version") else { return };
        let ExprKind::Int(value) = &version.kind else { return };
        if !value.to_u32().is_some_and(|v| (VERSIONS.0..=VERSIONS.1).contains(&v)) {
            let message = format!("there is no version {value} of v1model");
            let (span, help) = (version.span, format!("define V1MODEL_VERSION as {} to {}", VERSIONS.0, VERSIONS.1));
            self.error(Diagnostic::error("v1model-version", span, message).help(help));
        }
    }

    /// Checks that masks of a select are known at compile time. v1model requires this for ranges as
    /// well.
    fn check_constant_keysets(&mut self) {
        let mut unknown_spans = Vec::new();
        let is_v1model = self.is_v1model();
        for object in &self.prog.objects {
            let ObjectKind::Parser(body) = &object.kind else { continue };
            for state in &body.states {
                let TransitionKind::Select { cases, .. } = &state.transition.kind else { continue };
                for item in cases.iter().flat_map(|c| &c.keyset) {
                    let (first, second) = match item {
                        KeysetItem::Mask(first, second) => (first, second),
                        KeysetItem::Range(first, second) if is_v1model => (first, second),
                        _ => continue,
                    };
                    unknown_spans.extend([first, second].into_iter().find(|e| !self.is_known(e)).map(|e| e.span));
                }
            }
        }
        for span in unknown_spans {
            self.fail("not-constant", span, "masks and ranges of a `select` must be known at compile time");
        }
    }

    /// Checks that the control plane supports the type of an action parameter that it sets.
    pub(super) fn check_control_plane_param(&mut self, param: LocalId) {
        let ty = self.local_decl(param).ty;
        if !self.is_v1model() || self.is_control_plane_type(ty) {
            return;
        }
        let shown = self.type_text(ty);
        let local = self.local_decl(param);
        let message = format!("`{}` is set by the control plane, which knows no values of type `{shown}`", local.name);
        let span = local.span;
        if self.diags.iter().any(|d| d.primary == span) {
            return;
        }
        self.error(
            Diagnostic::error("control-plane-type", span, message)
                .help("use `bit`, `int`, `bool`, a `type` of these, or an enum with an underlying type"),
        );
    }

    fn is_control_plane_type(&self, ty: Ty) -> bool {
        match self.type_kind(ty) {
            TyKind::Bit(_) | TyKind::Int(_) | TyKind::Bool | TyKind::NewType(_) | TyKind::Unknown => true,
            // Accepted, because the control plane of the target architecture can support more
            // types.
            TyKind::Enum(_) | TyKind::Error | TyKind::Varbit(_) => true,
            _ => false,
        }
    }
}
