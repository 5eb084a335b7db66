//! `##`

use super::preprocessor::Preprocessor;
use super::scan::scan;
use super::token::{Kind, PpToken, flag};

impl Preprocessor<'_> {
    /// Pastes `left`, a token of the top list, with what follows it in the list, as long as `##`
    /// is between. A pair that makes no single token stays two, as cpp leaves it with `-x
    /// assembler-with-cpp`; DASH and others need it.
    pub(super) fn paste_all(&mut self, left: PpToken) {
        let name = left.clone();
        let mut left = left;
        while let Some(right) = self.next_raw() {
            let Some(pasted) = self.paste(&left, &right, &name) else {
                self.back_up_raw();
                break;
            };
            left = pasted;
            if !right.has(flag::PASTE_LEFT) || !self.spend(1, name.span) {
                break;
            }
        }
        left.set(flag::PASTE_LEFT, false);
        left.line = name.line;
        self.push_continued(vec![left]);
    }

    /// The token that `left` and `right` make together, if they do.
    pub(super) fn paste(&mut self, left: &PpToken, right: &PpToken, name: &PpToken) -> Option<PpToken> {
        // cpp reads the result as a text of its own, and skips nothing behind it: that can be seen
        // in `#elif`.
        self.state.skipping = false;
        if left.kind == Kind::Comment || left.kind == Kind::Padding {
            // cpp reads the comment again, and counts its lines again.
            let comment = left.spelling();
            let end = comment.get(2..).and_then(|inner| inner.find("*/")).map_or(comment.len(), |at| at + 2);
            self.buffer.line += comment[..end].matches('\n').count() as u32;
            let nothing = right.spelling().is_empty();
            return nothing.then(|| PpToken { flags: left.flags & flag::WHITE, ..left.clone() });
        }
        // Two slashes would begin a comment.
        let apart = left.kind == Kind::Div && right.kind != Kind::Assign;
        if apart {
            return None;
        }
        let (head, tail) = (left.spelling(), right.spelling());
        let mut text = String::with_capacity(head.len() + tail.len() + 1);
        text.push_str(head);
        text.push_str(tail);
        self.spend(text.len() / 8, name.span);
        text.push('\n');
        let scanned = scan(text.as_bytes(), 0, self.state.angled_headers);
        if scanned.end + 1 != text.len() {
            self.counts.failed_pastes += 1;
            // cpp has read the first of the two again, and says again what is wrong with it.
            if scanned.kind == Kind::Name {
                let name = self.names.intern(&text[..scanned.end]);
                self.check_name(name, left.span);
            }
            return None;
        }
        self.counts.pastes += 1;
        text.pop();
        let flags = left.flags & flag::WHITE;
        let mut token = PpToken { line: left.line, ..PpToken::new(scanned.kind, flags, left.span) };
        if scanned.kind == Kind::Name {
            token.value = self.names.intern(&text);
            token.text = Some(self.names.node(token.value).text.clone());
            self.check_name(token.value, left.span);
        } else if scanned.kind >= Kind::Name {
            token.text = Some(text.into());
        }
        Some(token)
    }
}
