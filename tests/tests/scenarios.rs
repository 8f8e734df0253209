//! Every writing command in every form that matters to replication and persistence: `KEY` is the scenario's own key, the last
//! command is the one under test.

use redis_session_tests::table::assert_examples;
use redis_session_tests::{now_ms, Server};

pub struct Scenario {
    pub name: &'static str,
    pub commands: Vec<String>,
}

impl Scenario {
    /// Runs the commands; the last one in `act`, so that its effects can be recorded.
    pub fn play(&self, server: &Server, act: impl FnOnce(&str)) {
        let (last, before) = self.commands.split_last().expect("a command");
        for command in before {
            server.run(command);
        }
        act(last);
    }
}

const FIVE: &str = r#"SESSION.APPEND KEY JSON '{"role":"system","n":1}' '{"role":"user","n":2}' '{"tool_calls":[{"id":"a"}]}' '{"tool_call_id":"a"}' '{"role":"user","n":5}'"#;
const LIST: &str =
    r#"RPUSH KEY '{"role":"user","content":"a"}' oops '{"role":"user","content":"b","timestamp":1768384800}'"#;
const LIST_BESIDE: &str = r#"RPUSH KEY-l '{"role":"user","content":"a"}' "\xff""#;
const FAR: &str = "4102444800000";

/// The scenarios; each write of the running module is the last command of one.
pub fn of_every_write(server: &Server) -> Vec<Scenario> {
    let scenarios = all();
    let commands = server.commands();
    assert_examples(
        commands.iter().filter(|command| command.is_write()),
        scenarios.iter().filter_map(|scenario| scenario.commands.last()),
        &[(
            "SESSION.LOAD",
            "clients may not; rewriting an append-only file without preamble writes it",
        )],
    );
    scenarios
}

pub fn all() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let mut add = |name: &'static str, commands: &[&str]| {
        let own = |command: &&str| command.replace("KEY", name).replace("FAR", FAR);
        scenarios.push(Scenario {
            name,
            commands: commands.iter().map(own).collect(),
        });
    };
    add("create", &["SESSION.CREATE KEY"]);
    add("create-open", &["SESSION.CREATE KEY OPEN"]);
    add(
        "create-full",
        &[
            r#"SESSION.CREATE KEY ID 0190a8b4-6d2e-7c3a-9f10-123456789abc SCOPE acme STATE review META '{"a": {"b":[1,2]}}' LIMIT maxlen 3 LIMIT maxtokens 100 LIMIT maxbytes 2000 LIMIT maxage 90000000 LIMIT event-maxlen 7 LIMIT event-ttl 8 LIMIT dedup-window 9 LIMIT max-checkpoints 10 LIMIT max-entities 11 LIMIT max-agents 12 PIN system PIN developer AT 1768384800000 EX 1000"#,
        ],
    );
    add("create-px", &["SESSION.CREATE KEY PX 1000000"]);
    add("create-pxat", &["SESSION.CREATE KEY PXAT FAR"]);
    add("create-persist", &["SESSION.CREATE KEY PERSIST"]);
    add("create-keepttl", &["SESSION.CREATE KEY KEEPTTL"]);
    add("create-ifversion", &["SESSION.CREATE KEY IFVERSION 0"]);

    add("index-create", &["SESSION.CREATE KEY INDEX KEY-i"]);
    add(
        "index-create-alias",
        &[r#"SESSION.CREATE KEY OPEN ALIAS "my \"a\"" AUTONAME EX 1000 AT 5000 INDEX KEY-i STATE INDEX"#],
    );
    add(
        "index-create-known",
        &[
            "SESSION.CREATE KEY INDEX KEY-i ALIAS a",
            "SESSION.CREATE KEY-new INDEX KEY-i ALIAS a OPEN",
        ],
    );
    add(
        "index-create-displaces",
        &[
            "SESSION.CREATE KEY-old INDEX KEY-i ALIAS a",
            "DEL KEY-old",
            "SESSION.CREATE KEY INDEX KEY-i ALIAS a",
        ],
    );
    add(
        "index-create-prunes",
        &[
            "SESSION.CREATE KEY-old INDEX KEY-i ALIAS a ID 0190a8b4-6d2e-7c3a-9f10-123456789abc",
            "DEL KEY-old",
            "SESSION.CREATE KEY INDEX KEY-i ALIAS b",
        ],
    );
    add(
        "index-create-again",
        &[
            "SESSION.CREATE KEY-old INDEX KEY-i ALIAS a ID 0190a8b4-6d2e-7c3a-9f10-123456789abc",
            "RENAME KEY-old KEY-gone",
            "SESSION.CREATE KEY INDEX KEY-i ID 0190A8B4-6D2E-7C3A-9F10-123456789ABC",
        ],
    );
    add("index-add", &[FIVE, "SESSION.INDEX ADD KEY-i KEY"]);
    add(
        "index-add-alias",
        &[FIVE, r#"session.index add KEY-i KEY alias "my \"a\"" autoname"#],
    );
    add(
        "index-add-known",
        &[
            "SESSION.CREATE KEY INDEX KEY-i ALIAS a",
            "SESSION.INDEX ADD KEY-i KEY ALIAS a",
        ],
    );
    add(
        "index-add-renames",
        &[
            "SESSION.CREATE KEY INDEX KEY-i ALIAS a",
            "SESSION.INDEX ADD KEY-i KEY ALIAS b",
        ],
    );
    add(
        "index-add-moves",
        &[
            "SESSION.CREATE KEY-old INDEX KEY-i ALIAS a",
            "RENAME KEY-old KEY",
            "SESSION.INDEX ADD KEY-i KEY",
        ],
    );
    add(
        "index-add-displaces-two",
        &[
            "SESSION.CREATE KEY INDEX KEY-i ALIAS a",
            "SESSION.CREATE KEY-old INDEX KEY-i ALIAS b",
            "DEL KEY KEY-old",
            FIVE,
            "SESSION.INDEX ADD KEY-i KEY ALIAS b",
        ],
    );
    add(
        "index-add-prunes",
        &[
            "SESSION.CREATE KEY-old INDEX KEY-i ALIAS a ID 0190a8b4-6d2e-7c3a-9f10-123456789abc",
            "DEL KEY-old",
            "SESSION.CREATE KEY",
            "SESSION.INDEX ADD KEY-i KEY ALIAS b",
        ],
    );

    add("append-creates-msg", &["SESSION.APPEND KEY MSG user hi"]);
    add(
        "append-creates-json",
        &[r#"SESSION.APPEND KEY JSON '{"role":"user"}' '{ "x" : 1 }'"#],
    );
    add("append-creates-persist", &["SESSION.APPEND KEY PERSIST MSG user hi"]);
    add("append-creates-keepttl", &["SESSION.APPEND KEY KEEPTTL MSG user hi"]);
    add("append-creates-pxat", &["SESSION.APPEND KEY PXAT FAR MSG user hi"]);
    add("append-creates-ex", &["SESSION.APPEND KEY EX 1000 MSG user hi"]);
    add(
        "append-creates-options",
        &["SESSION.APPEND KEY EVICTED DEDUP t MAXLEN 2 IFVERSION 0 AT 5000 EX 500 JSON {} {} {}"],
    );
    add("append-msg", &[FIVE, "SESSION.APPEND KEY MSG user hi"]);
    add(
        "append-msg-full",
        &[
            FIVE,
            r#"SESSION.APPEND KEY MSG assistant "h\"i" NAME bob ID m1 TOOL_CALL_ID c0 TOOL_CALL c1 look '{"a":1}' REF e1 REF e2"#,
        ],
    );
    add(
        "append-msg-at",
        &[FIVE, "SESSION.APPEND KEY AT 1768384800000 MSG user hi"],
    );
    add("append-json", &[FIVE, r#"SESSION.APPEND KEY JSON '{"n":6}'"#]);
    add(
        "append-json-timestamp",
        &[
            FIVE,
            r#"SESSION.APPEND KEY JSON '{"timestamp":"2026-01-14T10:00:00Z"}' '{"n":7}'"#,
        ],
    );
    add("append-tokens", &[FIVE, "SESSION.APPEND KEY TOKENS 777 MSG user hi"]);
    add("append-maxlen", &[FIVE, "SESSION.APPEND KEY MAXLEN 3 MSG user hi"]);
    add(
        "append-evicted",
        &[
            FIVE,
            "SESSION.WINDOW KEY MAXLEN 5",
            "SESSION.APPEND KEY EVICTED MSG user hi",
        ],
    );
    add("append-xx", &[FIVE, "SESSION.APPEND KEY XX MSG user hi"]);
    add(
        "append-ifversion",
        &[FIVE, "SESSION.APPEND KEY IFVERSION 2 MSG user hi"],
    );
    add("append-dedup", &[FIVE, "SESSION.APPEND KEY DEDUP t1 MSG user hi"]);
    add(
        "append-dedup-window",
        &[
            "SESSION.CREATE KEY LIMIT dedup-window 3",
            "SESSION.APPEND KEY DEDUP a JSON {}",
            "SESSION.APPEND KEY DEDUP b JSON {}",
            "SESSION.APPEND KEY DEDUP c JSON {}",
            "SESSION.APPEND KEY DEDUP d JSON {}",
            "SESSION.APPEND KEY DEDUP b JSON {}",
        ],
    );
    add("append-ex", &[FIVE, "SESSION.APPEND KEY EX 1000 MSG user hi"]);
    add("append-px", &[FIVE, "SESSION.APPEND KEY PX 1000000 MSG user hi"]);
    add("append-pxat", &[FIVE, "SESSION.APPEND KEY PXAT FAR MSG user hi"]);
    add(
        "append-pxat-then-slide",
        &[
            FIVE,
            "SESSION.APPEND KEY PXAT FAR MSG user hi",
            "SESSION.APPEND KEY MSG user hi",
        ],
    );
    add("append-persist", &[FIVE, "SESSION.APPEND KEY PERSIST MSG user hi"]);
    add(
        "append-persist-then",
        &[
            FIVE,
            "SESSION.APPEND KEY PERSIST MSG user hi",
            "SESSION.APPEND KEY MSG user hi",
        ],
    );
    add("append-keepttl", &[FIVE, "SESSION.APPEND KEY KEEPTTL MSG user hi"]);
    add(
        "append-after-expire",
        &[FIVE, "EXPIRE KEY 1000", "SESSION.APPEND KEY MSG user hi"],
    );
    add(
        "append-after-persist",
        &[FIVE, "PERSIST KEY", "SESSION.APPEND KEY MSG user hi"],
    );
    add(
        "append-refs",
        &[
            "SESSION.CREATE KEY LIMIT max-entities 2",
            "SESSION.APPEND KEY MSG user hi REF a REF b",
            "SESSION.APPEND KEY MSG user hi REF a REF c",
        ],
    );
    add(
        "append-evicts-tokens",
        &[
            "SESSION.CREATE KEY LIMIT maxtokens 50",
            "SESSION.APPEND KEY TOKENS 30 MSG user a",
            "SESSION.APPEND KEY TOKENS 30 MSG user b",
        ],
    );
    add(
        "append-evicts-exchange",
        &[
            "SESSION.CREATE KEY LIMIT maxlen 2 PIN system",
            r#"SESSION.APPEND KEY JSON '{"role":"system"}' '{"tool_calls":[{"id":"a"}]}' '{"tool_call_id":"a"}'"#,
            "SESSION.APPEND KEY MSG user b",
        ],
    );

    add("meta-creates", &[r#"SESSION.META KEY '{"a":1}'"#]);
    add("meta", &[FIVE, r#"SESSION.META KEY '{"a":{"b": 1.50,"c":null}}'"#]);
    add(
        "meta-again",
        &[
            FIVE,
            r#"SESSION.META KEY '{"a":{"b":1,"c":2}}'"#,
            r#"SESSION.META KEY '{"a":{"b":null},"d":"\u00e9"}' EX 100"#,
        ],
    );
    add(
        "meta-equal-ex",
        &[
            FIVE,
            r#"SESSION.META KEY '{"a":1}'"#,
            r#"SESSION.META KEY '{"a":1}' EX 1000"#,
        ],
    );
    add(
        "window",
        &[
            FIVE,
            "SESSION.WINDOW KEY MAXLEN 3 MAXTOKENS 1000 MAXBYTES 1000 MAXAGE 90000000 PIN system",
        ],
    );
    add("window-pins", &[FIVE, "SESSION.WINDOW KEY PIN system PIN tool"]);
    add(
        "window-nopin",
        &[
            FIVE,
            "SESSION.WINDOW KEY MAXLEN 1 PIN system",
            "SESSION.WINDOW KEY NOPIN",
        ],
    );
    add("pop", &[FIVE, "SESSION.POP KEY"]);
    add("pop-count", &[FIVE, "SESSION.POP KEY COUNT 3"]);
    add("pop-all", &[FIVE, "SESSION.POP KEY COUNT 99 KEEPTTL"]);
    add("remove", &[FIVE, "SESSION.REMOVE KEY 1 3 99"]);
    add("redact", &[FIVE, "SESSION.REDACT KEY 2 3 4 99"]);
    add(
        "redact-reason",
        &[FIVE, r#"SESSION.REDACT KEY 5 REASON "it's \"private\"""#],
    );
    add("compact", &[FIVE, "SESSION.COMPACT KEY UPTO 4 MSG system summary"]);
    add(
        "compact-json",
        &[FIVE, r#"SESSION.COMPACT KEY UPTO 3 AT 5000 JSON '{ "role":"system" }'"#],
    );
    add("clear", &[FIVE, "SESSION.CLEAR KEY"]);
    add(
        "clear-then-append",
        &[FIVE, "SESSION.CLEAR KEY", "SESSION.APPEND KEY MSG user hi"],
    );

    add("entity-creates", &["SESSION.ENTITY MENTION KEY ID e"]);
    add(
        "entity-creates-json",
        &[
            r#"SESSION.ENTITY MENTION KEY AT 5000 EX 1000 IFVERSION 0 JSON '{"id":"a","aliases":["x"]}' '{ "entity_id" : "b" }'"#,
        ],
    );
    add("entity-creates-pxat", &["SESSION.ENTITY MENTION KEY PXAT FAR ID e"]);
    add("entity-creates-persist", &["SESSION.ENTITY MENTION KEY PERSIST ID e"]);
    add("entity-creates-keepttl", &["SESSION.ENTITY MENTION KEY KEEPTTL ID e"]);
    add(
        "entity-mention",
        &[
            FIVE,
            r#"SESSION.ENTITY MENTION KEY ID "e 1" NAME "J \"S\"" TYPE person ALIAS a ALIAS b"#,
        ],
    );
    add(
        "entity-mention-known",
        &[
            FIVE,
            "SESSION.ENTITY MENTION KEY ID e NAME n ALIAS a",
            "SESSION.ENTITY MENTION KEY ID f",
            "session.entity mention KEY ifversion 4 id e type thing alias b alias a",
        ],
    );
    add(
        "entity-mention-json",
        &[
            FIVE,
            r#"SESSION.ENTITY MENTION KEY JSON '{"id":"a"}' '{"entity_id":"b","entity_name":"B","x":[1]}' '{"id":"a","type":"thing","aliases":["y","z"]}'"#,
        ],
    );
    add("entity-mention-at", &[FIVE, "SESSION.ENTITY MENTION KEY AT 5000 ID e"]);
    add("entity-mention-ex", &[FIVE, "SESSION.ENTITY MENTION KEY EX 1000 ID e"]);
    add(
        "entity-mention-px",
        &[FIVE, "SESSION.ENTITY MENTION KEY PX 1000000 ID e"],
    );
    add(
        "entity-mention-pxat",
        &[FIVE, "SESSION.ENTITY MENTION KEY PXAT FAR ID e"],
    );
    add(
        "entity-mention-persist",
        &[FIVE, "SESSION.ENTITY MENTION KEY PERSIST ID e"],
    );
    add(
        "entity-mention-keepttl",
        &[FIVE, "SESSION.ENTITY MENTION KEY KEEPTTL ID e"],
    );
    add(
        "entity-mention-max",
        &[
            "SESSION.CREATE KEY LIMIT max-entities 2",
            "SESSION.APPEND KEY MSG user hi REF a REF b",
            r#"SESSION.ENTITY MENTION KEY JSON '{"id":"a"}' '{"id":"c"}' '{"id":"d"}'"#,
        ],
    );
    add(
        "entity-forget",
        &[
            r#"SESSION.ENTITY MENTION KEY JSON '{"id":"a"}' '{"id":"b"}' '{"id":"EX"}'"#,
            "SESSION.ENTITY FORGET KEY 3 nobody a EX",
        ],
    );
    add(
        "entity-forget-options",
        &[
            "SESSION.ENTITY MENTION KEY ID a",
            "SESSION.ENTITY FORGET KEY 1 a EX 1000 AT 5000 IFVERSION 2",
        ],
    );
    add(
        "entity-forget-keepttl",
        &[
            "SESSION.ENTITY MENTION KEY ID a",
            "SESSION.ENTITY FORGET KEY 1 a KEEPTTL",
        ],
    );
    add(
        "entity-forget-nobody",
        &["SESSION.ENTITY MENTION KEY ID a", "SESSION.ENTITY FORGET KEY 1 b"],
    );
    add(
        "entity-forget-nobody-pxat",
        &[
            "SESSION.ENTITY MENTION KEY ID a",
            "SESSION.ENTITY FORGET KEY 1 b PXAT FAR",
        ],
    );

    add("event-creates", &["SESSION.EVENT ADD KEY pass"]);
    add(
        "event-creates-options",
        &["SESSION.EVENT ADD KEY pass IFSTATE working STATE review IFVERSION 0 AT 5000 EX 500"],
    );
    add("event-creates-pxat", &["SESSION.EVENT ADD KEY pass PXAT FAR"]);
    add("event-creates-persist", &["SESSION.EVENT ADD KEY pass PERSIST"]);
    add("event-creates-keepttl", &["SESSION.EVENT ADD KEY pass KEEPTTL"]);
    add("event", &[FIVE, "SESSION.EVENT ADD KEY pass"]);
    add(
        "event-full",
        &[
            FIVE,
            r#"SESSION.EVENT ADD KEY "broke \"it\"" IFSTATE working STATE review IMPACT '{ "perfDelta":-2 }' CHANGE '{"entityIds":["x"],"file":"a.rs"}' ENTITIES 2 e1 STATE AGENT "a 1" IFVERSION 2"#,
        ],
    );
    add(
        "event-change",
        &[FIVE, r#"session.event add KEY modified change '{"entityIds":["x"]}'"#],
    );
    add(
        "event-entities-none",
        &[FIVE, "SESSION.EVENT ADD KEY modified ENTITIES 0"],
    );
    add(
        "event-state",
        &[
            FIVE,
            "SESSION.EVENT ADD KEY pass STATE review",
            "SESSION.APPEND KEY MSG user hi",
            "SESSION.EVENT ADD KEY pass IFSTATE review STATE review",
        ],
    );
    add("event-at", &[FIVE, "SESSION.EVENT ADD KEY pass AT 5000 STATE review"]);
    add("event-ex", &[FIVE, "SESSION.EVENT ADD KEY pass EX 1000"]);
    add("event-px", &[FIVE, "SESSION.EVENT ADD KEY pass PX 1000000"]);
    add("event-pxat", &[FIVE, "SESSION.EVENT ADD KEY pass PXAT FAR"]);
    add("event-persist", &[FIVE, "SESSION.EVENT ADD KEY pass PERSIST"]);
    add("event-keepttl", &[FIVE, "SESSION.EVENT ADD KEY pass KEEPTTL"]);
    add(
        "event-maxlen",
        &[
            "SESSION.CREATE KEY LIMIT event-maxlen 2",
            "SESSION.EVENT ADD KEY pass",
            "SESSION.EVENT ADD KEY pass STATE review",
            "SESSION.EVENT ADD KEY pass",
        ],
    );
    add(
        "event-then-append",
        &[FIVE, "SESSION.EVENT ADD KEY pass", "SESSION.APPEND KEY MSG user hi"],
    );

    add("agent-join-creates", &["SESSION.AGENT JOIN KEY a"]);
    add(
        "agent-join-creates-options",
        &[r#"SESSION.AGENT JOIN KEY "a 1" META '{ "x":[1] }' IFVERSION 0 AT 5000 EX 500"#],
    );
    add("agent-join-creates-pxat", &["SESSION.AGENT JOIN KEY a PXAT FAR"]);
    add("agent-join-creates-persist", &["SESSION.AGENT JOIN KEY a PERSIST"]);
    add("agent-join-creates-keepttl", &["SESSION.AGENT JOIN KEY a KEEPTTL"]);
    add("agent-join", &[FIVE, "SESSION.AGENT JOIN KEY META"]);
    add(
        "agent-join-known",
        &["SESSION.AGENT JOIN KEY a", "session.agent join KEY a ifversion 2"],
    );
    add(
        "agent-join-meta",
        &[
            r#"SESSION.AGENT JOIN KEY a META '{"a":1}'"#,
            r#"SESSION.AGENT JOIN KEY a META '{"b": 1.50}'"#,
        ],
    );
    add("agent-join-at", &[FIVE, "SESSION.AGENT JOIN KEY a AT 5000"]);
    add("agent-join-ex", &[FIVE, "SESSION.AGENT JOIN KEY a EX 1000"]);
    add("agent-join-px", &[FIVE, "SESSION.AGENT JOIN KEY a PX 1000000"]);
    add("agent-join-pxat", &[FIVE, "SESSION.AGENT JOIN KEY a PXAT FAR"]);
    add("agent-join-persist", &[FIVE, "SESSION.AGENT JOIN KEY a PERSIST"]);
    add("agent-join-keepttl", &[FIVE, "SESSION.AGENT JOIN KEY a KEEPTTL"]);
    add(
        "agent-join-leased",
        &[
            FIVE,
            "SESSION.AGENT LEASE KEY a PXAT FAR",
            "SESSION.AGENT JOIN KEY b LEASE 1",
        ],
    );
    add(
        "agent-leave",
        &[
            "SESSION.AGENT JOIN KEY a",
            "SESSION.AGENT JOIN KEY b",
            "SESSION.AGENT LEAVE KEY a",
        ],
    );
    add(
        "agent-leave-options",
        &[
            "SESSION.AGENT JOIN KEY a",
            "SESSION.AGENT LEAVE KEY a IFVERSION 2 AT 5000 EX 1000",
        ],
    );
    add(
        "agent-leave-holder",
        &[
            "SESSION.AGENT JOIN KEY a",
            "SESSION.AGENT LEASE KEY a PXAT FAR",
            "SESSION.AGENT LEAVE KEY a KEEPTTL",
        ],
    );
    add(
        "agent-leave-holder-not-joined",
        &[
            FIVE,
            "SESSION.AGENT LEASE KEY a PXAT FAR",
            "SESSION.AGENT LEAVE KEY a KEEPTTL",
        ],
    );
    add("agent-leave-nobody", &[FIVE, "SESSION.AGENT LEAVE KEY a"]);
    add("agent-leave-nobody-pxat", &[FIVE, "SESSION.AGENT LEAVE KEY a PXAT FAR"]);
    add("agent-handoff", &[FIVE, "SESSION.AGENT HANDOFF KEY NOTE AT"]);
    add(
        "agent-handoff-note",
        &[
            "SESSION.AGENT JOIN KEY a",
            r#"SESSION.AGENT HANDOFF KEY a "b 1" NOTE "it's \"yours\"" AT 5000 IFVERSION 2 EX 1000"#,
        ],
    );
    add(
        "agent-handoff-leased",
        &[
            FIVE,
            "SESSION.AGENT JOIN KEY a",
            "SESSION.AGENT LEASE KEY a PXAT FAR",
            "SESSION.AGENT HANDOFF KEY a b LEASE 1 KEEPTTL",
        ],
    );
    add(
        "agent-handoff-then",
        &[
            FIVE,
            "SESSION.AGENT LEASE KEY a PXAT FAR",
            "SESSION.AGENT HANDOFF KEY a b",
            "SESSION.APPEND KEY LEASE 2 MSG user hi",
        ],
    );
    add("agent-lease", &[FIVE, "SESSION.AGENT LEASE KEY a 1000000"]);
    add("agent-lease-pxat", &[FIVE, "session.agent lease KEY PXAT pxat FAR"]);
    add("agent-lease-past", &[FIVE, "SESSION.AGENT LEASE KEY a PXAT 1000"]);
    add(
        "agent-lease-after-past",
        &[
            FIVE,
            "SESSION.AGENT LEASE KEY a PXAT 1000",
            "SESSION.AGENT LEASE KEY b 1000000",
        ],
    );
    add(
        "agent-lease-joined",
        &[FIVE, "SESSION.AGENT JOIN KEY a", "SESSION.AGENT LEASE KEY a 1000000"],
    );
    add(
        "agent-lease-renewed",
        &[
            FIVE,
            "SESSION.AGENT LEASE KEY a 1000000",
            "SESSION.AGENT LEASE KEY a 2000000",
        ],
    );
    add(
        "agent-lease-then-append",
        &[
            FIVE,
            "SESSION.AGENT LEASE KEY a 1000000",
            "SESSION.APPEND KEY LEASE 1 MSG user hi",
        ],
    );
    add(
        "agent-release",
        &[FIVE, "SESSION.AGENT LEASE KEY a 1000000", "SESSION.AGENT RELEASE KEY 1"],
    );
    add(
        "agent-release-then-lease",
        &[
            FIVE,
            "SESSION.AGENT LEASE KEY a 1000000",
            "SESSION.AGENT RELEASE KEY 1",
            "SESSION.AGENT LEASE KEY a 1000000",
        ],
    );
    add(
        "agent-seen",
        &[
            "SESSION.AGENT JOIN KEY a AT 5000",
            "SESSION.EVENT ADD KEY pass AGENT a AT 6000",
        ],
    );

    add("anchor", &["SESSION.ANCHOR ADD KEY s1"]);
    add(
        "anchor-full",
        &[
            r#"session.anchor add KEY "s \"1\"" at 5000 maxage 0 maxlen 3 perf -1.50 impacts 3 AT PERF "e 1" checkpoint 7 outcome "it's fine""#,
        ],
    );
    add("anchor-impacts-none", &["SESSION.ANCHOR ADD KEY s1 IMPACTS 0"]);
    add(
        "anchor-replaces",
        &[
            "SESSION.ANCHOR ADD KEY s1 OUTCOME broke",
            "SESSION.ANCHOR ADD KEY s2",
            "SESSION.ANCHOR ADD KEY s1 OUTCOME pass",
        ],
    );
    add(
        "anchor-maxlen",
        &[
            "SESSION.ANCHOR ADD KEY s1",
            "SESSION.ANCHOR ADD KEY s2",
            "SESSION.ANCHOR ADD KEY s3 MAXLEN 2",
        ],
    );
    add(
        "anchor-expire",
        &[
            "SESSION.ANCHOR ADD KEY s1",
            "PEXPIREAT KEY FAR",
            "SESSION.ANCHOR ADD KEY s2",
        ],
    );
    add(
        "anchor-same",
        &["SESSION.ANCHOR ADD KEY s1 AT FAR", "SESSION.ANCHOR ADD KEY s1 AT FAR"],
    );
    add(
        "anchor-same-but-age",
        &[
            "SESSION.ANCHOR ADD KEY s1 AT FAR",
            "SESSION.ANCHOR ADD KEY s1 AT FAR MAXAGE 1000",
        ],
    );
    add(
        "anchor-too-old",
        &["SESSION.ANCHOR ADD KEY s1", "SESSION.ANCHOR ADD KEY s2 AT 5000"],
    );
    add(
        "anchor-too-old-for-another",
        &[
            "SESSION.ANCHOR ADD KEY s1 MAXAGE 0",
            "SESSION.ANCHOR ADD KEY s2 AT 5000",
        ],
    );
    add("anchor-none", &["SESSION.ANCHOR ADD KEY s1 AT 5000"]);
    add(
        "anchor-gone",
        &[
            "SESSION.ANCHOR ADD KEY s1 AT 5000 MAXAGE 0",
            "SESSION.ANCHOR ADD KEY s1 AT 6000",
        ],
    );
    add("checkpoint", &[FIVE, "SESSION.CHECKPOINT CREATE KEY"]);
    add(
        "checkpoint-full",
        &[
            FIVE,
            r#"session.checkpoint create KEY label "l \"1\"" outcome STORE summary '{ "mine":[1] }' refs 2 REFS "b c" trim ifversion 2 ex 1000 at 5000"#,
        ],
    );
    add(
        "checkpoint-defaults",
        &[
            r#"SESSION.EVENT ADD KEY broke ENTITIES 2 e1 e2 IMPACT '{"perf":-1,"x":{"y":[1]}}' STATE review"#,
            "SESSION.CHECKPOINT CREATE KEY",
            r#"SESSION.EVENT ADD KEY broke ENTITIES 2 e2 e3 IMPACT '{"perf":-2}'"#,
            r#"SESSION.EVENT ADD KEY pass CHANGE '{"entityIds":["e4","e3"]}' IMPACT '{ "perf" : 1.50, "z":null }'"#,
            "SESSION.CHECKPOINT CREATE KEY TRIM",
        ],
    );
    add(
        "checkpoint-deep",
        &[
            &format!(
                "SESSION.EVENT ADD KEY pass IMPACT '{{\"d\":{}{}}}'",
                "[".repeat(127),
                "]".repeat(127)
            ),
            "SESSION.CHECKPOINT CREATE KEY",
        ],
    );
    add("checkpoint-px", &[FIVE, "SESSION.CHECKPOINT CREATE KEY PX 1000000"]);
    add("checkpoint-pxat", &[FIVE, "SESSION.CHECKPOINT CREATE KEY PXAT FAR"]);
    add("checkpoint-persist", &[FIVE, "SESSION.CHECKPOINT CREATE KEY PERSIST"]);
    add("checkpoint-keepttl", &[FIVE, "SESSION.CHECKPOINT CREATE KEY KEEPTTL"]);
    add(
        "checkpoint-max",
        &[
            "SESSION.CREATE KEY LIMIT max-checkpoints 2",
            "SESSION.CHECKPOINT CREATE KEY",
            "SESSION.APPEND KEY MSG user hi",
            "SESSION.CHECKPOINT CREATE KEY",
            "SESSION.CHECKPOINT CREATE KEY",
        ],
    );
    const NAMED: &str = "SESSION.CREATE KEY ID 0190a8b4-6d2e-7c3a-9f10-123456789abc";
    add(
        "checkpoint-store",
        &[NAMED, "SESSION.CHECKPOINT CREATE KEY STORE KEY-ref AT 1768384800000"],
    );
    add(
        "checkpoint-store-grace",
        &[
            NAMED,
            "SET KEY-ref before EX 5000",
            "SESSION.CHECKPOINT CREATE KEY STORE KEY-ref GRACE 10 EX 100 AT 1768384800000",
        ],
    );
    add(
        "checkpoint-store-persist",
        &[
            NAMED,
            "SESSION.CREATE KEY-ref",
            "SESSION.CHECKPOINT CREATE KEY STORE KEY-ref PERSIST AT 1768384800000",
        ],
    );
    add(
        "checkpoint-store-past",
        &[
            NAMED,
            "SESSION.CHECKPOINT CREATE KEY STORE KEY-ref PXAT 1000 AT 1768384800000",
        ],
    );
    add("checkpoint-close", &[FIVE, "SESSION.CHECKPOINT CREATE KEY CLOSE"]);
    add(
        "checkpoint-close-store",
        &[
            NAMED,
            "PERSIST KEY",
            "SESSION.CHECKPOINT CREATE KEY CLOSE STORE KEY-ref OUTCOME done AT 1768384800000",
        ],
    );
    add(
        "checkpoint-close-grace",
        &[FIVE, "SESSION.CHECKPOINT CREATE KEY GRACE 1000 CLOSE"],
    );
    add(
        "checkpoint-close-ex",
        &[FIVE, "SESSION.CHECKPOINT CREATE KEY CLOSE EX 1000"],
    );
    add(
        "checkpoint-close-keepttl",
        &[FIVE, "SESSION.CHECKPOINT CREATE KEY CLOSE KEEPTTL"],
    );
    add(
        "checkpoint-close-leased",
        &[
            FIVE,
            "SESSION.AGENT LEASE KEY a PXAT FAR",
            "SESSION.CHECKPOINT CREATE KEY CLOSE LEASE 1 PERSIST",
        ],
    );
    const CHECKPOINTED: &[&str] = &[
        FIVE,
        "SESSION.AGENT JOIN KEY a",
        "SESSION.ENTITY MENTION KEY ID e",
        "SESSION.CHECKPOINT CREATE KEY",
        "SESSION.EVENT ADD KEY broke AGENT a STATE review",
        "SESSION.APPEND KEY MSG user later REF f",
        "SESSION.AGENT LEAVE KEY a",
        "SESSION.CHECKPOINT CREATE KEY",
    ];
    let mut add_to = |name: &'static str, commands: &[&str]| add(name, &[CHECKPOINTED, commands].concat());
    add_to("checkpoint-del", &["SESSION.CHECKPOINT DEL KEY 99 6"]);
    add_to(
        "checkpoint-del-options",
        &["session.checkpoint del KEY 6 9 at 5000 ifversion 9 ex 1000"],
    );
    add_to("checkpoint-del-nobody", &["SESSION.CHECKPOINT DEL KEY 7 99"]);
    add_to("checkpoint-del-nobody-pxat", &["SESSION.CHECKPOINT DEL KEY 7 PXAT FAR"]);
    add_to("checkpoint-restore", &["SESSION.CHECKPOINT RESTORE KEY 6"]);
    add_to(
        "checkpoint-restore-options",
        &["session.checkpoint restore KEY 6 at 5000 ifversion 9 px 1000000"],
    );
    add_to(
        "checkpoint-restore-keepttl",
        &["SESSION.CHECKPOINT RESTORE KEY 6 KEEPTTL"],
    );
    add_to(
        "checkpoint-restore-window",
        &[
            "SESSION.WINDOW KEY MAXLEN 2 PIN user",
            "SESSION.CHECKPOINT RESTORE KEY 6",
        ],
    );
    add_to(
        "checkpoint-restore-leased",
        &[
            "SESSION.AGENT LEASE KEY b PXAT FAR",
            "SESSION.CHECKPOINT RESTORE KEY 6 LEASE 1",
        ],
    );
    add_to(
        "checkpoint-restore-then",
        &[
            "SESSION.CHECKPOINT RESTORE KEY 6",
            "SESSION.CHECKPOINT RESTORE KEY 9",
            "SESSION.APPEND KEY MSG user hi",
        ],
    );
    add_to("checkpoint-redact", &["SESSION.CLEAR KEY", "SESSION.REDACT KEY 2 5 8"]);

    add_to("fork", &["SESSION.FORK KEY KEY-fork"]);
    add_to(
        "fork-upto",
        &["SESSION.FORK KEY KEY-fork UPTO 4 ID 0190a8b4-6d2e-7c3a-9f10-123456789abc"],
    );
    add_to(
        "fork-checkpoint",
        &["session.fork KEY KEY-fork checkpoint 6 ex 1000 at 5000 ifversion 9"],
    );
    add_to(
        "fork-replace",
        &[
            "SESSION.APPEND KEY-fork MSG user before",
            "SESSION.FORK KEY KEY-fork REPLACE PXAT FAR",
        ],
    );
    add_to(
        "fork-replace-string",
        &["SET KEY-fork x EX 5000", "SESSION.FORK KEY KEY-fork REPLACE PERSIST"],
    );
    add_to("fork-keepttl", &["SESSION.FORK KEY KEY-fork KEEPTTL"]);
    add_to(
        "fork-closed",
        &["SESSION.CHECKPOINT CREATE KEY CLOSE", "SESSION.FORK KEY KEY-fork"],
    );
    add_to(
        "fork-then-append",
        &[
            "SESSION.FORK KEY KEY-fork UPTO 3",
            "SESSION.APPEND KEY MSG user here",
            "SESSION.APPEND KEY-fork MSG user there",
        ],
    );
    add_to(
        "fork-past",
        &[
            "SESSION.FORK KEY KEY-fork",
            "SESSION.FORK KEY KEY-fork REPLACE PXAT 1000",
        ],
    );

    add("migrate", &[LIST, "SESSION.MIGRATE KEY"]);
    add(
        "migrate-options",
        &[
            LIST,
            "session.migrate KEY id 0190A8B4-6D2E-7C3A-9F10-123456789ABC maxlen 2 format JSON-list ifversion 0 at 5000 ex 1000",
        ],
    );
    add(
        "migrate-expiring",
        &[LIST, "PEXPIREAT KEY FAR", "SESSION.MIGRATE KEY KEEPTTL"],
    );
    add(
        "migrate-from",
        &[
            "HSET KEY title FROM state x",
            LIST_BESIDE,
            "SESSION.MIGRATE KEY FROM 2 KEY-l KEY PERSIST",
        ],
    );
    add(
        "migrate-keep",
        &[
            "HSET KEY-h agentIds '[\"a\"]' state broke",
            r#"ZADD KEY-z 2 '{"seq":2,"type":"pass"}' 1 oops"#,
            "SESSION.MIGRATE KEY KEEP FROM 2 KEY-z KEY-h",
        ],
    );
    add(
        "migrate-string",
        &[
            r#"SET KEY '{"matter_id":"m","messages":[{"role":"user","content":"x","entity_refs":["e"]},5]}'"#,
            "SESSION.MIGRATE KEY",
        ],
    );
    add(
        "migrate-dryrun",
        &[FIVE, LIST_BESIDE, "SESSION.MIGRATE KEY-new FROM 1 KEY-l DRYRUN"],
    );
    add(
        "migrate-known",
        &[FIVE, LIST_BESIDE, "SESSION.MIGRATE KEY FROM 1 KEY-l EX 5"],
    );
    add(
        "migrate-past",
        &[
            "HSET KEY title x",
            LIST_BESIDE,
            "SESSION.MIGRATE KEY FROM 2 KEY-l KEY PXAT 1000",
        ],
    );
    add("auto-append", &[LIST, r#"SESSION.APPEND KEY JSON '{"n":1}'"#]);
    add(
        "auto-append-options",
        &[
            LIST,
            "PEXPIREAT KEY FAR",
            "SESSION.APPEND KEY MAXLEN 2 AT 5000 IFVERSION 1 EX 1000 MSG user hi",
        ],
    );
    add(
        "auto-expiring",
        &[LIST, "PEXPIREAT KEY FAR", "SESSION.EVENT ADD KEY pass STATE review"],
    );
    add("auto-nothing", &[LIST, "SESSION.REMOVE KEY 99"]);
    add(
        "auto-open",
        &[LIST, "PEXPIREAT KEY FAR", "SESSION.CREATE KEY OPEN STATE x"],
    );
    add(
        "auto-index",
        &[LIST, "PEXPIREAT KEY FAR", "SESSION.INDEX ADD KEY-i KEY ALIAS a"],
    );
    add("auto-getex", &[LIST, "SESSION.GETEX KEY EX 1000"]);
    add(
        "auto-checkpoint",
        &[LIST, "SESSION.CHECKPOINT CREATE KEY CLOSE GRACE 1000"],
    );
    add("auto-past", &[LIST, "SESSION.APPEND KEY PXAT 1000 MSG user hi"]);

    add("getex", &[FIVE, "SESSION.GETEX KEY"]);
    add("getex-ex", &[FIVE, "SESSION.GETEX KEY EX 1000"]);
    add("getex-px", &[FIVE, "SESSION.GETEX KEY PX 1000000 MESSAGES 0"]);
    add("getex-pxat", &[FIVE, "SESSION.GETEX KEY PXAT FAR"]);
    add("getex-persist", &[FIVE, "SESSION.GETEX KEY PERSIST"]);
    add("getex-create", &["SESSION.GETEX KEY CREATE"]);
    add("getex-create-known", &[FIVE, "SESSION.GETEX KEY CREATE EX 1000"]);
    add(
        "getex-closed",
        &[FIVE, "SESSION.CHECKPOINT CREATE KEY CLOSE", "SESSION.GETEX KEY"],
    );
    scenarios
}

/// Keys made by the server's own commands and by long histories: persistence must handle them, but no command is under test.
pub fn set_up_others(server: &Server) {
    let long = |key: &[u8], count: usize| {
        server.call(&[&b"SESSION.CREATE"[..], key, b"LIMIT", b"maxlen", b"0"]);
        for n in 0..count {
            let body = format!(
                r#"{{"role":"user","n":{n},"content":"{}"}}"#,
                "lorem ipsum ".repeat(n % 50)
            );
            server.call(&[&b"SESSION.APPEND"[..], key, b"JSON", body.as_bytes()]);
        }
    };
    long(b"long", 400);
    long(b"long-popped", 300);
    server.run("SESSION.POP long-popped COUNT 220");
    long(b"long-trimmed", 300);
    server.run("SESSION.WINDOW long-trimmed MAXLEN 77");
    long(b"long-removed", 300);
    server.run("SESSION.REMOVE long-removed 3 50 100 150 200 299");
    server.run("SESSION.REDACT long-removed 1 60 120 298 300");
    long(b"long-compacted", 300);
    server.run("SESSION.COMPACT long-compacted UPTO 150 MSG system summary");
    long(b"long-cleared", 300);
    server.run("SESSION.CLEAR long-cleared");
    for n in 0..300 {
        server.run(&format!(
            r#"SESSION.ENTITY MENTION long-entities JSON '{{"id":"e{}","name":"n\u0000 {n}","aliases":["a{}"]}}' '{{"id":"r"}}'"#,
            n * 7 % 90,
            n % 11
        ));
    }
    server.run("SESSION.ENTITY FORGET long-entities 3 e1 e50 e89");
    server.call(&[
        &b"SESSION.ENTITY"[..],
        b"MENTION",
        b"odd-entities",
        b"ID",
        b"\0",
        b"NAME",
        &[b'x'; 65_536],
    ]);
    for n in 0..400 {
        server.run(&format!(
            r#"SESSION.EVENT ADD long-events t{} AGENT a{} ENTITIES 1 e{} IMPACT '{{"n":{n},"x":"{}"}}' STATE s{}"#,
            n % 3,
            n % 5,
            n % 7,
            "lorem ipsum ".repeat(n % 50),
            n % 2
        ));
    }
    server.run("SESSION.CREATE trimmed-events LIMIT event-maxlen 77 LIMIT event-ttl 0");
    for n in 0..300 {
        server.run(&format!("SESSION.EVENT ADD trimmed-events pass AT {}", n * 1000));
    }
    server.run("SESSION.CREATE aged-events LIMIT event-ttl 7200");
    for age_s in [3600, 9000, 0, -9000, 7300, 60] {
        server.run(&format!(
            "SESSION.EVENT ADD aged-events pass AT {}",
            now_ms() - age_s * 1000
        ));
    }
    server.run(r#"SESSION.EVENT ADD odd-events "\x00" AGENT "\x00" STATE "\x00\n" CHANGE '{"\ud800":["\ud800"]}'"#);
    for n in 0..300 {
        server.run(&format!(
            "SESSION.ANCHOR ADD long-anchors s{} OUTCOME o{n} IMPACTS 2 e{n} {} PERF {n}.50 CHECKPOINT {n} MAXLEN 0 MAXAGE 0 AT {}",
            n * 7 % 90,
            "x".repeat(1 + n % 50),
            n * 13 % 40
        ));
    }
    server.call(&[
        &b"SESSION.ANCHOR"[..],
        b"ADD",
        b"odd-anchors",
        &[b'x'; 65_536],
        b"OUTCOME",
        b"\0\n",
        b"IMPACTS",
        b"1",
        b"\0",
        b"PERF",
        &[b'1'; 65_536],
    ]);
    for n in 0..200 {
        let alias = if n % 3 == 0 {
            String::new()
        } else {
            format!("ALIAS \"münchen {n}\"")
        };
        let autoname = if n % 6 == 1 { "AUTONAME" } else { "" };
        server.run(&format!(
            "SESSION.CREATE member-{n} INDEX members {alias} {autoname} AT {}",
            n * 7 % 90
        ));
    }
    server.run("DEL member-3 member-77");
    server.run("RENAME member-4 member-renamed");
    server.run("SESSION.INDEX ADD members member-renamed");
    server.run("RENAME member-5 member-lost");
    server.run("SESSION.INDEX ADD others member-6 ALIAS elsewhere");
    server.call(&[&b"SESSION.CREATE"[..], b"member \xff\0\r\n", b"INDEX", b"members"]);
    server.call(&[
        &b"SESSION.CREATE"[..],
        b"member-named",
        b"INDEX",
        b"members",
        b"ALIAS",
        &[b'x'; 255],
    ]);
    // Checkpoints that share most of their history with the session, some of it, and none of it.
    long(b"checkpoints", 150);
    for n in 0..5 {
        for _ in 0..60 {
            server.run(&format!("SESSION.APPEND checkpoints MSG user \"round {n}\" REF e{n}"));
        }
        server.run(&format!(
            "SESSION.EVENT ADD checkpoints pass ENTITIES 1 e{n} IMPACT '{{\"n\":{n}}}'"
        ));
        server.run(&format!(
            "SESSION.CHECKPOINT CREATE checkpoints LABEL l{n} OUTCOME \"\\x00\""
        ));
    }
    server.run("SESSION.CHECKPOINT DEL checkpoints 274");
    server.run("SESSION.CHECKPOINT RESTORE checkpoints 212");
    server.run("SESSION.REDACT checkpoints 1 100 250 300");
    server.run("SESSION.WINDOW checkpoints MAXLEN 30 PIN user");
    server.run("SESSION.COMPACT checkpoints UPTO 20 MSG system summary");
    server.run("COPY checkpoints checkpoints-copied");
    server.run("SESSION.CLEAR checkpoints-copied");
    server.run("SESSION.FORK checkpoints checkpoints-forked CHECKPOINT 336");
    server.run("SESSION.FORK checkpoints-forked checkpoints-forked-again UPTO 111");
    server.run("SESSION.CHECKPOINT CREATE checkpoints-forked STORE checkpoints-reference CLOSE");
    long(b"binary \x00\xff\r\n", 3);
    long(b"", 3);
    server.run("COPY long long-copied");
    server.run("SESSION.APPEND long-copied MSG user only-here");
    server.run("SESSION.APPEND renamed-from MSG user hi");
    server.run("RENAME renamed-from renamed");
    // The last write frees what has expired before it, by the primary's clock.
    server.run("SESSION.CREATE aged LIMIT maxage 60000");
    for age_ms in [90_000, 70_000, 1000] {
        server.run(&format!("SESSION.APPEND aged AT {} JSON {{}}", now_ms() - age_ms));
    }
    // A body larger than a chunk, and larger than other servers would accept from a client.
    server.call(&[
        "SESSION.APPEND",
        "large",
        "JSON",
        &format!(r#"{{"content":"{}"}}"#, "x".repeat(100_000)),
        "{}",
    ]);
    server.call(&[
        "SESSION.APPEND",
        "tool",
        "JSON",
        r#"{"role":"\ud800","tool_calls":[{"id":"\u0000"}]}"#,
    ]);
    if let Some(conversations) = super::real_data::conversations() {
        for (at, bodies) in conversations.iter().enumerate().take(10) {
            let key = format!("real-{at}");
            server.call(&["SESSION.CREATE", &key, "LIMIT", "maxlen", "0"]);
            for body in bodies {
                server.call(&["SESSION.APPEND", &key, "JSON", body]);
            }
        }
    }
}
