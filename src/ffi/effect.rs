//! A command as it is sent to replicas and the append-only file: what happened, with nothing left to decide.
//!
//! Without a receiver ([`super::audience`]) it is not built at all. Otherwise, building one usually allocates nothing: arguments are the
//! client's own strings, option words are shared ([`Word`]), and the last few numbers are cached, since the commands of one millisecond
//! contain the same times.

use super::args::Arg;
use super::audience;
use super::ctx::Ctx;
use super::words::Word;
use crate::write::Step;
use redis_module::raw;
use smallvec::SmallVec;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::c_char;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering::Relaxed};

static WORDS: [AtomicPtr<raw::RedisModuleString>; Word::TEXTS.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; Word::TEXTS.len()];

/// Numbers cached as strings. Atomic only to be a `static`: an [`Effect`] never leaves the thread that runs commands.
static NUMBERS: [Number; 4] = [const {
    Number {
        value: AtomicI64::new(0),
        string: AtomicPtr::new(ptr::null_mut()),
    }
}; 4];
static NEXT_NUMBER: AtomicUsize = AtomicUsize::new(0);

struct Number {
    value: AtomicI64,
    /// Null if the slot is free. The slot holds one reference.
    string: AtomicPtr<raw::RedisModuleString>,
}

/// A command to pass to [`Ctx::replicate`]. `'a` is the lifetime of its arguments.
pub struct Effect<'a> {
    name: &'static CStr,
    /// Whether it has a receiver and is built at all.
    is_heard: bool,
    argv: SmallVec<[*mut raw::RedisModuleString; 16]>,
    /// The strings in `argv` of which this effect holds a reference.
    held: SmallVec<[*mut raw::RedisModuleString; 4]>,
    /// The pointers also make it `!Send`.
    args: PhantomData<Arg<'a>>,
}

impl<'a> Effect<'a> {
    #[inline]
    pub fn arg(&mut self, arg: Arg<'a>) -> &mut Self {
        if self.is_heard {
            self.argv.push(arg.as_ptr());
        }
        self
    }

    #[inline]
    pub fn args(&mut self, args: impl IntoIterator<Item = Arg<'a>>) -> &mut Self {
        if self.is_heard {
            self.argv.extend(args.into_iter().map(Arg::as_ptr));
        }
        self
    }

    #[inline]
    pub fn word(&mut self, word: Word) -> &mut Self {
        if self.is_heard {
            self.argv.push(WORDS[word as usize].load(Relaxed));
        }
        self
    }

    #[inline]
    pub fn int(&mut self, value: i64) -> &mut Self {
        if self.is_heard {
            self.push_int(value);
        }
        self
    }

    fn push_int(&mut self, value: i64) {
        for number in &NUMBERS {
            let string = number.string.load(Relaxed);
            if !string.is_null() && number.value.load(Relaxed) == value {
                // SAFETY: the cache holds a reference, so the string lives. The effect takes one of its own, because
                // a later number may push this one out of the cache.
                unsafe { api!(RedisModule_RetainString)(ptr::null_mut(), string) };
                self.held.push(string);
                self.argv.push(string);
                return;
            }
        }
        self.push_new_int(value);
    }

    fn push_new_int(&mut self, value: i64) {
        // SAFETY: without a context the string is ours to free: one reference for the cache, one for this effect. The
        // one pushed out loses the cache's reference only.
        unsafe {
            let string = api!(RedisModule_CreateStringFromLongLong)(ptr::null_mut(), value);
            let place = &NUMBERS[NEXT_NUMBER.fetch_add(1, Relaxed) % NUMBERS.len()];
            let old = place.string.swap(string, Relaxed);
            place.value.store(value, Relaxed);
            if !old.is_null() {
                api!(RedisModule_FreeString)(ptr::null_mut(), old);
            }
            api!(RedisModule_RetainString)(ptr::null_mut(), string);
            self.held.push(string);
            self.argv.push(string);
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        if self.is_heard {
            let string = create_string(bytes);
            self.held.push(string);
            self.argv.push(string);
        }
        self
    }
}

impl Drop for Effect<'_> {
    #[inline]
    fn drop(&mut self) {
        for string in &self.held {
            // SAFETY: each is one reference that this effect took; the server has taken its own in RM_Replicate.
            unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), *string) };
        }
    }
}

impl Ctx {
    /// Begins the command `name`, to be filled and passed to [`Ctx::replicate`].
    #[inline]
    pub fn effect<'a>(&self, name: &'static CStr) -> Effect<'a> {
        let is_heard = audience::somebody_listens(self.as_ptr());
        Effect {
            name,
            is_heard,
            argv: SmallVec::new(),
            held: SmallVec::new(),
            args: PhantomData,
        }
    }

    /// Returns whether an effect would have a receiver. If not, [`Ctx::replicate_unheard`] replaces building and replicating it.
    #[inline]
    pub fn is_heard(&self) -> bool {
        audience::somebody_listens(self.as_ptr())
    }

    /// Counts a change for the next snapshot, without sending anything.
    #[inline]
    pub fn replicate_unheard(&self, _: Step) {
        // SAFETY: the context is live and that of a client's command.
        unsafe { api!(RedisModule_ReplicateVerbatim)(self.as_ptr()) };
    }

    /// Sends the effect to replicas and the append-only file after this command, in one transaction with its other effects.
    #[inline]
    pub fn replicate(&self, effect: &Effect<'_>, step: Step) {
        if !effect.is_heard {
            self.replicate_unheard(step);
            return;
        }
        // SAFETY: "v" takes a vector of strings and its length; the server takes references of its own.
        let status = unsafe {
            api!(RedisModule_Replicate)(
                self.as_ptr(),
                effect.name.as_ptr(),
                c"v".as_ptr(),
                effect.argv.as_ptr(),
                effect.argv.len(),
            )
        };
        if status != 0 {
            // Only an unknown command is refused.
            self.log_warning(&format!("cannot replicate {}", effect.name.to_string_lossy()));
        }
    }
}

/// Creates the shared words. Called once, from OnLoad.
pub(super) fn create_words() {
    for (word, text) in WORDS.iter().zip(Word::TEXTS) {
        word.store(create_string(text.as_bytes()), Relaxed);
    }
}

fn create_string(bytes: &[u8]) -> *mut raw::RedisModuleString {
    // SAFETY: the server copies the bytes; without a context the string is the caller's to free.
    unsafe { api!(RedisModule_CreateString)(ptr::null_mut(), bytes.as_ptr().cast::<c_char>(), bytes.len()) }
}

/// A string of the server, freed on drop.
pub(super) struct OwnString {
    string: *mut raw::RedisModuleString,
}

impl OwnString {
    pub fn new(bytes: &[u8]) -> Self {
        OwnString {
            string: create_string(bytes),
        }
    }

    pub fn as_ptr(&self) -> *mut raw::RedisModuleString {
        self.string
    }
}

impl Drop for OwnString {
    fn drop(&mut self) {
        // SAFETY: one reference, taken when the string was made.
        unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), self.string) };
    }
}
