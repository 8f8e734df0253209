//! Finds the keys among a command's arguments if some of them are values of options. It walks over the arguments with the command's row of
//! the table as the grammar, so a value is skipped as a value, whatever its text: in `LABEL STORE STORE key` the first `STORE` is a label.
//!
//! The server asks for the keys before the command runs, to check permissions and slots, and for `COMMAND GETKEYS`. The syntax is checked
//! only when the command runs; if it is wrong, every key that can be recognised is reported.

use crate::args::parse_int;
use crate::table::{Access, ArgSpec, Command, Kind, Place};

/// Reports every key among `words`, which begin with the command's name: its position and its access.
///
/// Supports rows with arguments of one word each, followed by options; a unit test checks each row that needs it. In a block of an option
/// an integer is the count of the repeated argument after it.
pub fn find<W: AsRef<[u8]>>(command: &Command, words: &[W], found: impl FnMut(usize, Access)) {
    let mut walk = Walk {
        command,
        words,
        at: 0,
        found,
    };
    for key in command.keys {
        if let Place::At(at) = key.place {
            walk.at = at as usize;
            walk.key(key.access);
        }
    }
    walk.at = options_begin(command);
    while walk.at < words.len() {
        walk.option();
    }
}

/// Returns the position of the first option: after the arguments of one word each, the first of which is the first key.
fn options_begin(command: &Command) -> usize {
    let first = match command.keys.first().map(|key| key.place) {
        Some(Place::At(at)) => at as usize,
        _ => 1,
    };
    first + command.args.iter().take_while(|arg| !arg.optional).count()
}

struct Walk<'a, W, F> {
    command: &'a Command,
    words: &'a [W],
    /// Position of the next word.
    at: usize,
    found: F,
}

impl<W: AsRef<[u8]>, F: FnMut(usize, Access)> Walk<'_, W, F> {
    /// Skips an option and its values, or a single word that is no option.
    fn option(&mut self) {
        let word = self.words[self.at].as_ref();
        let mut nth_key = 0;
        let option = option_named(self.command.args, word, &mut nth_key);
        self.at += 1;
        if let Some(option) = option {
            self.values(option, &mut nth_key);
        }
    }

    /// Skips the values after an option's word. `nth_key` counts the row's arguments of kind key.
    fn values(&mut self, spec: &ArgSpec, nth_key: &mut usize) {
        match spec.kind {
            Kind::PureToken => {}
            Kind::Str | Kind::Int | Kind::UnixTime | Kind::OneOf(_) => self.at += 1,
            Kind::Key => {
                self.key(self.command.keys[*nth_key].access);
                *nth_key += 1;
            }
            Kind::Block(parts) => self.block(parts, nth_key),
        }
    }

    fn block(&mut self, parts: &[ArgSpec], nth_key: &mut usize) {
        let mut count = 0;
        for part in parts {
            if part.multiple {
                let first = *nth_key;
                for _ in 0..count.min(self.words.len().saturating_sub(self.at)) {
                    *nth_key = first;
                    self.values(part, nth_key);
                }
                *nth_key = first + keys_in(part);
            } else if let (true, Some(token)) = (part.optional, part.token) {
                if self
                    .word()
                    .is_some_and(|word| word.eq_ignore_ascii_case(token.as_bytes()))
                {
                    self.at += 1;
                    self.values(part, nth_key);
                } else {
                    *nth_key += keys_in(part);
                }
            } else {
                if matches!(part.kind, Kind::Int) {
                    let number = self.word().and_then(parse_int);
                    count = number.map_or(0, |number| usize::try_from(number).unwrap_or(0));
                }
                self.values(part, nth_key);
            }
        }
    }

    fn word(&self) -> Option<&[u8]> {
        self.words.get(self.at).map(AsRef::as_ref)
    }

    fn key(&mut self, access: Access) {
        if self.at < self.words.len() {
            (self.found)(self.at, access);
        }
        self.at += 1;
    }
}

/// Returns the option with this word; `nth_key` increases by the keys of the arguments before it.
fn option_named<'a>(args: &'a [ArgSpec], word: &[u8], nth_key: &mut usize) -> Option<&'a ArgSpec> {
    for arg in args {
        match (arg.token, arg.kind) {
            (Some(token), _) if word.eq_ignore_ascii_case(token.as_bytes()) => return Some(arg),
            (None, Kind::OneOf(choices)) => {
                let before = *nth_key;
                if let Some(choice) = option_named(choices, word, nth_key) {
                    return Some(choice);
                }
                *nth_key = before;
            }
            _ => {}
        }
        *nth_key += keys_in(arg);
    }
    None
}

/// Returns how many arguments of kind key this one contains.
fn keys_in(arg: &ArgSpec) -> usize {
    match arg.kind {
        Kind::Key => 1,
        Kind::OneOf(parts) | Kind::Block(parts) => parts.iter().map(keys_in).sum(),
        _ => 0,
    }
}

/// Returns why [`find`] does not support a row, if it does not.
#[cfg(test)]
pub fn fault(command: &Command) -> Option<String> {
    let in_options = command.keys.iter().any(|key| matches!(key.place, Place::InOption));
    if in_options != command.entry.finds_keys() {
        return Some("the entry must be entry_with_keys where a key is in an option, and only there".into());
    }
    if command.args.iter().map(keys_in).sum::<usize>() != command.keys.len() {
        return Some("not one key spec for each argument of kind key".into());
    }
    if !in_options {
        return None;
    }
    let fixed = command.args.iter().take_while(|arg| !arg.optional);
    if fixed
        .clone()
        .any(|arg| arg.token.is_some() || arg.multiple || matches!(arg.kind, Kind::Block(_) | Kind::OneOf(_)))
    {
        return Some("an argument before the options is not one word".into());
    }
    if command.args.iter().skip(fixed.count()).any(|arg| !arg.optional) {
        return Some("something comes behind the options".into());
    }
    if !matches!(command.args.first().map(|arg| arg.kind), Some(Kind::Key))
        || !matches!(command.keys[0].place, Place::At(_))
    {
        return Some("the first argument is not a key".into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use crate::table::{arg, block, key, many_token, one_of, opt, token, KeySpec};

    /// Returns the keys of a command in the order of their positions.
    fn keys(row: &Command, line: &str) -> Vec<(usize, Access)> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut keys = Vec::new();
        find(row, &words, |at, access| keys.push((at, access)));
        keys
    }

    /// Asserts that the keys are exactly the words that begin with `@`.
    #[track_caller]
    fn assert_marked(row: &Command, line: &str) {
        let marked: Vec<usize> = line
            .split_whitespace()
            .enumerate()
            .filter(|(_, word)| word.starts_with('@'))
            .map(|(at, _)| at)
            .collect();
        let found: Vec<usize> = keys(row, line).into_iter().map(|(at, _)| at).collect();
        assert_eq!(found, marked, "{line}");
    }

    fn named(rows: impl IntoIterator<Item = &'static Command>, name: &str) -> &'static Command {
        let row = rows.into_iter().find(|row| row.name == name);
        row.unwrap_or_else(|| panic!("there is {name}"))
    }

    fn create() -> &'static Command {
        named(command::ALL.iter().copied(), "SESSION.CREATE")
    }

    fn checkpoint_create() -> &'static Command {
        let group = named(command::ALL.iter().copied(), "SESSION.CHECKPOINT");
        named(group.subcommands, "CREATE")
    }

    fn migrate() -> &'static Command {
        named(command::ALL.iter().copied(), "SESSION.MIGRATE")
    }

    #[test]
    fn values_are_not_taken_for_options() {
        for line in [
            "SESSION.CREATE @k",
            "SESSION.CREATE @k INDEX @i",
            "SESSION.CREATE @k index @i AliaS INDEX autoname OPEN",
            "SESSION.CREATE @k ALIAS INDEX INDEX @i",
            "SESSION.CREATE @k ALIAS INDEX AUTONAME INDEX @INDEX",
            "SESSION.CREATE @k ALIAS AUTONAME AUTONAME INDEX @i",
            "SESSION.CREATE @k ALIAS AUTONAME INDEX @i",
            "SESSION.CREATE @k ID INDEX SCOPE INDEX STATE INDEX META INDEX OPEN",
            "SESSION.CREATE @k PIN INDEX PIN INDEX INDEX @i PIN INDEX",
            "SESSION.CREATE @k LIMIT INDEX INDEX LIMIT maxlen INDEX INDEX @i",
            "SESSION.CREATE @k IFVERSION INDEX LEASE INDEX AT INDEX EX INDEX INDEX @i",
            "SESSION.CREATE @k PXAT INDEX PERSIST INDEX @i KEEPTTL",
            "SESSION.CREATE @INDEX INDEX @INDEX",
        ] {
            assert_marked(create(), line);
        }
        for line in [
            "SESSION.CHECKPOINT CREATE @k",
            "SESSION.CHECKPOINT CREATE @STORE STORE @STORE",
            "SESSION.CHECKPOINT CREATE @k LABEL STORE STORE @d",
            "SESSION.CHECKPOINT CREATE @k LABEL STORE OUTCOME v",
            "SESSION.CHECKPOINT CREATE @k GRACE STORE OUTCOME STORE SUMMARY STORE TRIM store @d CLOSE",
            "SESSION.CHECKPOINT CREATE @k REFS 0 STORE @d",
            "SESSION.CHECKPOINT CREATE @k REFS 2 STORE STORE STORE @d",
            "SESSION.CHECKPOINT CREATE @k REFS 3 STORE REFS STORE TRIM STORE @d IFVERSION STORE",
            "SESSION.CHECKPOINT CREATE @k EX STORE STORE @d AT STORE",
        ] {
            assert_marked(checkpoint_create(), line);
        }
        for line in [
            "SESSION.MIGRATE @k",
            "SESSION.MIGRATE @k FROM 1 @s",
            "SESSION.MIGRATE @k FROM 3 @FROM @FORMAT @KEEP KEEP",
            "SESSION.MIGRATE @k FROM 0 FORMAT FROM",
            "SESSION.MIGRATE @k FORMAT FROM FROM 2 @1 @2 ID FROM MAXLEN FROM",
            "SESSION.MIGRATE @k DRYRUN FROM 1 @s PERSIST EX FROM",
        ] {
            assert_marked(migrate(), line);
        }
    }

    #[test]
    fn a_wrong_command_names_what_it_can() {
        for line in [
            "SESSION.CREATE",
            "SESSION.CREATE @k INDEX",
            "SESSION.CREATE @k INDEX @a INDEX @b",
            "SESSION.CREATE @k nonsense INDEX @i",
            "SESSION.CREATE @k LIMIT INDEX",
            "SESSION.CREATE @k ALIAS",
        ] {
            assert_marked(create(), line);
        }
        for line in [
            "SESSION.CHECKPOINT CREATE",
            "SESSION.CHECKPOINT CREATE @k STORE",
            "SESSION.CHECKPOINT CREATE @k REFS",
            "SESSION.CHECKPOINT CREATE @k REFS 9 a STORE d",
            "SESSION.CHECKPOINT CREATE @k REFS 99999999999999999999 STORE @d",
            "SESSION.CHECKPOINT CREATE @k REFS -1 STORE @d",
        ] {
            assert_marked(checkpoint_create(), line);
        }
        for line in [
            "SESSION.MIGRATE",
            "SESSION.MIGRATE @k FROM",
            "SESSION.MIGRATE @k FROM 9223372036854775807",
            "SESSION.MIGRATE @k FROM 9223372036854775807 @a @b",
            "SESSION.MIGRATE @k FROM x a b FROM 1 @s",
            "SESSION.MIGRATE @k FROM 01 a",
            "SESSION.MIGRATE @k FROM 1 @a FROM 2 @b @c",
        ] {
            assert_marked(migrate(), line);
        }
    }

    #[test]
    fn each_key_has_its_own_access() {
        assert_eq!(
            keys(create(), "SESSION.CREATE k OPEN INDEX i"),
            [(1, Access::INSERT), (4, Access::READ_INSERT)]
        );
        assert_eq!(
            keys(checkpoint_create(), "SESSION.CHECKPOINT CREATE k STORE d"),
            [(2, Access::UPDATE), (4, Access::OVERWRITE)]
        );
        assert_eq!(
            keys(migrate(), "SESSION.MIGRATE k FROM 2 a b"),
            [(1, Access::UPDATE), (4, Access::DELETE), (5, Access::DELETE)]
        );
    }

    #[test]
    fn arguments_are_counted_with_those_before_them() {
        // Keys in options of every form, each with a different access.
        const ROW: Command = Command {
            keys: &[
                KeySpec::at(1, Access::LOOK),
                KeySpec::in_option(Access::READ),
                KeySpec::in_option(Access::INSERT),
                KeySpec::in_option(Access::UPDATE),
                KeySpec::in_option(Access::DELETE),
                KeySpec::in_option(Access::OVERWRITE),
            ],
            args: &[
                key("key"),
                arg("start", Kind::Str),
                opt(one_of("which", &[token("A", key("a")), token("B", key("b"))])),
                opt(token("C", block("c", &[opt(token("D", key("d"))), key("e")]))),
                opt(many_token(token("F", key("f")))),
            ],
            ..Command::BLANK
        };
        assert_eq!(
            keys(&ROW, "X k A B b F f C e C D d e F f A a"),
            [
                (1, Access::LOOK),
                (4, Access::INSERT),
                (6, Access::OVERWRITE),
                (8, Access::DELETE),
                (11, Access::UPDATE),
                (12, Access::DELETE),
                (14, Access::OVERWRITE),
                (16, Access::READ),
            ]
        );
    }

    #[test]
    fn every_command_tells_its_keys() {
        for row in command::ALL {
            for command in std::iter::once(*row).chain(row.subcommands) {
                assert_eq!(fault(command), None, "{} {}", row.name, command.name);
            }
        }
        for row in [checkpoint_create(), migrate()] {
            let without_entry = Command {
                entry: Command::BLANK.entry,
                ..*row
            };
            let error = fault(&without_entry).expect("the row has no entry of its own");
            assert!(error.contains("entry_with_keys"), "{error}");
        }
    }

    #[test]
    fn any_words_at_all_are_walked() {
        // Every sequence of five of the words with a meaning: no panic, and each position once and in range.
        const WORDS: [&str; 9] = ["STORE", "REFS", "FROM", "INDEX", "ALIAS", "AUTONAME", "LIMIT", "2", "x"];
        for row in [create(), checkpoint_create(), migrate()] {
            for mut number in 0..WORDS.len().pow(5) {
                let mut words = vec!["command", "key", "key"];
                for _ in 0..5 {
                    words.push(WORDS[number % WORDS.len()]);
                    number /= WORDS.len();
                }
                let mut last = 0;
                find(row, &words, |at, _| {
                    assert!(last < at && at < words.len(), "{words:?}");
                    last = at;
                });
            }
        }
    }
}
