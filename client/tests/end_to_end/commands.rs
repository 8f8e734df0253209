//! One scenario with every command. It is written once, as a macro, since sync and async differ in `.await` alone.

/// Sends one command and expects a reply.
macro_rules! call {
    (sync, $call:expr) => {
        $call.unwrap_or_else(|error| panic!("{}: {error}", stringify!($call)))
    };
    (async, $call:expr) => {
        $call
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", stringify!($call)))
    };
}

/// Every method of both traits, on sessions in the slot of `tag`.
macro_rules! every_command {
    ($mode:ident, $c:ident, $tag:ident) => {{
        let (index, key) = (format!("sessions:{{{}}}", $tag), format!("session:{{{}}}:1", $tag));
        let (fork, legacy) = (format!("session:{{{}}}:2", $tag), format!("session:{{{}}}:3", $tag));
        let (anchors, stored) = (format!("anchor:{{{}}}", $tag), format!("checkpoint:{{{}}}", $tag));
        let at = Timestamp::from_ms(1_768_384_800_000);
        let id: SessionId = "0190c5a4-7b1e-7ccc-8000-0123456789ab".parse().expect("an id");

        let create = Create::new().index(&index).alias("ada").id(id).state("planning").limit(Limit::MaxLen, 10);
        let create = create.scope($tag).meta(&json!({"model": "small"})).pin(MessageRole::System).at(at);
        let created = call!($mode, $c.session_create(&key, create));
        assert_eq!((created.id, created.key.as_slice(), created.created), (id, key.as_bytes(), true));

        // Messages.
        let question = NewMessage::user("Where is order 7?").name("Ada").id("m1").reference("order:7");
        assert_eq!(call!($mode, $c.session_append(&key, question.append().dedup("t1").at(at))).seq, 1);
        let call = NewMessage::assistant("").tool_call(ToolCall::new("c1", "order_status", "{}"));
        assert_eq!(call!($mode, $c.session_append(&key, call)).seq, 2);
        let appended = call!($mode, $c.session_append(&key, NewMessage::tool("c1", "shipped").append().evicted()));
        assert_eq!((appended.seq, appended.evicted.len()), (3, 0));
        let bodies = call!($mode, $c.session_range(&key, MessageQuery::all().role(MessageRole::Tool)));
        assert_eq!(bodies[0].message().expect("a message").tool_call_id.as_deref(), Some("c1"));
        let stored_message = call!($mode, $c.session_range_with_meta(&key, MessageQuery::after_seq(2))).remove(0);
        assert_eq!((stored_message.seq, stored_message.role), (3, MessageRole::Tool));
        let context = ContextOptions::new().max_tokens(1000).entities(3);
        let context = call!($mode, $c.session_context(&key, context)).expect("the session");
        assert_eq!((context.messages.len(), context.omitted, context.entities.len()), (3, 0, 1));
        let document = call!($mode, $c.session_get(&key, Some(1))).expect("the session");
        assert_eq!((document.session_id, document.messages.len(), document.message_count), (id, 1, 3));
        assert_eq!((document.alias.as_deref(), document.meta["model"].as_str()), (Some("ada"), Some("small")));
        assert_eq!(document.created_at, at);
        let extended = call!($mode, $c.session_getex(&key, GetEx::new().messages(0).expiry(SessionExpiry::After(HOUR))));
        assert_eq!(extended.expect("the session").ttl_extended_count, 1);
        let info = call!($mode, $c.session_info(&key)).expect("the session");
        assert_eq!((info.number("last_seq"), info.text("state")), (Some(3), Some("planning")));
        assert_eq!(call!($mode, $c.session_len(&key)), 3);
        let meta = call!($mode, $c.session_meta(&key, &json!({"model": "large"}), WriteOptions::new()));
        assert_eq!(meta, json!({"model": "large"}));
        assert_eq!(call!($mode, $c.session_window(&key, Window::new().max_len(100).max_tokens(0).pin(MessageRole::System))), 0);

        // Entities.
        let ada = Mention::new("u7").name("Ada").entity_type("person").alias("countess");
        assert_eq!(call!($mode, $c.session_entity_mention(&key, ada)), 1);
        let found = call!($mode, $c.session_entity_get(&key, "u7")).expect("Ada");
        assert_eq!((found.entity_name.as_str(), found.aliases.as_slice()), ("Ada", &["countess".to_owned()][..]));
        assert_eq!(call!($mode, $c.session_entity_list(&key, EntityQuery::all().page(0, 10))).len(), 2);
        assert_eq!(call!($mode, $c.session_entity_resolve(&key, "she")).expect("Ada").entity_id, "u7");
        assert_eq!(call!($mode, $c.session_entity_candidates(&key, "they", false)).len(), 2);
        assert_eq!(call!($mode, $c.session_entity_forget(&key, &["u7", "nobody"], WriteOptions::new())), 1);

        // Events and agents.
        let shipped = NewEvent::new("shipped").agent("clerk").entity("order:7").if_state("planning").state("pass");
        let shipped = shipped.impact(&json!({"late": false})).change(&json!({"by": "sea"}));
        assert_eq!(call!($mode, $c.session_event_add(&key, shipped)), 4);
        let events = call!($mode, $c.session_event_range(&key, EventQuery::all().from("planning").to("pass")));
        assert_eq!((events[0].seq, events[0].entity_ids()), (4, vec!["order:7"]));
        assert_eq!(call!($mode, $c.session_event_len(&key)), 1);
        assert!(call!($mode, $c.session_agent_join(&key, Join::new("clerk").meta(&json!({"desk": 4})))));
        assert_eq!(call!($mode, $c.session_agent_list(&key))[0].agent_id, "clerk");
        let token = call!($mode, $c.session_agent_lease(&key, "clerk", HOUR));
        let handed = call!($mode, $c.session_agent_handoff(&key, Handoff::new("clerk", "planner").note("yours")));
        assert!(handed.lease > Some(token), "{handed:?}");
        call!($mode, $c.session_agent_release(&key, handed.lease.expect("the lease")));
        assert!(call!($mode, $c.session_agent_leave(&key, "clerk", WriteOptions::new())));
        let entries = call!($mode, $c.session_read(&key, ReadOptions::after(3).count(10)));
        assert!(matches!(&entries[0].kind, EntryKind::Event(event) if event.seq == 4), "{entries:?}");

        // Checkpoints and forks.
        let checkpoint = NewCheckpoint::new().label("greeted").outcome("pass").store(&stored).reference("order:7");
        let checkpoint = call!($mode, $c.session_checkpoint_create(&key, checkpoint));
        let found = call!($mode, $c.session_checkpoint_get(&key, checkpoint)).expect("the checkpoint");
        assert_eq!((found.session_id, found.label.as_deref()), (id, Some("greeted")));
        assert_eq!(call!($mode, $c.session_checkpoint_list(&key)), [found]);
        let forked = call!($mode, $c.session_fork(&key, &fork, Fork::new().checkpoint(checkpoint)));
        assert_ne!(forked, id);
        assert!(call!($mode, $c.session_checkpoint_restore(&key, checkpoint, WriteOptions::new())) > 1);
        assert_eq!(call!($mode, $c.session_checkpoint_del(&key, &[checkpoint, 999], WriteOptions::new())), 1);

        // What takes messages away.
        assert_eq!(call!($mode, $c.session_redact(&key, &[1], Some("privacy"), WriteOptions::new())), 1);
        assert_eq!(call!($mode, $c.session_compact(&key, 1, NewMessage::system("They asked."), WriteOptions::new())), 1);
        assert_eq!(call!($mode, $c.session_pop(&key, 2, WriteOptions::new())).len(), 2);
        assert_eq!(call!($mode, $c.session_remove(&key, &[1, 999], WriteOptions::new())), 1);
        assert_eq!(call!($mode, $c.session_clear(&fork, WriteOptions::new())), 3);

        // Directories, anchors, older layouts.
        let resolved = call!($mode, $c.session_index_resolve(&index, "ada")).expect("hers");
        assert_eq!((resolved.id, resolved.key.as_slice()), (id, key.as_bytes()));
        assert!(call!($mode, $c.session_index_add(&index, &fork, IndexAdd::new().autoname("byron"))));
        assert_eq!(call!($mode, $c.session_index_len(&index)), 2);
        let listed = call!($mode, $c.session_index_list(&index, IndexQuery::all().matching("b*").page(0, 5)));
        assert_eq!((listed.len(), listed[0].id, listed[0].autoname), (1, forked, true));
        let anchor = NewAnchor::new("s1").outcome("pass").checkpoint(4).impact("late").perf(-1.5).at(Timestamp::now());
        assert_eq!(call!($mode, $c.session_anchor_add(&anchors, anchor)), 1);
        let found = call!($mode, $c.session_anchor_get(&anchors, Some("s1"))).remove(0);
        assert_eq!((found.checkpoint_id, found.perf_delta), (Some(4), Some(-1.5)));
        let migrated = call!($mode, $c.session_migrate(&key, Migrate::new().dry_run()));
        assert_eq!(migrated.format, "rdsession");

        // What is not there.
        assert_eq!(call!($mode, $c.session_get(&legacy, None)), None);
        assert_eq!(call!($mode, $c.session_context(&legacy, ContextOptions::new())), None);
        assert_eq!(call!($mode, $c.session_info(&legacy)), None);
        assert_eq!(call!($mode, $c.session_entity_get(&legacy, "u7")), None);
        assert_eq!(call!($mode, $c.session_checkpoint_get(&legacy, 1)), None);
        assert_eq!(call!($mode, $c.session_index_resolve(&legacy, "ada")), None);
        assert!(call!($mode, $c.session_read(&legacy, ReadOptions::after(0))).is_empty());
        assert!(call!($mode, $c.session_range(&legacy, MessageQuery::all())).is_empty());
        assert_eq!(call!($mode, $c.session_len(&legacy)), 0);
    }};
}

use std::time::Duration;

use redis_session_client::*;
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3600);

pub fn sync(connection: &mut impl SessionCommands, tag: &str) {
    every_command!(sync, connection, tag);
}

pub async fn asynchronous(connection: &mut impl AsyncSessionCommands, tag: &str) {
    every_command!(async, connection, tag);
}
