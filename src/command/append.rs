//! `SESSION.APPEND`: messages into the conversation, and everything that goes with it in the same step.

use std::ffi::CStr;

use redis_session_core::body::{self, Draft, ToolCall};
use redis_session_core::session::Incoming;
use redis_session_core::session::Seen;
use redis_session_core::text::hash::fingerprint;
use redis_session_core::text::json;

use super::{limit_option, AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, is, once, once_flag, Cursor, WriteOptions};
use crate::ffi::{entry, Arg, Args, Ctx, Effect, ErrorReply, Handler, Word};
use crate::publish::{self, Level, Publication};
use crate::table::{
    arg, block, flag, key, many, many_token, one_of, opt, token, Access, ArgSpec, Command, KeySpec, Kind,
};
use crate::write::{Moment, Opened};
use crate::{error, info};

/// `MSG role content …` as `COMMAND DOCS` shows it.
pub const MSG: ArgSpec = token(
    "MSG",
    block(
        "message",
        &[
            arg("role", Kind::Str),
            arg("content", Kind::Str),
            opt(token("NAME", arg("name", Kind::Str))),
            opt(token("ID", arg("id", Kind::Str))),
            opt(token("TOOL_CALL_ID", arg("tool-call-id", Kind::Str))),
            opt(many_token(token(
                "TOOL_CALL",
                block(
                    "tool-call",
                    &[
                        arg("id", Kind::Str),
                        arg("name", Kind::Str),
                        arg("arguments", Kind::Str),
                    ],
                ),
            ))),
            opt(many_token(token("REF", arg("entity-id", Kind::Str)))),
        ],
    ),
);

pub const COMMAND: Command = Command {
    name: "SESSION.APPEND",
    summary: "Appends messages to a session, creating it if needed, and applies its window",
    complexity: "O(N) with N the bytes appended; an answer to a tool call also searches for its call from the newest message backwards",
    arity: -4,
    flags: "write deny-oom fast",
    acl: "write fast",
    keys: &[KeySpec::at(1, Access::UPDATE)],
    args: &[
        key("key"),
        flag("XX"),
        opt(token("DEDUP", arg("dedup-token", Kind::Str))),
        opt(token("MAXLEN", arg("count", Kind::Int))),
        opt(token("TOKENS", arg("tokens", Kind::Int))),
        flag("EVICTED"),
        IFVERSION,
        LEASE,
        AT,
        EXPIRY,
        one_of("messages", &[MSG, token("JSON", many(arg("body", Kind::Str)))]),
    ],
    reply: "The seq of the last message; with `EVICTED` an array of the seq and the evicted bodies, oldest first; nil with `XX` if there \
              is no session.",
    details: "`JSON` bodies are stored byte for byte. `MSG` composes a body with `role`, `content`, `timestamp` and the options given. The \
              command atomically appends, applies the window, updates the query count and the last activity, counts a mention of each of the \
              body's `entity_refs`, slides the expiry and notifies. `DEDUP`: repeating a token with the same messages returns the first \
              reply and changes nothing; with other messages it fails with `DEDUPCONFLICT`. `MAXLEN` sets the window's bound permanently. \
              `TOKENS` sets the token count of the message, which must be the only one.",
    entry: entry::<Append>(),
    ..Command::BLANK
};

pub struct Append;

#[derive(Default)]
struct Request<'a> {
    xx: bool,
    evicted: bool,
    dedup: Option<&'a str>,
    maxlen: Option<u64>,
    tokens: Option<u32>,
    options: WriteOptions,
    tail: Tail<'a>,
    /// The words from `MSG` or `JSON` on, as they came.
    tail_args: Args<'a>,
}

pub enum Tail<'a> {
    Json(Args<'a>),
    Msg(Box<Draft<'a>>),
}

impl Default for Tail<'_> {
    fn default() -> Self {
        Tail::Json(&[])
    }
}

fn parse<'a>(ctx: &Ctx, args: Args<'a>) -> args::Result<Request<'a>> {
    let mut cursor = Cursor::after_key(args);
    let mut request = Request::default();
    let mut tokens_word = None;
    loop {
        let Some(word) = cursor.next() else {
            return Err(error::syntax(args[args.len() - 1].bytes()));
        };
        if is(word, "JSON") || is(word, "MSG") {
            request.tail_args = cursor.rest_from_last();
            request.tail = parse_tail(&mut cursor)?;
            break;
        } else if is(word, "XX") {
            once_flag(&mut request.xx, word)?;
        } else if is(word, "EVICTED") {
            once_flag(&mut request.evicted, word)?;
        } else if is(word, "DEDUP") {
            let token = cursor.text(word, "DEDUP")?;
            once(&mut request.dedup, word, token)?;
        } else if is(word, "MAXLEN") {
            let maxlen = limit_option(&mut cursor, word, "maxlen", "MAXLEN")?;
            once(&mut request.maxlen, word, maxlen)?;
        } else if is(word, "TOKENS") {
            let tokens = cursor.int(word, "TOKENS", 0, i64::from(u32::MAX))?;
            once(&mut request.tokens, word, tokens as u32)?;
            tokens_word = Some(word);
        } else if !request.options.take(ctx, &mut cursor, word)? {
            return Err(error::syntax(word.bytes()));
        }
    }
    if let (Some(word), Tail::Json(bodies)) = (tokens_word, &request.tail) {
        if bodies.len() > 1 {
            return Err(error::syntax(word.bytes()));
        }
    }
    Ok(request)
}

/// Parses `MSG role content [NAME v] …` or `JSON body [body …]`; the cursor stands behind the first word.
pub fn parse_tail<'a>(cursor: &mut Cursor<'a>) -> args::Result<Tail<'a>> {
    let word = cursor.rest_from_last()[0];
    if is(word, "JSON") {
        let bodies = cursor.rest();
        if bodies.is_empty() {
            return Err(error::syntax(word.bytes()));
        }
        cursor.skip_to_end();
        return Ok(Tail::Json(bodies));
    }
    let mut draft = Draft {
        role: part(cursor.value(word)?.bytes(), "role")?,
        ..Draft::default()
    };
    let content = cursor.value(word)?;
    draft.content = content_of(content.bytes(), "content")?;
    while let Some(word) = cursor.next() {
        if is(word, "NAME") {
            let name = part(cursor.value(word)?.bytes(), "NAME")?;
            once(&mut draft.name, word, name)?;
        } else if is(word, "ID") {
            let id = part(cursor.value(word)?.bytes(), "ID")?;
            once(&mut draft.id, word, id)?;
        } else if is(word, "TOOL_CALL_ID") {
            let id = part(cursor.value(word)?.bytes(), "TOOL_CALL_ID")?;
            once(&mut draft.tool_call_id, word, id)?;
        } else if is(word, "TOOL_CALL") {
            let (id, name, arguments) = (cursor.value(word)?, cursor.value(word)?, cursor.value(word)?);
            draft.tool_calls.push(ToolCall {
                id: part(id.bytes(), "TOOL_CALL id")?,
                name: part(name.bytes(), "TOOL_CALL name")?,
                arguments: content_of(arguments.bytes(), "TOOL_CALL arguments")?,
            });
        } else if is(word, "REF") {
            draft.entity_refs.push(part(cursor.value(word)?.bytes(), "REF")?);
        } else {
            return Err(error::syntax(word.bytes()));
        }
    }
    Ok(Tail::Msg(Box::new(draft)))
}

/// Reads a text argument of a message; one that is not UTF-8 is `BADMESSAGE`.
fn part<'a>(bytes: &'a [u8], name: &str) -> args::Result<&'a str> {
    content_of(bytes, name)?;
    args::text(bytes, name)
}

fn content_of<'a>(bytes: &'a [u8], name: &str) -> args::Result<&'a str> {
    std::str::from_utf8(bytes)
        .map_err(|why| error::bad_message(1, 1, &format!("{name} is not UTF-8 (at byte {})", why.valid_up_to())))
}

/// Reads one body. Bodies are numbered from 1.
pub fn read_body<'a>(ctx: &Ctx, body: &'a [u8], number: usize, of: usize) -> args::Result<body::Facts<'a>> {
    args::check_size(ctx, body, || format!("message {number} of {of}"))?;
    body::read(body).map_err(|why| not_an_object(why, number, of))
}

#[cold]
#[inline(never)]
fn not_an_object(why: json::Error, number: usize, of: usize) -> ErrorReply {
    error::bad_message(number, of, &format!("not a JSON object ({why})"))
}

impl Handler for Append {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        match args {
            [_, key, word, body] if is(*word, "JSON") => append_body(ctx, args, *key, body.bytes()),
            _ => append(ctx, args),
        }
    }
}

/// Appends one JSON body, without options, to a session that is there: most of all appends. The steps are those of [`append`], of which the
/// compiler leaves out what an option or a new session would ask for.
#[inline(always)]
fn append_body<'a>(ctx: &mut Ctx, args: Args<'a>, key: Arg<'a>, body: &[u8]) -> Result<(), ErrorReply> {
    args::check_size(ctx, body, || "message 1 of 1".to_owned())?;
    // Used by reference: moving it costs more than looking at it.
    let read = body::read(body);
    let facts = match &read {
        Ok(facts) => facts,
        Err(why) => return Err(not_an_object(*why, 1, 1)),
    };
    let moment = Moment::of(ctx, &WriteOptions::NONE);
    let done = Opened::at_once(ctx, key, |opened| {
        let guarded = opened.guard(&WriteOptions::NONE, &moment)?;
        let (seq, changed) = guarded.change(|session| session.append_one(facts, body, moment.now));
        Ok((seq, changed.settle()))
    })?;
    let Some((seq, settled)) = done else {
        return append(ctx, args);
    };

    info::APPENDED.add(1);
    ctx.reply_i64(seq as i64);
    settled.publish_built(ctx, |ctx| effect(ctx, key, &Request::default()), &args[2..], EVENTS);
    ctx.signal_ready(key);
    if publish::is_on(ctx, Level::All) {
        publish::publish(ctx, &settled, [publication(seq, facts, &moment)]);
    }
    Ok(())
}

#[inline(never)]
fn append(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
    let request = parse(ctx, args)?;
    let key = args[1];
    let moment = Moment::of(ctx, &request.options);
    let composed;
    let (single, mut several): ([Incoming<'_>; 1], Vec<Incoming<'_>>);
    let batch: &[Incoming<'_>] = match &request.tail {
        Tail::Json([body]) => {
            let body = body.bytes();
            let facts = read_body(ctx, body, 1, 1)?;
            single = [Incoming {
                facts,
                body,
                tokens: request.tokens,
            }];
            &single
        }
        Tail::Json(bodies) => {
            several = Vec::with_capacity(bodies.len());
            for (i, body) in bodies.iter().enumerate() {
                let body = body.bytes();
                let facts = read_body(ctx, body, i + 1, bodies.len())?;
                several.push(Incoming {
                    facts,
                    body,
                    tokens: request.tokens,
                });
            }
            &several
        }
        Tail::Msg(draft) => {
            composed = body::compose(draft, moment.now.content_ms);
            let facts = read_body(ctx, &composed, 1, 1)?;
            single = [Incoming {
                facts,
                body: &composed,
                tokens: request.tokens,
            }];
            &single
        }
    };

    let opened = Opened::or_new(ctx, key)?;
    let print = request.dedup.map(|token| (token, tail_fingerprint(request.tail_args)));
    match (opened.session(), print) {
        (Some(session), Some((token, print))) if !moment.obeys => match session.seen(token, print) {
            Seen::Never => {}
            Seen::Repeated { seq } => {
                info::DEDUPLICATED.add(1);
                reply(ctx, seq, request.evicted.then_some(&[]));
                return Ok(());
            }
            Seen::Conflict => {
                info::CONFLICTS.add(1);
                return Err(error::dedup_conflict(token.as_bytes()));
            }
        },
        (None, _) if request.xx => {
            ctx.reply_null();
            return Ok(());
        }
        _ => {}
    }
    let guarded = opened.guard(&request.options, &moment)?;
    let mut evicted: Option<Vec<Vec<u8>>> = request.evicted.then(Vec::new);
    let (last_seq, changed) = guarded.change(|session| {
        let appended = session.append(batch, request.maxlen, moment.now, evicted.as_mut());
        if let Some((token, print)) = print {
            session.remember(token, print);
        }
        appended
    });
    let settled = changed.settle();

    info::APPENDED.add(batch.len() as u64);
    reply(ctx, last_seq, evicted.as_deref());
    settled.publish_built(ctx, |ctx| effect(ctx, key, &request), request.tail_args, EVENTS);
    ctx.signal_ready(key);
    if publish::is_on(ctx, Level::All) {
        let first_seq = last_seq + 1 - batch.len() as u64;
        let publications = (first_seq..).zip(batch);
        let publications = publications.map(|(seq, message)| publication(seq, &message.facts, &moment));
        publish::publish(ctx, &settled, publications);
    }
    Ok(())
}

/// The event that subscribers to the key get.
const EVENTS: &[&CStr] = &[c"session.append"];

/// The replicated command without its facts and its messages.
fn effect<'a>(ctx: &Ctx, key: Arg<'a>, request: &Request<'_>) -> Effect<'a> {
    let mut effect = ctx.effect(c"SESSION.APPEND");
    effect.arg(key);
    if let Some(token) = request.dedup {
        effect.word(Word::Dedup).bytes(token.as_bytes());
    }
    if let Some(maxlen) = request.maxlen {
        effect.word(Word::MaxLen).int(maxlen as i64);
    }
    if let Some(tokens) = request.tokens {
        effect.word(Word::Tokens).int(i64::from(tokens));
    }
    effect
}

/// What the channel's subscribers get of a message.
fn publication<'m>(seq: u64, facts: &'m body::Facts<'_>, moment: &Moment) -> Publication<'m> {
    Publication {
        seq,
        kind: "message",
        type_name: Some(facts.role.as_str()),
        agent: None,
        time_ms: facts.time_ms.unwrap_or(moment.now.content_ms),
    }
}

/// The fingerprint by which `DEDUP` tells appends apart: of the arguments from `MSG` or `JSON` on, that word in any case.
fn tail_fingerprint(tail: Args<'_>) -> u128 {
    let kind: &[u8] = if is(tail[0], "MSG") { b"MSG" } else { b"JSON" };
    fingerprint(std::iter::once(kind).chain(tail[1..].iter().map(|arg| arg.bytes())))
}

#[inline]
fn reply(ctx: &Ctx, seq: u64, evicted: Option<&[Vec<u8>]>) {
    let Some(evicted) = evicted else {
        ctx.reply_i64(seq as i64);
        return;
    };
    ctx.reply_array(2);
    ctx.reply_i64(seq as i64);
    ctx.reply_array(evicted.len());
    for body in evicted {
        ctx.reply_bulk(body);
    }
}
