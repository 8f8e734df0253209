//! The replication stream contains facts: replicas enforce no limits or guards again, and take nothing from their own clock,
//! random source or settings.

use std::ops::RangeInclusive;

use redis_session_tests::journal::line;
use redis_session_tests::table::assert_examples;
use redis_session_tests::{now_ms, oracle, talk, wait_until, Options, Server};

/// What the last command of every scenario propagates, literally. `<t>` is the primary's clock, `<t+n>` a time that many milliseconds
/// later, `<id>` a fresh UUID, `<limits>` the default limits.
const PROPAGATED: &[(&str, &[&str])] = &[
    ("create", &["SESSION.CREATE create ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>"]),
    ("create-open", &["SESSION.CREATE create-open ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>"]),
    (
        "create-full",
        &[r#"SESSION.CREATE create-full ID 0190a8b4-6d2e-7c3a-9f10-123456789abc SCOPE acme STATE review
             META '{"a": {"b":[1,2]}}' LIMIT maxlen 3 LIMIT maxtokens 100 LIMIT maxbytes 2000 LIMIT maxage 90000000
             LIMIT event-maxlen 7 LIMIT event-ttl 8 LIMIT dedup-window 9 LIMIT max-checkpoints 10 LIMIT max-entities 11
             LIMIT max-agents 12 PIN system PIN developer AT 1768384800000 NOW <t> PX 1000000 PXAT <t+1000000>"#],
    ),
    ("create-px", &["SESSION.CREATE create-px ID <id> <limits> AT <t> PX 1000000 PXAT <t+1000000>"]),
    ("create-pxat", &["SESSION.CREATE create-pxat ID <id> <limits> AT <t> PX 604800000 PXAT 4102444800000"]),
    ("create-persist", &["SESSION.CREATE create-persist ID <id> <limits> AT <t> PERSIST"]),
    // A ttl without an expiry.
    ("create-keepttl", &["SESSION.CREATE create-keepttl ID <id> <limits> AT <t> PX 604800000"]),
    ("create-ifversion", &["SESSION.CREATE create-ifversion ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>"]),
    ("index-create", &["SESSION.CREATE index-create INDEX index-create-i ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>"]),
    (
        "index-create-alias",
        &[r#"SESSION.CREATE index-create-alias INDEX index-create-alias-i ALIAS "my \"a\"" AUTONAME ID <id> STATE INDEX <limits>
             AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"#],
    ),
    ("index-create-known", &[]),
    // The alias tells replicas which entry to remove.
    (
        "index-create-displaces",
        &["SESSION.CREATE index-create-displaces INDEX index-create-displaces-i ALIAS a ID <id> <limits>
           AT <t> PX 604800000 PXAT <t+604800000>"],
    ),
    (
        "index-create-prunes",
        &["SESSION.CREATE index-create-prunes INDEX index-create-prunes-i ALIAS b PRUNED 1 0190a8b4-6d2e-7c3a-9f10-123456789abc
           ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>"],
    ),
    (
        "index-create-again",
        &["SESSION.CREATE index-create-again INDEX index-create-again-i ID 0190a8b4-6d2e-7c3a-9f10-123456789abc <limits>
           AT <t> PX 604800000 PXAT <t+604800000>"],
    ),
    ("index-add", &["SESSION.INDEX ADD index-add-i index-add"]),
    ("index-add-alias", &[r#"SESSION.INDEX ADD index-add-alias-i index-add-alias ALIAS "my \"a\"" AUTONAME"#]),
    ("index-add-known", &[]),
    ("index-add-renames", &["SESSION.INDEX ADD index-add-renames-i index-add-renames ALIAS b"]),
    ("index-add-moves", &["SESSION.INDEX ADD index-add-moves-i index-add-moves"]),
    ("index-add-displaces-two", &["SESSION.INDEX ADD index-add-displaces-two-i index-add-displaces-two ALIAS b"]),
    (
        "index-add-prunes",
        &["SESSION.INDEX ADD index-add-prunes-i index-add-prunes ALIAS b PRUNED 1 0190a8b4-6d2e-7c3a-9f10-123456789abc"],
    ),
    // Implicit creation: the expiry is that of the creation.
    (
        "append-creates-msg",
        &[
            "MULTI",
            "SESSION.CREATE append-creates-msg ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>",
            "SESSION.APPEND append-creates-msg AT <t> KEEPTTL MSG user hi",
            "EXEC",
        ],
    ),
    (
        "append-creates-json",
        &[
            "MULTI",
            "SESSION.CREATE append-creates-json ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>",
            r#"SESSION.APPEND append-creates-json AT <t> KEEPTTL JSON '{"role":"user"}' '{ "x" : 1 }'"#,
            "EXEC",
        ],
    ),
    (
        "append-creates-persist",
        &[
            "MULTI",
            "SESSION.CREATE append-creates-persist ID <id> <limits> AT <t> PERSIST",
            "SESSION.APPEND append-creates-persist AT <t> KEEPTTL MSG user hi",
            "EXEC",
        ],
    ),
    (
        "append-creates-keepttl",
        &[
            "MULTI",
            "SESSION.CREATE append-creates-keepttl ID <id> <limits> AT <t> PX 604800000",
            "SESSION.APPEND append-creates-keepttl AT <t> KEEPTTL MSG user hi",
            "EXEC",
        ],
    ),
    (
        "append-creates-pxat",
        &[
            "MULTI",
            "SESSION.CREATE append-creates-pxat ID <id> <limits> AT <t> PX 604800000 PXAT 4102444800000",
            "SESSION.APPEND append-creates-pxat AT <t> KEEPTTL MSG user hi",
            "EXEC",
        ],
    ),
    (
        "append-creates-ex",
        &[
            "MULTI",
            "SESSION.CREATE append-creates-ex ID <id> <limits> AT <t> PX 1000000 PXAT <t+1000000>",
            "SESSION.APPEND append-creates-ex AT <t> KEEPTTL MSG user hi",
            "EXEC",
        ],
    ),
    (
        "append-creates-options",
        &[
            "MULTI",
            "SESSION.CREATE append-creates-options ID <id> <limits> AT 5000 NOW <t> PX 500000 PXAT <t+500000>",
            "SESSION.APPEND append-creates-options DEDUP t MAXLEN 2 AT 5000 NOW <t> KEEPTTL JSON {} {} {}",
            "EXEC",
        ],
    ),
    ("append-msg", &["SESSION.APPEND append-msg AT <t> PXAT <t+604800000> MSG user hi"]),
    (
        "append-msg-full",
        &[r#"SESSION.APPEND append-msg-full AT <t> PXAT <t+604800000> MSG assistant "h\"i" NAME bob ID m1 TOOL_CALL_ID c0
             TOOL_CALL c1 look '{"a":1}' REF e1 REF e2"#],
    ),
    ("append-msg-at", &["SESSION.APPEND append-msg-at AT 1768384800000 NOW <t> PXAT <t+604800000> MSG user hi"]),
    ("append-json", &[r#"SESSION.APPEND append-json AT <t> PXAT <t+604800000> JSON '{"n":6}'"#]),
    (
        "append-json-timestamp",
        &[r#"SESSION.APPEND append-json-timestamp AT <t> PXAT <t+604800000>
             JSON '{"timestamp":"2026-01-14T10:00:00Z"}' '{"n":7}'"#],
    ),
    ("append-tokens", &["SESSION.APPEND append-tokens TOKENS 777 AT <t> PXAT <t+604800000> MSG user hi"]),
    ("append-maxlen", &["SESSION.APPEND append-maxlen MAXLEN 3 AT <t> PXAT <t+604800000> MSG user hi"]),
    ("append-evicted", &["SESSION.APPEND append-evicted AT <t> PXAT <t+604800000> MSG user hi"]),
    ("append-xx", &["SESSION.APPEND append-xx AT <t> PXAT <t+604800000> MSG user hi"]),
    ("append-ifversion", &["SESSION.APPEND append-ifversion AT <t> PXAT <t+604800000> MSG user hi"]),
    ("append-dedup", &["SESSION.APPEND append-dedup DEDUP t1 AT <t> PXAT <t+604800000> MSG user hi"]),
    ("append-dedup-window", &[]),
    ("append-ex", &["SESSION.APPEND append-ex AT <t> PX 1000000 PXAT <t+1000000> MSG user hi"]),
    ("append-px", &["SESSION.APPEND append-px AT <t> PX 1000000 PXAT <t+1000000> MSG user hi"]),
    ("append-pxat", &["SESSION.APPEND append-pxat AT <t> PXAT 4102444800000 MSG user hi"]),
    ("append-pxat-then-slide", &["SESSION.APPEND append-pxat-then-slide AT <t> PXAT <t+604800000> MSG user hi"]),
    ("append-persist", &["SESSION.APPEND append-persist AT <t> PERSIST MSG user hi"]),
    ("append-persist-then", &["SESSION.APPEND append-persist-then AT <t> MSG user hi"]),
    ("append-keepttl", &["SESSION.APPEND append-keepttl AT <t> KEEPTTL MSG user hi"]),
    ("append-after-expire", &["SESSION.APPEND append-after-expire AT <t> PXAT <t+604800000> MSG user hi"]),
    ("append-after-persist", &["SESSION.APPEND append-after-persist AT <t> MSG user hi"]),
    ("append-refs", &["SESSION.APPEND append-refs AT <t> PXAT <t+604800000> MSG user hi REF a REF c"]),
    ("append-evicts-tokens", &["SESSION.APPEND append-evicts-tokens TOKENS 30 AT <t> PXAT <t+604800000> MSG user b"]),
    ("append-evicts-exchange", &["SESSION.APPEND append-evicts-exchange AT <t> PXAT <t+604800000> MSG user b"]),
    (
        "meta-creates",
        &[
            "MULTI",
            "SESSION.CREATE meta-creates ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>",
            r#"SESSION.META meta-creates '{"a":1}' AT <t> KEEPTTL"#,
            "EXEC",
        ],
    ),
    ("meta", &[r#"SESSION.META meta '{"a":{"b": 1.50,"c":null}}' AT <t> PXAT <t+604800000>"#]),
    (
        "meta-again",
        &[r#"SESSION.META meta-again '{"a":{"b":null},"d":"\u00e9"}' AT <t> PX 100000 PXAT <t+100000>"#],
    ),
    ("meta-equal-ex", &[r#"SESSION.META meta-equal-ex '{"a":1}' AT <t> PX 1000000 PXAT <t+1000000>"#]),
    (
        "window",
        &["SESSION.WINDOW window MAXLEN 3 MAXTOKENS 1000 MAXBYTES 1000 MAXAGE 90000000 PIN system AT <t> PXAT <t+604800000>"],
    ),
    ("window-pins", &["SESSION.WINDOW window-pins PIN system PIN tool AT <t> PXAT <t+604800000>"]),
    ("window-nopin", &["SESSION.WINDOW window-nopin NOPIN AT <t> PXAT <t+604800000>"]),
    ("pop", &["SESSION.POP pop COUNT 1 AT <t> PXAT <t+604800000>"]),
    ("pop-count", &["SESSION.POP pop-count COUNT 3 AT <t> PXAT <t+604800000>"]),
    ("pop-all", &["SESSION.POP pop-all COUNT 99 AT <t> KEEPTTL"]),
    ("remove", &["SESSION.REMOVE remove 1 3 99 AT <t> PXAT <t+604800000>"]),
    ("redact", &["SESSION.REDACT redact 2 3 4 99 AT <t> PXAT <t+604800000>"]),
    ("redact-reason", &[r#"SESSION.REDACT redact-reason 5 REASON "it's \"private\"" AT <t> PXAT <t+604800000>"#]),
    ("compact", &["SESSION.COMPACT compact UPTO 4 AT <t> PXAT <t+604800000> MSG system summary"]),
    (
        "compact-json",
        &[r#"SESSION.COMPACT compact-json UPTO 3 AT 5000 NOW <t> PXAT <t+604800000> JSON '{ "role":"system" }'"#],
    ),
    ("clear", &["SESSION.CLEAR clear AT <t> PXAT <t+604800000>"]),
    ("clear-then-append", &["SESSION.APPEND clear-then-append AT <t> PXAT <t+604800000> MSG user hi"]),
    (
        "entity-creates",
        &[
            "MULTI",
            "SESSION.CREATE entity-creates ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>",
            "SESSION.ENTITY MENTION entity-creates AT <t> KEEPTTL ID e",
            "EXEC",
        ],
    ),
    (
        "entity-creates-json",
        &[
            "MULTI",
            "SESSION.CREATE entity-creates-json ID <id> <limits> AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>",
            r#"SESSION.ENTITY MENTION entity-creates-json AT 5000 NOW <t> KEEPTTL JSON '{"id":"a","aliases":["x"]}' '{ "entity_id" : "b" }'"#,
            "EXEC",
        ],
    ),
    (
        "entity-creates-pxat",
        &[
            "MULTI",
            "SESSION.CREATE entity-creates-pxat ID <id> <limits> AT <t> PX 604800000 PXAT 4102444800000",
            "SESSION.ENTITY MENTION entity-creates-pxat AT <t> KEEPTTL ID e",
            "EXEC",
        ],
    ),
    (
        "entity-creates-persist",
        &[
            "MULTI",
            "SESSION.CREATE entity-creates-persist ID <id> <limits> AT <t> PERSIST",
            "SESSION.ENTITY MENTION entity-creates-persist AT <t> KEEPTTL ID e",
            "EXEC",
        ],
    ),
    (
        "entity-creates-keepttl",
        &[
            "MULTI",
            "SESSION.CREATE entity-creates-keepttl ID <id> <limits> AT <t> PX 604800000",
            "SESSION.ENTITY MENTION entity-creates-keepttl AT <t> KEEPTTL ID e",
            "EXEC",
        ],
    ),
    ("entity-mention", &[r#"SESSION.ENTITY MENTION entity-mention AT <t> PXAT <t+604800000> ID "e 1" NAME "J \"S\"" TYPE person ALIAS a ALIAS b"#]),
    ("entity-mention-known", &["SESSION.ENTITY MENTION entity-mention-known AT <t> PXAT <t+604800000> id e type thing alias b alias a"]),
    (
        "entity-mention-json",
        &[r#"SESSION.ENTITY MENTION entity-mention-json AT <t> PXAT <t+604800000>
             JSON '{"id":"a"}' '{"entity_id":"b","entity_name":"B","x":[1]}' '{"id":"a","type":"thing","aliases":["y","z"]}'"#],
    ),
    ("entity-mention-at", &["SESSION.ENTITY MENTION entity-mention-at AT 5000 NOW <t> PXAT <t+604800000> ID e"]),
    ("entity-mention-ex", &["SESSION.ENTITY MENTION entity-mention-ex AT <t> PX 1000000 PXAT <t+1000000> ID e"]),
    ("entity-mention-px", &["SESSION.ENTITY MENTION entity-mention-px AT <t> PX 1000000 PXAT <t+1000000> ID e"]),
    ("entity-mention-pxat", &["SESSION.ENTITY MENTION entity-mention-pxat AT <t> PXAT 4102444800000 ID e"]),
    ("entity-mention-persist", &["SESSION.ENTITY MENTION entity-mention-persist AT <t> PERSIST ID e"]),
    ("entity-mention-keepttl", &["SESSION.ENTITY MENTION entity-mention-keepttl AT <t> KEEPTTL ID e"]),
    (
        "entity-mention-max",
        &[r#"SESSION.ENTITY MENTION entity-mention-max AT <t> PXAT <t+604800000> JSON '{"id":"a"}' '{"id":"c"}' '{"id":"d"}'"#],
    ),
    ("entity-forget", &["SESSION.ENTITY FORGET entity-forget 3 nobody a EX AT <t> PXAT <t+604800000>"]),
    ("entity-forget-options", &["SESSION.ENTITY FORGET entity-forget-options 1 a AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"]),
    ("entity-forget-keepttl", &["SESSION.ENTITY FORGET entity-forget-keepttl 1 a AT <t> KEEPTTL"]),
    ("entity-forget-nobody", &[]),
    ("entity-forget-nobody-pxat", &["SESSION.ENTITY FORGET entity-forget-nobody-pxat 1 b AT <t> PXAT 4102444800000"]),
    (
        "event-creates",
        &[
            "MULTI",
            "SESSION.CREATE event-creates ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>",
            "SESSION.EVENT ADD event-creates pass AT <t> KEEPTTL",
            "EXEC",
        ],
    ),
    (
        "event-creates-options",
        &[
            "MULTI",
            "SESSION.CREATE event-creates-options ID <id> <limits> AT 5000 NOW <t> PX 500000 PXAT <t+500000>",
            "SESSION.EVENT ADD event-creates-options pass STATE review AT 5000 NOW <t> KEEPTTL",
            "EXEC",
        ],
    ),
    (
        "event-creates-pxat",
        &[
            "MULTI",
            "SESSION.CREATE event-creates-pxat ID <id> <limits> AT <t> PX 604800000 PXAT 4102444800000",
            "SESSION.EVENT ADD event-creates-pxat pass AT <t> KEEPTTL",
            "EXEC",
        ],
    ),
    (
        "event-creates-persist",
        &[
            "MULTI",
            "SESSION.CREATE event-creates-persist ID <id> <limits> AT <t> PERSIST",
            "SESSION.EVENT ADD event-creates-persist pass AT <t> KEEPTTL",
            "EXEC",
        ],
    ),
    (
        "event-creates-keepttl",
        &[
            "MULTI",
            "SESSION.CREATE event-creates-keepttl ID <id> <limits> AT <t> PX 604800000",
            "SESSION.EVENT ADD event-creates-keepttl pass AT <t> KEEPTTL",
            "EXEC",
        ],
    ),
    ("event", &["SESSION.EVENT ADD event pass AT <t> PXAT <t+604800000>"]),
    (
        "event-full",
        &[r#"SESSION.EVENT ADD event-full "broke \"it\"" AGENT "a 1" ENTITIES 2 e1 STATE CHANGE '{"entityIds":["x"],"file":"a.rs"}'
             IMPACT '{ "perfDelta":-2 }' STATE review AT <t> PXAT <t+604800000>"#],
    ),
    ("event-change", &[r#"SESSION.EVENT ADD event-change modified CHANGE '{"entityIds":["x"]}' AT <t> PXAT <t+604800000>"#]),
    ("event-entities-none", &["SESSION.EVENT ADD event-entities-none modified ENTITIES 0 AT <t> PXAT <t+604800000>"]),
    ("event-state", &["SESSION.EVENT ADD event-state pass STATE review AT <t> PXAT <t+604800000>"]),
    ("event-at", &["SESSION.EVENT ADD event-at pass STATE review AT 5000 NOW <t> PXAT <t+604800000>"]),
    ("event-ex", &["SESSION.EVENT ADD event-ex pass AT <t> PX 1000000 PXAT <t+1000000>"]),
    ("event-px", &["SESSION.EVENT ADD event-px pass AT <t> PX 1000000 PXAT <t+1000000>"]),
    ("event-pxat", &["SESSION.EVENT ADD event-pxat pass AT <t> PXAT 4102444800000"]),
    ("event-persist", &["SESSION.EVENT ADD event-persist pass AT <t> PERSIST"]),
    ("event-keepttl", &["SESSION.EVENT ADD event-keepttl pass AT <t> KEEPTTL"]),
    ("event-maxlen", &["SESSION.EVENT ADD event-maxlen pass AT <t> PXAT <t+604800000>"]),
    ("event-then-append", &["SESSION.APPEND event-then-append AT <t> PXAT <t+604800000> MSG user hi"]),
    (
        "agent-join-creates",
        &[
            "MULTI",
            "SESSION.CREATE agent-join-creates ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>",
            "SESSION.AGENT JOIN agent-join-creates a AT <t> KEEPTTL",
            "EXEC",
        ],
    ),
    (
        "agent-join-creates-options",
        &[
            "MULTI",
            "SESSION.CREATE agent-join-creates-options ID <id> <limits> AT 5000 NOW <t> PX 500000 PXAT <t+500000>",
            r#"SESSION.AGENT JOIN agent-join-creates-options "a 1" META '{ "x":[1] }' AT 5000 NOW <t> KEEPTTL"#,
            "EXEC",
        ],
    ),
    (
        "agent-join-creates-pxat",
        &[
            "MULTI",
            "SESSION.CREATE agent-join-creates-pxat ID <id> <limits> AT <t> PX 604800000 PXAT 4102444800000",
            "SESSION.AGENT JOIN agent-join-creates-pxat a AT <t> KEEPTTL",
            "EXEC",
        ],
    ),
    (
        "agent-join-creates-persist",
        &[
            "MULTI",
            "SESSION.CREATE agent-join-creates-persist ID <id> <limits> AT <t> PERSIST",
            "SESSION.AGENT JOIN agent-join-creates-persist a AT <t> KEEPTTL",
            "EXEC",
        ],
    ),
    (
        "agent-join-creates-keepttl",
        &[
            "MULTI",
            "SESSION.CREATE agent-join-creates-keepttl ID <id> <limits> AT <t> PX 604800000",
            "SESSION.AGENT JOIN agent-join-creates-keepttl a AT <t> KEEPTTL",
            "EXEC",
        ],
    ),
    ("agent-join", &["SESSION.AGENT JOIN agent-join META AT <t> PXAT <t+604800000>"]),
    ("agent-join-known", &["SESSION.AGENT JOIN agent-join-known a AT <t> PXAT <t+604800000>"]),
    ("agent-join-meta", &[r#"SESSION.AGENT JOIN agent-join-meta a META '{"b": 1.50}' AT <t> PXAT <t+604800000>"#]),
    ("agent-join-at", &["SESSION.AGENT JOIN agent-join-at a AT 5000 NOW <t> PXAT <t+604800000>"]),
    ("agent-join-ex", &["SESSION.AGENT JOIN agent-join-ex a AT <t> PX 1000000 PXAT <t+1000000>"]),
    ("agent-join-px", &["SESSION.AGENT JOIN agent-join-px a AT <t> PX 1000000 PXAT <t+1000000>"]),
    ("agent-join-pxat", &["SESSION.AGENT JOIN agent-join-pxat a AT <t> PXAT 4102444800000"]),
    ("agent-join-persist", &["SESSION.AGENT JOIN agent-join-persist a AT <t> PERSIST"]),
    ("agent-join-keepttl", &["SESSION.AGENT JOIN agent-join-keepttl a AT <t> KEEPTTL"]),
    ("agent-join-leased", &["SESSION.AGENT JOIN agent-join-leased b AT <t> PXAT <t+604800000>"]),
    ("agent-leave", &["SESSION.AGENT LEAVE agent-leave a AT <t> PXAT <t+604800000>"]),
    ("agent-leave-options", &["SESSION.AGENT LEAVE agent-leave-options a AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"]),
    ("agent-leave-holder", &["SESSION.AGENT LEAVE agent-leave-holder a AT <t> KEEPTTL"]),
    ("agent-leave-holder-not-joined", &["SESSION.AGENT LEAVE agent-leave-holder-not-joined a AT <t> KEEPTTL"]),
    ("agent-leave-nobody", &[]),
    ("agent-leave-nobody-pxat", &["SESSION.AGENT LEAVE agent-leave-nobody-pxat a AT <t> PXAT 4102444800000"]),
    ("agent-handoff", &["SESSION.AGENT HANDOFF agent-handoff NOTE AT AT <t> PXAT <t+604800000>"]),
    ("agent-handoff-note", &[r#"SESSION.AGENT HANDOFF agent-handoff-note a "b 1" NOTE "it's \"yours\"" AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"#]),
    ("agent-handoff-leased", &["SESSION.AGENT HANDOFF agent-handoff-leased a b AT <t> KEEPTTL"]),
    ("agent-handoff-then", &["SESSION.APPEND agent-handoff-then AT <t> PXAT <t+604800000> MSG user hi"]),
    ("agent-lease", &["SESSION.AGENT LEASE agent-lease a PXAT <t+1000000> AT <t> PXAT <t+604800000>"]),
    ("agent-lease-pxat", &["SESSION.AGENT LEASE agent-lease-pxat PXAT PXAT 4102444800000 AT <t> PXAT <t+604800000>"]),
    ("agent-lease-past", &["SESSION.AGENT LEASE agent-lease-past a PXAT 1000 AT <t> PXAT <t+604800000>"]),
    ("agent-lease-after-past", &["SESSION.AGENT LEASE agent-lease-after-past b PXAT <t+1000000> AT <t> PXAT <t+604800000>"]),
    ("agent-lease-joined", &["SESSION.AGENT LEASE agent-lease-joined a PXAT <t+1000000> AT <t> PXAT <t+604800000>"]),
    ("agent-lease-renewed", &["SESSION.AGENT LEASE agent-lease-renewed a PXAT <t+2000000> AT <t> PXAT <t+604800000>"]),
    ("agent-lease-then-append", &["SESSION.APPEND agent-lease-then-append AT <t> PXAT <t+604800000> MSG user hi"]),
    ("agent-release", &["MULTI", "SESSION.AGENT RELEASE agent-release 1", "PEXPIREAT agent-release <t+604800000>", "EXEC"]),
    ("agent-release-then-lease", &["SESSION.AGENT LEASE agent-release-then-lease a PXAT <t+1000000> AT <t> PXAT <t+604800000>"]),
    ("agent-seen", &["SESSION.EVENT ADD agent-seen pass AGENT a AT 6000 NOW <t> PXAT <t+604800000>"]),
    ("anchor", &["SESSION.ANCHOR ADD anchor s1 MAXLEN 5 MAXAGE 604800000 AT <t>"]),
    (
        "anchor-full",
        &[r#"SESSION.ANCHOR ADD anchor-full "s \"1\"" OUTCOME "it's fine" CHECKPOINT 7 IMPACTS 3 AT PERF "e 1" PERF -1.50
             MAXLEN 3 MAXAGE 0 AT 5000 NOW <t>"#],
    ),
    ("anchor-impacts-none", &["SESSION.ANCHOR ADD anchor-impacts-none s1 MAXLEN 5 MAXAGE 604800000 AT <t>"]),
    ("anchor-replaces", &["SESSION.ANCHOR ADD anchor-replaces s1 OUTCOME pass MAXLEN 5 MAXAGE 604800000 AT <t>"]),
    ("anchor-maxlen", &["SESSION.ANCHOR ADD anchor-maxlen s3 MAXLEN 2 MAXAGE 604800000 AT <t>"]),
    ("anchor-expire", &["SESSION.ANCHOR ADD anchor-expire s2 MAXLEN 5 MAXAGE 604800000 AT <t>"]),
    ("anchor-same", &[]),
    ("anchor-same-but-age", &["SESSION.ANCHOR ADD anchor-same-but-age s1 MAXLEN 5 MAXAGE 1000 AT 4102444800000 NOW <t>"]),
    ("anchor-too-old", &[]),
    // The anchor is not kept, but the age bound for reads is.
    (
        "anchor-too-old-for-another",
        &["SESSION.ANCHOR ADD anchor-too-old-for-another s2 MAXLEN 5 MAXAGE 604800000 AT 5000 NOW <t>"],
    ),
    ("anchor-none", &[]),
    ("anchor-gone", &["DEL anchor-gone"]),
    ("checkpoint", &[r#"SESSION.CHECKPOINT CREATE checkpoint SUMMARY '{"impacts":{}}' REFS 0 AT <t> PXAT <t+604800000>"#]),
    (
        "checkpoint-full",
        &[r#"SESSION.CHECKPOINT CREATE checkpoint-full LABEL "l \"1\"" OUTCOME STORE SUMMARY '{ "mine":[1] }' REFS 2 REFS "b c" TRIM
             AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"#],
    ),
    (
        "checkpoint-defaults",
        &[r#"SESSION.CHECKPOINT CREATE checkpoint-defaults SUMMARY '{"impacts":{"perf":1.50,"z":null}}' REFS 3 e2 e3 e4 TRIM
             AT <t> PXAT <t+604800000>"#],
    ),
    ("checkpoint-deep", &["SESSION.CHECKPOINT CREATE checkpoint-deep SUMMARY <deep> REFS 0 AT <t> PXAT <t+604800000>"]),
    ("checkpoint-px", &[r#"SESSION.CHECKPOINT CREATE checkpoint-px SUMMARY '{"impacts":{}}' REFS 0 AT <t> PX 1000000 PXAT <t+1000000>"#]),
    ("checkpoint-pxat", &[r#"SESSION.CHECKPOINT CREATE checkpoint-pxat SUMMARY '{"impacts":{}}' REFS 0 AT <t> PXAT 4102444800000"#]),
    ("checkpoint-persist", &[r#"SESSION.CHECKPOINT CREATE checkpoint-persist SUMMARY '{"impacts":{}}' REFS 0 AT <t> PERSIST"#]),
    ("checkpoint-keepttl", &[r#"SESSION.CHECKPOINT CREATE checkpoint-keepttl SUMMARY '{"impacts":{}}' REFS 0 AT <t> KEEPTTL"#]),
    ("checkpoint-max", &[r#"SESSION.CHECKPOINT CREATE checkpoint-max SUMMARY '{"impacts":{}}' REFS 0 AT <t> PXAT <t+604800000>"#]),
    (
        "checkpoint-store",
        &[
            "MULTI",
            r#"SESSION.CHECKPOINT CREATE checkpoint-store SUMMARY '{"impacts":{}}' REFS 0 AT 1768384800000 NOW <t> PXAT <t+604800000>"#,
            r#"SET checkpoint-store-ref '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":1,"timestamp":"2026-01-14T10:00:00.000Z","refEntities":[],"summary":{"impacts":{}},"outcome":null,"state":"working","label":null}' PXAT <t+605400000>"#,
            "EXEC",
        ],
    ),
    (
        "checkpoint-store-grace",
        &[
            "MULTI",
            r#"SESSION.CHECKPOINT CREATE checkpoint-store-grace SUMMARY '{"impacts":{}}' REFS 0 AT 1768384800000 NOW <t> PX 100000 PXAT <t+100000>"#,
            r#"SET checkpoint-store-grace-ref '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":1,"timestamp":"2026-01-14T10:00:00.000Z","refEntities":[],"summary":{"impacts":{}},"outcome":null,"state":"working","label":null}' PXAT <t+110000>"#,
            "EXEC",
        ],
    ),
    (
        "checkpoint-store-persist",
        &[
            "MULTI",
            r#"SESSION.CHECKPOINT CREATE checkpoint-store-persist SUMMARY '{"impacts":{}}' REFS 0 AT 1768384800000 NOW <t> PERSIST"#,
            r#"SET checkpoint-store-persist-ref '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":1,"timestamp":"2026-01-14T10:00:00.000Z","refEntities":[],"summary":{"impacts":{}},"outcome":null,"state":"working","label":null}'"#,
            "EXEC",
        ],
    ),
    (
        "checkpoint-store-past",
        &[
            "MULTI",
            "DEL checkpoint-store-past",
            r#"SET checkpoint-store-past-ref '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":1,"timestamp":"2026-01-14T10:00:00.000Z","refEntities":[],"summary":{"impacts":{}},"outcome":null,"state":"working","label":null}' PXAT <t+600000>"#,
            "EXEC",
        ],
    ),
    ("checkpoint-close", &[r#"SESSION.CHECKPOINT CREATE checkpoint-close SUMMARY '{"impacts":{}}' REFS 0 CLOSE AT <t> PXAT <t+600000>"#]),
    (
        "checkpoint-close-store",
        &[
            "MULTI",
            r#"SESSION.CHECKPOINT CREATE checkpoint-close-store OUTCOME done SUMMARY '{"impacts":{}}' REFS 0 CLOSE AT 1768384800000 NOW <t> PXAT <t+600000>"#,
            r#"SET checkpoint-close-store-ref '{"sessionId":"0190a8b4-6d2e-7c3a-9f10-123456789abc","checkpointId":1,"timestamp":"2026-01-14T10:00:00.000Z","refEntities":[],"summary":{"impacts":{}},"outcome":"done","state":"working","label":null}' PXAT <t+1200000>"#,
            "EXEC",
        ],
    ),
    ("checkpoint-close-grace", &[r#"SESSION.CHECKPOINT CREATE checkpoint-close-grace SUMMARY '{"impacts":{}}' REFS 0 CLOSE AT <t> PXAT <t+1000000>"#]),
    ("checkpoint-close-ex", &[r#"SESSION.CHECKPOINT CREATE checkpoint-close-ex SUMMARY '{"impacts":{}}' REFS 0 CLOSE AT <t> PX 1000000 PXAT <t+1000000>"#]),
    ("checkpoint-close-keepttl", &[r#"SESSION.CHECKPOINT CREATE checkpoint-close-keepttl SUMMARY '{"impacts":{}}' REFS 0 CLOSE AT <t> KEEPTTL"#]),
    ("checkpoint-close-leased", &[r#"SESSION.CHECKPOINT CREATE checkpoint-close-leased SUMMARY '{"impacts":{}}' REFS 0 CLOSE AT <t> PERSIST"#]),
    ("checkpoint-del", &["SESSION.CHECKPOINT DEL checkpoint-del 99 6 AT <t> PXAT <t+604800000>"]),
    ("checkpoint-del-options", &["SESSION.CHECKPOINT DEL checkpoint-del-options 6 9 AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"]),
    ("checkpoint-del-nobody", &[]),
    ("checkpoint-del-nobody-pxat", &["SESSION.CHECKPOINT DEL checkpoint-del-nobody-pxat 7 AT <t> PXAT 4102444800000"]),
    ("checkpoint-restore", &["SESSION.CHECKPOINT RESTORE checkpoint-restore 6 AT <t> PXAT <t+604800000>"]),
    ("checkpoint-restore-options", &["SESSION.CHECKPOINT RESTORE checkpoint-restore-options 6 AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"]),
    ("checkpoint-restore-keepttl", &["SESSION.CHECKPOINT RESTORE checkpoint-restore-keepttl 6 AT <t> KEEPTTL"]),
    ("checkpoint-restore-window", &["SESSION.CHECKPOINT RESTORE checkpoint-restore-window 6 AT <t> PXAT <t+604800000>"]),
    ("checkpoint-restore-leased", &["SESSION.CHECKPOINT RESTORE checkpoint-restore-leased 6 AT <t> PXAT <t+604800000>"]),
    ("checkpoint-restore-then", &["SESSION.APPEND checkpoint-restore-then AT <t> PXAT <t+604800000> MSG user hi"]),
    ("checkpoint-redact", &["SESSION.REDACT checkpoint-redact 2 5 8 AT <t> PXAT <t+604800000>"]),
    ("fork", &["SESSION.FORK fork fork-fork ID <id> AT <t> PX 604800000 PXAT <t+604800000>"]),
    (
        "fork-upto",
        &["SESSION.FORK fork-upto fork-upto-fork UPTO 4 ID 0190a8b4-6d2e-7c3a-9f10-123456789abc AT <t> PX 604800000 PXAT <t+604800000>"],
    ),
    (
        "fork-checkpoint",
        &["SESSION.FORK fork-checkpoint fork-checkpoint-fork CHECKPOINT 6 ID <id> AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"],
    ),
    ("fork-replace", &["SESSION.FORK fork-replace fork-replace-fork ID <id> REPLACE AT <t> PX 604800000 PXAT 4102444800000"]),
    ("fork-replace-string", &["SESSION.FORK fork-replace-string fork-replace-string-fork ID <id> REPLACE AT <t> PERSIST"]),
    // A ttl without an expiry.
    ("fork-keepttl", &["SESSION.FORK fork-keepttl fork-keepttl-fork ID <id> AT <t> PX 604800000"]),
    ("fork-closed", &["SESSION.FORK fork-closed fork-closed-fork ID <id> AT <t> PX 604800000 PXAT <t+604800000>"]),
    ("fork-then-append", &["SESSION.APPEND fork-then-append-fork AT <t> PXAT <t+604800000> MSG user there"]),
    ("fork-past", &["DEL fork-past-fork"]),
    ("migrate", &["SESSION.MIGRATE migrate FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PERSIST"]),
    (
        "migrate-options",
        &["SESSION.MIGRATE migrate-options FORMAT json-list ID 0190a8b4-6d2e-7c3a-9f10-123456789abc MAXLEN 2 <carried>
           AT 5000 NOW <t> PX 1000000 PXAT <t+1000000>"],
    ),
    ("migrate-expiring", &["SESSION.MIGRATE migrate-expiring FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PX <far-t> PXAT 4102444800000"]),
    ("migrate-from", &["SESSION.MIGRATE migrate-from FROM 2 migrate-from-l migrate-from FORMAT hash-list ID <id> MAXLEN 0 <carried> AT <t> PERSIST"]),
    ("migrate-keep", &["SESSION.MIGRATE migrate-keep FROM 2 migrate-keep-z migrate-keep-h FORMAT live-hash ID <id> MAXLEN 0 <carried> KEEP AT <t> PERSIST"]),
    ("migrate-string", &["SESSION.MIGRATE migrate-string FORMAT context ID <id> MAXLEN 20 <carried> AT <t> PERSIST"]),
    ("migrate-dryrun", &[]),
    ("migrate-known", &[]),
    // The sources are deleted, and so is the session.
    ("migrate-past", &["MULTI", "DEL migrate-past-l", "DEL migrate-past", "EXEC"]),
    (
        "auto-append",
        &[
            "MULTI",
            "SESSION.MIGRATE auto-append FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PERSIST",
            r#"SESSION.APPEND auto-append AT <t> JSON '{"n":1}'"#,
            "EXEC",
        ],
    ),
    (
        "auto-append-options",
        &[
            "MULTI",
            "SESSION.MIGRATE auto-append-options FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PX <far-t> PXAT 4102444800000",
            "SESSION.APPEND auto-append-options MAXLEN 2 AT 5000 NOW <t> PX 1000000 PXAT <t+1000000> MSG user hi",
            "EXEC",
        ],
    ),
    (
        "auto-expiring",
        &[
            "MULTI",
            "SESSION.MIGRATE auto-expiring FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PX <far-t> PXAT 4102444800000",
            "SESSION.EVENT ADD auto-expiring pass STATE review AT <t> PXAT 4102444800000",
            "EXEC",
        ],
    ),
    (
        "auto-nothing",
        &[
            "MULTI",
            "SESSION.MIGRATE auto-nothing FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PERSIST",
            "SESSION.REMOVE auto-nothing 99 AT <t>",
            "EXEC",
        ],
    ),
    ("auto-open", &["SESSION.MIGRATE auto-open FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PX <far-t> PXAT 4102444800000"]),
    (
        "auto-index",
        &[
            "MULTI",
            "SESSION.MIGRATE auto-index FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PX <far-t> PXAT 4102444800000",
            "SESSION.INDEX ADD auto-index-i auto-index ALIAS a",
            "EXEC",
        ],
    ),
    (
        "auto-getex",
        &[
            "MULTI",
            "SESSION.MIGRATE auto-getex FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PERSIST",
            "SESSION.GETEX auto-getex AT <t> PX 1000000 PXAT <t+1000000>",
            "EXEC",
        ],
    ),
    (
        "auto-checkpoint",
        &[
            "MULTI",
            "SESSION.MIGRATE auto-checkpoint FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PERSIST",
            r#"SESSION.CHECKPOINT CREATE auto-checkpoint SUMMARY '{"impacts":{}}' REFS 0 CLOSE AT <t> PXAT <t+1000000>"#,
            "EXEC",
        ],
    ),
    (
        "auto-past",
        &[
            "MULTI",
            "SESSION.MIGRATE auto-past FORMAT json-list ID <id> MAXLEN 0 <carried> AT <t> PERSIST",
            "DEL auto-past",
            "EXEC",
        ],
    ),
    ("getex-closed", &[]),
    ("getex", &["SESSION.GETEX getex AT <t> PXAT <t+604800000>"]),
    ("getex-ex", &["SESSION.GETEX getex-ex AT <t> PX 1000000 PXAT <t+1000000>"]),
    ("getex-px", &["SESSION.GETEX getex-px AT <t> PX 1000000 PXAT <t+1000000>"]),
    ("getex-pxat", &["SESSION.GETEX getex-pxat AT <t> PXAT 4102444800000"]),
    ("getex-persist", &["SESSION.GETEX getex-persist AT <t> PERSIST"]),
    ("getex-create", &["SESSION.CREATE getex-create ID <id> <limits> AT <t> PX 604800000 PXAT <t+604800000>"]),
    ("getex-create-known", &["SESSION.GETEX getex-create-known AT <t> PX 1000000 PXAT <t+1000000>"]),
];

const DEFAULT_LIMITS: &str =
    "LIMIT maxlen 20 LIMIT maxtokens 0 LIMIT maxbytes 0 LIMIT maxage 0 LIMIT event-maxlen 1000 \
    LIMIT event-ttl 3600 LIMIT dedup-window 64 LIMIT max-checkpoints 16 LIMIT max-entities 10000 LIMIT max-agents 1000";

const FAR_MS: i64 = 4_102_444_800_000;

/// Returns whether a propagated command is the expected one, for some value of the clock within the given range.
fn is_literally(expected: &str, command: &[Vec<u8>], clock_ms: &RangeInclusive<i64>) -> bool {
    let deep = format!(r#"'{{"impacts":{{"d":{}{}}}}}'"#, "[".repeat(127), "]".repeat(127));
    let carried = &DEFAULT_LIMITS[DEFAULT_LIMITS.find("LIMIT dedup-window").unwrap_or_default()..];
    let expected = expected
        .replace("<limits>", DEFAULT_LIMITS)
        .replace("<carried>", carried)
        .replace("<deep>", &deep);
    let expected = talk::split(&expected);
    let mut t = None;
    expected.len() == command.len()
        && expected.iter().zip(command).all(|(pattern, word)| {
            let later_ms = match std::str::from_utf8(pattern) {
                Ok("<id>") => return word.len() == 36,
                // The remaining time of a given expiry.
                Ok("<far-t>") => return t.is_some_and(|t: i64| word == (FAR_MS - t).to_string().as_bytes()),
                Ok("<t>") => 0,
                Ok(text) => match text.strip_prefix("<t+").and_then(|rest| rest.strip_suffix('>')) {
                    Some(later_ms) => later_ms.parse().expect("milliseconds"),
                    None => return pattern == word,
                },
                Err(_) => return pattern == word,
            };
            let Some(time) = std::str::from_utf8(word).ok().and_then(|word| word.parse::<i64>().ok()) else {
                return false;
            };
            let read = *t.get_or_insert(time - later_ms);
            clock_ms.contains(&read) && time == read + later_ms
        })
}

#[test]
fn every_write_propagates_these_facts_and_no_others() {
    let server = Server::append_only().start();
    let mut differences = String::new();
    for scenario in super::scenarios::of_every_write(&server) {
        let (_, expected) = PROPAGATED
            .iter()
            .find(|(name, _)| *name == scenario.name)
            .unwrap_or_else(|| panic!("nobody said what {} propagates", scenario.name));
        let mut commands = Vec::new();
        let start = now_ms();
        scenario.play(&server, |last| {
            commands = server.propagated_by(|server| {
                server.run(last);
            });
        });
        let clock_ms = start..=now_ms();
        let is_same = expected.len() == commands.len()
            && expected
                .iter()
                .zip(&commands)
                .all(|(expected, command)| is_literally(expected, command, &clock_ms));
        if !is_same {
            let lines: Vec<String> = commands.iter().map(|command| line(command)).collect();
            differences += &format!(
                "\n{}\n--- expected\n{}\n--- propagated\n{}\n",
                scenario.commands.join("\n"),
                expected.join("\n"),
                lines.join("\n")
            );
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn an_error_propagates_nothing() {
    let server = Server::append_only().start();
    server.run("SESSION.APPEND k MSG user hi");
    let lines = server.propagated_lines(|server| {
        for command in [
            "SESSION.CREATE k",
            "SESSION.APPEND k IFVERSION 99 MSG user hi",
            "SESSION.APPEND k LEASE 1 MSG user hi",
            "SESSION.APPEND k JSON {} []",
            "SESSION.APPEND k BOGUS",
            "SESSION.POP absent",
            "SESSION.WINDOW k MAXLEN -1",
            "SESSION.META absent 5",
            "SESSION.META absent {} IFVERSION 3",
            "SESSION.ENTITY MENTION k IFVERSION 99 ID e",
            "SESSION.ENTITY MENTION absent LEASE 1 ID e",
            "SESSION.ENTITY MENTION k JSON '{\"id\":\"e\"}' []",
            "SESSION.ENTITY FORGET absent 1 e",
            "SESSION.ENTITY FORGET k 1 e IFVERSION 99",
            "SESSION.EVENT ADD k pass IFSTATE review",
            "SESSION.EVENT ADD k pass IFVERSION 99",
            "SESSION.EVENT ADD absent pass CHANGE []",
            "SESSION.ANCHOR ADD k s1",
            "SESSION.ANCHOR ADD absent s1 PERF x",
            "SESSION.CREATE new INDEX k",
            "SESSION.CREATE new INDEX absent ALIAS a/b",
            "SESSION.CREATE k INDEX absent ALIAS a",
            "SESSION.INDEX ADD absent absent2",
            "SESSION.INDEX ADD k k",
            "SESSION.CHECKPOINT CREATE absent",
            "SESSION.CHECKPOINT CREATE k IFVERSION 99",
            "SESSION.CHECKPOINT CREATE k STORE k",
            "SESSION.CHECKPOINT RESTORE k 1",
            "SESSION.FORK absent new",
            "SESSION.FORK k k",
            "SESSION.FORK k new CHECKPOINT 1",
        ] {
            assert!(server.say(command).starts_with("(error)"), "{command}");
        }
        for reading in [
            "RANGE k 0 -1",
            "GET k",
            "LEN k",
            "INFO k",
            "CONTEXT k",
            "RANGE absent 0 -1",
            "GET absent",
            "GETEX absent",
            "ENTITY GET k e",
            "ENTITY LIST k",
            "ENTITY RESOLVE k he",
            "ENTITY HELP",
            "EVENT RANGE k - +",
            "EVENT LEN k",
            "EVENT HELP",
            "ANCHOR GET absent",
            "ANCHOR HELP",
            "INDEX RESOLVE absent a",
            "INDEX LIST absent",
            "INDEX LEN absent",
            "INDEX HELP",
            "CHECKPOINT GET k 1",
            "CHECKPOINT LIST k",
            "CHECKPOINT LIST absent",
            "CHECKPOINT HELP",
            "CHECKPOINT DEL k 1",
        ] {
            server.run(&format!("SESSION.{reading}"));
        }
    });
    assert_eq!(lines, [""; 0]);
}

#[test]
fn an_expiry_in_the_past_propagates_a_deletion() {
    let server = Server::append_only().start();
    server.run("SESSION.APPEND k MSG user hi");
    for command in [
        "SESSION.APPEND k PXAT 1000 MSG user hi",
        "SESSION.META new {} PXAT 1000",
        "SESSION.GETEX k2 PXAT 1000",
        "SESSION.ENTITY MENTION new PXAT 1000 ID e",
        "SESSION.ENTITY MENTION k2 PXAT 1000 ID e",
        "SESSION.ENTITY FORGET k2 1 e PXAT 1000",
        "SESSION.EVENT ADD new pass PXAT 1000",
        "SESSION.EVENT ADD k2 pass PXAT 1000",
        "SESSION.CHECKPOINT CREATE k2 PXAT 1000",
        "SESSION.CHECKPOINT DEL k2 1 PXAT 1000",
        "SESSION.FORK k2 new PXAT 1000",
        "SESSION.FORK k2 k REPLACE PXAT 1000",
    ] {
        server.run("SESSION.APPEND k2 MSG user hi");
        server.run(command);
    }
    // The source of a fork that is deleted at once is kept.
    assert_eq!(server.say("DEL k2"), "(integer) 1");
    assert_eq!(server.say("EXISTS k new k2"), "(integer) 0");
    server.restart();
    assert_eq!(server.say("EXISTS k new k2"), "(integer) 0");
}

#[test]
fn a_transaction_is_propagated_as_one() {
    let server = Server::append_only().start();
    let lines = server.propagated_lines(|server| {
        for command in [
            "MULTI",
            "SESSION.APPEND k MSG user one",
            "SESSION.APPEND k MSG user two",
            "SET s v",
            "SESSION.LEN k",
            "EXEC",
        ] {
            server.run(command);
        }
    });
    assert_eq!(lines.iter().filter(|line| *line == "MULTI").count(), 1, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| *line == "EXEC").count(), 1);
    assert!(
        lines[0] == "MULTI" && lines[1].starts_with("SESSION.CREATE k ") && lines[2].starts_with("SESSION.APPEND k ")
    );
    assert!(
        lines[3].starts_with("SESSION.APPEND k ") && lines[4] == "SET s v" && lines[5] == "EXEC" && lines.len() == 6,
        "{lines:#?}"
    );
    let before = server.snapshot();
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn a_script_propagates_its_effects() {
    let (server, replica) = (Server::append_only().start(), Options::default().hostile().start());
    replica.replicate(&server);
    let lines = server.propagated_lines(|server| {
        server.run(
            "EVAL \"redis.call('SESSION.APPEND', KEYS[1], 'MSG', 'user', 'hi') \
             return redis.call('SESSION.POP', KEYS[1])\" 1 k",
        );
    });
    assert!(
        lines[0] == "MULTI" && lines.last().expect("lines") == "EXEC",
        "{lines:#?}"
    );
    assert!(
        lines.iter().all(|line| !line.to_uppercase().contains("EVAL")),
        "{lines:#?}"
    );
    let before = server.snapshot();
    replica.wait_for(&server);
    oracle::assert_same("on the replica", &before, &replica.snapshot());
    server.restart();
    oracle::assert_same("after the restart", &before, &server.snapshot());
}

#[test]
fn a_replica_reads_and_does_not_write() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    primary.run(r#"SESSION.APPEND k JSON '{"n":1}' '{"n":2}' '{"n":3}'"#);
    replica.wait_for(&primary);
    let writes: Vec<String> = super::guards::writes(&primary)
        .into_iter()
        .map(|(_, write)| write.replace("{w}", ""))
        .chain(
            [
                "SESSION.CREATE new",
                "SESSION.CREATE new INDEX i",
                "SESSION.INDEX ADD i k",
                "SESSION.ANCHOR ADD new s1",
                "SESSION.GETEX k",
                "SESSION.LOAD new x",
                "SESSION.CHECKPOINT CREATE k STORE new",
                "SESSION.CHECKPOINT DEL k 1",
                "SESSION.CHECKPOINT RESTORE k 1",
                "SESSION.FORK k new",
                "SESSION.AGENT LEASE k a 1000",
                "SESSION.AGENT RELEASE k 1",
                "SESSION.MIGRATE new FROM 1 k",
            ]
            .map(String::from),
        )
        .collect();
    let commands = primary.commands();
    assert_examples(commands.iter().filter(|command| command.is_write()), &writes, &[]);
    for write in writes {
        let reply = replica.say(&write);
        assert!(reply.starts_with("(error) READONLY "), "{write}: {reply}");
    }
    for reading in [
        "RANGE k 0 -1",
        "GET k",
        "LEN k",
        "CONTEXT k",
        "ENTITY LIST k",
        "ENTITY GET k e",
        "ENTITY RESOLVE k e",
    ] {
        let command = format!("SESSION.{reading}");
        assert_eq!(replica.say(&command), primary.say(&command));
    }
    replica.run("SESSION.INFO k");
}

#[test]
fn a_replica_hides_what_maxage_has_passed_and_keeps_what_the_primary_keeps() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    let now = now_ms();
    primary.run("SESSION.CREATE k LIMIT maxage 2000");
    primary.run(&format!(r#"SESSION.APPEND k AT {} JSON '{{"n":1}}'"#, now - 1000));
    primary.run(&format!(r#"SESSION.APPEND k AT {} JSON '{{"n":2}}'"#, now + 9_000_000));
    replica.wait_for(&primary);
    wait_until("the first is hidden on the replica", || replica.seqs("k") == [2]);
    wait_until("the first is hidden on the primary", || primary.seqs("k") == [2]);
    assert_eq!(primary.digest(b"k"), replica.digest(b"k"));
    primary.run(r#"SESSION.APPEND k JSON '{"n":3}'"#);
    replica.wait_for(&primary);
    assert_eq!(primary.visible(b"k"), replica.visible(b"k"));
}

#[test]
fn a_promoted_replica_knows_tokens_versions_and_seqs() {
    let (primary, replica) = (Server::start(), Options::default().hostile().start());
    replica.replicate(&primary);
    primary.run(r#"SESSION.APPEND k DEDUP a JSON '{"n":1}'"#);
    primary.run(r#"SESSION.APPEND k DEDUP b MSG user hi"#);
    primary.run("SESSION.POP k");
    replica.wait_for(&primary);
    replica.run("REPLICAOF NO ONE");
    replica.conversation(
        r#"
        > SESSION.APPEND k DEDUP a JSON '{"n":1}'
        (integer) 1
        > SESSION.APPEND k DEDUP b MSG user hi
        (integer) 2
        > SESSION.APPEND k DEDUP a JSON '{"n":2}'
        (error) DEDUPCONFLICT token 'a' was used for another message
        > SESSION.APPEND k IFVERSION 4 MSG user hi
        (integer) 3
        "#,
    );
}

#[test]
fn a_chain_of_replicas_and_a_partial_resync() {
    let (primary, middle, last) = (
        Server::start(),
        Options::default().hostile().start(),
        Options::default().hostile().start(),
    );
    middle.replicate(&primary);
    last.replicate(&middle);
    for scenario in super::scenarios::of_every_write(&primary) {
        if scenario.name == "append-maxlen" {
            primary.run("CLIENT KILL TYPE replica");
        }
        scenario.play(&primary, |command| {
            primary.run(command);
        });
    }
    middle.wait_for(&primary);
    last.wait_for(&middle);
    oracle::assert_same("on the replica", &primary.snapshot(), &middle.snapshot());
    oracle::assert_same("on the replica's replica", &primary.snapshot(), &last.snapshot());
    assert!(primary.info_number("stats", "sync_partial_ok") >= 1);
}

#[test]
fn tokens_are_remembered_across_a_restart() {
    for rewrite in [false, true] {
        let server = Server::append_only().start();
        server.run(r#"SESSION.APPEND k DEDUP a JSON '{"n":1}' '{"n":2}'"#);
        if rewrite {
            server.run("CONFIG SET aof-use-rdb-preamble no");
            server.rewrite_append_only_file();
        }
        server.restart();
        server.conversation(
            r#"
            > SESSION.APPEND k DEDUP a JSON '{"n":1}' '{"n":2}'
            (integer) 2
            > SESSION.APPEND k DEDUP a JSON '{"n":3}'
            (error) DEDUPCONFLICT …
            > SESSION.LEN k
            (integer) 2
            "#,
        );
    }
}
