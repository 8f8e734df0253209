//! Generates command lines from a command's grammar: valid ones, and invalid ones with the expected error.
//!
//! A grammar is a row of `COMMAND DOCS` (see [`crate::table`]): required arguments (the *head*), options in any order, and for some
//! commands required arguments after them (the *tail*). A required argument after a word of its own, as `UPTO seq`, is an option that must
//! be given. A block may have options of its own after its required parts, as `MSG` has `NAME`. The values in the sentences come from the
//! caller: see [`Values`].

use std::collections::BTreeSet;

use crate::table::{Argument, Command, Kind};

/// A word that no grammar contains.
pub const UNKNOWN: &str = "BOGUS";

/// The role of a word in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Part of the command's name, or an option's word.
    Token,
    Key,
    /// The number of words that follow.
    Count,
    /// A value that may be any text.
    Text,
    /// A value with a required form: a number, a time, JSON, one of several names.
    Formed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub role: Role,
}

impl Word {
    fn token(text: &str) -> Word {
        Word {
            text: text.to_owned(),
            role: Role::Token,
        }
    }
}

/// Words in order.
pub type Words = Vec<Word>;

/// Joins the words to a line, as typed.
pub fn line(words: &[Word]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| match word.text.contains([' ', '"']) || word.text.is_empty() {
            true => crate::talk::quote(word.text.as_bytes()),
            false => word.text.clone(),
        })
        .collect();
    words.join(" ")
}

/// What the generator needs in addition to the grammar.
pub trait Values {
    /// Returns a valid value for an argument, the `nth` of those that repeat: its text, and whether any other text would be valid too.
    /// `token` is the option word before it. Not called for keys, counts and tokens.
    fn value(&self, command: &Command, token: Option<&str>, argument: &Argument, nth: usize) -> (String, bool);

    /// Returns the option without which `token` is refused, where a row cannot express it.
    fn companion(&self, command: &Command, token: &str) -> Option<&str>;
}

/// A sentence that must be refused.
#[derive(Debug)]
pub struct Wrong {
    pub words: Words,
    /// How it differs from a valid one.
    pub why: &'static str,
    pub refusal: Refusal,
}

/// How a sentence is refused. Fewer words than the row's arity are refused as such in any case.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `ERR syntax error near '…'`, naming this word.
    Near(String),
    /// Any error about arguments: a value that the preceding words made invalid is found first.
    Any,
}

/// A valid sentence with a keyword in the place of one of its values.
pub struct KeywordAsValue {
    pub words: Words,
    /// The position of the keyword.
    pub at: usize,
    /// The role of the value that it replaces.
    pub role: Role,
}

/// The sentences of one command.
pub struct Grammar<'a, V> {
    command: &'a Command,
    values: &'a V,
    head: &'a [Argument],
    options: &'a [Argument],
    tail: &'a [Argument],
}

/// A position in a sentence where options are allowed.
struct Site<'a> {
    prefix: Words,
    options: &'a [Argument],
    suffix: Words,
    /// The word of the block whose options are allowed; `None` for the command's own.
    block: Option<String>,
}

impl<'a, V: Values> Grammar<'a, V> {
    pub fn new(command: &'a Command, values: &'a V) -> Self {
        let (head, options, tail) = thirds(&command.name, &command.arguments);
        Grammar {
            command,
            values,
            head,
            options,
            tail,
        }
    }

    fn name(&self) -> Words {
        self.command.name.split(' ').map(Word::token).collect()
    }

    // ------------------------------------------------------------------ right sentences

    /// Returns every combination of the required arguments, without options.
    pub fn minimal(&self) -> Vec<Words> {
        self.without_options(&self.sequences(self.tail, None))
    }

    /// Returns every form of the head with each of these tails.
    fn without_options(&self, tails: &[Words]) -> Vec<Words> {
        let required = self
            .required_options()
            .map(|option| self.phrases(option, None).remove(0));
        let required = required.collect::<Vec<_>>().concat();
        let mut sentences = Vec::new();
        for head in self.sequences(self.head, None) {
            for tail in tails {
                sentences.push([self.name(), head.clone(), required.clone(), tail.clone()].concat());
            }
        }
        sentences
    }

    fn required_options(&self) -> impl Iterator<Item = &'a Argument> {
        self.options.iter().filter(|option| !option.optional)
    }

    /// Returns the shortest tail of each kind: after `MSG`, and after `JSON`.
    fn tails(&self) -> Vec<Words> {
        let mut tails: Vec<Words> = Vec::new();
        for tail in self.sequences(self.tail, None) {
            if tails.iter().all(|known| known.first() != tail.first()) {
                tails.push(tail);
            }
        }
        tails
    }

    /// Returns sentences that must parse: the minimal ones; each option alone, in each of its forms; all together, in both orders, in lower
    /// case and in mixed case.
    pub fn plain(&self) -> Vec<Words> {
        let mut sentences = self.minimal();
        for site in self.sites() {
            for option in site.options {
                for phrase in self.phrases(option, None) {
                    sentences.push(self.with_options(&site, &[phrase]));
                }
            }
            for mut all in [self.one_of_each(&site, false), self.one_of_each(&site, true)] {
                sentences.push(self.with_options(&site, &all));
                all.reverse();
                let reversed = self.with_options(&site, &all);
                sentences.push(in_case(reversed.clone(), |_, char| char.to_ascii_lowercase()));
                sentences.push(in_case(reversed.clone(), |at, char| match at % 2 {
                    0 => char.to_ascii_lowercase(),
                    _ => char.to_ascii_uppercase(),
                }));
                sentences.push(reversed);
            }
        }
        sentences
    }

    /// Returns sentences that must parse: the minimal ones, and each two options in both orders.
    pub fn right(&self) -> Vec<Words> {
        let mut sentences = self.plain();
        for site in self.sites() {
            for (i, one) in site.options.iter().enumerate() {
                for (j, other) in site.options.iter().enumerate() {
                    if i == j {
                        continue;
                    }
                    for one in self.shortest(one) {
                        for other in self.shortest(other) {
                            sentences.push(self.with_options(&site, &[one.clone(), other]));
                        }
                    }
                }
            }
        }
        sentences
    }

    fn with_options(&self, site: &Site<'_>, options: &[Words]) -> Words {
        let needed = self.needed(options, site);
        [site.prefix.clone(), options.concat(), needed, site.suffix.clone()].concat()
    }

    /// Returns valid sentences in which one value is replaced by an option word of the command.
    pub fn keywords_as_values(&self) -> Vec<KeywordAsValue> {
        let keywords = self.command.tokens();
        let mut bases = self.minimal();
        // In `seq [seq ...]` before options, an option word in the place of the second seq is an option.
        if repeats_uncounted(self.head) && !self.options.is_empty() {
            bases.truncate(1);
        }
        for site in self.sites() {
            for option in site.options {
                for phrase in self.phrases(option, None) {
                    let needed = self.needed(std::slice::from_ref(&phrase), &site);
                    bases.push([site.prefix.clone(), needed, phrase, site.suffix.clone()].concat());
                }
            }
            // Includes every option, so that each keyword is also there in its own role.
            let all = self.one_of_each(&site, false);
            let needed = self.needed(&all, &site);
            bases.push([site.prefix.clone(), all.concat(), needed, site.suffix.clone()].concat());
        }
        let mut sentences = Vec::new();
        for base in bases {
            for (at, word) in base.iter().enumerate().filter(|(_, word)| word.role != Role::Token) {
                for keyword in &keywords {
                    let mut words = base.clone();
                    words[at].text = keyword.clone();
                    sentences.push(KeywordAsValue {
                        words,
                        at,
                        role: word.role,
                    });
                }
            }
        }
        sentences
    }

    // ------------------------------------------------------------------ wrong sentences

    /// Returns sentences that must be refused. `others` are option words of other commands: one that this row does not have must be unknown
    /// to its parser too.
    pub fn wrong(&self, others: &BTreeSet<String>) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        self.too_short(&mut wrong);
        self.too_long(&mut wrong);
        let own = self.command.tokens();
        for foreign in others.difference(&own) {
            let site = self.own_site(self.tails().remove(0));
            self.unknown(&site, foreign, "an option of another command", &mut wrong);
        }
        for site in self.sites() {
            for option in site.options {
                for phrase in self.shortest(option) {
                    self.without_its_value(&site, &phrase, &mut wrong);
                }
                self.twice(&site, option, &mut wrong);
            }
            self.unknown(&site, UNKNOWN, "an unknown option", &mut wrong);
            match &site.block {
                None => self.misplaced(&site, &mut wrong),
                Some(block) => self.outside_of_its_block(&site, block, &mut wrong),
            }
        }
        wrong
    }

    /// Returns every prefix of the required arguments, and all of them without one required option.
    fn too_short(&self, wrong: &mut Vec<Wrong>) {
        let shortest = self.without_options(&self.tails());
        for sentence in &shortest {
            for len in 1..sentence.len() {
                // `seq` is a prefix of `seq seq`, and valid.
                if !shortest.iter().any(|right| right[..] == sentence[..len]) {
                    wrong.push(Wrong {
                        words: sentence[..len].to_vec(),
                        why: "too short",
                        refusal: Refusal::Any,
                    });
                }
            }
        }
        for option in self.required_options() {
            for sentence in &shortest {
                let phrase = self.phrases(option, None).remove(0);
                let mut words = sentence.clone();
                let at = words
                    .iter()
                    .position(|word| *word == phrase[0])
                    .expect("the option is there");
                words.drain(at..at + phrase.len());
                wrong.push(Wrong {
                    words,
                    why: "without an option that must be given",
                    refusal: Refusal::Any,
                });
            }
        }
    }

    /// Adds a word to a command that takes no more.
    fn too_long(&self, wrong: &mut Vec<Wrong>) {
        for mut sentence in self.minimal() {
            let takes_any = self.head.iter().chain(self.tail).any(takes_more);
            sentence.push(Word::token(UNKNOWN));
            wrong.push(Wrong {
                words: sentence,
                why: "a word too many",
                refusal: match takes_any {
                    true => Refusal::Any,
                    false => Refusal::Near(UNKNOWN.into()),
                },
            });
        }
    }

    fn without_its_value(&self, site: &Site<'_>, phrase: &Words, wrong: &mut Vec<Wrong>) {
        let needed = self.needed(std::slice::from_ref(phrase), site);
        for len in 1..phrase.len() {
            wrong.push(Wrong {
                words: [site.prefix.clone(), needed.clone(), phrase[..len].to_vec()].concat(),
                why: "an option without its value",
                refusal: Refusal::Near(phrase[0].text.clone()),
            });
        }
    }

    fn twice(&self, site: &Site<'_>, option: &Argument, wrong: &mut Vec<Wrong>) {
        let phrases = self.shortest(option);
        for (i, one) in phrases.iter().enumerate() {
            for (j, other) in phrases.iter().enumerate() {
                if i == j && repeats_with_token(option, &one[0].text) {
                    continue;
                }
                let needed = self.needed(std::slice::from_ref(one), site);
                wrong.push(Wrong {
                    words: [
                        site.prefix.clone(),
                        needed,
                        one.clone(),
                        other.clone(),
                        site.suffix.clone(),
                    ]
                    .concat(),
                    why: match i == j {
                        true => "an option twice",
                        false => "two options of which only one may be given",
                    },
                    refusal: Refusal::Near(other[0].text.clone()),
                });
            }
        }
    }

    fn unknown(&self, site: &Site<'_>, word: &str, why: &'static str, wrong: &mut Vec<Wrong>) {
        let all = self.one_of_each(site, false);
        let needed = self.needed(&all, site);
        for at in 0..=all.len() {
            wrong.push(Wrong {
                words: [
                    site.prefix.clone(),
                    needed.clone(),
                    all[..at].concat(),
                    vec![Word::token(word)],
                    all[at..].concat(),
                    site.suffix.clone(),
                ]
                .concat(),
                why,
                // After words that may repeat it is one of them, though not a valid one.
                refusal: match at == 0 && needed.is_empty() && self.head.iter().any(takes_more) {
                    true => Refusal::Any,
                    false => Refusal::Near(word.to_owned()),
                },
            });
        }
    }

    /// Puts an option among the arguments before the options, and after those that follow them.
    fn misplaced(&self, site: &Site<'_>, wrong: &mut Vec<Wrong>) {
        let name = self.name();
        let (before, head) = site.prefix.split_at(name.len());
        for option in site.options {
            for phrase in self.shortest(option) {
                for at in 0..head.len() {
                    let behind = [phrase.clone(), head[at..].to_vec()].concat();
                    // The words shift: some take positions of the head, and the first after the head is where options are.
                    let (moved, rest) = behind.split_at(head.len() - at);
                    let fits = moved
                        .iter()
                        .zip(&head[at..])
                        .all(|(_, place)| matches!(place.role, Role::Key | Role::Text));
                    wrong.push(Wrong {
                        words: [before, &head[..at], &behind, &site.suffix].concat(),
                        why: "an option before the arguments that it must follow",
                        refusal: match fits && !self.head.iter().any(takes_more) {
                            true => Refusal::Near(rest[0].text.clone()),
                            false => Refusal::Any,
                        },
                    });
                }
                if site.suffix.is_empty() {
                    continue;
                }
                for tail in self.sequences(self.tail, None) {
                    let mut needed = self.needed(std::slice::from_ref(&phrase), site);
                    if !option.optional {
                        needed.clear();
                    }
                    wrong.push(Wrong {
                        words: [&site.prefix[..], &needed, &tail, &phrase].concat(),
                        why: "an option behind the tail",
                        refusal: match self.tail.iter().any(takes_more)
                            && tail.last().is_some_and(|word| word.role == Role::Formed)
                        {
                            true => Refusal::Any,
                            // Before a tail without a required option, the tail comes too early.
                            false if !option.optional => Refusal::Near(tail[0].text.clone()),
                            false => Refusal::Near(phrase[0].text.clone()),
                        },
                    });
                }
            }
        }
    }

    /// Puts an option of a block where the command's own options belong.
    fn outside_of_its_block(&self, inner: &Site<'_>, block: &str, wrong: &mut Vec<Wrong>) {
        let own: BTreeSet<&str> = self.options.iter().flat_map(first_tokens).collect();
        let outer = self.own_site(self.sequences(self.tail, None).remove(0));
        let block_phrase = self.options.iter().flat_map(|option| self.shortest(option));
        let block_phrase: Option<Words> = block_phrase.into_iter().find(|phrase| phrase[0].text == block);
        for option in inner.options {
            for phrase in self.shortest(option) {
                let token = phrase[0].text.as_str();
                if own.contains(token) {
                    continue;
                }
                let mut push = |between: Words, why| {
                    wrong.push(Wrong {
                        words: [outer.prefix.clone(), between, phrase.clone(), outer.suffix.clone()].concat(),
                        why,
                        refusal: Refusal::Near(token.to_owned()),
                    });
                };
                push(Words::new(), "a block's option without the block");
                let Some(block_phrase) = &block_phrase else { continue };
                let needed = self.needed(std::slice::from_ref(block_phrase), &outer);
                for other in self.options.iter().flat_map(|option| self.shortest(option)) {
                    let is_there = |phrase: &Words| phrase.iter().any(|word| *word == other[0]);
                    if !is_there(block_phrase) && !is_there(&needed) {
                        push(
                            [needed.clone(), block_phrase.clone(), other].concat(),
                            "a block's option behind another option",
                        );
                    }
                }
            }
        }
    }

    // ------------------------------------------------------------------ parts of sentences

    /// Returns the position of the command's own options, before this tail.
    fn own_site(&self, suffix: Words) -> Site<'a> {
        let head = self.sequences(self.head, None).remove(0);
        Site {
            prefix: [self.name(), head].concat(),
            options: self.options,
            suffix,
            block: None,
        }
    }

    /// Returns every position where options are allowed.
    fn sites(&self) -> Vec<Site<'a>> {
        let mut sites = Vec::new();
        if !self.options.is_empty() {
            sites.extend(self.tails().into_iter().map(|tail| self.own_site(tail)));
        }
        let start = self.own_site(Words::new());
        for argument in self.options.iter().chain(self.tail) {
            self.sites_within(argument, &start, &mut sites);
        }
        sites
    }

    /// Returns the blocks with options of their own in this argument, each after its required parts.
    fn sites_within(&self, argument: &'a Argument, outer: &Site<'a>, sites: &mut Vec<Site<'a>>) {
        match argument.kind {
            Kind::OneOf => {
                for choice in &argument.parts {
                    self.sites_within(choice, outer, sites);
                }
            }
            Kind::Block if argument.parts.iter().any(|part| part.optional) && !argument.multiple => {
                let (required, options, _) = thirds(&self.command.name, &argument.parts);
                let token = argument.token.clone().unwrap_or_default();
                let mut words: Words = argument.token.iter().map(|token| Word::token(token)).collect();
                words.extend(self.sequences(required, argument.token.as_deref()).remove(0));
                let needed = self.needed(std::slice::from_ref(&words), outer);
                sites.push(Site {
                    prefix: [outer.prefix.clone(), needed, words].concat(),
                    options,
                    suffix: Words::new(),
                    block: Some(token),
                });
            }
            _ => {}
        }
    }

    /// Returns the options that these require and that are not among them.
    fn needed(&self, given: &[Words], site: &Site<'_>) -> Words {
        let mut needed = Words::new();
        let there = |token: &str, needed: &Words| {
            let mut words = given.iter().flatten().chain(&site.prefix).chain(needed);
            words.any(|word| word.role == Role::Token && word.text.eq_ignore_ascii_case(token))
        };
        for phrase in given {
            let companion = self.values.companion(self.command, &phrase[0].text);
            let Some(token) = companion.filter(|token| !there(token, &needed)) else {
                continue;
            };
            let options = self.options.iter().flat_map(|option| self.shortest(option));
            let found = options.into_iter().find(|phrase| phrase[0].text == token);
            needed.extend(found.unwrap_or_else(|| panic!("{} has {token}", self.command.name)));
        }
        for option in self.required_options() {
            let phrase = self.phrases(option, None).remove(0);
            if !there(&phrase[0].text, &needed) {
                needed.extend(phrase);
            }
        }
        needed
    }

    /// Returns one phrase for each option: its first form, or its last.
    fn one_of_each(&self, site: &Site<'_>, last: bool) -> Vec<Words> {
        let phrases = site.options.iter().map(|option| {
            let mut phrases = self.phrases(option, None);
            match last {
                true => phrases.pop().unwrap_or_default(),
                false => phrases.swap_remove(0),
            }
        });
        phrases.collect()
    }

    /// Returns the shortest phrase for an option, or for each of its choices.
    fn shortest(&self, option: &Argument) -> Vec<Words> {
        let mut shortest: Vec<Words> = Vec::new();
        for phrase in self.phrases(option, None) {
            if shortest.iter().all(|known| known[0] != phrase[0]) {
                shortest.push(phrase);
            }
        }
        shortest
    }

    /// Returns every form of one argument, the shortest first: each choice; once, twice and three times if it repeats; with each option of
    /// a block alone, and with all of them.
    fn phrases(&self, argument: &Argument, outer: Option<&str>) -> Vec<Words> {
        let token = argument.token.as_deref().or(outer);
        let own_token: Words = argument.token.iter().map(|token| Word::token(token)).collect();
        let times: &[usize] = if argument.multiple { &[1, 2, 3] } else { &[1] };
        let mut phrases = Vec::new();
        for times in times {
            if argument.multiple {
                let once = |nth| self.bodies(argument, token, nth).swap_remove(0);
                let words = (0..*times).flat_map(|nth| match argument.multiple_token || nth == 0 {
                    true => [own_token.clone(), once(nth)].concat(),
                    false => once(nth),
                });
                phrases.push(words.collect());
            } else {
                let bodies = self.bodies(argument, token, 0);
                phrases.extend(bodies.into_iter().map(|body| [own_token.clone(), body].concat()));
            }
        }
        phrases
    }

    /// Returns every form of what follows an argument's token.
    fn bodies(&self, argument: &Argument, token: Option<&str>, nth: usize) -> Vec<Words> {
        match argument.kind {
            Kind::PureToken => vec![Words::new()],
            Kind::OneOf => {
                let choices = argument.parts.iter();
                choices.flat_map(|choice| self.phrases(choice, token)).collect()
            }
            Kind::Block => {
                let (required, options, _) = thirds(&self.command.name, &argument.parts);
                let mut bodies = self.sequences_of(required, token, nth);
                let shortest = bodies[0].clone();
                let phrases: Vec<Words> = options
                    .iter()
                    .map(|option| self.phrases(option, None).remove(0))
                    .collect();
                bodies.extend(phrases.iter().map(|option| [shortest.clone(), option.clone()].concat()));
                if phrases.len() > 1 {
                    bodies.push([shortest, phrases.concat()].concat());
                }
                bodies
            }
            Kind::Key | Kind::Str | Kind::Int | Kind::UnixTime => {
                let (text, is_free) = self.values.value(self.command, token, argument, nth);
                let role = match argument.kind {
                    Kind::Key => Role::Key,
                    Kind::Str if is_free => Role::Text,
                    _ => Role::Formed,
                };
                vec![vec![Word { text, role }]]
            }
        }
    }

    fn sequences(&self, arguments: &[Argument], token: Option<&str>) -> Vec<Words> {
        self.sequences_of(arguments, token, 0)
    }

    /// Returns required arguments in sequence, the shortest first: each form of each, with the first form of the others.
    fn sequences_of(&self, arguments: &[Argument], token: Option<&str>, nth: usize) -> Vec<Words> {
        let mut forms: Vec<Vec<Words>> = Vec::new();
        let mut at = 0;
        while let Some(argument) = arguments.get(at) {
            match arguments.get(at + 1) {
                // `numids id [id ...]`: a number is the count of what follows.
                Some(counted) if argument.kind == Kind::Int && counted.multiple => {
                    assert!(
                        argument.name.starts_with("num"),
                        "{}: an integer before what repeats is its count, and is named num…",
                        self.command.name
                    );
                    let counted = [1, 2, 3].map(|count| {
                        let values = (0..count).flat_map(|nth| self.bodies(counted, token, nth).swap_remove(0));
                        let count = Word {
                            text: count.to_string(),
                            role: Role::Count,
                        };
                        std::iter::once(count).chain(values).collect()
                    });
                    forms.push(counted.to_vec());
                    at += 2;
                }
                _ => {
                    let is_plain = argument.token.is_none() && !argument.multiple;
                    forms.push(match is_plain {
                        true => self.bodies(argument, token, nth),
                        false => self.phrases(argument, token),
                    });
                    at += 1;
                }
            }
        }
        let mut sequences = vec![forms.iter().flat_map(|forms| forms[0].clone()).collect()];
        for (at, others) in forms.iter().enumerate() {
            for form in &others[1..] {
                let mut words = Words::new();
                for (i, forms) in forms.iter().enumerate() {
                    words.extend(if i == at { form.clone() } else { forms[0].clone() });
                }
                sequences.push(words);
            }
        }
        sequences
    }

    /// Checks the row's arity, which must be the length of the shortest sentence, negative if there are longer ones; returns what is wrong.
    pub fn fault_of_arity(&self) -> Option<String> {
        let shortest = self.minimal().iter().map(Vec::len).min().unwrap_or(0) as i64;
        let longest = self.right().iter().map(Vec::len).max().unwrap_or(0) as i64;
        let expected = if longest > shortest { -shortest } else { shortest };
        (self.command.arity != expected).then(|| {
            format!(
                "{}: its arity is {}, by its arguments it is {expected}",
                self.command.name, self.command.arity
            )
        })
    }
}

/// Returns whether more words of this argument may follow its shortest form.
fn takes_more(argument: &Argument) -> bool {
    let repeats = argument.multiple && !argument.multiple_token;
    repeats || argument.parts.iter().any(takes_more)
}

/// Returns whether words may repeat here without a count before them.
fn repeats_uncounted(arguments: &[Argument]) -> bool {
    let counts = |at: usize| at > 0 && arguments[at - 1].kind == Kind::Int;
    let mut repeated = arguments.iter().enumerate().filter(|(_, argument)| argument.multiple);
    repeated.any(|(at, _)| !counts(at))
}

/// Returns whether `token` may be repeated.
fn repeats_with_token(option: &Argument, token: &str) -> bool {
    match option.kind {
        Kind::OneOf => option.parts.iter().any(|choice| repeats_with_token(choice, token)),
        _ => option.multiple_token && option.token.as_deref() == Some(token),
    }
}

/// Returns the words with which an option can begin.
fn first_tokens(option: &Argument) -> Vec<&str> {
    match (&option.token, option.kind) {
        (Some(token), _) => vec![token],
        (None, Kind::OneOf) => option.parts.iter().flat_map(first_tokens).collect(),
        _ => Vec::new(),
    }
}

/// Splits a grammar into head, options and tail, the structure of every grammar here.
fn thirds<'a>(name: &str, arguments: &'a [Argument]) -> (&'a [Argument], &'a [Argument], &'a [Argument]) {
    let is_option = |argument: &&Argument| argument.optional || argument.token.is_some();
    let head = arguments.iter().take_while(|argument| !is_option(argument)).count();
    let options = arguments[head..].iter().take_while(is_option).count();
    let (head, rest) = arguments.split_at(head);
    let (options, tail) = rest.split_at(options);
    assert!(
        tail.iter().all(|argument| !argument.optional),
        "{name}: options stand in more than one place, which the generator does not know"
    );
    assert!(
        options.iter().all(|option| !first_tokens(option).is_empty()),
        "{name}: an option without a word, which the generator does not know"
    );
    (head, options, tail)
}

/// Returns the sentence with the case of its tokens changed.
fn in_case(mut words: Words, change: impl Fn(usize, char) -> char) -> Words {
    for word in words.iter_mut().filter(|word| word.role == Role::Token) {
        word.text = word.text.char_indices().map(|(at, char)| change(at, char)).collect();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Values for Plain {
        fn value(&self, _: &Command, _: Option<&str>, argument: &Argument, nth: usize) -> (String, bool) {
            match argument.kind {
                Kind::Int => ((nth + 1).to_string(), false),
                _ => (format!("{}{nth}", argument.name), true),
            }
        }

        fn companion(&self, _: &Command, _: &str) -> Option<&str> {
            None
        }
    }

    fn argument(name: &str, kind: Kind, token: Option<&str>) -> Argument {
        Argument {
            name: name.into(),
            kind,
            token: token.map(str::to_owned),
            optional: token.is_some(),
            multiple: false,
            multiple_token: false,
            parts: Vec::new(),
        }
    }

    /// `X.DO key [COUNT n] [LABEL label [BOLD]] <MSG text | JSON body [body ...]>`
    fn command() -> Command {
        let mut label = argument("label", Kind::Block, Some("LABEL"));
        label.parts = vec![
            argument("label", Kind::Str, None),
            argument("BOLD", Kind::PureToken, Some("BOLD")),
        ];
        let mut bodies = argument("body", Kind::Str, Some("JSON"));
        bodies.multiple = true;
        let mut tail = argument("what", Kind::OneOf, None);
        tail.parts = vec![argument("text", Kind::Str, Some("MSG")), bodies];
        for part in &mut tail.parts {
            part.optional = false;
        }
        Command {
            name: "X.DO".into(),
            arity: -4,
            flags: BTreeSet::new(),
            arguments: vec![
                argument("key", Kind::Key, None),
                argument("n", Kind::Int, Some("COUNT")),
                label,
                tail,
            ],
        }
    }

    #[test]
    fn right_sentences_have_every_option_in_every_form() {
        let command = command();
        let grammar = Grammar::new(&command, &Plain);
        let right: BTreeSet<String> = grammar.right().iter().map(|words| line(words)).collect();
        for expected in [
            "X.DO key0 MSG text0",
            "X.DO key0 JSON body0",
            "X.DO key0 JSON body0 body1 body2",
            "X.DO key0 COUNT 1 MSG text0",
            "X.DO key0 COUNT 1 JSON body0",
            "X.DO key0 LABEL label0 MSG text0",
            "X.DO key0 LABEL label0 BOLD MSG text0",
            "X.DO key0 LABEL label0 COUNT 1 MSG text0",
            "x.do key0 label label0 bold count 1 json body0",
        ] {
            assert!(right.contains(expected), "{expected} in {right:#?}");
        }
        assert_eq!(grammar.fault_of_arity(), None);
    }

    #[test]
    fn wrong_sentences_say_which_word_is_wrong() {
        let command = command();
        let others = BTreeSet::from(["COUNT".to_owned(), "REV".to_owned()]);
        let wrong = Grammar::new(&command, &Plain).wrong(&others);
        for (expected, near) in [
            ("X.DO key0 COUNT", "COUNT"),
            ("X.DO key0 COUNT 1 COUNT 1 MSG text0", "COUNT"),
            ("X.DO COUNT 1 key0 MSG text0", "1"),
            ("X.DO key0 MSG text0 COUNT 1", "COUNT"),
            ("X.DO key0 BOLD MSG text0", "BOLD"),
            ("X.DO key0 LABEL label0 COUNT 1 BOLD MSG text0", "BOLD"),
            ("X.DO key0 LABEL label0 BOLD BOLD", "BOLD"),
            ("X.DO key0 COUNT 1 BOGUS LABEL label0 MSG text0", "BOGUS"),
            ("X.DO key0 REV COUNT 1 LABEL label0 MSG text0", "REV"),
        ] {
            let found = wrong.iter().find(|wrong| line(&wrong.words) == expected);
            let found = found.unwrap_or_else(|| panic!("{expected} in {wrong:#?}"));
            assert_eq!(found.refusal, Refusal::Near(near.into()), "{expected}");
        }
        let right = Grammar::new(&command, &Plain).right();
        for wrong in &wrong {
            assert!(!right.contains(&wrong.words), "{} is right", line(&wrong.words));
        }
    }

    #[test]
    fn keywords_take_the_place_of_values_only() {
        let command = command();
        let sentences = Grammar::new(&command, &Plain).keywords_as_values();
        let lines: BTreeSet<String> = sentences.iter().map(|sentence| line(&sentence.words)).collect();
        assert!(lines.contains("X.DO key0 LABEL COUNT MSG text0"), "{lines:#?}");
        assert!(lines.contains("X.DO JSON MSG text0"), "{lines:#?}");
        for sentence in sentences {
            assert_ne!(sentence.role, Role::Token);
            assert!(command.tokens().contains(&sentence.words[sentence.at].text));
        }
    }
}
