//! `SESSION.META`: the session's own data, merged.

use super::{AT, EXPIRY, IFVERSION, LEASE};
use crate::args::{self, Cursor, WriteOptions};
use crate::ffi::{entry, Args, Ctx, ErrorReply, Handler};
use crate::table::{arg, key, Access, Command, KeySpec, Kind};
use crate::write::{Moment, Target};

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
    details: "The patch is an RFC 7396 merge patch: null removes a member. What it does not touch keeps its bytes.",
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
        let mut target = Target::open(ctx, key)?;
        target.check(&options, &moment)?;
        let new = target.create_if_missing(&options, &moment);
        let changed = target
            .change_beside_messages(|session| session.merge_meta(patch, moment.now))
            .unwrap_or(false);
        match target.session().and_then(|session| session.meta()) {
            Some(meta) => ctx.reply_bulk(meta.as_bytes()),
            None => ctx.reply_bulk(b"{}"),
        }
        let settled = target.settle(&options, &moment, changed);
        drop(target);
        if !settled.changed {
            return Ok(());
        }
        let mut effect = ctx.effect(c"SESSION.META");
        effect.arg(key).arg(json);
        match &new {
            Some(new) => {
                let creation = new.effect(ctx, key, &settled);
                settled.add_behind_creation(&mut effect);
                if changed {
                    settled.publish(ctx, key, &[&creation, &effect], &[c"session.create", c"session.meta"]);
                } else {
                    settled.publish(ctx, key, &[&creation], &[c"session.create"]);
                }
            }
            None => {
                settled.add_to(&mut effect);
                settled.publish(ctx, key, &[&effect], if changed { &[c"session.meta"] } else { &[] });
            }
        }
        Ok(())
    }
}
