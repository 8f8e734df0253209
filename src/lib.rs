//! redis-session: the native session type for Redis, as a loadable module.
//!
//! The server is on the outside, the engine (`redis-session-core`) on the inside. A command runs in always the same steps: its words are
//! parsed and its bodies read ([`args`], `command/…`), the key is opened and its guards are asked ([`write`]), the engine is called
//! once, and what happened is replied, replicated and notified. Everything unsafe is in [`ffi`].
#![deny(unsafe_code)]

mod args;
mod command;
mod error;
mod ffi;
mod guard;
mod info;
mod keys;
mod migration;
mod publish;
mod settings;
mod slot;
mod table;
mod value;
mod write;

/// Called once by the server's `MODULE LOAD`.
fn init(ctx: &ffi::LoadCtx) -> Result<(), String> {
    ctx.register_type::<value::session::SessionValue>()?;
    ctx.register_type::<value::anchors::AnchorsValue>()?;
    ctx.register_type::<value::directory::DirectoryValue>()?;
    ctx.register_commands(command::ALL)?;
    ctx.register_settings(&settings::all())?;
    ctx.register_info(info::write)
}
