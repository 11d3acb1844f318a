//! Cuts bounded lines out of bytes. Owns the input buffer; never reads, never interprets a line.

use crate::config::MAX_LINE;

/// What the input held next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its ending and without surrounding white space, never empty.
    Whole(Vec<u8>),
    /// A line over [`MAX_LINE`] bytes. It is reported as soon as it is too long and the rest of it is passed over.
    TooLong,
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The bytes read and not yet handed out.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// Up to where no line feed was found.
    scanned: usize,
    /// The line being read was already reported as too long.
    skipping: bool,
    /// Whether the first line was handed out: only a byte order mark before it is skipped.
    begun: bool,
}

impl Lines {
    /// The buffer to append input to.
    pub(crate) fn space(&mut self, room: usize) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        self.buffer.reserve(room);
        &mut self.buffer
    }

    /// The next line, if one has ended or grown too long.
    pub(crate) fn next(&mut self) -> Option<Line> {
        loop {
            let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
            let Some(length) = memchr::memchr(b'\n', unseen) else {
                self.scanned = self.buffer.len();
                return self.check_growth();
            };
            let end = self.scanned + length;
            let line = self.take(end);
            self.start = end + 1;
            self.scanned = self.start;
            if let Some(line) = line {
                return Some(line);
            }
        }
    }

    /// What is left when the input has ended: a last line without a line feed is a line.
    pub(crate) fn finish(&mut self) -> Option<Line> {
        let line = self.take(self.buffer.len());
        *self = Self::default();
        line
    }

    fn check_growth(&mut self) -> Option<Line> {
        let grown = self.buffer.len() - self.start > MAX_LINE;
        let report = grown && !self.skipping;
        self.skipping |= grown;
        if self.skipping {
            self.buffer.clear();
            self.start = 0;
            self.scanned = 0;
        }
        report.then_some(Line::TooLong)
    }

    fn take(&mut self, end: usize) -> Option<Line> {
        let mut line = self.buffer.get(self.start..end).unwrap_or_default();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if std::mem::take(&mut self.skipping) {
            return None;
        }
        if line.len() > MAX_LINE {
            return Some(Line::TooLong);
        }
        let line = line.trim_ascii();
        (!line.is_empty()).then(|| Line::Whole(line.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<Line> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            lines.space(chunk.len()).extend_from_slice(chunk);
            while let Some(line) = lines.next() {
                seen.push(line);
            }
        }
        seen.extend(lines.finish());
        seen
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn a_line_may_arrive_in_any_pieces() {
        assert_eq!(cut(&[b"a", b"b\nc", b"d\n", b"\n", b"e"]), [whole("ab"), whole("cd"), whole("e")]);
    }

    #[test]
    fn blank_lines_carriage_returns_and_one_leading_mark_are_white_space() {
        assert_eq!(cut(&[b"\xEF\xBB\xBFa\r\n \t\r\n\r\n  b  \r\n"]), [whole("a"), whole("b")]);
    }

    #[test]
    fn a_second_byte_order_mark_is_data() {
        assert_eq!(cut(&[b"a\n\xEF\xBB\xBFb\n"]), [whole("a"), whole("\u{feff}b")]);
    }

    #[test]
    fn a_line_at_the_limit_passes_and_one_past_it_is_reported_once() {
        let mut input = vec![b'x'; MAX_LINE];
        input.push(b'\n');
        assert_eq!(cut(&[&input]).len(), 1);
        assert!(matches!(cut(&[&input]).first(), Some(Line::Whole(_))));
        input.insert(0, b'x');
        assert_eq!(cut(&[&input, b"y\n"]), [Line::TooLong, whole("y")]);
    }

    #[test]
    fn an_endless_line_is_reported_early_and_not_kept() {
        let mut lines = Lines::default();
        let mut reports = 0;
        for _ in 0..1024 {
            lines.space(65_536).extend_from_slice(&vec![b'x'; 65_536]);
            while let Some(line) = lines.next() {
                assert_eq!(line, Line::TooLong);
                reports += 1;
            }
            assert!(lines.buffer.len() <= MAX_LINE + 65_536);
        }
        assert_eq!(reports, 1);
        lines.space(8).extend_from_slice(b"\nok\n");
        assert_eq!(lines.next(), Some(whole("ok")));
    }
}
