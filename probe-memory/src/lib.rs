//! Latent probes in the program's allocator.
//!
//! ```
//! use std::alloc::System;
//!
//! use probe_memory::Probed;
//! use probe_runtime::{Count, select};
//!
//! #[global_allocator]
//! static ALLOCATOR: Probed<System> = Probed::new(System);
//!
//! let requests = select("memory::alloc")?.attach(Count::new())?;
//! drop(std::hint::black_box(Box::new(7)));
//! assert!(requests.total() >= 1);
//! # Ok::<(), probe_runtime::Error>(())
//! ```
//!
//! | probe | a hit | fields |
//! |---|---|---|
//! | `memory::alloc` | memory is asked for, zeroed or not | `size` |
//! | `memory::realloc` | a block's size is to change | `old`, `size` |
//! | `memory::dealloc` | a block is freed | `size` |
//!
//! The sites stand ahead of the calls of the allocator, which stay tail calls. So a hit is a
//! request: one that the allocator refuses is a hit, too. Sizes are bytes, as the program asks for
//! them.
//!
//! Each consumer can be attached: `PROBES='memory::alloc=quantize(size)'`. A selector of all
//! probes, such as `**`, names these, too; `**, !memory::*` does not. Allocations of a consumer
//! itself are delivered to no consumer, and neither are those of switching sites.
//!
//! Cost: a NOP for each function while latent. This is a crate of its own since each program that
//! links it has these probes.
#![no_std]
#![deny(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};

use probe_core::__private::v1 as sites;

/// An allocator with probes: the functions are those of `A`.
///
/// ```
/// use std::alloc::System;
/// use probe_memory::Probed;
///
/// #[global_allocator]
/// static ALLOCATOR: Probed<System> = Probed::new(System);
///
/// assert_eq!(vec![1, 2, 3].iter().sum::<i32>(), 6);
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct Probed<A>(A);

impl<A> Probed<A> {
    /// Puts probes ahead of an allocator's functions.
    pub const fn new(allocator: A) -> Self {
        Self(allocator)
    }

    /// Returns the allocator.
    pub const fn get(&self) -> &A {
        &self.0
    }
}

/// An allocator that a program refers to by its name. As a type of its own, it can be wrapped where
/// it stands.
///
/// ```
/// use std::alloc::System;
///
/// use probe_memory::{Probed, Shared};
///
/// static NAMED: System = System;
/// #[global_allocator]
/// static ALLOCATOR: Probed<Shared<System>> = Probed::new(Shared::new(&NAMED));
///
/// assert_eq!(vec![1, 2, 3].iter().sum::<i32>(), 6);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shared<A: 'static>(&'static A);

impl<A> Shared<A> {
    /// Refers to an allocator.
    pub const fn new(allocator: &'static A) -> Self {
        Self(allocator)
    }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: each function is that of `A`, with the same arguments.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Shared<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.realloc(block, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(block, layout) }
    }
}

/// The site of a request, for functions that share a probe.
#[inline(always)]
fn asks(size: usize) {
    sites::point! { (at "memory::alloc", "doc=memory is asked for\n"); "size" = value(&size) }
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: each function is that of `A`, with the same arguments. A site changes no memory that the
// program sees.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Probed<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        asks(layout.size());
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        asks(layout.size());
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        sites::point! {
            (at "memory::realloc", "doc=a block's size is to change\n");
            "old" = value(&layout.size()), "size" = value(&size)
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.realloc(block, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        sites::point! {
            (at "memory::dealloc", "doc=a block is freed\n"); "size" = value(&layout.size())
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(block, layout) }
    }
}
