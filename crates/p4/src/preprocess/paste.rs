//! Token pasting with `##`.

use super::preprocessor::Preprocessor;
use super::scan::scan_token;
use super::token::{PpToken, PpTokenKind, flag};

impl Preprocessor<'_> {
    /// Pastes `left`, a token of the top list, with the tokens joined to it by `##`. A pair that
    /// forms no single token remains two, as in cpp with `-x assembler-with-cpp`, because DASH and
    /// other programs need it.
    pub(super) fn paste_all(&mut self, left: PpToken) {
        let name = left.clone();
        let mut left = left;
        while let Some(right) = self.next_raw() {
            let Some(pasted) = self.paste_tokens(&left, &right, &name) else {
                self.unread_raw();
                break;
            };
            left = pasted;
            if !right.has(flag::PASTE_LEFT) || !self.spend_tokens(1, name.span) {
                break;
            }
        }
        left.set(flag::PASTE_LEFT, false);
        left.line = name.line;
        self.push_continued(vec![left]);
    }

    /// Returns the token that `left` and `right` form together by `##`; `None` if they form none.
    /// `name` is the use of the macro, for errors.
    pub(super) fn paste_tokens(&mut self, left: &PpToken, right: &PpToken, name: &PpToken) -> Option<PpToken> {
        // cpp reads the result as a separate text without skipping. `#elif` makes that visible.
        self.state.is_skipping = false;
        if left.kind == PpTokenKind::Comment || left.kind == PpTokenKind::Padding {
            // cpp reads the comment again and counts its lines twice.
            let comment = left.spelling();
            let end = comment.get(2..).and_then(|inner| inner.find("*/")).map_or(comment.len(), |at| at + 2);
            self.buffer.line += comment[..end].matches('\n').count() as u32;
            let is_right_empty = right.spelling().is_empty();
            return is_right_empty.then(|| PpToken { flags: left.flags & flag::WHITE, ..left.clone() });
        }
        // Two slashes would begin a comment.
        let begins_comment = left.kind == PpTokenKind::Div && right.kind != PpTokenKind::Assign;
        if begins_comment {
            return None;
        }
        let (left_text, right_text) = (left.spelling(), right.spelling());
        let mut text = String::with_capacity(left_text.len() + right_text.len() + 1);
        text.push_str(left_text);
        text.push_str(right_text);
        self.spend_tokens(text.len() / 8, name.span);
        // The scanner needs a newline at the end of its text.
        text.push('\n');
        let scanned = scan_token(text.as_bytes(), 0, self.state.angled_headers);
        if scanned.end + 1 != text.len() {
            self.counts.failed_pastes += 1;
            // cpp reads the first token again and repeats its error.
            if scanned.kind == PpTokenKind::Name {
                let name = self.names.intern(&text[..scanned.end]);
                self.check_name(name, left.span);
            }
            return None;
        }
        self.counts.pastes += 1;
        text.pop();
        let flags = left.flags & flag::WHITE;
        let mut token = PpToken { line: left.line, ..PpToken::new(scanned.kind, flags, left.span) };
        if scanned.kind == PpTokenKind::Name {
            token.value = self.names.intern(&text);
            token.text = Some(self.names.node(token.value).text.clone());
            self.check_name(token.value, left.span);
        } else if scanned.kind >= PpTokenKind::Name {
            token.text = Some(text.into());
        }
        Some(token)
    }
}
