//! Message bodies of exactly one size, the same on every machine.

/// The size that the figures of a message are given for.
pub const BODY_BYTES: usize = 236;

const WORDS: [&str; 64] = [
    "flight",
    "order",
    "ticket",
    "refund",
    "please",
    "check",
    "the",
    "status",
    "of",
    "my",
    "reservation",
    "tomorrow",
    "morning",
    "I",
    "would",
    "like",
    "to",
    "change",
    "seat",
    "and",
    "baggage",
    "for",
    "two",
    "passengers",
    "could",
    "you",
    "confirm",
    "that",
    "it",
    "is",
    "still",
    "possible",
    "without",
    "a",
    "fee",
    "because",
    "policy",
    "says",
    "economy",
    "business",
    "class",
    "payment",
    "card",
    "number",
    "ending",
    "in",
    "balance",
    "certificate",
    "address",
    "delivery",
    "arrives",
    "Friday",
    "from",
    "Denver",
    "Boston",
    "Seattle",
    "departure",
    "arrival",
    "time",
    "window",
    "aisle",
    "insurance",
    "member",
    "thanks",
];

/// A pseudo-random sequence (xorshift): seeded, so that two runs send the same bytes.
pub struct Sequence(u64);

impl Sequence {
    pub fn seeded(seed: u64) -> Sequence {
        // Neighbouring seeds must give different sequences, and the state must never be 0.
        Sequence(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }

    /// Returns this many bytes of ASCII text that needs no escaping, with digits among the words.
    pub fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            if self.below(6) == 0 {
                text.push_str(&self.below(100_000).to_string());
            } else {
                text.push_str(WORDS[self.below(WORDS.len())]);
            }
            text.push(' ');
        }
        text.truncate(bytes);
        // No body ends in a space, which would compress better than other endings.
        text.pop();
        text.push('.');
        text
    }
}

/// How the messages of a benchmark are made.
#[derive(Clone, Copy, PartialEq)]
pub enum Bodies {
    /// The same body each time, as in naive benchmarks; it compresses best.
    Constant,
    /// A different text, role and time in each.
    Varied,
}

impl Bodies {
    /// Returns the JSON body of message `number`.
    pub fn json(self, number: usize) -> String {
        let number = self.number(number);
        let (role, timestamp) = (role(number), timestamp(number));
        let frame = format!(r#"{{"role":"{role}","content":"","timestamp":"{timestamp}"}}"#).len();
        let content = Sequence::seeded(number as u64).text(BODY_BYTES - frame);
        format!(r#"{{"role":"{role}","content":"{content}","timestamp":"{timestamp}"}}"#)
    }

    /// Returns role and content from which `MSG` composes a body of the same size.
    pub fn role_and_content(self, number: usize) -> (&'static str, String) {
        let number = self.number(number);
        let role = role(number);
        let frame = format!(
            r#"{{"role":"{role}","content":"","timestamp":"{}"}}"#,
            timestamp(number)
        )
        .len();
        (role, Sequence::seeded(number as u64).text(BODY_BYTES - frame))
    }

    fn number(self, number: usize) -> usize {
        match self {
            Bodies::Constant => 0,
            Bodies::Varied => number,
        }
    }
}

fn role(number: usize) -> &'static str {
    if number.is_multiple_of(2) {
        "user"
    } else {
        "assistant"
    }
}

/// Returns a time that is one second later with each message.
fn timestamp(number: usize) -> String {
    let (day, second) = (1 + number / 86_400, number % 86_400);
    assert!(day <= 31, "bodies are numbered within one month");
    format!(
        "2026-01-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        number * 7 % 1000
    )
}

/// Returns a session's conventional key, with the shape of a UUIDv7. It is derived from a number, so that the server's bytes do not differ
/// between runs.
pub fn session_key(number: usize) -> String {
    let mut sequence = Sequence::seeded(number as u64 ^ 0x5e55_1011);
    let mut hex = |digits: usize| -> String {
        (0..digits)
            .map(|_| char::from(b"0123456789abcdef"[sequence.below(16)]))
            .collect()
    };
    format!("session:0197{}-{}-7{}-a{}-{}", hex(4), hex(4), hex(3), hex(3), hex(12))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_body_has_the_size_and_is_json() {
        for kind in [Bodies::Constant, Bodies::Varied] {
            for number in [0, 1, 2, 999, 86_400, 1_012_000] {
                let body = kind.json(number);
                assert_eq!(body.len(), BODY_BYTES);
                let value: serde_json::Value = serde_json::from_str(&body).unwrap();
                let (role, content) = kind.role_and_content(number);
                assert_eq!(
                    (value["role"].as_str(), value["content"].as_str()),
                    (Some(role), Some(content.as_str()))
                );
            }
        }
    }

    #[test]
    fn varied_bodies_differ_and_constant_ones_do_not() {
        assert_eq!(
            (0..1000).map(|n| Bodies::Varied.json(n)).collect::<HashSet<_>>().len(),
            1000
        );
        assert_eq!(
            (0..1000)
                .map(|n| Bodies::Constant.json(n))
                .collect::<HashSet<_>>()
                .len(),
            1
        );
    }

    #[test]
    fn keys_are_distinct_and_of_the_usual_length() {
        assert_eq!((0..10_000).map(session_key).collect::<HashSet<_>>().len(), 10_000);
        assert_eq!(session_key(1).len(), "session:".len() + 36);
    }
}
