//! `SESSION.READ`: what came after a seq, at once or when it comes.

use redis_session_core::session::{After, Told};
use redis_session_core::text::time::MAX_TIME_MS;
use redis_session_core::Session;
use uuid::Uuid;

use crate::args::{self, is, once, once_flag, Cursor};
use crate::error;
use crate::ffi::{entry, Arg, Args, Ctx, ErrorReply, Found, Handler, Waiter};
use crate::migration::Reading;
use crate::table::{arg, key, one_of, opt, token, word, Access, Command, KeySpec, Kind};
use crate::value::session::{id_text, SessionValue};

pub const COMMAND: Command = Command {
    name: "SESSION.READ",
    summary: "Returns what was recorded after a seq, optionally blocking until there is something",
    complexity: "O(log(N)+M) with N the chunks of the session and M the entries returned; a writer pays as much for each reader that it wakes",
    arity: -3,
    flags: "readonly blocking",
    acl: "read slow blocking",
    keys: &[KeySpec::at(1, Access::READ)],
    args: &[
        key("key"),
        arg("seq", Kind::Str),
        opt(token("COUNT", arg("count", Kind::Int))),
        opt(token("BLOCK", arg("milliseconds", Kind::Int))),
        opt(one_of("kinds", &[word("MESSAGES"), word("EVENTS")])),
    ],
    reply: "Array of `[seq, ms, kind, json]`; nil if nothing came after seq (within `BLOCK`) or there is no session.",
    details: "`kind` is `message`, `event` or `checkpoint`; `MESSAGES` and `EVENTS` select one kind. seq is the last one that the caller has \
              read; 0 reads everything, `$` what is recorded from now on. `BLOCK` blocks for at most so many milliseconds, 0 without a \
              time-out; in a transaction or a script the command never blocks. If the key is deleted, renamed or replaced by another type, a \
              reader stays blocked. `COUNT` limits the number of entries; 0 is no limit.\n\n\
              A follower never misses anything without notice. If something of the requested kinds after seq has been dropped, the first \
              entry is `[to, ms, \"gap\", {\"from\":seq+1,\"to\":…}]`, up to the last missing seq, followed by what is still there in \
              between. If seq is greater than the session's last, or a blocked reader finds another session than before, the first entry is \
              `[0, ms, \"reset\", {\"session_id\":…}]`, followed by what the session has. `COUNT` includes neither; their time is the \
              server's clock.",
    entry: entry::<Read>(),
    ..Command::BLANK
};

pub struct Read;

/// A blocked reader.
struct Reader {
    after: After,
    /// The session that was there when the reader blocked: the seqs it has read are this one's.
    id: Option<Uuid>,
}

struct Request {
    /// `None` for `$`: only what comes from now on.
    seq: Option<u64>,
    count: Option<u64>,
    block_ms: Option<i64>,
    messages: bool,
    events: bool,
}

fn parse(args: Args<'_>) -> args::Result<Request> {
    let mut request = Request {
        seq: None,
        count: None,
        block_ms: None,
        messages: false,
        events: false,
    };
    let mut cursor = Cursor::at(args, 3);
    while let Some(word) = cursor.next() {
        if is(word, "COUNT") {
            let count = cursor.int(word, "COUNT", 0, i64::MAX)?;
            once(&mut request.count, word, count as u64)?;
        } else if is(word, "BLOCK") {
            let block_ms = cursor.int(word, "BLOCK", 0, MAX_TIME_MS)?;
            once(&mut request.block_ms, word, block_ms)?;
        } else if is(word, "MESSAGES") && !request.events {
            once_flag(&mut request.messages, word)?;
        } else if is(word, "EVENTS") && !request.messages {
            once_flag(&mut request.events, word)?;
        } else {
            return Err(error::syntax(word.bytes()));
        }
    }
    let seq = args[2].bytes();
    if seq != b"$" {
        request.seq = Some(args::counter(seq, "seq")?);
    }
    Ok(request)
}

impl Handler for Read {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let key = args[1];
        let request = parse(args)?;
        let both = request.messages == request.events;
        let opened = Reading::open(ctx, key)?;
        let session = opened.session();
        let after = After {
            seq: request
                .seq
                .or_else(|| session.map(Session::last_seq))
                .unwrap_or_default(),
            count: request.count.filter(|count| *count > 0).unwrap_or(u64::MAX),
            messages: request.messages || both,
            events: request.events || both,
            checkpoints: both,
        };
        // A layout that is read through has no id yet.
        let id = session.map(Session::id).filter(|id| !id.is_nil());
        if session.is_some_and(|session| reply(ctx, session, &after)) {
            return Ok(());
        }
        drop(opened);
        match request.block_ms {
            Some(block_ms) if ctx.can_block() => ctx.block_on_key(key, block_ms, Reader { after, id }),
            _ => ctx.reply_null(),
        }
        Ok(())
    }
}

impl Waiter for Reader {
    fn serve(&mut self, ctx: &mut Ctx, key: Arg<'_>) -> Result<bool, ErrorReply> {
        let opened = ctx.open_key_read::<SessionValue>(key);
        let Found::Value(value) = opened.get() else {
            return Ok(false);
        };
        let session = value.session();
        let mut after = self.after;
        if after.seq > 0 && self.id != Some(session.id()) {
            // It is another session than the one that was read, or nobody can say, since there was none when the reader blocked. Its seqs
            // may be greater or smaller, so the reader is told of a reset.
            after.seq = u64::MAX;
        }
        // An empty session has nothing to reply, not even a reset.
        Ok(session.last_seq() > 0 && reply(ctx, session, &after))
    }
}

/// Replies what came after a seq; returns false and replies nothing if there is nothing.
fn reply(ctx: &Ctx, session: &Session, after: &After) -> bool {
    let now_ms = ctx.now_ms();
    let mut list = None;
    session.follow(after, now_ms, |told| {
        list.get_or_insert_with(|| ctx.reply_array_postponed());
        ctx.reply_array(4);
        let (seq, time_ms) = match told {
            Told::Reset => (0, now_ms),
            Told::Gap { to, .. } => (to, now_ms),
            Told::Record { seq, time_ms, .. } => (seq, time_ms),
        };
        ctx.reply_i64(seq as i64);
        ctx.reply_i64(time_ms);
        match told {
            Told::Reset => {
                ctx.reply_bulk(b"reset");
                ctx.reply_bulk(format!("{{\"session_id\":\"{}\"}}", id_text(session)).as_bytes());
            }
            Told::Gap { from, to } => {
                ctx.reply_bulk(b"gap");
                ctx.reply_bulk(format!("{{\"from\":{from},\"to\":{to}}}").as_bytes());
            }
            Told::Record { kind, json, .. } => {
                ctx.reply_bulk(kind.name().as_bytes());
                ctx.reply_bulk(json);
            }
        }
    });
    list.is_some()
}
