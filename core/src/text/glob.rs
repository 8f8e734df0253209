//! Glob patterns over bytes, with the syntax of the server's own `KEYS` and `SCAN … MATCH`.
//!
//! | pattern | matches |
//! |---|---|
//! | `*` | any bytes, also none |
//! | `?` | any byte |
//! | `[a-cx]` | one of these bytes; `\` makes the next one literal, a range may be written from either end |
//! | `[^a-cx]` | any other byte |
//! | `\x` | `x`, whatever it is |
//! | anything else | itself; also a `\` at the end |
//!
//! An unclosed class ends with the pattern. An empty class matches nothing, an empty negated one any byte.

/// Returns whether `pattern` matches the whole of `text`. Case is significant.
///
/// Cost: O(bytes of the pattern × bytes of the text) at worst, however many stars there are: every part of a pattern but a star matches one
/// byte, so only the last star seen needs to be retried at later bytes, never an earlier one.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut text_at) = (0, 0);
    // After the last star: the rest of the pattern, and where in the text to try it next.
    let mut retry = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            if at == pattern.len() {
                return true;
            }
            retry = Some((at, text_at));
            continue;
        }
        match text.get(text_at) {
            None => return at == pattern.len(),
            Some(&byte) => {
                let (next, does) = match_byte(pattern, at, byte);
                if does {
                    at = next;
                    text_at += 1;
                    continue;
                }
            }
        }
        let Some((behind_star, tried_at)) = retry else {
            return false;
        };
        at = behind_star;
        text_at = tried_at + 1;
        retry = Some((at, text_at));
    }
}

/// Matches one byte with the part of the pattern at `at`, which is no star; returns where the pattern continues and whether it matched.
fn match_byte(pattern: &[u8], at: usize, byte: u8) -> (usize, bool) {
    match pattern[at..] {
        [] => (at, false),
        [b'?', ..] => (at + 1, true),
        [b'[', ..] => match_class(pattern, at + 1, byte),
        [b'\\', escaped, ..] => (at + 2, escaped == byte),
        [literal, ..] => (at + 1, literal == byte),
    }
}

/// Like [`match_byte`], for a class whose `[` is before `at`.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> (usize, bool) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        at += match pattern[at..] {
            [] => return (at, found != negated),
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                2
            }
            [b']', ..] => return (at + 1, found != negated),
            [from, b'-', to, ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                3
            }
            [literal, ..] => {
                found |= literal == byte;
                1
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    enum Part {
        Any,
        /// A byte in this set.
        Set(Box<[bool; 256]>),
    }

    fn set(contains: impl Fn(u8) -> bool) -> Part {
        Part::Set(Box::new(std::array::from_fn(|byte| contains(byte as u8))))
    }

    fn parts(pattern: &[u8]) -> Vec<Part> {
        let mut bytes = pattern.iter().copied().peekable();
        let mut parts = Vec::new();
        while let Some(byte) = bytes.next() {
            parts.push(match byte {
                b'*' => Part::Any,
                b'?' => set(|_| true),
                b'\\' => {
                    let literal = bytes.next().unwrap_or(b'\\');
                    set(move |byte| byte == literal)
                }
                b'[' => {
                    let negated = bytes.next_if_eq(&b'^').is_some();
                    let mut members = Vec::new();
                    while let Some(first) = bytes.next() {
                        let mut after = bytes.clone();
                        match first {
                            b'\\' => {
                                members.push((bytes.peek().copied().unwrap_or(b'\\'), bytes.next().unwrap_or(b'\\')))
                            }
                            b']' => break,
                            _ => match (after.next(), after.next()) {
                                (Some(b'-'), Some(last)) => {
                                    members.push((first.min(last), first.max(last)));
                                    bytes = after;
                                }
                                _ => members.push((first, first)),
                            },
                        }
                    }
                    set(|byte| members.iter().any(|(from, to)| (*from..=*to).contains(&byte)) != negated)
                }
                literal => set(move |byte| byte == literal),
            });
        }
        parts
    }

    fn naive(parts: &[Part], text: &[u8]) -> bool {
        match (parts, text) {
            ([], _) => text.is_empty(),
            ([Part::Any, rest @ ..], _) => (0..=text.len()).any(|skipped| naive(rest, &text[skipped..])),
            ([Part::Set(set), rest @ ..], [byte, text @ ..]) => set[usize::from(*byte)] && naive(rest, text),
            ([Part::Set(_), ..], []) => false,
        }
    }

    #[test]
    fn patterns_as_a_redis_user_knows_them() {
        for (pattern, text, does) in [
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hello", false),
            ("[\\]]", "]", true),
            ("[]", "]", false),
            ("[^]", "]", true),
            ("[ab", "b", true),
            ("[", "[", false),
            ("a\\", "a\\", true),
            ("*", "", true),
            ("**", "", true),
            ("?", "", false),
            ("", "", true),
            ("", "a", false),
            ("A", "a", false),
            ("*b*", "abc", true),
            ("*bc", "abcabc", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), does, "{pattern} {text}");
        }
        assert!(matches(b"\xff?", b"\xff\xfe"));
    }

    #[test]
    fn many_stars_cost_no_more_than_pattern_times_text() {
        let text = [b'a'; 255];
        let mut pattern = b"a*".repeat(10_000);
        pattern.push(b'b');
        assert!(!matches(&pattern, &text));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_pattern_matches_what_the_naive_matcher_says(pattern in "[ab*?\\[\\]\\-\\\\^]{0,10}", text in "[ab\\-\\]^\\\\]{0,8}") {
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), naive(&parts(pattern.as_bytes()), text.as_bytes()));
        }

        #[test]
        fn any_bytes_can_be_matched(pattern in prop::collection::vec(any::<u8>(), 0..10), text in prop::collection::vec(any::<u8>(), 0..8)) {
            prop_assert_eq!(matches(&pattern, &text), naive(&parts(&pattern), &text));
        }

        #[test]
        fn what_is_escaped_matches_itself(text in prop::collection::vec(any::<u8>(), 0..20)) {
            let pattern: Vec<u8> = text.iter().flat_map(|byte| [b'\\', *byte]).collect();
            prop_assert!(matches(&pattern, &text));
        }
    }
}
