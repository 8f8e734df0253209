//! The server's module API behind safe functions. Every line of `unsafe` of the module is in this folder.
//!
//! Why it is safe to call from outside:
//!
//! * A [`Ctx`] is only made by the trampolines here, lives as long as one call from the server, and cannot leave the thread that runs
//!   commands. Everything that needs that thread (the shared words, the number cache, keys, replies) needs a `Ctx`.
//! * A value of a native type is boxed with a borrow mark ([`types`]): two handles to one key cannot both access it for writing, and a
//!   value that the server frees while a handle is open outlives the handle.
//! * Nothing unwinds into the server: each `extern "C"` function runs its body inside [`crate::guard`].
//! * Functions that not every server has are `Option`s and are tested for presence, never by version.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

/// Calls a function of the server's API that every supported server has: [`load`] checks once, when the module is loaded, that each
/// function called through this macro exists. After `else` comes an expression that never returns, in place of a panic. Must be used in
/// `unsafe`: the pointers are `static mut`, written once before anything else of the module runs.
macro_rules! api {
    ($name:ident) => {
        api!($name else $crate::ffi::absent(stringify!($name)))
    };
    ($name:ident else $absent:expr) => {{
        const _: () = $crate::ffi::load::required::$name;
        match ::redis_module::raw::$name {
            Some(function) => function,
            None => $absent,
        }
    }};
}

mod alloc;
mod args;
mod audience;
mod blocking;
mod cluster;
mod command;
pub mod config;
mod ctx;
mod defrag;
mod effect;
mod expiry;
mod info;
mod io;
mod key;
mod legacy;
mod load;
mod load_ctx;
mod log;
mod publish;
mod reply;
mod types;
mod words;

pub use args::{Arg, Args};
pub use blocking::{waiting_clients, Waiter};
pub use command::{entry, entry_with_keys, Entry, FindsKeys, Handler};
pub use config::{Boolean, Choice, Integer, Setting};
pub use ctx::Ctx;
pub use defrag::Defrag;
pub use effect::Effect;
pub use info::InfoWriter;
pub use io::{AofWriter, Blob, Digest, Sink, Source};
pub use key::{Found, ReadKey, WriteKey, WRONGTYPE};
pub use legacy::{ForeignKind, ForeignValue};
pub use load_ctx::LoadCtx;
pub use log::log_warning;
pub use reply::ErrorReply;
pub use types::{NativeType, TypeSlot};
pub use words::Word;

#[cold]
#[inline(never)]
fn absent(name: &str) -> ! {
    panic!("the server has no {name}")
}
