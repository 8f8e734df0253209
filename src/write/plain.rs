//! Values that have no lease, no version, no ttl and no window: anchors, directories, and whatever an append-only file loads.

use super::{Moment, Settled, STEP};
use crate::args::Result;
use crate::ffi::{Arg, Ctx, Found, NativeType, WriteKey, WRONGTYPE};

/// A key of such a value opened to be written: nothing guards it but its type.
#[must_use]
pub struct PlainKey<'c, 'a, T: NativeType> {
    key: WriteKey<'c, T>,
    name: Arg<'a>,
    deleted: bool,
}

impl<'c, 'a, T: NativeType> PlainKey<'c, 'a, T> {
    /// Opens a key that holds such a value or nothing.
    pub fn open(ctx: &'c Ctx, key: Arg<'a>) -> Result<Self> {
        let opened = Self::open_to_replace(ctx, key);
        match opened.key.get() {
            Found::WrongType => Err(WRONGTYPE.into()),
            Found::Value(_) | Found::Missing => Ok(opened),
        }
    }

    /// Opens a key whatever it holds.
    pub fn open_to_replace(ctx: &'c Ctx, key: Arg<'a>) -> Self {
        PlainKey {
            key: ctx.open_key_write::<T>(key, STEP),
            name: key,
            deleted: false,
        }
    }

    pub fn value(&self) -> Option<&T> {
        match self.key.get() {
            Found::Value(value) => Some(value),
            Found::Missing | Found::WrongType => None,
        }
    }

    pub fn value_mut(&mut self) -> Option<&mut T> {
        match self.key.get_mut() {
            Found::Value(value) => Some(value),
            Found::Missing | Found::WrongType => None,
        }
    }

    /// The value that is there, or this one, put there.
    pub fn value_or_put(&mut self, value: impl FnOnce() -> T) -> &mut T {
        if self.value().is_none() {
            self.put(value());
        }
        match self.key.get_mut() {
            Found::Value(value) => value,
            Found::Missing | Found::WrongType => unreachable!("it has just been put"),
        }
    }

    /// Puts a value in place of whatever is there.
    pub fn put(&mut self, value: T) {
        self.key.set_value(value);
        self.deleted = false;
    }

    pub fn delete(&mut self) {
        self.key.delete();
        self.deleted = true;
    }

    /// Closes the key.
    pub fn settle(self, moment: &Moment, changed: bool) -> Settled<'a> {
        Settled::plain(self.name, moment, changed || self.deleted, self.deleted)
    }
}
