//! The window: an invariant of the value, whatever the command.

use redis_session_tests::payload::Random;
use redis_session_tests::{entry, int, items, now_ms, text, wait_until, Server};
use serde_json::json;

#[test]
fn window_replies_what_it_evicted_now() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.WINDOW k MAXLEN 3
        (error) NOSESSION no session at key 'k'
        > SESSION.APPEND k JSON '{"n":1}' '{"n":2}' '{"n":3}' '{"n":4}' '{"n":5}'
        (integer) 5
        > SESSION.WINDOW k MAXLEN 3
        (integer) 2
        > SESSION.WINDOW k MAXLEN 3
        (integer) 0
        > SESSION.WINDOW k MAXLEN 1 MAXTOKENS 1000
        (integer) 2
        > SESSION.RANGE k 0 -1
        1) '{"n":5}'
        # nought is no bound
        > SESSION.WINDOW k MAXLEN 0
        (integer) 0
        > SESSION.APPEND k JSON '{"n":6}' '{"n":7}'
        (integer) 7
        > SESSION.LEN k
        (integer) 3
        "#,
    );
    let limits = server.document("k")["limits"].clone();
    assert_eq!((&limits["maxlen"], &limits["maxtokens"]), (&json!(0), &json!(1000)));
}

#[test]
fn the_grammar_of_window_is_kept() {
    let server = Server::start();
    server.run("SESSION.APPEND k MSG user hi");
    server.conversation(
        r#"
        > SESSION.WINDOW
        (error) ERR wrong number of arguments for '…' command
        > SESSION.WINDOW k BOGUS
        (error) ERR syntax error near 'BOGUS'
        > SESSION.WINDOW k MAXLEN
        (error) ERR syntax error near 'MAXLEN'
        > SESSION.WINDOW k MAXLEN 1 MAXLEN 1
        (error) ERR syntax error near 'MAXLEN'
        > SESSION.WINDOW k PIN system NOPIN
        (error) ERR syntax error near 'NOPIN'
        > SESSION.WINDOW k NOPIN PIN system
        (error) ERR syntax error near 'PIN'
        > SESSION.WINDOW k PIN
        (error) ERR syntax error near 'PIN'
        > SESSION.WINDOW k MAXLEN 4294967296
        (error) ERR MAXLEN must be an integer from 0 to 4294967295
        > SESSION.WINDOW k MAXTOKENS -1
        (error) ERR MAXTOKENS must be an integer from 0 to …
        > SESSION.WINDOW k MAXBYTES 99999999999999999999
        (error) ERR MAXBYTES must be an integer from 0 to …
        > SESSION.WINDOW k MAXAGE 1.5
        (error) ERR MAXAGE must be an integer from 0 to …
        > SESSION.WINDOW k maxage 0 maxbytes 0 MaxTokens 0 maxlen 4294967295 pin system pin developer
        (integer) 0
        "#,
    );
}

#[test]
fn tokens_and_bytes_bound_as_messages_do() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT maxtokens 100");
    for n in 1..=4 {
        server.run(&format!(r#"SESSION.APPEND k TOKENS 30 JSON '{{"n":{n}}}'"#));
    }
    assert_eq!(server.seqs("k"), [2, 3, 4]);
    server.run(r#"SESSION.APPEND k TOKENS 10 JSON '{"n":5}'"#);
    assert_eq!(server.seqs("k"), [2, 3, 4, 5], "exactly at the bound");
    server.run(r#"SESSION.APPEND k TOKENS 101 JSON '{"n":6}'"#);
    assert_eq!(server.seqs("k"), [6], "the newest stays even if it alone is over");
    server.run(r#"SESSION.APPEND k TOKENS 1 JSON '{"n":7}'"#);
    assert_eq!(server.seqs("k"), [7]);

    server.run("SESSION.CREATE b LIMIT maxbytes 21");
    for n in 1..=4 {
        server.run(&format!(r#"SESSION.APPEND b JSON '{{"n":{n}}}'"#));
    }
    assert_eq!(server.seqs("b"), [2, 3, 4], "seven bytes each");
    assert_eq!(server.say("SESSION.WINDOW b MAXBYTES 20"), "(integer) 1");
    assert_eq!(server.say("SESSION.WINDOW b MAXBYTES 1"), "(integer) 1");
    assert_eq!(server.seqs("b"), [4]);
}

#[test]
fn a_tool_result_never_stays_without_its_call() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CREATE k LIMIT maxlen 4
        > SESSION.APPEND k JSON '{"tool_calls":[{"id":"a"},{"id":"b"}]}'
        > SESSION.APPEND k JSON '{"role":"user"}'
        > SESSION.APPEND k JSON '{"tool_call_id":"b"}'
        > SESSION.APPEND k JSON '{"tool_call_id":"a"}'
        (integer) 4
        # the newest message belongs to the exchange of seq 1, so that stays and 2 goes
        > SESSION.APPEND k EVICTED JSON '{"tool_call_id":"a","more":1}'
        1) (integer) 5
        2) 1) '{"role":"user"}'
        # now another message is the newest: the exchange goes, whole
        > SESSION.APPEND k EVICTED JSON '{"role":"user","n":6}'
        1) (integer) 6
        2) 1) '{"tool_calls":[{"id":"a"},{"id":"b"}]}'
           2) '{"tool_call_id":"b"}'
           3) '{"tool_call_id":"a"}'
           4) '{"tool_call_id":"a","more":1}'
        # an answer whose call is gone stands for itself
        > SESSION.APPEND k JSON '{"tool_call_id":"a","late":1}'
        (integer) 7
        > SESSION.LEN k
        (integer) 2
        "#,
    );
}

#[test]
fn interleaved_exchanges_go_one_by_one() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT maxlen 0");
    for body in [
        r#"{"tool_calls":[{"id":"a"}]}"#,
        r#"{"type":"function_call","call_id":"b"}"#,
        r#"{"type":"function_call_output","call_id":"b"}"#,
        r#"{"tool_call_id":"a"}"#,
        r#"{"role":"user"}"#,
    ] {
        server.run(&format!("SESSION.APPEND k JSON '{body}'"));
    }
    assert_eq!(server.say("SESSION.WINDOW k MAXLEN 4"), "(integer) 2");
    assert_eq!(server.seqs("k"), [2, 3, 5]);
    assert_eq!(server.say("SESSION.WINDOW k MAXLEN 2"), "(integer) 2");
    assert_eq!(server.seqs("k"), [5]);
}

#[test]
fn an_answer_belongs_to_the_nearest_earlier_call_of_its_id() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT maxlen 0");
    for body in [
        r#"{"tool_calls":[{"id":"a"}],"first":1}"#,
        r#"{"tool_calls":[{"id":"a"}],"second":1}"#,
        r#"{"tool_call_id":"a"}"#,
        r#"{"role":"user"}"#,
    ] {
        server.run(&format!("SESSION.APPEND k JSON '{body}'"));
    }
    assert_eq!(server.say("SESSION.WINDOW k MAXLEN 3"), "(integer) 1");
    assert_eq!(server.seqs("k"), [2, 3, 4]);
    assert_eq!(server.say("SESSION.WINDOW k MAXLEN 2"), "(integer) 2");
    assert_eq!(server.seqs("k"), [4]);
}

#[test]
fn pinned_roles_stay_and_count_for_nothing() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CREATE k PIN system LIMIT maxlen 2
        > SESSION.APPEND k JSON '{"role":"system","n":1}'
        (integer) 1
        > SESSION.APPEND k JSON '{"role":"user","n":2}' '{"role":"user","n":3}' '{"role":"user","n":4}'
        (integer) 4
        > SESSION.RANGE k 0 -1
        1) '{"role":"system","n":1}'
        2) '{"role":"user","n":3}'
        3) '{"role":"user","n":4}'
        # the pins are replaced
        > SESSION.WINDOW k PIN developer
        (integer) 1
        > SESSION.APPEND k JSON '{"role":"developer","n":5}'
        (integer) 5
        > SESSION.RANGE k 0 -1
        1) '{"role":"user","n":3}'
        2) '{"role":"user","n":4}'
        3) '{"role":"developer","n":5}'
        > SESSION.WINDOW k NOPIN
        (integer) 1
        > SESSION.RANGE k 0 -1
        1) '{"role":"user","n":4}'
        2) '{"role":"developer","n":5}'
        "#,
    );
}

#[test]
fn an_exchange_with_a_pinned_message_is_pinned_whole() {
    let server = Server::start();
    server.conversation(
        r#"
        > SESSION.CREATE k PIN tool LIMIT maxlen 1
        > SESSION.APPEND k JSON '{"role":"assistant","tool_calls":[{"id":"a"}]}' '{"role":"tool","tool_call_id":"a"}'
        (integer) 2
        > SESSION.APPEND k JSON '{"role":"user","n":3}'
        (integer) 3
        > SESSION.APPEND k JSON '{"role":"user","n":4}'
        (integer) 4
        > SESSION.RANGE k 0 -1
        1) '{"role":"assistant","tool_calls":[{"id":"a"}]}'
        2) '{"role":"tool","tool_call_id":"a"}'
        3) '{"role":"user","n":4}'
        "#,
    );
}

#[test]
fn the_newest_unpinned_exchange_stays_under_a_pinned_newest() {
    let server = Server::start();
    server.run("SESSION.CREATE k PIN system LIMIT maxtokens 5");
    server.run(r#"SESSION.APPEND k TOKENS 9 JSON '{"role":"user"}'"#);
    server.run(r#"SESSION.APPEND k TOKENS 9 JSON '{"role":"system"}'"#);
    assert_eq!(server.seqs("k"), [1, 2]);
    server.run(r#"SESSION.APPEND k TOKENS 9 JSON '{"role":"user"}'"#);
    assert_eq!(server.seqs("k"), [2, 3]);
}

#[test]
fn what_maxage_has_passed_goes_with_the_write() {
    let server = Server::start();
    let now = now_ms();
    server.run("SESSION.CREATE k LIMIT maxlen 0");
    for (n, age_ms) in [(1, 900_000), (2, 600_000), (3, 1000)] {
        server.run(&format!(r#"SESSION.APPEND k AT {} JSON '{{"n":{n}}}'"#, now - age_ms));
    }
    assert_eq!(server.say("SESSION.WINDOW k MAXAGE 700000"), "(integer) 1");
    assert_eq!(server.seqs("k"), [2, 3]);
    server.run(r#"SESSION.WINDOW k MAXAGE 300000"#);
    assert_eq!(server.seqs("k"), [3]);
    // The newest is kept, however old it is.
    server.run(r#"SESSION.CREATE old LIMIT maxage 1000"#);
    server.run(r#"SESSION.APPEND old AT 5000 JSON '{"n":1}'"#);
    assert_eq!(server.seqs("old"), [1]);
    server.run(r#"SESSION.APPEND old AT 6000 JSON '{"n":2}'"#);
    assert_eq!(server.seqs("old"), [2]);
}

#[test]
fn what_loses_its_pinned_answer_ages_again() {
    let server = Server::start();
    let old = now_ms() - 9_000_000;
    for takes_the_answer in ["SESSION.POP k", "SESSION.REMOVE k 2"] {
        server.run("DEL k");
        server.run("SESSION.CREATE k LIMIT maxage 3600000 PIN tool");
        server.run(&format!(
            r#"SESSION.APPEND k AT {old} JSON '{{"tool_calls":[{{"id":"a"}}]}}' '{{"role":"tool","tool_call_id":"a"}}'"#
        ));
        server.run(takes_the_answer);
        assert_eq!(server.seqs("k"), [1], "the newest exchange stays");
        server.run(r#"SESSION.APPEND k JSON '{"n":3}'"#);
        assert_eq!(server.seqs("k"), [3], "after {takes_the_answer}");
        server.run("DEBUG RELOAD");
        assert_eq!(server.seqs("k"), [3]);
    }
}

#[test]
fn what_maxage_has_passed_is_hidden_at_once_and_freed_at_the_next_write() {
    let server = Server::start();
    server.run("SESSION.CREATE k LIMIT maxage 3000");
    let start = now_ms();
    // The first expires three seconds from its time, the second only after hours.
    server.run(&format!(
        r#"SESSION.APPEND k AT {} JSON '{{"role":"user","n":1}}'"#,
        start - 2000
    ));
    server.run(&format!(
        r#"SESSION.APPEND k AT {} JSON '{{"role":"user","n":2}}'"#,
        start + 9_000_000
    ));
    let version = server.version_of("k");
    wait_until("the first message is hidden", || server.seqs("k") == [2]);
    assert!(now_ms() >= start + 1000, "hidden too early");
    assert_eq!(server.say("SESSION.LEN k"), "(integer) 1");
    assert_eq!(server.document("k")["message_count"], 1);
    assert_eq!(server.document("k")["messages"].as_array().expect("an array").len(), 1);
    assert_eq!(
        server.say("SESSION.RANGE k - + BYSEQ COUNT 1"),
        r#"1) '{"role":"user","n":2}'"#
    );
    assert_eq!(
        server.say("SESSION.RANGE k - + BYTIME ROLE user"),
        r#"1) '{"role":"user","n":2}'"#
    );
    let context = server.run("SESSION.CONTEXT k");
    assert_eq!(items(&redis_session_tests::entry(&context, "messages")).len(), 1);
    assert_eq!(int(&redis_session_tests::entry(&context, "omitted")), 0);
    assert_eq!(server.version_of("k"), version, "hiding is no write");
    // The next write frees what has expired, and with EVICTED returns it, for a summariser.
    assert_eq!(
        server.say(r#"SESSION.APPEND k EVICTED JSON '{"n":3}'"#),
        "1) (integer) 3\n2) 1) '{\"role\":\"user\",\"n\":1}'"
    );
}

/// A model of the window as the contract defines it, on plain vectors.
#[derive(Default)]
struct Model {
    messages: Vec<Message>,
    next_seq: i64,
    maxlen: u64,
    maxtokens: u64,
    maxbytes: u64,
    pins: Vec<&'static str>,
}

#[derive(Clone)]
struct Message {
    seq: i64,
    role: &'static str,
    calls: Vec<String>,
    answers: Option<String>,
    tokens: u64,
    body: String,
}

impl Model {
    /// For each message the seq of its exchange: that of the call, or its own.
    fn exchanges(&self) -> Vec<i64> {
        let nearest_call = |at: usize, id: &String| {
            self.messages[..at]
                .iter()
                .rev()
                .find(|message| message.calls.contains(id))
        };
        let exchange = |at: usize| {
            let call = self.messages[at].answers.as_ref().and_then(|id| nearest_call(at, id));
            call.map_or(self.messages[at].seq, |call| call.seq)
        };
        (0..self.messages.len()).map(exchange).collect()
    }

    /// Evicts as the bounds require; returns the evicted seqs.
    fn trim(&mut self) -> Vec<i64> {
        let mut gone = Vec::new();
        loop {
            let exchanges = self.exchanges();
            let pinned: Vec<i64> = self
                .messages
                .iter()
                .zip(&exchanges)
                .filter(|(message, _)| self.pins.contains(&message.role))
                .map(|(_, exchange)| *exchange)
                .collect();
            let loose: Vec<(&Message, i64)> = self
                .messages
                .iter()
                .zip(exchanges)
                .filter(|(_, exchange)| !pinned.contains(exchange))
                .collect();
            let is_over = |bound: u64, used: u64| bound != 0 && used > bound;
            let fits = !is_over(self.maxlen, loose.len() as u64)
                && !is_over(self.maxtokens, loose.iter().map(|(message, _)| message.tokens).sum())
                && !is_over(
                    self.maxbytes,
                    loose.iter().map(|(message, _)| message.body.len() as u64).sum(),
                );
            let newest = loose.last().map(|(_, exchange)| *exchange);
            let oldest = loose
                .iter()
                .map(|(_, exchange)| *exchange)
                .filter(|exchange| Some(*exchange) != newest)
                .min();
            let (false, Some(oldest)) = (fits, oldest) else { break };
            let evicted: Vec<i64> = loose
                .iter()
                .filter(|(_, exchange)| *exchange == oldest)
                .map(|(message, _)| message.seq)
                .collect();
            self.messages.retain(|message| !evicted.contains(&message.seq));
            gone.extend(evicted);
        }
        gone.sort();
        gone
    }

    /// Returns the bodies that a context with these bounds contains; 0 is no bound.
    fn context(&self, maxlen: u64, maxtokens: u64) -> Vec<String> {
        let exchanges = self.exchanges();
        let of = |exchange: i64| {
            self.messages
                .iter()
                .zip(&exchanges)
                .filter(move |(_, own)| **own == exchange)
                .map(|(message, _)| message)
        };
        let is_pinned = |exchange: i64| of(exchange).any(|message| self.pins.contains(&message.role));
        let mut taken: Vec<i64> = exchanges
            .iter()
            .copied()
            .filter(|exchange| is_pinned(*exchange))
            .collect();
        let mut loose: Vec<i64> = exchanges
            .iter()
            .copied()
            .filter(|exchange| !is_pinned(*exchange))
            .collect();
        let newest = loose.last().copied();
        loose.sort();
        loose.dedup();
        // From the newest backwards; the one that holds the newest message comes first, wherever it begins.
        loose.retain(|exchange| Some(*exchange) != newest);
        loose.extend(newest);
        for exchange in loose.into_iter().rev() {
            let all = || {
                taken
                    .iter()
                    .chain([&exchange])
                    .collect::<std::collections::BTreeSet<_>>()
                    .into_iter()
                    .flat_map(|exchange| of(*exchange))
            };
            let fits = |bound: u64, used: u64| bound == 0 || used <= bound;
            let has_room =
                fits(maxlen, all().count() as u64) && fits(maxtokens, all().map(|message| message.tokens).sum());
            if !has_room && Some(exchange) != newest {
                break;
            }
            taken.push(exchange);
        }
        let bodies = self
            .messages
            .iter()
            .zip(&exchanges)
            .filter(|(_, exchange)| taken.contains(exchange));
        bodies.map(|(message, _)| message.body.clone()).collect()
    }

    fn seqs(&self) -> Vec<i64> {
        self.messages.iter().map(|message| message.seq).collect()
    }
}

#[test]
fn random_conversations_are_evicted_as_the_contract_words_it() {
    let server = Server::start();
    for seed in 0..40 {
        let mut random = Random(seed);
        let mut model = Model {
            next_seq: 1,
            maxlen: 20,
            ..Model::default()
        };
        let key = format!("k{seed}");
        server.run(&format!("SESSION.CREATE {key}"));
        for step in 0..60 {
            let told = format!("seed {seed}, step {step}");
            match random.below(10) {
                0 => {
                    let bound = |random: &mut Random, top: usize| {
                        if random.below(3) == 0 {
                            0
                        } else {
                            1 + random.below(top) as u64
                        }
                    };
                    (model.maxlen, model.maxtokens, model.maxbytes) =
                        (bound(&mut random, 12), bound(&mut random, 60), bound(&mut random, 600));
                    model.pins = ["system", "tool", "user"]
                        .into_iter()
                        .filter(|_| random.below(4) == 0)
                        .collect();
                    let pins: String = model.pins.iter().map(|role| format!(" PIN {role}")).collect();
                    let pins = if pins.is_empty() { " NOPIN".into() } else { pins };
                    let (maxlen, maxtokens, maxbytes) = (model.maxlen, model.maxtokens, model.maxbytes);
                    let reply = server.run(&format!(
                        "SESSION.WINDOW {key} MAXLEN {maxlen} MAXTOKENS {maxtokens} MAXBYTES {maxbytes}{pins}"
                    ));
                    assert_eq!(int(&reply), model.trim().len() as i64, "{told}");
                }
                1 => {
                    let seq = 1 + random.below(model.next_seq as usize) as i64;
                    let exchanges = model.exchanges();
                    let goes: Vec<i64> = model
                        .messages
                        .iter()
                        .zip(exchanges)
                        .filter(|(message, exchange)| message.seq == seq || *exchange == seq)
                        .map(|(message, _)| message.seq)
                        .collect();
                    model.messages.retain(|message| !goes.contains(&message.seq));
                    let reply = server.run(&format!("SESSION.REMOVE {key} {seq}"));
                    assert_eq!(int(&reply), goes.len() as i64, "{told}: REMOVE {seq}");
                    model.trim();
                }
                2 => {
                    let count = 1 + random.below(3);
                    let kept = model.messages.len().saturating_sub(count);
                    let popped: Vec<String> = model.messages.drain(kept..).rev().map(|message| message.body).collect();
                    let reply = server.run(&format!("SESSION.POP {key} COUNT {count}"));
                    assert_eq!(
                        items(&reply).iter().map(text).collect::<Vec<_>>(),
                        popped,
                        "{told}: POP"
                    );
                    model.trim();
                }
                _ => {
                    let message = random_message(&mut random, model.next_seq);
                    model.next_seq += 1;
                    model.messages.push(message.clone());
                    let before = model.messages.clone();
                    let gone = model.trim();
                    let gone: Vec<String> = before
                        .into_iter()
                        .filter(|m| gone.contains(&m.seq))
                        .map(|m| m.body)
                        .collect();
                    let tokens = message.tokens.to_string();
                    let reply = items(&server.call(&[
                        "SESSION.APPEND",
                        &key,
                        "EVICTED",
                        "TOKENS",
                        &tokens,
                        "JSON",
                        &message.body,
                    ]));
                    assert_eq!(int(&reply[0]), message.seq, "{told}");
                    assert_eq!(items(&reply[1]).iter().map(text).collect::<Vec<_>>(), gone, "{told}");
                }
            }
            assert_eq!(server.seqs(&key), model.seqs(), "{told}");
            if step % 5 == 0 {
                let (maxlen, maxtokens) = (random.below(12) as u64, random.below(60) as u64);
                let option = |name: &str, bound: u64| {
                    if bound == 0 {
                        String::new()
                    } else {
                        format!(" {name} {bound}")
                    }
                };
                let context = format!(
                    "SESSION.CONTEXT {key}{}{}",
                    option("MAXLEN", maxlen),
                    option("MAXTOKENS", maxtokens)
                );
                let reply = items(&entry(&server.run(&context), "messages"));
                assert_eq!(
                    reply.iter().map(text).collect::<Vec<_>>(),
                    model.context(maxlen, maxtokens),
                    "{told}: {context}"
                );
            }
        }
    }
}

fn random_message(random: &mut Random, seq: i64) -> Message {
    let id = |random: &mut Random| format!("c{}", random.below(5));
    let filler = "x".repeat(random.below(60));
    let tokens = 1 + random.below(12) as u64;
    let (role, calls, answers) = match random.below(4) {
        0 => (
            "assistant",
            (0..1 + random.below(3)).map(|_| id(random)).collect(),
            None,
        ),
        1 | 2 => ("tool", Vec::new(), Some(id(random))),
        _ => (["user", "system", "assistant"][random.below(3)], Vec::new(), None),
    };
    let mut body = json!({"role": role, "content": filler, "n": seq});
    if !calls.is_empty() {
        body["tool_calls"] = calls.iter().map(|id| json!({"id": id})).collect();
    }
    if let Some(id) = &answers {
        body["tool_call_id"] = json!(id);
    }
    Message {
        seq,
        role,
        calls,
        answers,
        tokens,
        body: body.to_string(),
    }
}
