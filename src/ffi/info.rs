//! The module's part of `INFO`.

use super::load_ctx::LoadCtx;
use crate::guard::guarded;
use redis_module::raw;
use std::ffi::CStr;
use std::os::raw::c_int;
use std::sync::OnceLock;

type WriteInfo = fn(&mut InfoWriter<'_>);

static WRITE_INFO: OnceLock<WriteInfo> = OnceLock::new();

/// Writes fields of `INFO`, each shown as `session_<name>`.
pub struct InfoWriter<'i> {
    ctx: &'i mut raw::RedisModuleInfoCtx,
}

impl InfoWriter<'_> {
    /// Begins a section; the empty name is the module's own, `INFO session`. Returns `false` if the section was not requested: the server
    /// then ignores the fields that follow.
    pub fn section(&mut self, name: &CStr) -> bool {
        // SAFETY: the context is live; the name ends in NUL and is copied.
        unsafe { api!(RedisModule_InfoAddSection)(self.ctx, name.as_ptr()) == 0 }
    }

    pub fn field(&mut self, name: &CStr, value: u64) {
        // SAFETY: the context is live; the name ends in NUL and is copied.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.ctx, name.as_ptr(), value) };
    }
}

impl LoadCtx {
    /// Registers `write`, which runs at each `INFO` and in the crash report: it must only read counters.
    pub fn register_info(&self, write: WriteInfo) -> Result<(), String> {
        WRITE_INFO
            .set(write)
            .map_err(|_| "INFO is registered twice".to_owned())?;
        // SAFETY: called from OnLoad.
        if unsafe { api!(RedisModule_RegisterInfoFunc)(self.as_ptr(), Some(write_info)) } != 0 {
            return Err("the server refuses the INFO section".to_owned());
        }
        Ok(())
    }
}

unsafe extern "C" fn write_info(ctx: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    guarded("INFO", (), || {
        if let Some(write) = WRITE_INFO.get() {
            // SAFETY: the server passes a context that lives during the call.
            let ctx = unsafe { &mut *ctx };
            write(&mut InfoWriter { ctx });
        }
    });
}
