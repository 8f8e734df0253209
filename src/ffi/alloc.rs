//! Allocates from the server, so that the module's memory counts in `used_memory` and toward `maxmemory` and can be defragmented.
//!
//! `redis_module::alloc::RedisAlloc` does the same but has neither `realloc` nor `alloc_zeroed`: a growing buffer
//! would be copied at each step although jemalloc can often extend it in place.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

#[cfg(not(test))]
#[global_allocator]
static SERVER_ALLOCATOR: ServerAllocator = ServerAllocator;

/// The alignment that malloc guarantees (`max_align_t` of the supported targets).
pub(super) const MALLOC_ALIGN: usize = 16;

/// Allocates with the server's malloc. Aborts the process with a message if it is called before the API is initialised.
#[cfg_attr(test, allow(dead_code))]
struct ServerAllocator;

/// jemalloc aligns a block by its size class: to get alignment 16 for 8 bytes, 16 bytes must be requested.
#[inline]
#[cfg_attr(test, allow(dead_code))]
fn padded(size: usize, align: usize) -> usize {
    (size + align - 1) & !(align - 1)
}

#[cold]
#[inline(never)]
#[cfg_attr(test, allow(dead_code))]
fn not_available() -> ! {
    // Formatting would allocate, so the message is constant; aborting runs nothing that allocates.
    let message = b"session: memory was asked for before the server's allocator is there\n";
    let _ = std::io::Write::write_all(&mut std::io::stderr(), message);
    std::process::abort()
}

// SAFETY: blocks come from the server's malloc family and go back to it; `alloc` honours size and alignment (see
// `padded` and, above MALLOC_ALIGN, `alloc_overaligned`), and `realloc` keeps the first min(old, new) bytes.
unsafe impl GlobalAlloc for ServerAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > MALLOC_ALIGN {
            return alloc_overaligned(layout);
        }
        // SAFETY: the API pointers are written once, before the module's first allocation.
        let alloc = unsafe { api!(RedisModule_Alloc else not_available()) };
        // SAFETY: any size may be requested.
        unsafe { alloc(padded(layout.size(), layout.align())) }.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() > MALLOC_ALIGN {
            let block = alloc_overaligned(layout);
            if !block.is_null() {
                // SAFETY: the block has at least layout.size() bytes.
                unsafe { ptr::write_bytes(block, 0, layout.size()) };
            }
            return block;
        }
        // SAFETY: as in alloc.
        let calloc = unsafe { api!(RedisModule_Calloc else not_available()) };
        // SAFETY: any size may be requested.
        unsafe { calloc(1, padded(layout.size(), layout.align())) }.cast()
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let start = if layout.align() > MALLOC_ALIGN {
            // SAFETY: the block was made by alloc_overaligned.
            unsafe { overaligned_start(block) }
        } else {
            block
        };
        // SAFETY: as in alloc.
        let free = unsafe { api!(RedisModule_Free else not_available()) };
        // SAFETY: `start` is what the server's malloc returned for this block.
        unsafe { free(start.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() > MALLOC_ALIGN {
            // SAFETY: the caller's promises, and the same alignment with a size that the caller has checked.
            return unsafe {
                let new_block = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
                if !new_block.is_null() {
                    ptr::copy_nonoverlapping(block, new_block, layout.size().min(new_size));
                    self.dealloc(block, layout);
                }
                new_block
            };
        }
        // SAFETY: as in alloc.
        let realloc = unsafe { api!(RedisModule_Realloc else not_available()) };
        // SAFETY: the block is the server's, of an alignment that its malloc gives to this padded size as well.
        unsafe { realloc(block.cast(), padded(new_size, layout.align())) }.cast()
    }
}

/// Allocates a block with more alignment than malloc guarantees; the address that malloc returned is stored in the word before it.
#[cold]
#[cfg_attr(test, allow(dead_code))]
fn alloc_overaligned(layout: Layout) -> *mut u8 {
    // SAFETY: as in ServerAllocator::alloc.
    let alloc = unsafe { api!(RedisModule_Alloc else not_available()) };
    let Some(size) = layout.size().checked_add(layout.align()) else {
        return ptr::null_mut();
    };
    // SAFETY: any size may be requested.
    let start = unsafe { alloc(size) }.cast::<u8>();
    if start.is_null() {
        return start;
    }
    // malloc's own alignment leaves a gap of at least 16 bytes: room for the word.
    let gap = layout.align() - (start as usize & (layout.align() - 1));
    // SAFETY: MALLOC_ALIGN <= gap <= align, so block - 8 and block + size are inside the allocation, and block is
    // aligned for a pointer.
    unsafe {
        let block = start.add(gap);
        block.cast::<*mut u8>().sub(1).write(start);
        block
    }
}

/// Returns the start of the allocation that contains `block`.
///
/// # Safety
/// `block` was made by `alloc_overaligned`.
#[cold]
#[cfg_attr(test, allow(dead_code))]
unsafe fn overaligned_start(block: *mut u8) -> *mut u8 {
    // SAFETY: the word before the block was written when it was made.
    unsafe { block.cast::<*mut u8>().sub(1).read() }
}
