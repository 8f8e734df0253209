//! A real cluster: publication, key placement, slot migration and failover.

use redis_session_tests::{entry, int, items, talk, text, Client, Cluster, Options, Server};

/// Opens a connection that is subscribed to these sessions and to a channel that marks the end of a test.
fn subscriber(node: &Server, keys: &[String]) -> Client {
    let mut client = node.client();
    for key in keys {
        client.run(&format!("SUBSCRIBE __session@0__:{key}"));
    }
    client.run("SUBSCRIBE end");
    client
}

/// Returns what was published so far, as `key seq kind type`, sorted: keys on different nodes have no common order.
///
/// Every node publishes an end mark. A link between two nodes keeps the order, so everything that a node published before, even twice, has
/// arrived.
fn heard_by_each(cluster: &Cluster, subscribers: &mut [Client]) -> Vec<Vec<String>> {
    for node in cluster.nodes() {
        node.client().run("PUBLISH end end");
    }
    let hear = |subscriber: &mut Client| {
        let (mut heard, mut ends) = (Vec::new(), 0);
        while ends < cluster.nodes().len() {
            let message = items(&subscriber.receive());
            assert_eq!(text(&message[0]), "message");
            let (channel, payload) = (text(&message[1]), text(&message[2]));
            if channel == "end" {
                ends += 1;
                continue;
            }
            let json: serde_json::Value = serde_json::from_str(&payload).expect("JSON");
            let field = |name: &str| json[name].as_str().unwrap_or("-").to_owned();
            assert_eq!(channel, format!("__session@0__:{}", field("key")));
            heard.push(format!(
                "{} {} {} {}",
                field("key"),
                json["seq"],
                field("kind"),
                field("type")
            ));
        }
        heard.sort();
        heard
    };
    subscribers.iter_mut().map(hear).collect()
}

#[test]
fn each_subscriber_in_a_cluster_hears_once() {
    let mut cluster = Cluster::with(Options::default().config("session.publish", "all"), 3);
    let replica = cluster.add_replica_of(0);
    // One session on each primary; the replicated one is the first.
    let keys: Vec<String> = (0..3).map(|n| cluster.key_on(n, "k")).collect();
    let mut subscribers: Vec<Client> = cluster.nodes().iter().map(|node| subscriber(node, &keys)).collect();

    let record = |key: &str| {
        let node = cluster.node(cluster.owner(key));
        node.run(&format!("SESSION.EVENT ADD {key} pass"));
        node.run(&format!("SESSION.AGENT JOIN {key} a"));
        node.run(&format!("SESSION.AGENT HANDOFF {key} a b"));
        node.run(&format!("SESSION.APPEND {key} MSG user hi"));
        node.run("MULTI");
        node.run(&format!("SESSION.APPEND {key} JSON {{}} {{}}"));
        node.run(&format!("SESSION.EVENT ADD {key} broke"));
        node.run(&format!("SESSION.AGENT JOIN {key} b"));
        node.run("EXEC");
        node.run(&format!(
            "EVAL \"return redis.call('SESSION.EVENT', 'ADD', KEYS[1], 'scripted')\" 1 {key}"
        ));
        node.attempt(&format!("SESSION.EVENT ADD {key} refused IFSTATE nowhere"));
        node.run(&format!("SESSION.CHECKPOINT CREATE {key} STORE {{{key}}}:ref"));
        node.run(&format!("SESSION.CHECKPOINT RESTORE {key} 8"));
    };
    for key in &keys {
        record(key);
    }
    cluster.node(replica).wait_for(cluster.node(0));
    let recorded = [
        "1 event pass",
        "1 join -",
        "2 event handoff",
        "3 message user",
        "4 message other",
        "5 message other",
        "6 event broke",
        "6 join -",
        "7 event scripted",
        "8 checkpoint -",
        "9 event restored",
    ];
    let mut expected: Vec<String> = keys
        .iter()
        .flat_map(|key| recorded.iter().map(move |what| format!("{key} {what}")))
        .collect();
    expected.sort();
    for (node, heard) in heard_by_each(&cluster, &mut subscribers).into_iter().enumerate() {
        assert_eq!(heard, expected, "the subscriber at node {node}");
    }

    // By the setting of the primary that records.
    cluster.node(0).run("CONFIG SET session.publish events");
    cluster.node(0).run(&format!("SESSION.APPEND {} MSG user hi", keys[0]));
    cluster.node(0).run(&format!("SESSION.EVENT ADD {} pass", keys[0]));
    cluster.node(replica).wait_for(cluster.node(0));
    for heard in heard_by_each(&cluster, &mut subscribers) {
        assert_eq!(heard, [format!("{} 11 event pass", keys[0])]);
    }

    // The same holds after a replica is promoted.
    cluster.fail_over_to(replica);
    cluster
        .node(replica)
        .run(&format!("SESSION.EVENT ADD {} pass", keys[0]));
    cluster.node(0).wait_for(cluster.node(replica));
    for heard in heard_by_each(&cluster, &mut subscribers) {
        assert_eq!(heard, [format!("{} 12 event pass", keys[0])]);
    }
}

/// Returns the whole session, to the byte.
fn shown_at(node: &Server, key: &str) -> String {
    text(&node.run(&format!("SESSION.GET {key}")))
}

/// Like the above without the key's expiry, which the server's `MIGRATE` sends as the remaining time.
fn without_expiry(document: &str) -> String {
    let (before, rest) = document.split_once(r#""expires_at":"#).expect("an expiry");
    let (_, after) = rest.split_once(',').expect("more fields");
    format!("{before}{after}")
}

#[test]
fn a_slot_of_a_cluster_migrates_with_its_sessions() {
    let cluster = Cluster::start(3);
    let key = format!("{{{}}}:1", cluster.key_on(0, "k"));
    let late = key.replace(":1", ":late");
    let (slot, source, target) = (cluster.slot(&key), cluster.node(0), cluster.node(2));
    for n in 0..30 {
        source.run(&format!("SESSION.APPEND {key} MSG user \"message {n}\" REF e{n}"));
    }
    source.run(&format!(
        "SESSION.EVENT ADD {key} broke AGENT a IMPACT '{{\"n\":1}}' STATE review"
    ));
    source.run(&format!("SESSION.AGENT JOIN {key} a"));
    let token = int(&source.run(&format!("SESSION.AGENT LEASE {key} a 600000")));
    source.run(&format!("SESSION.APPEND {key} LEASE {token} DEDUP t MSG user last"));

    cluster.begin_migration(slot, 0, 2);
    // Keys that are still here are served here; missing ones may be on the other node.
    assert_eq!(
        source.say(&format!("SESSION.APPEND {key} LEASE {token} MSG user during")),
        "(integer) 33"
    );
    let asked = source.say(&format!("SESSION.APPEND {late} MSG user hi"));
    assert_eq!(asked, format!("(error) ASK {slot} 127.0.0.1:{}", target.port()));
    let (digest, document) = (source.digest(key.as_bytes()), shown_at(source, &key));
    let version = source.version_of(&key);
    let expiry = source.expires_at_ms(key.as_bytes());
    cluster.move_keys(slot, 0, 2);
    assert_eq!(target.digest(key.as_bytes()), digest);

    // Until all nodes know the new owner, only after ASKING.
    let append = format!("SESSION.APPEND {key} LEASE {token} MSG user after");
    assert_eq!(source.say(&append), asked);
    let moved = |to: &Server| format!("(error) MOVED {slot} 127.0.0.1:{}", to.port());
    assert_eq!(target.say(&append), moved(source));
    let asking = |line: &str| {
        let mut client = target.client();
        client.run("ASKING");
        client.attempt(line)
    };
    let shown = text(&asking(&format!("SESSION.GET {key}")));
    assert_eq!(without_expiry(&shown), without_expiry(&document));
    let arrived_with = int(&asking(&format!("PEXPIRETIME {key}")));
    assert!(
        (expiry..expiry + 60_000).contains(&arrived_with),
        "{arrived_with} from {expiry}"
    );
    assert!(talk::render(&asking(&append.replace(&format!("LEASE {token}"), ""))).starts_with("(error) LEASEHELD"));
    // A key in an option may not have been moved yet either.
    let create = format!("SESSION.CREATE {key} ALIAS INDEX INDEX {late}");
    assert!(talk::render(&asking(&create)).starts_with("(error) TRYAGAIN"));
    // The token of an earlier append is remembered, and seqs continue.
    let again = format!("SESSION.APPEND {key} LEASE {token} DEDUP t MSG user last");
    assert_eq!(int(&asking(&again)), 32);
    assert_eq!(int(&asking(&append)), 34);
    let info = asking(&format!("SESSION.INFO {key}"));
    assert_eq!(int(&entry(&info, "version")), version + 1);
    assert_eq!(int(&asking(&format!("SESSION.EVENT ADD {late} pass"))), 1);

    cluster.end_migration(slot, 0, 2);
    assert_eq!(cluster.owner(&key), 2);
    assert_eq!(target.say(&append), "(integer) 35");
    for other in [source, cluster.node(1)] {
        assert_eq!(other.say(&append), moved(target));
    }
    assert_eq!(source.say("DBSIZE"), "(integer) 0");
    assert_eq!(target.say("DBSIZE"), "(integer) 2");
    assert_eq!(source.info_number("session", "session_active_sessions"), 0);
}

#[test]
fn checkpoints_and_closed_sessions_migrate_with_their_slot() {
    let cluster = Cluster::start(3);
    let tag = cluster.key_on(0, "k");
    let (key, closed, fork, reference) = (
        format!("{{{tag}}}:1"),
        format!("{{{tag}}}:closed"),
        format!("{{{tag}}}:fork"),
        format!("{{{tag}}}:ref"),
    );
    let (slot, source, target) = (cluster.slot(&key), cluster.node(0), cluster.node(2));
    source.run(&format!("SESSION.CREATE {key} LIMIT maxlen 0"));
    for n in 0..200 {
        source.run(&format!("SESSION.APPEND {key} MSG user \"message {n}\" REF e{n}"));
    }
    source.run(&format!("SESSION.CHECKPOINT CREATE {key} STORE {reference}"));
    source.run(&format!("SESSION.FORK {key} {fork} UPTO 100"));
    source.run(&format!("SESSION.FORK {key} {closed}"));
    source.run(&format!("SESSION.CHECKPOINT CREATE {closed} CLOSE"));
    source.run(&format!("SESSION.CLEAR {key}"));
    let keys = [&key, &closed, &fork, &reference];
    let digests = keys.map(|key| source.digest(key.as_bytes()));
    cluster.begin_migration(slot, 0, 2);
    cluster.move_keys(slot, 0, 2);
    cluster.end_migration(slot, 0, 2);
    assert_eq!(keys.map(|key| target.digest(key.as_bytes())), digests);
    assert_eq!(source.say("DBSIZE"), "(integer) 0");
    target.conversation(&format!(
        r#"
        > SESSION.CHECKPOINT RESTORE {key} 201
        (integer) 204
        > SESSION.LEN {key}
        (integer) 200
        > SESSION.APPEND {closed} MSG user hi
        (error) CLOSED session closed at …
        > SESSION.FORK {closed} {fork} REPLACE
        "…"
        > SESSION.APPEND {fork} MSG user on
        (integer) 203
        "#
    ));
}

#[test]
fn the_key_of_a_command_decides_its_node_in_a_cluster() {
    let cluster = Cluster::start(3);
    let here = cluster.key_on(0, "k");
    let there = cluster.key_on(1, "k");
    let node = cluster.node(0);
    let moved = format!(
        "(error) MOVED {} 127.0.0.1:{}",
        cluster.slot(&there),
        cluster.node(1).port()
    );
    for command in [
        "SESSION.CREATE k",
        "SESSION.APPEND k MSG user hi",
        "SESSION.LEN k",
        "SESSION.EVENT ADD k pass",
        "SESSION.EVENT RANGE k - +",
        "SESSION.EVENT LEN k",
        "SESSION.ANCHOR GET k",
        "SESSION.ENTITY MENTION k ID e",
        "SESSION.ENTITY GET k e",
        "SESSION.ENTITY LIST k",
        "SESSION.ENTITY RESOLVE k he",
        "SESSION.ENTITY FORGET k 1 e",
        "SESSION.AGENT JOIN k a",
        "SESSION.AGENT LIST k",
        "SESSION.AGENT HANDOFF k a b",
        "SESSION.AGENT LEASE k a 1",
        "SESSION.AGENT RELEASE k 1",
        "SESSION.AGENT LEAVE k a",
        "SESSION.CHECKPOINT CREATE k",
        "SESSION.CHECKPOINT GET k 1",
        "SESSION.CHECKPOINT LIST k",
        "SESSION.CHECKPOINT RESTORE k 1",
        "SESSION.CHECKPOINT DEL k 1",
    ] {
        let at = |key: &str| command.replacen(" k", &format!(" {key}"), 1);
        assert_eq!(node.say(&at(&there)), moved, "{command}");
        let served = node.say(&at(&here));
        assert!(!served.starts_with("(error) MOVED"), "{command}: {served}");
        assert!(!served.starts_with("(error) CROSSSLOT"), "{command}: {served}");
    }
    for help in [
        "SESSION.EVENT HELP",
        "SESSION.ENTITY HELP",
        "SESSION.AGENT HELP",
        "SESSION.ANCHOR HELP",
        "SESSION.INDEX HELP",
        "SESSION.CHECKPOINT HELP",
    ] {
        for node in cluster.nodes() {
            node.run(help);
        }
    }
    // A transaction is of one slot, and so is a script.
    let neighbour = (0..)
        .map(|n| format!("{here}{n}"))
        .find(|key| cluster.owner(key) == 0 && cluster.slot(key) != cluster.slot(&here))
        .expect("another slot of the same node");
    node.run("MULTI");
    node.run(&format!("SESSION.EVENT ADD {here} pass"));
    node.run(&format!("SESSION.EVENT ADD {neighbour} pass"));
    assert!(node.say("EXEC").starts_with("(error) CROSSSLOT"));
    let script = format!("EVAL \"return redis.call('SESSION.EVENT', 'ADD', ARGV[1], 'pass')\" 1 {here} {there}");
    assert!(node
        .say(&script)
        .starts_with("(error) ERR Script attempted to access a non local key"));
    assert_eq!(node.say(&format!("EXISTS {neighbour}")), "(integer) 0");
}

#[test]
fn keys_of_options_must_be_in_one_slot_of_a_cluster() {
    let cluster = Cluster::start(3);
    let tag = cluster.key_on(0, "t");
    let node = cluster.node(0);
    // Another slot, of the same node and of another one.
    let near = (0..)
        .map(|n| format!("near{n}"))
        .find(|key| cluster.owner(key) == 0 && cluster.slot(key) != cluster.slot(&tag))
        .expect("another slot of the same node");
    let far = cluster.key_on(1, "far");
    for index in [&near, &far] {
        for options in [
            format!("INDEX {index}"),
            format!("index {index} ALIAS INDEX OPEN"),
            format!("ALIAS INDEX INDEX {index}"),
            format!("STATE INDEX LIMIT INDEX 1 INDEX {index}"),
        ] {
            let reply = node.say(&format!("SESSION.CREATE {{{tag}}} {options}"));
            assert!(reply.starts_with("(error) CROSSSLOT"), "{options}: {reply}");
        }
        // Values with the same text are not keys.
        for options in [
            format!("STATE INDEX META '{{\"INDEX\":\"{index}\"}}'"),
            format!("SCOPE INDEX STATE {index}"),
            format!("PIN INDEX PIN {index} PIN INDEX"),
        ] {
            node.run(&format!("SESSION.CREATE {{{tag}}} OPEN {options}"));
        }
    }
    for options in [
        format!("INDEX {{{tag}}}:i"),
        format!("ALIAS INDEX INDEX {{{tag}}}:i"),
        format!("INDEX {{{tag}}}:i ALIAS {near}"),
    ] {
        let reply = node.say(&format!("SESSION.CREATE {{{tag}}}:new {options}"));
        assert!(!reply.starts_with("(error) CROSSSLOT"), "{options}: {reply}");
        let elsewhere = cluster.node(1).say(&format!("SESSION.CREATE {{{tag}}}:new {options}"));
        assert!(elsewhere.starts_with("(error) MOVED"), "{options}: {elsewhere}");
    }
    // The same holds for the key of STORE and for both keys of a fork.
    for other in [&near, &far] {
        for line in [
            format!("SESSION.CHECKPOINT CREATE {{{tag}}} STORE {other}"),
            format!("SESSION.CHECKPOINT CREATE {{{tag}}} LABEL STORE STORE {other} CLOSE"),
            format!("SESSION.CHECKPOINT CREATE {{{tag}}} REFS 1 STORE OUTCOME STORE STORE {other}"),
            format!("SESSION.FORK {{{tag}}} {other}"),
            format!("SESSION.FORK {{{tag}}} {other} REPLACE ID STORE"),
            format!("SESSION.FORK {other} {{{tag}}}"),
            format!("SESSION.MIGRATE {{{tag}}}:new FROM 1 {other}"),
            format!("SESSION.MIGRATE {{{tag}}}:new FROM 2 {{{tag}}}:old {other} KEEP"),
            format!("SESSION.MIGRATE {{{tag}}}:new FORMAT FROM FROM 1 {other} DRYRUN"),
        ] {
            let reply = node.say(&line);
            assert!(reply.starts_with("(error) CROSSSLOT"), "{line}: {reply}");
        }
        for line in [
            format!("SESSION.CHECKPOINT CREATE {{{tag}}} LABEL STORE OUTCOME {other}"),
            format!("SESSION.CHECKPOINT CREATE {{{tag}}} REFS 2 STORE {other}"),
            format!("SESSION.CHECKPOINT CREATE {{{tag}}} SUMMARY '{{\"STORE\":\"{other}\"}}'"),
        ] {
            node.run(&line);
        }
    }
    for line in [
        format!("SESSION.CHECKPOINT CREATE {{{tag}}} STORE {{{tag}}}:ref LABEL {far}"),
        format!("SESSION.FORK {{{tag}}} {{{tag}}}:fork"),
        format!("SESSION.FORK {{{tag}}}:fork {{{tag}}}:fork2 UPTO 0"),
    ] {
        node.run(&line);
        let elsewhere = cluster.node(1).say(&line);
        assert!(elsewhere.starts_with("(error) MOVED"), "{line}: {elsewhere}");
    }
    assert!(text(&node.run(&format!("GET {{{tag}}}:ref"))).starts_with("{\"sessionId\":"));
    assert_eq!(node.say(&format!("EXISTS {near}")), "(integer) 0");
    assert_eq!(cluster.node(1).say("DBSIZE"), "(integer) 0");
}

#[test]
fn a_replica_promoted_in_a_cluster_has_the_session_and_goes_on() {
    let mut cluster = Cluster::start(3);
    let key = cluster.key_on(1, "k");
    cluster.node(1).run(&format!("SESSION.APPEND {key} MSG user before"));
    let replica = cluster.add_replica_of(1);
    let (old, new) = (cluster.node(1), cluster.node(replica));
    old.run(&format!("SESSION.AGENT JOIN {key} a"));
    old.run(&format!("SESSION.EVENT ADD {key} broke ENTITIES 1 e STATE review"));
    let token = int(&old.run(&format!("SESSION.AGENT LEASE {key} a 600000")));
    old.run(&format!("SESSION.APPEND {key} LEASE {token} DEDUP t MSG user leased"));
    new.wait_for(old);

    let (digest, document) = (old.digest(key.as_bytes()), shown_at(old, &key));
    let version = old.version_of(&key);
    let expiry = old.expires_at_ms(key.as_bytes());
    let read = |node: usize| text(&cluster.reader(node).run(&format!("SESSION.GET {key}")));
    assert_eq!(read(replica), document);
    let append = format!("SESSION.APPEND {key} LEASE {token} MSG user after");
    assert!(new.say(&append).starts_with("(error) MOVED"));

    cluster.fail_over_to(replica);
    assert_eq!(cluster.owner(&key), replica);
    assert_eq!(new.digest(key.as_bytes()), digest);
    assert_eq!(shown_at(new, &key), document);
    assert_eq!(new.expires_at_ms(key.as_bytes()), expiry);
    assert!(document.contains(r#""lease":{"agentId":"a""#), "{document}");
    new.conversation(&format!(
        r#"
        > SESSION.APPEND {key} MSG user unleased
        (error) LEASEHELD agent 'a' …
        > SESSION.AGENT LEASE {key} b 1000
        (error) LEASEHELD agent 'a' …
        > SESSION.APPEND {key} LEASE {token} DEDUP t MSG user leased
        (integer) 3
        > {append}
        (integer) 4
        > SESSION.EVENT ADD {key} pass LEASE {token}
        (integer) 5
        > SESSION.AGENT RELEASE {key} {token}
        (integer) 1
        > SESSION.AGENT LEASE {key} b 600000
        (integer) {}
        "#,
        token + 1
    ));
    assert_eq!(new.version_of(&key), version + 2);
    // The old primary follows.
    old.wait_for(new);
    assert!(old.say(&append).starts_with("(error) MOVED"));
    assert_eq!(old.digest(key.as_bytes()), new.digest(key.as_bytes()));
}
