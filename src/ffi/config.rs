//! Settings: `CONFIG GET/SET session.<name>` and the configuration file, each behind a static that is read without a
//! call.

use super::load_ctx::LoadCtx;
use crate::guard::guarded;
use redis_module::raw;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_longlong, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering::Relaxed};

/// Runs after a setting has been set, also to its default at load.
pub type OnChange = fn();

/// An integer within bounds.
pub struct Integer {
    name: &'static str,
    default: i64,
    min: i64,
    max: i64,
    is_memory: bool,
    on_change: Option<OnChange>,
    value: AtomicI64,
}

impl Integer {
    pub const fn new(name: &'static str, default: i64, min: i64, max: i64) -> Self {
        Integer {
            name,
            default,
            min,
            max,
            is_memory: false,
            on_change: None,
            value: AtomicI64::new(default),
        }
    }

    /// Makes it a number of bytes, which may be given as `1mb`.
    pub const fn memory(mut self) -> Self {
        self.is_memory = true;
        self
    }

    pub const fn on_change(mut self, hook: OnChange) -> Self {
        self.on_change = Some(hook);
        self
    }

    #[cfg(test)]
    pub const fn default(&self) -> i64 {
        self.default
    }

    #[cfg(test)]
    pub const fn min(&self) -> i64 {
        self.min
    }

    /// Returns the greatest allowed value.
    pub const fn max(&self) -> i64 {
        self.max
    }

    #[inline]
    pub fn get(&self) -> i64 {
        self.value.load(Relaxed)
    }
}

/// `yes` or `no`.
pub struct Boolean {
    name: &'static str,
    default: bool,
    on_change: Option<OnChange>,
    value: AtomicBool,
}

impl Boolean {
    pub const fn new(name: &'static str, default: bool) -> Self {
        Boolean {
            name,
            default,
            on_change: None,
            value: AtomicBool::new(default),
        }
    }

    #[cfg(test)]
    pub const fn default(&self) -> bool {
        self.default
    }

    #[inline]
    pub fn get(&self) -> bool {
        self.value.load(Relaxed)
    }
}

/// One of a few words, each with a number.
pub struct Choice {
    name: &'static str,
    default: i32,
    words: &'static [(&'static CStr, i32)],
    on_change: Option<OnChange>,
    value: AtomicI32,
}

impl Choice {
    pub const fn new(name: &'static str, default: i32, words: &'static [(&'static CStr, i32)]) -> Self {
        Choice {
            name,
            default,
            words,
            on_change: None,
            value: AtomicI32::new(default),
        }
    }

    /// Returns the word that is the default.
    #[cfg(test)]
    pub fn default(&self) -> &'static str {
        let word = self.words.iter().find(|(_, number)| *number == self.default);
        word.and_then(|(word, _)| word.to_str().ok()).unwrap_or_default()
    }

    #[cfg(test)]
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        self.words.iter().filter_map(|(word, _)| word.to_str().ok())
    }

    #[inline]
    pub fn get(&self) -> i32 {
        self.value.load(Relaxed)
    }
}

#[derive(Clone, Copy)]
pub enum Setting {
    Integer(&'static Integer),
    Boolean(&'static Boolean),
    Choice(&'static Choice),
}

impl Setting {
    /// Returns the name without the module's prefix.
    pub fn name(&self) -> &'static str {
        match self {
            Setting::Integer(setting) => setting.name,
            Setting::Boolean(setting) => setting.name,
            Setting::Choice(setting) => setting.name,
        }
    }
}

impl LoadCtx {
    /// Registers all settings and sets them from the configuration file. To be called once.
    pub fn register_settings(&self, settings: &[Setting]) -> Result<(), String> {
        for setting in settings {
            if !self.register_setting(setting) {
                return Err(format!("the server refuses the setting session.{}", setting.name()));
            }
        }
        // SAFETY: called from OnLoad, after all settings are registered.
        if unsafe { api!(RedisModule_LoadConfigs)(self.as_ptr()) } != 0 {
            return Err("a session.* setting in the configuration is not valid".to_owned());
        }
        Ok(())
    }

    fn register_setting(&self, setting: &Setting) -> bool {
        let Ok(name) = CString::new(setting.name()) else {
            return false;
        };
        let status = match *setting {
            Setting::Integer(setting) => {
                let flags = if setting.is_memory {
                    raw::REDISMODULE_CONFIG_MEMORY as c_uint
                } else {
                    0
                };
                // SAFETY: called from OnLoad; the name is copied; the private data is a static of the type that the
                // callbacks take it for.
                unsafe {
                    api!(RedisModule_RegisterNumericConfig)(
                        self.as_ptr(),
                        name.as_ptr(),
                        setting.default,
                        flags,
                        setting.min,
                        setting.max,
                        Some(get_integer),
                        Some(set_integer),
                        None,
                        private(setting),
                    )
                }
            }
            Setting::Boolean(setting) => {
                // SAFETY: as above.
                unsafe {
                    api!(RedisModule_RegisterBoolConfig)(
                        self.as_ptr(),
                        name.as_ptr(),
                        c_int::from(setting.default),
                        0,
                        Some(get_boolean),
                        Some(set_boolean),
                        None,
                        private(setting),
                    )
                }
            }
            Setting::Choice(setting) => {
                let mut words: Vec<*const c_char> = setting.words.iter().map(|(word, _)| word.as_ptr()).collect();
                let numbers: Vec<c_int> = setting.words.iter().map(|(_, number)| *number).collect();
                // SAFETY: as above; there are as many words and numbers as stated, and they are copied.
                unsafe {
                    api!(RedisModule_RegisterEnumConfig)(
                        self.as_ptr(),
                        name.as_ptr(),
                        setting.default,
                        0,
                        words.as_mut_ptr(),
                        numbers.as_ptr(),
                        numbers.len() as c_int,
                        Some(get_choice),
                        Some(set_choice),
                        None,
                        private(setting),
                    )
                }
            }
        };
        status == 0
    }
}

fn private<T>(setting: &'static T) -> *mut c_void {
    ptr::from_ref(setting).cast_mut().cast()
}

fn changed(hook: Option<OnChange>) -> c_int {
    if let Some(hook) = hook {
        guarded("setting", (), hook);
    }
    0
}

unsafe extern "C" fn get_integer(_name: *const c_char, setting: *mut c_void) -> c_longlong {
    // SAFETY: the private data of an integer setting.
    unsafe { &*setting.cast::<Integer>() }.get()
}

unsafe extern "C" fn set_integer(
    _name: *const c_char,
    value: c_longlong,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the private data of an integer setting. The server has checked the bounds.
    let setting = unsafe { &*setting.cast::<Integer>() };
    setting.value.store(value, Relaxed);
    changed(setting.on_change)
}

unsafe extern "C" fn get_boolean(_name: *const c_char, setting: *mut c_void) -> c_int {
    // SAFETY: the private data of a boolean setting.
    c_int::from(unsafe { &*setting.cast::<Boolean>() }.get())
}

unsafe extern "C" fn set_boolean(
    _name: *const c_char,
    value: c_int,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the private data of a boolean setting.
    let setting = unsafe { &*setting.cast::<Boolean>() };
    setting.value.store(value != 0, Relaxed);
    changed(setting.on_change)
}

unsafe extern "C" fn get_choice(_name: *const c_char, setting: *mut c_void) -> c_int {
    // SAFETY: the private data of a choice.
    unsafe { &*setting.cast::<Choice>() }.get()
}

unsafe extern "C" fn set_choice(
    _name: *const c_char,
    value: c_int,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the private data of a choice. The server passes one of its numbers.
    let setting = unsafe { &*setting.cast::<Choice>() };
    setting.value.store(value, Relaxed);
    changed(setting.on_change)
}
