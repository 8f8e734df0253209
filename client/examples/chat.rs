//! A conversation with tool calls, kept in a session: `cargo run -p redis-session-client --features tokio-comp --example chat -- URL`
//!
//! It opens the session of an alias, appends what a user, a model and a tool say, shows what would go to the model next, and follows what
//! was recorded.

use redis_session_client::{
    ContextOptions, Create, EntryKind, Limit, Mention, MessageRole, NewCheckpoint, NewEvent, NewMessage, SessionError,
    SessionStore, ToolCall,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1/".into());
    let store = SessionStore::new(redis::Client::open(url)?, "acme");
    let create = Create::new().limit(Limit::MaxLen, 200).pin(MessageRole::System);
    let session = store.open_or_create_by_alias(&"ada".parse()?, create).await?;
    println!("session {} at {}", session.id(), String::from_utf8_lossy(session.key()));
    let before = session.document(Some(0)).await?.last_seq;

    session
        .mention(Mention::new("u7").name("Ada").entity_type("person"))
        .await?;
    session
        .append(NewMessage::user("Where is order 7?").reference("order:7"))
        .await?;
    let call = ToolCall::new("call_1", "order_status", r#"{"order":7}"#);
    session.append(NewMessage::assistant("").tool_call(call)).await?;
    session
        .append(NewMessage::tool("call_1", r#"{"status":"shipped"}"#))
        .await?;
    session.append(NewMessage::assistant("It is on its way.")).await?;
    session
        .record(NewEvent::new("answered").agent("clerk").entity("order:7").state("pass"))
        .await?;
    session
        .checkpoint(NewCheckpoint::new().label("answered").outcome("pass"))
        .await?;

    let it = session.resolve("it").await?.ok_or("nothing was mentioned")?;
    println!("\"it\" is {}", it.entity_id);

    let context = session.context(ContextOptions::new().max_tokens(2000)).await?;
    println!(
        "{} messages, {} tokens, for the model:",
        context.messages.len(),
        context.tokens
    );
    for body in &context.messages {
        let message = body.message()?;
        println!("  {:>9}  {}", message.role, message.text());
    }

    println!("recorded since:");
    let mut follow = session.follow(before);
    loop {
        let entry = follow.next().await?;
        match entry.kind {
            EntryKind::Message(body) => println!("  {} message {}", entry.seq, body.message()?.role),
            EntryKind::Event(event) => println!("  {} event {}", entry.seq, event.event_type),
            EntryKind::Checkpoint(checkpoint) => {
                println!("  {} checkpoint {}", entry.seq, checkpoint.label.unwrap_or_default());
                break;
            }
            other => println!("  {} {other:?}", entry.seq),
        }
    }

    // Somebody who is late.
    let stale = session.edit(Some(0), |edit| {
        let patch = serde_json::json!({"seen": edit.session.last_seq});
        Ok(Some(edit.meta(&patch)))
    });
    match stale.await {
        Ok(meta) => println!("meta is {}", meta.unwrap_or_default()),
        Err(SessionError::Concurrent { attempts, .. }) => println!("gave up after {attempts} attempts"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
