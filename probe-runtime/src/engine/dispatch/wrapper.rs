//! The closure that runs instead of a replaced function, as a hit finds it.
//!
//! Life cycle: a wrapper is published in a hook, like a consumer ▸ a call of the function takes a
//! share of all wrappers of the hook, under its thread's mark, and gives the mark back before it
//! runs any of them ▸ the wrapper is freed when the last call that has a share ends. So a wrapper
//! may run for as long as it likes, hit probes, attach, detach, and remove itself.
//!
//! Cost: a hit's mark, and incrementing and decrementing one reference count.

use std::any::{Any, TypeId};
use std::ptr;
use std::sync::Arc;

use probe_core::abi::Definition;

/// All wrappers of one function, newest first.
pub(crate) type Wrappers = Arc<[Arc<Wrapper>]>;

/// One closure, for one copy of a function.
pub(crate) struct Wrapper {
    /// Address of the copy's definition. Copies of one function in several objects are one probe,
    /// but may have been built from sources in which the same names stand for different argument
    /// types.
    definition: usize,
    /// The type that the function belongs to: functions of a generic `impl` share a definition, and
    /// may have the same signature.
    owner: TypeId,
    /// A `Box<W>`, where `W` is the type that calls of the function ask for.
    call: Box<dyn Any + Send + Sync>,
}

impl Wrapper {
    pub(crate) fn new<O: ?Sized + 'static>(
        definition: &Definition,
        call: Box<dyn Any + Send + Sync>,
    ) -> Self {
        Self { definition: ptr::from_ref(definition).addr(), owner: TypeId::of::<O>(), call }
    }

    /// Returns the closure, if it is for this copy of the function of `O`, and has this type.
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

#[cfg(test)]
mod tests {
    use super::*;
    use probe_core::abi::Kind;

    type One = dyn Fn(u32) -> u32 + Send + Sync;
    type Other = dyn Fn(u32) -> u64 + Send + Sync;

    /// Two copies of one function, in two objects, with the same identity.
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
