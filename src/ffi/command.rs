//! Commands: the trampoline from the server into a handler, and registration from the table.

use super::args::{self, Args};
use super::ctx::Ctx;
use super::load_ctx::LoadCtx;
use super::log;
use super::reply::ErrorReply;
use crate::guard::{self, Panic};
use crate::keys;
use crate::table::{Access, ArgSpec, Command, Kind, Place};
use redis_module::raw;
use std::ffi::CString;
use std::mem::size_of;
use std::os::raw::{c_char, c_int};
use std::ptr;

/// The implementation of a command, for unit types.
pub trait Handler {
    /// Replies exactly once and returns `Ok`, or returns the error without having changed or replied anything.
    fn run(ctx: &mut Ctx, args: Args<'_>) -> Result<(), ErrorReply>;
}

type Trampoline = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

/// A command with keys among the values of its options.
pub trait FindsKeys: Handler {
    /// Its row, whose arguments say where keys are.
    const ROW: &'static Command;
}

/// The function that the server calls for a command.
#[derive(Clone, Copy)]
pub struct Entry {
    trampoline: Option<Trampoline>,
    finds_keys: bool,
}

impl Entry {
    /// The entry of a group: the server dispatches to its subcommands.
    pub const GROUP: Entry = Entry {
        trampoline: None,
        finds_keys: false,
    };

    /// Returns whether the server asks this entry for the keys of a command.
    #[cfg(test)]
    pub const fn finds_keys(&self) -> bool {
        self.finds_keys
    }
}

/// Returns the entry of the command that `H` implements, with keys at fixed positions only.
pub const fn entry<H: Handler>() -> Entry {
    Entry {
        trampoline: Some(run::<H>),
        finds_keys: false,
    }
}

/// Returns the entry of the command that `H` implements, with keys among its options' values.
pub const fn entry_with_keys<H: FindsKeys>() -> Entry {
    Entry {
        trampoline: Some(find_keys_or_run::<H>),
        finds_keys: true,
    }
}

/// Called for two purposes: to report the keys of a command, whether it is run or not, and to run it.
unsafe extern "C" fn find_keys_or_run<H: FindsKeys>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server calls this with a live context.
    if unsafe { api!(RedisModule_IsKeysPositionRequest)(ctx) } == 0 {
        // SAFETY: the server's own call, passed on.
        return unsafe { run::<H>(ctx, argv, argc) };
    }
    // SAFETY: the arguments live until this function returns and do not outlive it.
    let args = unsafe { args::from_raw(argv, argc) };
    let result = guard::catch(|| {
        keys::find(H::ROW, args, |at, access| {
            // SAFETY: the server has just said that this context is of a request for keys.
            unsafe { name_key(ctx, at, access) }
        });
    });
    if let Err(panic) = result {
        // No client is waiting for a reply, so the error is logged.
        log::write(
            ctx,
            c"warning",
            &format!("internal error in {}'s keys: {panic}", H::ROW.name),
        );
    }
    0
}

/// Reports one key in reply to a request for keys.
///
/// # Safety
/// The context is live and of a request for keys; `at` is the position of one of its arguments.
unsafe fn name_key(ctx: *mut raw::RedisModuleCtx, at: usize, access: Access) {
    let Ok(at) = c_int::try_from(at) else { return };
    // SAFETY: as the caller vouches.
    unsafe {
        match raw::RedisModule_KeyAtPosWithFlags {
            Some(name) => name(ctx, at, access.0 as c_int),
            None => api!(RedisModule_KeyAtPos)(ctx, at),
        }
    }
}

unsafe extern "C" fn run<H: Handler>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server calls this on the thread that runs commands, with a context and arguments that live until
    // this function returns; neither outlives it.
    let (mut ctx, args) = unsafe { (Ctx::new(ctx), args::from_raw(argv, argc)) };
    let result = guard::catch(|| {
        let result = H::run(&mut ctx, args);
        debug_assert!(
            if result.is_ok() {
                ctx.reply_is_whole()
            } else {
                ctx.reply_not_begun()
            },
            "the handler did not reply exactly once"
        );
        result
    });
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => ctx.reply_error(error.line()),
        Err(panic) => after_panic(&ctx, args, &panic),
    }
    0
}

/// Replies to a command that has panicked, as far as its reply can still be completed.
#[cold]
#[inline(never)]
fn after_panic(ctx: &Ctx, args: Args<'_>, panic: &Panic) {
    let name = ctx.command_name().unwrap_or_else(|| {
        args.first()
            .map_or(String::new(), |name| name.bytes().escape_ascii().to_string())
    });
    answer_panic(ctx, &name.replace('|', " "), panic);
}

/// Like [`after_panic`], for the command with this name.
#[cold]
pub(super) fn answer_panic(ctx: &Ctx, name: &str, panic: &Panic) {
    ctx.log_warning(&format!("internal error in {name}: {panic}"));
    if ctx.reply_not_begun() {
        ctx.reply_error(format!("ERR internal error in {name}: {}", panic.message).as_bytes());
    } else if !ctx.reply_is_whole() {
        ctx.log_warning("the reply was cut short; closing the client's connection");
        ctx.fill_up();
        ctx.close_client();
    }
}

impl LoadCtx {
    /// Registers the commands with everything in their rows.
    pub fn register_commands(&self, commands: &[&Command]) -> Result<(), String> {
        let own_category = self.add_acl_category();
        for command in commands {
            self.create(ptr::null_mut(), command.name, command)?;
            let registered = self.find(command.name)?;
            self.describe(registered, command.name, command, own_category)?;
            for subcommand in command.subcommands {
                let full_name = format!("{}|{}", command.name, subcommand.name);
                self.create(registered, subcommand.name, subcommand)?;
                self.describe(self.find(&full_name)?, &full_name, subcommand, own_category)?;
            }
        }
        Ok(())
    }

    /// Adds the category `@session` if the server lets modules add one.
    fn add_acl_category(&self) -> bool {
        // SAFETY: called from OnLoad; the name ends in NUL and is copied.
        unsafe {
            match raw::RedisModule_AddACLCategory {
                Some(add) => add(self.as_ptr(), c"session".as_ptr()) == 0,
                None => false,
            }
        }
    }

    /// Creates a command, or a subcommand of `parent` unless that is null.
    fn create(&self, parent: *mut raw::RedisModuleCommand, name: &str, command: &Command) -> Result<(), String> {
        let c_name = c_string(name)?;
        let mut flags = command.flags.to_owned();
        if command.entry.finds_keys {
            flags.push_str(" getkeys-api");
        }
        let flags = c_string(flags.trim_start())?;
        // Key specs are set by `describe`; the positions that can be given here would say less.
        // SAFETY: called from OnLoad; name and flags end in NUL and are copied; the trampoline is a function of the
        // module, which is never unloaded (the server refuses to unload one with data types).
        let status = unsafe {
            let (run, flags) = (command.entry.trampoline, flags.as_ptr());
            if parent.is_null() {
                api!(RedisModule_CreateCommand)(self.as_ptr(), c_name.as_ptr(), run, flags, 0, 0, 0)
            } else {
                api!(RedisModule_CreateSubcommand)(parent, c_name.as_ptr(), run, flags, 0, 0, 0)
            }
        };
        succeeded(status, || {
            format!("the server refuses the command {name} (is the name taken?)")
        })
    }

    fn find(&self, name: &str) -> Result<*mut raw::RedisModuleCommand, String> {
        let c_name = c_string(name)?;
        // SAFETY: called from OnLoad; the name ends in NUL.
        let command = unsafe { api!(RedisModule_GetCommand)(self.as_ptr(), c_name.as_ptr()) };
        if command.is_null() {
            return Err(format!("the command {name} is not found after its creation"));
        }
        Ok(command)
    }

    /// Sets documentation, key specs and ACL categories.
    fn describe(
        &self,
        registered: *mut raw::RedisModuleCommand,
        name: &str,
        command: &Command,
        own_category: bool,
    ) -> Result<(), String> {
        let (summary, complexity, since) = (
            c_string(command.summary)?,
            c_string(command.complexity)?,
            c_string(command.since)?,
        );
        let mut keys = key_specs(command);
        let mut args = CommandArgs::default();
        let info = raw::RedisModuleCommandInfo {
            version: &INFO_VERSION,
            summary: summary.as_ptr(),
            complexity: complexity.as_ptr(),
            since: since.as_ptr(),
            history: ptr::null_mut(),
            tips: ptr::null(),
            arity: command.arity,
            key_specs: keys.as_mut_ptr(),
            args: if command.args.is_empty() {
                ptr::null_mut()
            } else {
                args.list(command.args)?
            },
        };
        // SAFETY: called from OnLoad with a command just found; all that `info` points to lives during the call, in
        // which the server copies it, and both lists end with an element of zeros.
        let status = unsafe { api!(RedisModule_SetCommandInfo)(registered, &info) };
        succeeded(status, || {
            format!("the server refuses the description of {name} (its log says why)")
        })?;

        let mut categories = command.acl.to_owned();
        if own_category {
            categories.push_str(" session");
        }
        let categories = c_string(categories.trim_start())?;
        // SAFETY: called from OnLoad with a command just found; the text ends in NUL and is copied.
        let status = unsafe {
            match raw::RedisModule_SetCommandACLCategories {
                Some(set) if !categories.is_empty() => set(registered, categories.as_ptr()),
                _ => 0,
            }
        };
        succeeded(status, || {
            format!("the server refuses the ACL categories {categories:?} of {name}")
        })
    }
}

fn succeeded(status: c_int, error: impl FnOnce() -> String) -> Result<(), String> {
    if status == 0 {
        Ok(())
    } else {
        Err(error())
    }
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} has a NUL"))
}

/// Tells a server whose structures are longer the size of ours.
static INFO_VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
};

/// Returns the key specs of a command, one for each argument of kind key, and the end mark.
///
/// For a key in an option the spec only says that it exists. A spec that searches for the option's word would also match a value with the
/// same text; and if the specs describe all keys, ACLs and `COMMAND GETKEYS` use them and never ask the command for the exact ones, which
/// the cluster does (seen on Redis 7.0 and 8.0 and Valkey 8.1). One unknown spec makes all of them ask.
fn key_specs(command: &Command) -> Vec<raw::RedisModuleCommandKeySpec> {
    // SAFETY: the structure is of numbers and pointers, for which zeros are values; zeros end the list.
    let zero = || unsafe { std::mem::zeroed::<raw::RedisModuleCommandKeySpec>() };
    let mut specs = Vec::with_capacity(command.keys.len() + 1);
    for key in command.keys {
        let mut spec = zero();
        spec.flags = key.access.0;
        match key.place {
            Place::At(at) => {
                spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
                // Writing a field of a union of plain numbers.
                spec.bs.index.pos = at;
            }
            Place::InOption => {
                spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_UNKNOWN;
                spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_UNKNOWN;
            }
        }
        specs.push(spec);
    }
    specs.push(zero());
    specs
}

/// Argument lists for the server, and what they point to.
#[derive(Default)]
struct CommandArgs {
    texts: Vec<CString>,
    lists: Vec<Box<[raw::RedisModuleCommandArg]>>,
    keys: c_int,
}

impl CommandArgs {
    /// Returns a list that lives as long as `self`.
    fn list(&mut self, specs: &[ArgSpec]) -> Result<*mut raw::RedisModuleCommandArg, String> {
        let mut list = Vec::with_capacity(specs.len() + 1);
        for spec in specs {
            list.push(self.arg(spec)?);
        }
        // SAFETY: the structure is of numbers and pointers, for which zeros are values; zeros end the list.
        list.push(unsafe { std::mem::zeroed() });
        self.lists.push(list.into_boxed_slice());
        // The box stays at its address when `lists` grows.
        Ok(self.lists.last_mut().expect("just pushed").as_mut_ptr())
    }

    fn arg(&mut self, spec: &ArgSpec) -> Result<raw::RedisModuleCommandArg, String> {
        let (kind, parts) = match spec.kind {
            Kind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, None),
            Kind::Str => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, None),
            Kind::Int => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, None),
            Kind::UnixTime => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME, None),
            Kind::PureToken => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, None),
            Kind::OneOf(choices) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, Some(choices)),
            Kind::Block(parts) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK, Some(parts)),
        };
        let key_spec_index = if matches!(spec.kind, Kind::Key) {
            self.keys += 1;
            self.keys - 1
        } else {
            -1
        };
        let mut flags = 0;
        for (set, bit) in [
            (spec.optional, raw::REDISMODULE_CMD_ARG_OPTIONAL),
            (spec.multiple, raw::REDISMODULE_CMD_ARG_MULTIPLE),
            (spec.multiple_token, raw::REDISMODULE_CMD_ARG_MULTIPLE_TOKEN),
        ] {
            if set {
                flags |= bit;
            }
        }
        Ok(raw::RedisModuleCommandArg {
            name: self.text(spec.name)?,
            type_: kind,
            key_spec_index,
            token: match spec.token {
                Some(token) => self.text(token)?,
                None => ptr::null(),
            },
            summary: ptr::null(),
            since: ptr::null(),
            flags: flags as c_int,
            deprecated_since: ptr::null(),
            subargs: match parts {
                Some(parts) => self.list(parts)?,
                None => ptr::null_mut(),
            },
            display_text: ptr::null(),
        })
    }

    /// Returns a text that lives as long as `self`.
    fn text(&mut self, text: &str) -> Result<*const c_char, String> {
        let text = c_string(text)?;
        let start = text.as_ptr();
        self.texts.push(text);
        Ok(start)
    }
}
