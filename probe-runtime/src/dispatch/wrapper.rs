//! What runs instead of a function that is replaced, as a hit finds it.
//!
//! Life: a wrapper is published in a hook, like a consumer. Who calls the function takes a share of
//! all that the hook has, under its thread's mark, and gives the mark back before it runs any of
//! them: so a wrapper may run for as long as it likes, hit probes, attach, detach, and remove
//! itself. It is freed when the last call that has a share ends.
//! Cost: a hit's mark, and one reference counted up and down.

use std::any::{Any, TypeId};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Slot;
use super::hook::Hook;
use crate::abi::Definition;
use crate::arch::backend;

/// All wrappers of one function, newest first.
pub(crate) type Wrappers = Arc<[Arc<Wrapper>]>;

/// One closure, for one copy of a function.
pub(crate) struct Wrapper {
    /// Where the copy's definition lies. Copies of one function in several objects are one probe,
    /// but may have been built from sources in which the arguments' types differ under the same
    /// names.
    definition: usize,
    /// The type whose function it is for: those of a generic `impl` share a definition, and their
    /// signatures may be the same.
    owner: TypeId,
    /// A `Box<W>`, where `W` is the type that the function's calls ask for.
    call: Box<dyn Any + Send + Sync>,
}

impl Wrapper {
    pub(crate) fn new<O: ?Sized + 'static>(
        definition: &'static Definition,
        call: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self { definition: ptr::from_ref(definition).addr(), owner: TypeId::of::<O>(), call }
    }

    /// The closure, if it is for this copy of the function of `O`, and of this type.
    pub(crate) fn get<O: ?Sized + 'static, W: ?Sized + 'static>(
        &self,
        definition: &Definition,
    ) -> Option<&W> {
        if self.definition != ptr::from_ref(definition).addr() || self.owner != TypeId::of::<O>() {
            return None;
        }
        self.call.downcast_ref::<Box<W>>().map(|call| &**call)
    }
}

/// What is to run instead of the function; nothing inside of a consumer, and of this crate's own
/// operations, where calls of consumers are suppressed, too.
pub(crate) fn wrappers(definition: &'static Definition) -> Option<Wrappers> {
    if definition.entry().load(Ordering::Acquire) != backend::entry(definition) {
        // The hook is another runtime's.
        return None;
    }
    let slot = Slot::current()?;
    if slot.mark().is_suppressing() {
        return None;
    }
    let outer = slot.enter();
    let hook = definition.hook().load(Ordering::Acquire).cast::<Hook>();
    let wrappers = Hook::read(hook, slot).and_then(Hook::wrappers).cloned();
    slot.leave(outer);
    wrappers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Kind;

    type One = dyn Fn(u32) -> u32 + Send + Sync;
    type Other = dyn Fn(u32) -> u64 + Send + Sync;

    /// Two copies of one function, in two objects; their identities are the same.
    static COPIES: [Definition; 2] =
        [const { Definition::new(Kind::Replace, "app::pricea.rs", "app::price", "a.rs", "", 1, 1) }; 2];

    #[test]
    fn a_wrapper_is_for_one_copy_and_owner_and_of_one_type() {
        let [own, copy] = &COPIES;
        assert_eq!(own.identity(), copy.identity());
        let call: Box<One> = Box::new(|x| x + 1);
        let wrapper = Wrapper::new::<u8>(own, Box::new(call));
        assert_eq!(wrapper.get::<u8, One>(own).map(|call| call(1)), Some(2));
        assert!(wrapper.get::<u8, One>(copy).is_none());
        assert!(wrapper.get::<u8, Other>(own).is_none());
        assert!(wrapper.get::<u16, One>(own).is_none());
    }
}
