//! What functions that have `#[probe(replace)]` call, beside their sites.
//!
//! ```text
//! fn price(item, n)         site ▸ body                    latent, and active while nobody replaces it, but for a call more
//!                           └▶ cold block ▸ stub ▸ price_replaced(item, n)
//! price_replaced(item, n)   asks for the wrappers ▸ price_run(all, item, n)
//! price_run(left, item, n)  the first one left, handed `price_run` of the rest; or the body
//! ```
//! The body is inlined into the function, behind its site, and stands a second time where
//! `original` leads. The cold block moves nothing: it ends in a call with the function's own
//! arguments, which are where they were, so the way past a latent site is that of the plain
//! function.
//!
//! Which wrapper a call may run is decided by types alone: a wrapper is stored as `dyn Any`, and
//! found by the type that the function's signature makes, and that of the `impl` it stands in, in
//! the one copy of the function it was installed through.

use crate::abi::Definition;

/// What a function's site says, or, asked, which probe's it is.
#[derive(Clone, Copy)]
pub enum Passed {
    /// The site is latent, or there is none.
    Latent,
    /// The site is active.
    Active,
    /// The site's probe.
    Probe(&'static Definition),
}

impl Passed {
    /// Whether the site is active.
    #[inline(always)]
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Active)
    }

    /// The probe; `None` where there are no sites.
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
    use crate::abi::Definition;
    use crate::dispatch::{self, Wrapper};

    /// A share of all that is to run instead of a function, kept for one call of it.
    #[derive(Clone)]
    pub struct Share(Option<(&'static Definition, dispatch::Wrappers)>);

    impl Passed {
        /// What is to run instead of the function, at present.
        pub fn share(self) -> Share {
            let definition = self.definition();
            Share(definition.and_then(|definition| Some((definition, dispatch::wrappers(definition)?))))
        }
    }

    impl Share {
        /// All of it.
        pub fn left(&self) -> Left<'_> {
            Left(self.0.as_ref().map(|(definition, wrappers)| (*definition, &**wrappers)))
        }
    }

    /// What is left to run.
    #[derive(Clone, Copy)]
    pub struct Left<'a>(Option<(&'static Definition, &'a [Arc<Wrapper>])>);

    impl<'a> Left<'a> {
        /// The first one left that is for the function of `O` and of its own type, and what is left
        /// then.
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

/// Without an application's part, nothing can be installed.
#[cfg(not(feature = "std"))]
mod chain {
    use core::marker::PhantomData;

    use super::Passed;

    /// Nothing.
    #[derive(Clone, Copy)]
    pub struct Share;

    impl Passed {
        /// Nothing is to run instead of the function.
        #[inline(always)]
        pub fn share(self) -> Share {
            Share
        }
    }

    impl Share {
        /// Nothing.
        #[expect(clippy::unused_self, reason = "as where something can be installed")]
        #[inline(always)]
        pub fn left(&self) -> Left<'_> {
            Left(PhantomData)
        }
    }

    /// Nothing.
    #[derive(Clone, Copy)]
    pub struct Left<'a>(PhantomData<&'a ()>);

    impl<'a> Left<'a> {
        /// Nothing, which the compiler is not to know: it would find out that the function and what
        /// may run instead of it are the same, and use that ahead of the site.
        #[inline(always)]
        pub fn next<O: ?Sized + 'static, W: ?Sized + 'static>(self) -> Option<(&'a W, Self)> {
            core::hint::black_box(None)
        }
    }
}

pub use chain::Left;

/// The site of a function that may be replaced; the body of a function that answers with `Passed`.
/// Asked, it names the probe, and is no site.
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

/// The site of a function that may be replaced, which is not there.
#[cfg(probe_backend = "off")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_replace_site {
    ($asked:ident, $probe:tt) => {
        $crate::__private::v1::Passed::Latent
    };
}

/// The function that installs, where something can be installed.
#[cfg(feature = "std")]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_installer {
    ($($item:tt)*) => { $($item)* };
}

/// Nothing can be installed.
#[cfg(not(feature = "std"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_installer {
    ($($item:tt)*) => {};
}
