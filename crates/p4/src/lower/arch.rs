//! Lowers the programmable blocks of each architecture and allocates the storage that they share.

use super::allocation::StorageClass;
use super::const_value::{ConstValue, ObjectInstanceId, PackageInstance};
use super::frame::{Binding, LoweringContext};
use super::lowering::{LowerResult, Lowering};
use super::storage::Storage;
use super::type_layout::TypeLayout;
use crate::architectures;
use crate::diag::Diagnostic;
use crate::hir::{self, Constructor, Ty};
use crate::span::{FileId, Span};
use ir::{Arch, BodyBuilder, Const, Control, ControlKind, SourceLoc, Type, VarId, VarKind};
use std::rc::Rc;

/// Architecture metadata that a block of PNA reads.
struct PnaBlockInput {
    place: Storage,
    recirculated: Option<RecirculationVars>,
}

/// For programs of three blocks: the flag that the packet was recirculated, and the pass number
/// that engines set.
#[derive(Clone, Copy)]
struct RecirculationVars {
    pass: VarId,
    flag: VarId,
}

/// The blocks of v1model's `V1Switch`.
const V1MODEL_BLOCKS: [&str; 6] = ["p", "vr", "ig", "eg", "ck", "dep"];
/// The blocks of PNA's `PNA_NIC`, current and older interface.
const PNA_BLOCKS: [&str; 3] = ["main_parser", "main_control", "main_deparser"];
const PNA_BLOCKS_WITH_PRE: [&str; 4] = ["main_parser", "pre_control", "main_control", "main_deparser"];

/// Type of PNA's pass number.
const PASS_NUMBER: Type = Type::Bit(3);

impl Lowering<'_> {
    /// Lowers the whole program from its instance `main`: global externs, then the package, then
    /// its programmable blocks.
    pub(super) fn lower_program(&mut self) -> LowerResult<()> {
        let Some(main) = self.hir.main else {
            let start = Span::new(FileId(0), 0, 0);
            return self.unsupported(start, "a program without an instance `main` of an architecture's package");
        };
        let decl = &self.hir.instances[main.index()];
        let package = match decl.construct.what {
            Constructor::Object(id) => &self.hir.objects[id.index()].name,
            Constructor::Extern(id, _) => &self.hir.externs[id.index()].name,
        };
        self.pipeline.arch = match &**package {
            "V1Switch" => Arch::V1Model,
            "PNA_NIC" => Arch::Pna,
            unknown => {
                let message =
                    format!("not supported: the architecture of {}", architectures::describe_package(unknown));
                let error = Diagnostic::error(architectures::UNSUPPORTED, decl.construct.span, message);
                return self.report(error.help(architectures::package_help()));
            }
        };
        self.package_info(&decl.annotations);
        self.declare_errors();
        self.record_reason_enums();
        // All are resolved before the first error ends lowering, so that all errors are reported.
        let mut outcome = Ok(());
        for id in &self.hir.globals {
            if let Constructor::Extern(of, _) = self.hir.instances[id.index()].construct.what
                && self.is_known_extern(of)
            {
                outcome = outcome.and(self.resolve_instance(*id).map(|_| ()));
            }
        }
        outcome?;
        let ConstValue::Package(package) = self.resolve_instance(main)? else {
            return self.unsupported(decl.span, "a `main` that is not a package");
        };
        self.controller_headers();
        let outcome = match self.pipeline.arch {
            Arch::V1Model => self.lower_v1model(&package),
            Arch::Pna => self.lower_pna(&package),
        };
        self.declare_called_actions();
        self.warn_of_unused_tables();
        outcome
    }

    /// Declares the errors of the program in order, so that `error` values keep their numbers.
    fn declare_errors(&mut self) {
        for name in &self.hir.errors {
            self.pipeline.add_error(name);
        }
    }

    /// Records the enumerations of drop and CPU reasons even if no key or parameter has their type,
    /// because engines display their names.
    fn record_reason_enums(&mut self) {
        let is_reason = |name: &str| matches!(name, "drop_reason_t" | "cpu_reason_t" | "punt_reason_t");
        for (index, decl) in self.hir.enums.iter().enumerate().filter(|(_, decl)| is_reason(&decl.name)) {
            if decl.underlying.is_some() {
                self.named_enum(hir::EnumId(index as u32));
            }
        }
    }

    /// Rejects a package with other blocks than the architecture defines. It comes from a different
    /// architecture file.
    fn check_blocks(&mut self, package: &PackageInstance, expected: &[&[&str]]) -> LowerResult<()> {
        if expected.iter().any(|blocks| blocks.len() == package.args.len()) {
            return Ok(());
        }
        let decl = &self.hir.objects[package.decl.index()];
        let names: Vec<&str> = decl.constructor_params.iter().map(|id| &*self.hir.locals[id.index()].name).collect();
        let list = |names: &[&str]| format!("{} ({})", names.len(), names.join(", "));
        let forms: Vec<String> = expected.iter().map(|blocks| list(blocks)).collect();
        let message = format!("not supported: `{}` with the blocks {}", decl.name, names.join(", "));
        let help = format!("Terrace knows it with {}: {}", forms.join(" or "), architectures::DOCS);
        let error =
            Diagnostic::error(architectures::UNSUPPORTED, package.span, message).label(decl.span, "declared here");
        self.report(error.help(help))
    }

    /// Returns the parser or control that is argument `n` of the package.
    fn package_arg(&mut self, package: &PackageInstance, n: usize) -> LowerResult<ObjectInstanceId> {
        match package.args.get(n) {
            Some(ConstValue::Object(id)) => Ok(*id),
            _ => {
                let decl = &self.hir.objects[package.decl.index()];
                let param = decl.constructor_params.get(n).map(|id| self.hir.locals[id.index()].name.clone());
                let param = param.unwrap_or_else(|| (n + 1).to_string().into());
                self.unsupported(package.span, format_args!("an argument `{param}` that is not a parser or control"))
            }
        }
    }

    /// Returns the parameters of an object with their types.
    fn object_params(&mut self, id: ObjectInstanceId) -> Vec<(hir::LocalId, Ty)> {
        let object = &self.objects[id.index()];
        let subst = Rc::clone(&object.subst);
        let Some(decl) = object.decl else { return Vec::new() };
        let params = self.hir.objects[decl.index()].params.iter();
        params.map(|id| (*id, self.substitute_params(self.hir.locals[id.index()].ty, &subst))).collect()
    }

    /// Allocates storage for parameter `n` of an object, under the parameter's name.
    fn allocate_shared(&mut self, id: ObjectInstanceId, n: usize, storage: StorageClass) -> LowerResult<(Storage, Ty)> {
        match self.object_params(id).get(n).copied() {
            Some((param, ty)) => {
                let local = self.local_decl(param);
                Ok((self.allocate_storage(&local.name, ty, storage, local.span)?, ty))
            }
            None => self.lacks_parameters(id, n),
        }
    }

    /// Allocates storage for parameter `n` of an object, under another name.
    fn allocate_shared_as(&mut self, name: &str, id: ObjectInstanceId, n: usize) -> LowerResult<Storage> {
        match self.object_params(id).get(n).copied() {
            Some((param, ty)) => self.allocate_storage(name, ty, StorageClass::Intrinsic, self.local_decl(param).span),
            None => self.lacks_parameters(id, n),
        }
    }

    fn lacks_parameters<T>(&mut self, id: ObjectInstanceId, n: usize) -> LowerResult<T> {
        let decl = self.objects[id.index()].decl.map(|decl| &self.hir.objects[decl.index()]);
        let (name, span) = decl.map_or(("", Span::default()), |decl| (&*decl.name, decl.span));
        self.unsupported(span, format_args!("block `{name}` without a parameter {}", n + 1))
    }

    /// Registers the scalars of architecture metadata under `prefix`.
    fn register_intrinsics(&mut self, prefix: &str, place: &Storage, id: ObjectInstanceId, n: usize) {
        let Some((_, ty)) = self.object_params(id).get(n).copied() else { return };
        let TypeLayout::Struct(members) = self.layout(ty) else { return };
        for (n, member) in members.iter().enumerate() {
            if let Some(Storage::Scalar(var)) = place.part(n) {
                self.pipeline.intrinsics.insert(format!("{prefix}.{}", member.name), *var);
            }
        }
    }

    /// Lowers the six blocks of v1model with the storage that they share: headers, metadata,
    /// standard metadata. The parameters of the ingress control give their types. A later block is
    /// lowered even after an error, so that all errors are reported.
    fn lower_v1model(&mut self, package: &PackageInstance) -> LowerResult<()> {
        self.check_blocks(package, &[&V1MODEL_BLOCKS])?;
        let mut blocks = Vec::new();
        for n in 0..V1MODEL_BLOCKS.len() {
            blocks.push(self.package_arg(package, n)?);
        }
        let [parser, verify, ingress, egress, compute, deparser] = blocks[..] else { return Ok(()) };
        let (hdr, _) = self.allocate_shared(ingress, 0, StorageClass::Meta)?;
        let (meta, meta_ty) = self.allocate_shared(ingress, 1, StorageClass::Meta)?;
        let (standard, _) = self.allocate_shared(ingress, 2, StorageClass::Intrinsic)?;
        self.register_intrinsics("standard_metadata", &standard, ingress, 2);
        self.field_lists(&meta, meta_ty);
        let packet = || Binding::Const(ConstValue::Packet);
        let bind = |storage: &Storage| Binding::Storage(storage.clone());
        let shared_args = || vec![bind(&hdr), bind(&meta), bind(&standard)];
        let mut parser_args = shared_args();
        parser_args.insert(0, packet());
        let mut outcome = self.lower_block(ControlKind::Parser, parser, parser_args);
        outcome = outcome.and(self.lower_block(ControlKind::VerifyChecksum, verify, vec![bind(&hdr), bind(&meta)]));
        outcome = outcome.and(self.lower_block(ControlKind::Ingress, ingress, shared_args()));
        outcome = outcome.and(self.lower_block(ControlKind::Egress, egress, shared_args()));
        outcome = outcome.and(self.lower_block(ControlKind::ComputeChecksum, compute, vec![bind(&hdr), bind(&meta)]));
        outcome.and(self.lower_block(ControlKind::Deparser, deparser, vec![packet(), bind(&hdr)]))
    }

    /// Lowers PNA, with or without the pre control of the older interface
    /// (`programs/include/pna.p4`). The parameters of the main control give the types of the shared
    /// storage. A later block is lowered even after an error, so that all errors are reported.
    fn lower_pna(&mut self, package: &PackageInstance) -> LowerResult<()> {
        self.check_blocks(package, &[&PNA_BLOCKS, &PNA_BLOCKS_WITH_PRE])?;
        let has_pre = package.args.len() == PNA_BLOCKS_WITH_PRE.len();
        let main_index = if has_pre { 2 } else { 1 };
        let parser = self.package_arg(package, 0)?;
        let pre = if has_pre { Some(self.package_arg(package, 1)?) } else { None };
        let main = self.package_arg(package, main_index)?;
        let deparser = self.package_arg(package, main_index + 1)?;
        let (hdr, _) = self.allocate_shared(main, 0, StorageClass::Meta)?;
        let (meta, _) = self.allocate_shared(main, 1, StorageClass::Meta)?;
        let istd = self.pna_input("istd", main, 2)?;
        let (ostd, _) = self.allocate_shared(main, 3, StorageClass::Intrinsic)?;
        self.register_intrinsics("ostd", &ostd, main, 3);
        let parser_istd = self.pna_input("parser_istd", parser, 3)?;
        let packet = || Binding::Const(ConstValue::Packet);
        let bind = |storage: &Storage| Binding::Storage(storage.clone());
        let mut outcome = Ok(());
        let parser_args = vec![packet(), bind(&hdr), bind(&meta), bind(&parser_istd.place)];
        outcome = outcome.and(self.lower_block_with_pass(
            ControlKind::MainParser,
            parser,
            parser_args,
            parser_istd.recirculated,
        ));
        outcome = outcome.and(self.lower_pre_control(pre));
        let main_args = [&hdr, &meta, &istd.place, &ostd].map(bind).to_vec();
        outcome = outcome.and(self.lower_block_with_pass(ControlKind::MainControl, main, main_args, istd.recirculated));
        let deparser_args = vec![packet(), bind(&hdr), bind(&meta), bind(&ostd)];
        outcome.and(self.lower_block(ControlKind::MainDeparser, deparser, deparser_args))
    }

    /// Lowers the pre control. A program without one gets an empty body, so that engines handle a
    /// single variant of PNA.
    fn lower_pre_control(&mut self, pre: Option<ObjectInstanceId>) -> LowerResult<()> {
        let Some(pre) = pre else {
            let mut body = BodyBuilder::new();
            body.ret();
            let body = body.finish();
            self.pipeline.controls.push(Control { name: "pre_control".into(), kind: ControlKind::PreControl, body });
            return Ok(());
        };
        let pre_istd = self.allocate_shared_as("pre_istd", pre, 2)?;
        let pre_ostd = self.allocate_shared_as("pre_ostd", pre, 3)?;
        self.register_intrinsics("pre_istd", &pre_istd, pre, 2);
        self.register_intrinsics("pre_ostd", &pre_ostd, pre, 3);
        // The headers and metadata of the pre control are separate storage even if their types
        // match, because nothing is parsed for it and its results are unused.
        let (pre_hdr, _) = self.allocate_shared(pre, 0, StorageClass::Meta)?;
        let (pre_meta, _) = self.allocate_shared(pre, 1, StorageClass::Meta)?;
        let args = [&pre_hdr, &pre_meta, &pre_istd, &pre_ostd].map(|place| Binding::Storage(place.clone()));
        self.lower_block(ControlKind::PreControl, pre, args.to_vec())
    }

    /// Allocates the architecture metadata that a block of PNA reads. Engines set the pass number.
    /// A program of three blocks has the field `recirculated` instead, which each block computes
    /// from the pass number at its start.
    fn pna_input(&mut self, prefix: &str, block: ObjectInstanceId, n: usize) -> LowerResult<PnaBlockInput> {
        let place = self.allocate_shared_as(prefix, block, n)?;
        self.register_intrinsics(prefix, &place, block, n);
        let Some(flag) = self.pipeline.intrinsics.remove(&format!("{prefix}.recirculated")) else {
            return Ok(PnaBlockInput { place, recirculated: None });
        };
        // The field is local, because the block writes it itself.
        self.pipeline.vars[flag].kind = VarKind::Local;
        let name = self.unique_name(&format!("{prefix}.pass"));
        let pass = self.pipeline.add_var(&name, PASS_NUMBER, VarKind::Intrinsic, SourceLoc::default());
        self.pipeline.intrinsics.insert(format!("{prefix}.pass"), pass);
        Ok(PnaBlockInput { place, recirculated: Some(RecirculationVars { pass, flag }) })
    }

    /// Lowers one programmable block.
    fn lower_block(&mut self, kind: ControlKind, id: ObjectInstanceId, args: Vec<Binding>) -> LowerResult<()> {
        self.lower_block_with_pass(kind, id, args, None)
    }

    /// Lowers one programmable block, an object instance, with `args` bound to its parameters, and
    /// adds it to the pipeline. If `recirculated` is set, the block first computes that flag from
    /// the pass number: a packet of a later pass was recirculated.
    fn lower_block_with_pass(
        &mut self,
        kind: ControlKind,
        id: ObjectInstanceId,
        args: Vec<Binding>,
        recirculated: Option<RecirculationVars>,
    ) -> LowerResult<()> {
        let params = self.object_params(id);
        let object = &self.objects[id.index()];
        let context =
            LoweringContext { current_object: id, scope: object.scope.clone(), subst: Rc::clone(&object.subst) };
        let decl = object.decl.map(|decl| &self.hir.objects[decl.index()]);
        let (name, span) = decl.map_or(("", Span::default()), |decl| (&*decl.name, decl.span));
        self.builder = BodyBuilder::new();
        self.table = None;
        let outer = self.enter_context(context);
        self.enter_block();
        for ((param, _), arg) in params.into_iter().zip(args) {
            self.bind_local(param, arg);
        }
        self.set_location(span);
        if let Some(RecirculationVars { pass, flag }) = recirculated {
            let pass = self.builder.load(&self.pipeline, pass);
            let first = self.builder.constant(Const::new(PASS_NUMBER, 0u8));
            let is_first = self.builder.eq(pass, first);
            let is_recirculated = self.builder.logical_not(is_first);
            self.builder.store(flag, is_recirculated);
        }
        let outcome = self.lower_object_body(id, span);
        if !self.builder.is_terminated() {
            self.builder.ret();
        }
        self.leave_block();
        self.enter_context(outer);
        let body = std::mem::take(&mut self.builder).finish();
        self.pipeline.controls.push(Control { name: name.to_string(), kind, body });
        outcome.map(|_| ())
    }
}
