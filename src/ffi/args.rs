//! The arguments of a command, as the server stores them.

use redis_module::raw;
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::ptr::NonNull;
use std::slice;

/// One argument: a string of the server, borrowed for as long as the command runs. Its bytes need not be UTF-8.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Arg<'a> {
    string: NonNull<raw::RedisModuleString>,
    command: PhantomData<&'a raw::RedisModuleString>,
}

/// All arguments of a command, its name (and its subcommand's name) first.
pub type Args<'a> = &'a [Arg<'a>];

impl<'a> Arg<'a> {
    /// # Safety
    /// The string lives, unchanged, for `'a`.
    pub(super) unsafe fn new(string: NonNull<raw::RedisModuleString>) -> Self {
        Arg {
            string,
            command: PhantomData,
        }
    }

    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the string lives and does not change for 'a, so do its bytes; the pointer is never null, with
        // length 0 neither.
        unsafe {
            let bytes = api!(RedisModule_StringPtrLen)(self.string.as_ptr(), &mut len);
            slice::from_raw_parts(bytes.cast(), len)
        }
    }

    #[inline]
    pub(super) fn as_ptr(self) -> *mut raw::RedisModuleString {
        self.string.as_ptr()
    }
}

impl AsRef<[u8]> for Arg<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl fmt::Debug for Arg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

/// Wraps the arguments of a call from the server.
///
/// # Safety
/// `argv` points to `argc` strings which live, unchanged, for `'a`.
#[inline]
pub(super) unsafe fn from_raw<'a>(argv: *mut *mut raw::RedisModuleString, argc: c_int) -> Args<'a> {
    if argv.is_null() || argc <= 0 {
        return &[];
    }
    // SAFETY: an Arg is a non-null string pointer in memory, and the caller vouches for the array.
    unsafe { slice::from_raw_parts(argv.cast_const().cast::<Arg<'a>>(), argc as usize) }
}
