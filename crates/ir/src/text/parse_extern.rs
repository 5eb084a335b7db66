//! Parser of extern objects.

use super::error::TextResult;
use super::parse::TextParser;
use crate::externs::{ExternInst, ExternKind};

impl TextParser<'_> {
    pub fn parse_extern_inst(&mut self) -> TextResult<ExternInst> {
        let name = self.parse_declared_name()?;
        self.expect_sign(":")?;
        let kind = self.parse_extern_kind()?;
        let preamble = self.parse_preamble(name)?;
        Ok(ExternInst { preamble, kind, loc: self.parse_loc()? })
    }

    /// Parses the kind of an extern object with its parameters.
    fn parse_extern_kind(&mut self) -> TextResult<ExternKind> {
        let start = self.at;
        Ok(match self.parse_word("what the object is")? {
            "counter" => {
                let size = self.parse_size()?;
                ExternKind::Counter { size, unit: self.parse_unit()?, index_type: self.parse_string_after("index")? }
            }
            "direct_counter" => ExternKind::DirectCounter { unit: self.parse_unit()? },
            "meter" => {
                let size = self.parse_size()?;
                ExternKind::Meter { size, unit: self.parse_unit()?, index_type: self.parse_string_after("index")? }
            }
            "direct_meter" => ExternKind::DirectMeter { unit: self.parse_unit()? },
            "register" => self.parse_register()?,
            "action_profile" => ExternKind::ActionProfile { size: self.parse_size()? },
            "action_selector" => {
                let algorithm = self.parse_keyword("the hash")?;
                let size = self.parse_size()?;
                self.expect_keyword("width")?;
                ExternKind::ActionSelector { algorithm, size, output_width: self.parse_int()? }
            }
            "hash" => ExternKind::Hash { algorithm: self.parse_keyword("the hash")?, output: self.parse_type()? },
            "checksum" => {
                ExternKind::Checksum { algorithm: self.parse_keyword("the hash")?, output: self.parse_type()? }
            }
            "internet_checksum" => ExternKind::InternetChecksum,
            "checksum16" => ExternKind::Checksum16,
            "random" => ExternKind::Random { min: self.parse_constant()?, max: self.parse_constant()? },
            "port_pool" => {
                let number = |parser: &mut Self, keyword| {
                    parser.expect_keyword(keyword)?;
                    parser.parse_int()
                };
                let (addresses, subscribers) = (number(self, "addresses")?, number(self, "subscribers")?);
                let (spaces, rest_seconds) = (number(self, "spaces")?, number(self, "rest")?);
                ExternKind::PortPool { addresses, subscribers, spaces, rest_seconds }
            }
            "entry_quota" => {
                self.expect_keyword("owners")?;
                ExternKind::EntryQuota { owners: self.parse_int()? }
            }
            "digest" => {
                self.expect_keyword("data")?;
                let data_type = self.parse_data_type(0)?;
                self.expect_keyword("fields")?;
                ExternKind::Digest { data_type, fields: self.parse_list("(", ")", Self::parse_type)? }
            }
            _ => {
                let message = format!("{} is no kind of extern object", self.tokens[start].kind.describe());
                return Err(self.error_at(start, message, "it is one of counter, meter, register, digest, ..."));
            }
        })
    }

    fn parse_register(&mut self) -> TextResult<ExternKind> {
        let size = self.parse_size()?;
        self.expect_keyword("elem")?;
        let elem = self.parse_list("(", ")", Self::parse_type)?;
        self.expect_keyword("initial")?;
        let initial = self.parse_list("(", ")", Self::parse_constant)?;
        self.expect_keyword("data")?;
        let data_type = self.parse_data_type(0)?;
        Ok(ExternKind::Register { size, elem, initial, data_type, index_type: self.parse_string_after("index")? })
    }

    fn parse_size(&mut self) -> TextResult<u64> {
        self.expect_keyword("size")?;
        self.parse_int()
    }

    fn parse_unit<T: super::keywords::KeywordEnum>(&mut self) -> TextResult<T> {
        self.expect_keyword("unit")?;
        self.parse_keyword("the unit")
    }
}
