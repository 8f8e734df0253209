//! Active defragmentation: moving a value's blocks to less fragmented memory.

use super::alloc::MALLOC_ALIGN;
use redis_module::raw;
use std::mem::{align_of, size_of, ManuallyDrop};

/// One call of the defragmenter for a value.
pub struct Defrag<'d> {
    ctx: &'d mut raw::RedisModuleDefragCtx,
}

impl<'d> Defrag<'d> {
    pub(super) fn new(ctx: &'d mut raw::RedisModuleDefragCtx) -> Self {
        Defrag { ctx }
    }

    /// Returns the address of the block after moving it, or its old address.
    ///
    /// # Safety
    /// `block` was allocated by the server's malloc and belongs to the caller alone; only the result may be used
    /// after.
    pub(super) unsafe fn relocate_raw(&mut self, block: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise; null means that the block stays where it is.
        let moved = unsafe { api!(RedisModule_DefragAlloc)(self.ctx, block.cast()) };
        if moved.is_null() {
            block
        } else {
            moved.cast()
        }
    }

    pub fn relocate_slice<T>(&mut self, values: Box<[T]>) -> Box<[T]> {
        self.relocate_vec(values.into_vec()).into_boxed_slice()
    }

    pub fn relocate_vec<T>(&mut self, values: Vec<T>) -> Vec<T> {
        if size_of::<T>() == 0 || align_of::<T>() > MALLOC_ALIGN || values.capacity() == 0 {
            return values;
        }
        let mut values = ManuallyDrop::new(values);
        // SAFETY: as for a box; length and capacity stay what they are, and the old vector is not dropped.
        unsafe {
            let block = self.relocate_raw(values.as_mut_ptr().cast()).cast();
            Vec::from_raw_parts(block, values.len(), values.capacity())
        }
    }

    /// Returns whether the time for this call is over: then set the cursor and return `false` from `defrag`.
    pub fn should_stop(&mut self) -> bool {
        // SAFETY: the context is live.
        unsafe { api!(RedisModule_DefragShouldStop)(self.ctx) != 0 }
    }

    /// Returns where the last call for this value stopped (0 at first). `None` for a small value, which is done in one call.
    pub fn cursor(&mut self) -> Option<u64> {
        let mut cursor = 0;
        // SAFETY: the context is live; the cursor is written on success only.
        let status = unsafe { api!(RedisModule_DefragCursorGet)(self.ctx, &mut cursor) };
        (status == 0).then_some(cursor)
    }

    pub fn set_cursor(&mut self, cursor: u64) {
        // SAFETY: the context is live; where there is no cursor, nothing happens.
        unsafe { api!(RedisModule_DefragCursorSet)(self.ctx, cursor) };
    }
}
