//! Parsing extern objects.

use super::error::Res;
use super::parse::Parser;
use crate::externs::{ExternInst, ExternKind};

impl Parser<'_> {
    pub fn extern_inst(&mut self) -> Res<ExternInst> {
        let name = self.declared_name()?;
        self.sign(":")?;
        let kind = self.extern_kind()?;
        let preamble = self.preamble(name)?;
        Ok(ExternInst { preamble, kind, loc: self.loc()? })
    }

    fn extern_kind(&mut self) -> Res<ExternKind> {
        let at = self.at;
        Ok(match self.word("what the object is")? {
            "counter" => {
                let size = self.size()?;
                ExternKind::Counter { size, unit: self.unit()?, index_type: self.string_after("index")? }
            }
            "direct_counter" => ExternKind::DirectCounter { unit: self.unit()? },
            "meter" => {
                let size = self.size()?;
                ExternKind::Meter { size, unit: self.unit()?, index_type: self.string_after("index")? }
            }
            "direct_meter" => ExternKind::DirectMeter { unit: self.unit()? },
            "register" => self.register()?,
            "action_profile" => ExternKind::ActionProfile { size: self.size()? },
            "action_selector" => {
                let algorithm = self.choice("the hash")?;
                let size = self.size()?;
                self.keyword("width")?;
                ExternKind::ActionSelector { algorithm, size, output_width: self.int()? }
            }
            "hash" => ExternKind::Hash { algorithm: self.choice("the hash")?, output: self.ty()? },
            "checksum" => ExternKind::Checksum { algorithm: self.choice("the hash")?, output: self.ty()? },
            "internet_checksum" => ExternKind::InternetChecksum,
            "checksum16" => ExternKind::Checksum16,
            "random" => ExternKind::Random { min: self.constant()?, max: self.constant()? },
            "digest" => {
                self.keyword("data")?;
                let data_type = self.data_type(0)?;
                self.keyword("fields")?;
                ExternKind::Digest { data_type, fields: self.list("(", ")", Self::ty)? }
            }
            _ => {
                let message = format!("{} is no kind of extern object", self.tokens[at].kind.describe());
                return Err(self.error_at(at, message, "it is one of counter, meter, register, digest, ..."));
            }
        })
    }

    fn register(&mut self) -> Res<ExternKind> {
        let size = self.size()?;
        self.keyword("elem")?;
        let elem = self.list("(", ")", Self::ty)?;
        self.keyword("initial")?;
        let initial = self.list("(", ")", Self::constant)?;
        self.keyword("data")?;
        let data_type = self.data_type(0)?;
        Ok(ExternKind::Register { size, elem, initial, data_type, index_type: self.string_after("index")? })
    }

    fn size(&mut self) -> Res<u64> {
        self.keyword("size")?;
        self.int()
    }

    fn unit<T: super::words::Word>(&mut self) -> Res<T> {
        self.keyword("unit")?;
        self.choice("the unit")
    }
}
