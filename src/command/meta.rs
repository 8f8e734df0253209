//! `SESSION.META`: the session's own data, merged.

use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, Cursor, WriteOptions};
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::table::{arg, key, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Opened};

pub const COMMAND: Command = Command {
    name: "SESSION.META",
    summary: "Merges a JSON object into a session's meta, creating the session if needed",
    complexity: "O(N) with N the bytes of the meta and the patch",
    arity: -3,
    flags: "write deny-oom",
    acl: "write slow",
    keys: &[KeySpec::at(1, Access::UPDATE)],
    args: &[key("key"), arg("json", Kind::Str), IFVERSION, LEASE, AT, EXPIRY],
    reply: "The merged meta.",
    details:
        "The patch is an RFC 7396 merge patch: null removes a member. Members that it does not touch keep their bytes.",
    entry: entry::<Meta>(),
    ..Command::BLANK
};

pub struct Meta;

impl Handler for Meta {
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply> {
        let (key, json) = (args[1], args[2]);
        let mut cursor = Cursor::after_key(args);
        cursor.next();
        let options = WriteOptions::rest(ctx, cursor)?;
        let patch = args::object(ctx, json.bytes(), "META")?;
        let moment = Moment::of(ctx, &options);
        let guarded = Opened::or_new(ctx, key)?.guard(&options, &moment)?;
        let ((), changed) = guarded.change(|session| session.merge_meta(patch, moment.now));
        ctx.reply_bulk(changed.session().meta().unwrap_or("{}").as_bytes());
        let settled = changed.settle();
        let mut effect = ctx.effect(c"SESSION.META");
        effect.arg(key).arg(json);
        let events = settled.session_changed().then_some(c"session.meta");
        settled.publish(ctx, effect, &[], events.as_slice());
        Ok(())
    }
}
