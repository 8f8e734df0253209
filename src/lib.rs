//! redis-session: the native session type for Redis, as a loadable module.
//!
//! A thin shell around the engine (`redis-session-core`). Every command takes the same steps: it parses its arguments and bodies ([`args`],
//! `command/…`), opens the key and checks its guards ([`write`]), calls the engine once, and replies, replicates and notifies what
//! happened. All unsafe code is in [`ffi`].
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

/// Registers everything; called once by the server's `MODULE LOAD`.
fn init(ctx: &ffi::LoadCtx) -> Result<(), String> {
    ctx.register_type::<value::session::SessionValue>()?;
    ctx.register_type::<value::anchors::AnchorsValue>()?;
    ctx.register_type::<value::directory::DirectoryValue>()?;
    ctx.register_commands(command::ALL)?;
    ctx.register_settings(&settings::all())?;
    ctx.register_info(info::write)
}
