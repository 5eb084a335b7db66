//! Verification of extern objects and of the arguments of extern functions.

use super::{PipelineVerifier, ViolationKind};
use crate::body::{Body, ExternArg};
use crate::declaration::DataType;
use crate::entity::ExternId;
use crate::externs::{ExternFn, ExternKind};
use crate::pipeline::Arch;
use crate::types::{Const, Type};

/// Signature of a function. Each letter of a shape is one argument: `v` a scalar, `V` the leaves of
/// an aggregate, `s` a string, `r` variables, `t` a table, `a` an action.
struct ExternSignature {
    object: Option<&'static str>,
    shapes: &'static [&'static str],
    arch: Option<Arch>,
}

/// Returns the signature of an extern function: the kind of object of a method, the shapes of its
/// arguments, and its architecture, if only one has it. Each letter of a shape is an argument: `v`
/// a scalar, `V` the leaves of an aggregate, `s` a string, `r` variables, `t` a table, `a` an
/// action.
fn extern_signature(func: ExternFn) -> ExternSignature {
    use ExternFn::*;
    let method = |object, shapes| ExternSignature { object: Some(object), shapes, arch: None };
    let any_arch = |shapes| ExternSignature { object: None, shapes, arch: None };
    let v1model = |shapes| ExternSignature { object: None, shapes, arch: Some(Arch::V1Model) };
    let pna = |shapes| ExternSignature { object: None, shapes, arch: Some(Arch::Pna) };
    match func {
        CounterCount => method("counter", &["v", "vv"]),
        DirectCounterCount => method("direct counter", &["t", "tv"]),
        MeterExecute => method("meter", &["v", "vv"]),
        DirectMeterExecute => method("direct meter", &["t", "tv", "tvv"]),
        RegisterRead => method("register", &["v"]),
        RegisterWrite => method("register", &["vV"]),
        HashGet => method("hash", &["V", "vVv"]),
        ChecksumClear | ChecksumGet => method("checksum", &[""]),
        ChecksumUpdate => method("checksum", &["V"]),
        InternetChecksumClear | InternetChecksumGet | InternetChecksumGetState => method("internet checksum", &[""]),
        InternetChecksumAdd | InternetChecksumSubtract => method("internet checksum", &["V"]),
        InternetChecksumSetState => method("internet checksum", &["v"]),
        Checksum16Get => method("checksum16", &["V"]),
        RandomRead => method("random", &[""]),
        DigestPack => method("digest", &["V"]),
        Random => v1model(&["vv"]),
        Hash => v1model(&["svVv"]),
        MarkToDrop => v1model(&[""]),
        VerifyChecksum | UpdateChecksum | VerifyChecksumWithPayload | UpdateChecksumWithPayload => v1model(&["vVvs"]),
        Clone => v1model(&["svr"]),
        Resubmit | Recirculate => v1model(&["r"]),
        Truncate => any_arch(&["v"]),
        Assert | Assume => any_arch(&["vs"]),
        LogMsg => any_arch(&["s", "sV"]),
        DropPacket | PnaRecirculate | AllocateFlowId => pna(&[""]),
        SendToPort | IsHostPort | IsNetPort => pna(&["v"]),
        MirrorPacket => pna(&["vv"]),
        AddEntry => pna(&["taVv", "taVvVaV"]),
        PortPoolTake => method("port pool", &["vvvvvv"]),
        EntryQuotaTake => method("entry quota", &["vv"]),
        SetEntryExpireTime => pna(&["tv"]),
        RestartExpireTimer => pna(&["t"]),
    }
}

fn kind_name(kind: &ExternKind) -> &'static str {
    match kind {
        ExternKind::Counter { .. } => "counter",
        ExternKind::DirectCounter { .. } => "direct counter",
        ExternKind::Meter { .. } => "meter",
        ExternKind::DirectMeter { .. } => "direct meter",
        ExternKind::Register { .. } => "register",
        ExternKind::ActionProfile { .. } => "action profile",
        ExternKind::ActionSelector { .. } => "action selector",
        ExternKind::Hash { .. } => "hash",
        ExternKind::Checksum { .. } => "checksum",
        ExternKind::InternetChecksum => "internet checksum",
        ExternKind::Checksum16 => "checksum16",
        ExternKind::Random { .. } => "random",
        ExternKind::PortPool { .. } => "port pool",
        ExternKind::EntryQuota { .. } => "entry quota",
        ExternKind::Digest { .. } => "digest",
    }
}

fn arg_shape(arg: &ExternArg) -> char {
    match arg {
        ExternArg::Value(_) => 'v',
        ExternArg::Values(_) => 'V',
        ExternArg::Str(_) => 's',
        ExternArg::Vars(_) => 'r',
        ExternArg::Table(_) => 't',
        ExternArg::Action(_) => 'a',
    }
}

/// Formats a shape for messages.
fn describe_shape(shape: &str) -> String {
    let words = shape.chars().map(|c| match c {
        'v' => "value",
        'V' => "leaves",
        's' => "string",
        'r' => "variables",
        't' => "table",
        _ => "action",
    });
    format!("({})", words.collect::<Vec<_>>().join(", "))
}

impl PipelineVerifier<'_> {
    /// Verifies the extern objects: types and initial values of registers, results of hashes and
    /// checksums, bounds of random numbers, data of digests.
    pub(super) fn verify_externs(&mut self) {
        let pipeline = self.pipeline;
        for object in pipeline.externs.values() {
            let name = &object.preamble.name;
            match &object.kind {
                ExternKind::Register { elem, initial, data_type, .. } => {
                    elem.iter().for_each(|t| self.verify_type("extern", name, *t));
                    self.verify_register_initial(name, elem, initial);
                    self.verify_data_type(name, data_type);
                }
                ExternKind::Hash { output, .. } | ExternKind::Checksum { output, .. } => {
                    self.verify_type("extern", name, *output);
                }
                ExternKind::Random { min, max } => {
                    for bound in [min, max] {
                        if let Some(violation) = self.const_violation(bound) {
                            self.report_declaration("extern", name, violation);
                        }
                    }
                    if min.ty != max.ty {
                        let what = "the upper bound".to_string();
                        self.report_declaration(
                            "extern",
                            name,
                            ViolationKind::Type { what, expected: min.ty, found: max.ty },
                        );
                    }
                }
                ExternKind::Digest { data_type, fields } => {
                    fields.iter().for_each(|t| self.verify_type("extern", name, *t));
                    self.verify_data_type(name, data_type);
                }
                _ => {}
            }
        }
    }

    fn verify_register_initial(&mut self, name: &str, elem: &[Type], initial: &[Const]) {
        if !initial.is_empty() && initial.len() != elem.len() {
            let what = "initial values".to_string();
            self.report_declaration(
                "extern",
                name,
                ViolationKind::Count { what, expected: elem.len(), found: initial.len() },
            );
        }
        for (value, ty) in initial.iter().zip(elem) {
            if let Some(violation) = self.const_violation(value) {
                self.report_declaration("extern", name, violation);
            }
            if value.ty != *ty {
                let what = "an initial value".to_string();
                self.report_declaration("extern", name, ViolationKind::Type { what, expected: *ty, found: value.ty });
            }
        }
    }

    /// Bounds the nesting of tuples, because code that walks them is recursive.
    fn verify_data_type(&mut self, name: &str, ty: &DataType) {
        let mut stack = vec![(ty, 0)];
        while let Some((ty, depth)) = stack.pop() {
            if depth > 32 {
                self.report_declaration("extern", name, ViolationKind::TooDeep);
                return;
            }
            if let DataType::Tuple(members) = ty {
                stack.extend(members.iter().map(|m| (m, depth + 1)));
            }
        }
    }

    /// Returns the violations of a call, except for the types of results, which `verify_results`
    /// checks.
    pub(super) fn call_violations(
        &self,
        func: ExternFn,
        object: Option<ExternId>,
        args: &[ExternArg],
        body: &Body,
    ) -> Vec<ViolationKind> {
        let signature = extern_signature(func);
        let mut violations = Vec::new();
        if let Some(arch) = signature.arch.filter(|a| *a != self.pipeline.arch) {
            let arch_name = if arch == Arch::Pna { "PNA" } else { "v1model" };
            violations.push(ViolationKind::WrongPlace { what: format!("`{}`", func.name()), place: arch_name });
        }
        let bad_object = |expected: String| ViolationKind::Object { func: func.name(), expected };
        match (signature.object, object) {
            (Some(kind), None) => violations.push(bad_object(format!("is called without its {kind}"))),
            (None, Some(_)) => violations.push(bad_object("is no method, but has an object".into())),
            (Some(kind), Some(object)) => match self.pipeline.externs.get(object) {
                None => violations.push(ViolationKind::MissingEntity(object.to_string())),
                Some(o) if kind_name(&o.kind) != kind => {
                    violations.push(bad_object(format!("is a method of a {kind}, not of a {}", kind_name(&o.kind))));
                }
                Some(_) => {}
            },
            (None, None) => {}
        }
        let found: String = args.iter().map(arg_shape).collect();
        if !signature.shapes.contains(&found.as_str()) {
            let expected = signature.shapes.iter().map(|s| describe_shape(s)).collect::<Vec<_>>().join(" or ");
            let found = describe_shape(&found).trim_matches(['(', ')']).to_string();
            violations.push(ViolationKind::Args { func: func.name(), expected, found });
            return violations;
        }
        self.verify_arg_entities(args, &mut violations);
        self.verify_arg_types(func, object, args, body, &mut violations);
        violations
    }

    fn verify_arg_entities(&self, args: &[ExternArg], violations: &mut Vec<ViolationKind>) {
        for arg in args {
            match arg {
                ExternArg::Vars(vars) => {
                    let missing = vars.iter().filter(|v| self.pipeline.vars.get(**v).is_none());
                    violations.extend(missing.map(|v| ViolationKind::MissingEntity(v.to_string())));
                }
                ExternArg::Table(t) if self.pipeline.tables.get(*t).is_none() => {
                    violations.push(ViolationKind::MissingEntity(t.to_string()))
                }
                ExternArg::Action(a) if self.pipeline.actions.get(*a).is_none() => {
                    violations.push(ViolationKind::MissingEntity(a.to_string()))
                }
                _ => {}
            }
        }
    }

    /// Appends the violations of the argument types that a function or its object determines.
    fn verify_arg_types(
        &self,
        func: ExternFn,
        object: Option<ExternId>,
        args: &[ExternArg],
        body: &Body,
        violations: &mut Vec<ViolationKind>,
    ) {
        use ExternFn::*;
        let mut check_leaves = |what: &str, arg_index: usize, types: &[Type]| {
            let Some(ExternArg::Values(values)) = args.get(arg_index) else { return };
            if values.len() != types.len() {
                let what = what.to_string();
                violations.push(ViolationKind::Count { what, expected: types.len(), found: values.len() });
            }
            for (value, expected) in values.iter().zip(types) {
                let found = body.value_type(*value);
                if found != *expected {
                    violations.push(ViolationKind::Type { what: value.to_string(), expected: *expected, found });
                }
            }
        };
        match func {
            RegisterWrite => {
                let kind = object.and_then(|o| self.pipeline.externs.get(o)).map(|o| &o.kind);
                if let Some(ExternKind::Register { elem, .. }) = kind {
                    check_leaves("leaves of the register", 1, elem);
                }
            }
            AddEntry => {
                for action_index in [1, ExternFn::TWIN_KEY + 1] {
                    if let Some(ExternArg::Action(action)) = args.get(action_index)
                        && let Some(action) = self.pipeline.actions.get(*action)
                    {
                        let types: Vec<Type> = action.params.iter().map(|p| p.ty).collect();
                        check_leaves("parameters of the action", action_index + 1, &types);
                    }
                }
                if let Some(ExternArg::Table(table)) = args.first()
                    && let Some(table) = self.pipeline.tables.get(*table)
                {
                    let types: Vec<Type> = table.keys.iter().map(|key| key.ty).collect();
                    check_leaves("fields of the twin's key", ExternFn::TWIN_KEY, &types);
                }
            }
            _ => {}
        }
        // Type of the first scalar where the function fixes it; other scalars have types of the
        // program.
        let fixed_type = match func {
            VerifyChecksum
            | UpdateChecksum
            | VerifyChecksumWithPayload
            | UpdateChecksumWithPayload
            | Assert
            | Assume => Some(Type::Bool),
            InternetChecksumSetState => Some(Type::Bit(16)),
            _ => None,
        };
        if let (Some(expected), Some(ExternArg::Value(v))) = (fixed_type, args.first()) {
            let found = body.value_type(*v);
            if found != expected {
                violations.push(ViolationKind::Type { what: v.to_string(), expected, found });
            }
        }
    }
}
