//! Writing to the server's log, which is possible from any thread.

use redis_module::raw;
use std::ffi::{CStr, CString};
use std::ptr;

/// Logs a line at level `warning`, which every log level shows.
pub fn log_warning(message: &str) {
    write(ptr::null_mut(), c"warning", &format!("session: {message}"));
}

/// Logs a line. `ctx` may be null; with one, the server writes the module's name before the line. Control characters are escaped, so that
/// it stays one line.
pub(super) fn write(ctx: *mut raw::RedisModuleCtx, level: &CStr, message: &str) {
    let mut line = String::with_capacity(message.len());
    for character in message.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    let line = CString::new(line).unwrap_or_default();
    // SAFETY: level and line end in NUL and outlive the call; the format takes exactly the one string.
    unsafe {
        if let Some(log) = raw::RedisModule_Log {
            log(ctx, level.as_ptr(), c"%s".as_ptr(), line.as_ptr());
        }
    }
}
