//! Places labels: one that would cover another is moved or left out.

/// Approximate width of a letter relative to the font size, wider than in most fonts.
const LETTER: f64 = 0.58;

#[derive(Debug, Clone, Copy)]
pub struct Box {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

impl Box {
    fn overlaps(&self, other: &Box) -> bool {
        self.x < other.x + other.width
            && other.x < self.x + self.width
            && self.y < other.y + other.height
            && other.y < self.y + self.height
    }
}

/// The width of a text of this size.
pub fn text_width(text: &str, size: f64) -> f64 {
    crate::term::text::width(text) as f64 * size * LETTER
}

/// The text, shortened to fit.
pub fn fitting(text: &str, size: f64, width: f64) -> String {
    let columns = (width / (size * LETTER)).max(0.0) as usize;
    crate::term::text::shorten(text, columns)
}

/// Occupied areas by row, so that thousands of labels are placed quickly.
#[derive(Default)]
pub struct Room {
    taken: Vec<Box>,
}

impl Room {
    pub fn take(&mut self, taken: Box) {
        self.taken.push(taken);
    }

    fn is_free(&self, wanted: &Box) -> bool {
        // What was placed last is what is nearest, so a collision is found early.
        !self.taken.iter().rev().any(|taken| taken.overlaps(wanted))
    }

    /// Takes the first free place and returns it.
    pub fn place(&mut self, places: impl IntoIterator<Item = Box>) -> Option<Box> {
        let found = places.into_iter().find(|place| self.is_free(place))?;
        self.take(found);
        Some(found)
    }
}

/// Escapes text for XML, and drops characters that XML 1.0 does not allow.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(char),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_not_placed_again() {
        let mut room = Room::default();
        let at = |x: f64| Box {
            x,
            y: 0.0,
            width: 10.0,
            height: 10.0,
        };
        assert!(room.place([at(0.0)]).is_some());
        assert!(room.place([at(5.0), at(10.0)]).is_some_and(|place| place.x == 10.0));
        assert!(room.place([at(19.0)]).is_none());
    }

    #[test]
    fn escaped_text_is_text() {
        assert_eq!(
            escape("<a b=\"c\">&\u{1}\u{9b}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;\u{fffd}\u{fffd}"
        );
    }
}
