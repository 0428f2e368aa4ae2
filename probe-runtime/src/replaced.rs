//! Functions and macros that the expansion of `#[probe(replace)]` uses, beside its sites.
//!
//! ```text
//! fn price(item, n)         site ▸ body                    latent, or active without a replacement: one call more
//!                           └▶ cold block ▸ stub ▸ price_replaced(item, n)
//! price_replaced(item, n)   asks for the wrappers ▸ price_run(all, item, n)
//! price_run(left, item, n)  the first wrapper left, which gets `price_run` of the rest; or the body
//! ```
//! The body is inlined into the function behind its site. A second copy of it is where `original`
//! leads. The cold block moves no arguments: it ends in a call with the function's own arguments,
//! which are still in their places. So the path past a latent site is that of the plain function.
//!
//! Types decide which wrapper a call may run. A wrapper is stored as `dyn Any`. A call finds it by
//! the type that the function's signature makes, and by the type of the `impl` that the function is
//! in, and only in the copy of the function through which it was installed.

use probe_core::abi::Definition;

/// The answer of a function's site: its state, or its probe if the caller asks for that.
#[derive(Clone, Copy)]
pub enum Passed {
    /// The site is latent, or the function has none.
    Latent,
    /// The site is active.
    Active,
    /// The site's probe, for a caller that asked for it.
    Probe(&'static Definition),
}

impl Passed {
    /// Returns whether the site is active.
    #[inline(always)]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Active)
    }

    /// Returns the probe; `None` without sites.
    #[cfg(feature = "std")]
    pub(crate) fn definition(self) -> Option<&'static Definition> {
        match self {
            Self::Probe(definition) => Some(definition),
            Self::Latent | Self::Active => None,
        }
    }
}

#[cfg(feature = "std")]
mod chain {
    use std::sync::Arc;

    use super::Passed;
    use crate::engine::dispatch::{self, Wrapper};
    use probe_core::abi::Definition;

    /// A share of all wrappers of a function, kept for one call of it.
    #[derive(Clone)]
    pub struct Share(Option<(&'static Definition, dispatch::Wrappers)>);

    impl Passed {
        /// Returns the wrappers that are installed now.
        pub fn share(self) -> Share {
            let definition = self.definition();
            Share(definition.and_then(|definition| Some((definition, dispatch::wrappers(definition)?))))
        }
    }

    impl Share {
        /// Returns all wrappers of the share.
        pub fn left(&self) -> Left<'_> {
            Left(self.0.as_ref().map(|(definition, wrappers)| (*definition, &**wrappers)))
        }
    }

    /// Wrappers that this call has not run yet.
    #[derive(Clone, Copy)]
    pub struct Left<'a>(Option<(&'static Definition, &'a [Arc<Wrapper>])>);

    impl<'a> Left<'a> {
        /// Returns the first wrapper left that belongs to the function of `O` and has type `W`, and
        /// the wrappers after it.
        pub fn next<O: ?Sized + 'static, W: ?Sized + 'static>(self) -> Option<(&'a W, Self)> {
            let (definition, mut left) = self.0?;
            loop {
                let (first, rest) = left.split_first()?;
                if let Some(wrapper) = first.get::<O, W>(definition) {
                    return Some((wrapper, Self(Some((definition, rest)))));
                }
                left = rest;
            }
        }
    }
}

/// Without `std`, no wrapper can be installed.
#[cfg(not(feature = "std"))]
mod chain {
    use core::marker::PhantomData;

    use super::Passed;

    /// The empty share.
    #[derive(Clone, Copy)]
    pub struct Share;

    impl Passed {
        /// Returns the empty share.
        #[inline(always)]
        pub fn share(self) -> Share {
            Share
        }
    }

    impl Share {
        /// Returns the empty list.
        #[expect(clippy::unused_self, reason = "as where something can be installed")]
        #[inline(always)]
        pub fn left(&self) -> Left<'_> {
            Left(PhantomData)
        }
    }

    /// The empty list of wrappers.
    #[derive(Clone, Copy)]
    pub struct Left<'a>(PhantomData<&'a ()>);

    impl<'a> Left<'a> {
        /// Returns `None`, hidden from the compiler. If the compiler knew, it would see that the
        /// function and its replacement are the same, and merge them ahead of the site.
        #[inline(always)]
        pub fn next<O: ?Sized + 'static, W: ?Sized + 'static>(self) -> Option<(&'a W, Self)> {
            core::hint::black_box(None)
        }
    }
}

pub use chain::Left;

/// The body of a function that answers with `Passed`, with the site of a function that may be
/// replaced. If `$asked` is true, the function names the probe and passes no site.
#[cfg(not(probe_backend = "off"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_replace_site {
    ($asked:ident, $probe:tt) => {
        $crate::__private::v1::define! { Replace, $probe; }
        if $asked {
            return $crate::__private::v1::Passed::Probe(&__PROBE_DEFINITION);
        }
        $crate::__private::v1::active! { {
            $crate::__private::v1::deliver! { [] }
            return $crate::__private::v1::Passed::Active;
        } }
        $crate::__private::v1::Passed::Latent
    };
}

/// The same without a site.
#[cfg(probe_backend = "off")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_replace_site {
    ($asked:ident, $probe:tt) => {
        $crate::__private::v1::Passed::Latent
    };
}

/// Emits the function that installs a wrapper.
#[cfg(feature = "std")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_installer {
    ($($item:tt)*) => { $($item)* };
}

/// Emits nothing: without `std`, no wrapper can be installed.
#[cfg(not(feature = "std"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_installer {
    ($($item:tt)*) => {};
}
