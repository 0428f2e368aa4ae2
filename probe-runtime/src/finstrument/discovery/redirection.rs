//! Leads the calls of hooks here, if the dynamic linker has bound them to the C library's empty
//! functions. It does that where it knows of no other hooks: the runtime came later than the object
//! that calls, or the executable does not export the hooks.
//!
//! Life: [`begin`] looks up both addresses. The provider's next look leads the calls of all objects
//! here, and later looks those of objects that have come. The first look after [`end`] leads them
//! back.
//! Cost: for each look, the relocations of all objects. A word to change takes two `mprotect`.

// Safety: relies on `Frozen`: the words are of loaded objects. Calls load them whole.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::engine::os::imports::ImportSlot;
use crate::engine::os::objects::{Frozen, Generation};
use crate::engine::sites::write_text;
use crate::finstrument::outcome::Redirected;
use probe_core::abi::Kind;

const NAMES: [&CStr; 2] = [c"__cyg_profile_func_enter", c"__cyg_profile_func_exit"];

/// One of the two functions, here and elsewhere. An address is 0 if there is no such function.
#[derive(Clone, Copy, Debug)]
struct HookBinding {
    name: &'static CStr,
    /// This crate's hook.
    own: usize,
    /// The empty one, which is the next after this crate's in the order of look-ups.
    empty: usize,
    /// The function that later look-ups find.
    first: usize,
}

impl HookBinding {
    /// Looks both functions up. Takes the dynamic linker's outer lock.
    fn all(hooks: [usize; 2]) -> [Self; 2] {
        [0, 1].map(|at| {
            let (name, own) = (NAMES[at], hooks[at]);
            // SAFETY: a handle that the dynamic linker knows, and a name.
            let found = |handle| unsafe { libc::dlsym(handle, name.as_ptr()) }.addr();
            Self { name, own, empty: found(libc::RTLD_NEXT), first: found(libc::RTLD_DEFAULT) }
        })
    }

    /// Returns the functions whose calls can be redirected.
    fn redirected() -> impl Iterator<Item = &'static Self> {
        BINDINGS.get().into_iter().flatten().filter(|it| it.empty != 0 && it.empty != it.own)
    }

    /// Returns whether a word leads to the empty function, now or from its first use on. A program
    /// that has hooks of its own keeps them.
    fn is_empty(&self, slot: &ImportSlot) -> bool {
        self.empty == if slot.is_looked_up { slot.value } else { self.first }
    }

    /// Leads those words of all objects that `is_chosen` chooses to a function. Returns the
    /// addresses of those that the system let change, and how many it did not.
    fn rebind(
        &self,
        frozen: &Frozen,
        to: usize,
        is_chosen: impl Fn(&ImportSlot) -> bool,
    ) -> (Vec<usize>, usize) {
        let (mut led, mut refused) = (Vec::new(), 0);
        let name = self.name.to_str().unwrap_or_default();
        for slot in frozen.import_slots(name, self.own).into_iter().filter(is_chosen) {
            let written = write_text(&(slot.addr..slot.addr + size_of::<usize>()), &mut || {
                // SAFETY: an aligned word of a loaded object, which is writable now. The dynamic
                // linker may look the function up at the same time, and write it, too.
                unsafe { AtomicUsize::from_ptr(slot.addr as *mut usize) }.store(to, Ordering::Release);
            });
            match written {
                Ok(()) => led.push(slot.addr),
                Err(_) => refused += 1,
            }
        }
        (led, refused)
    }
}

/// The looked-up functions, from the first [`begin`] on.
static BINDINGS: OnceLock<[HookBinding; 2]> = OnceLock::new();
static IS_ON: AtomicBool = AtomicBool::new(false);
static LED: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// Looks up where calls of the hooks lead. The caller holds no lock.
pub(super) fn look_up(hooks: [usize; 2]) {
    if BINDINGS.get().is_none() {
        // No thread waits for another here, which a child of a fork would do for ever.
        let _ = BINDINGS.set(HookBinding::all(hooks));
    }
}

/// Redirects calls to these hooks, of entries and of exits, from the next look on.
pub(super) fn begin(hooks: [usize; 2]) {
    look_up(hooks);
    IS_ON.store(true, Ordering::Release);
}

/// Returns the words of objects that lead their calls to this crate's hooks, and those that lead to
/// no text yet. Binds those that the dynamic linker would bind here at their first use.
pub(super) fn words_to_hooks(
    frozen: &Frozen,
    is_text: impl Fn(usize) -> bool,
) -> (Vec<(usize, Kind)>, Vec<usize>) {
    let (mut leading, mut unbound) = (Vec::new(), Vec::new());
    for (binding, kind) in BINDINGS.get().into_iter().flatten().zip([Kind::Entry, Kind::Exit]) {
        let is_due = |slot: &ImportSlot| !slot.is_looked_up && binding.first == binding.own;
        binding.rebind(frozen, binding.own, is_due);
        let name = binding.name.to_str().unwrap_or_default();
        for slot in frozen.import_slots(name, 0) {
            if slot.value == binding.own {
                leading.push((slot.addr, kind));
            } else if !is_text(slot.value) {
                unbound.push(slot.addr);
            }
        }
    }
    (leading, unbound)
}

/// Leads calls back at the next look, and redirects no more.
pub(super) fn end() {
    IS_ON.store(false, Ordering::Release);
}

/// Returns the numbers of words until now, those that were led back included.
pub(super) fn redirected() -> Redirected {
    Redirected { led: LED.load(Ordering::Relaxed), refused: REFUSED.load(Ordering::Relaxed) }
}

/// The calls that were redirected, for the provider.
#[derive(Default)]
pub(super) struct Redirection {
    /// The objects that were looked at; `None` while no call is redirected.
    seen: Option<Generation>,
    /// The addresses of the words, some of them maybe of objects that are gone.
    led: Vec<usize>,
}

impl Redirection {
    /// Redirects the calls of objects that came since the last time.
    pub(super) fn begin(&mut self, frozen: &Frozen) {
        let now = Some(frozen.generation());
        if !IS_ON.load(Ordering::Acquire) || self.seen == now {
            return;
        }
        self.seen = now;
        for binding in HookBinding::redirected() {
            let (led, refused) = binding.rebind(frozen, binding.own, |slot| binding.is_empty(slot));
            LED.fetch_add(led.len(), Ordering::Relaxed);
            REFUSED.fetch_add(refused, Ordering::Relaxed);
            self.led.extend(led);
        }
    }

    /// Leads all calls back, if they are to be redirected no more.
    pub(super) fn end(&mut self, frozen: &Frozen) {
        if IS_ON.load(Ordering::Acquire) || self.seen.take().is_none() {
            return;
        }
        for binding in HookBinding::redirected() {
            // A word may belong to another object that was loaded in its place, which the linker
            // has bound here.
            binding.rebind(frozen, binding.empty, |slot| {
                slot.value == binding.own && self.led.contains(&slot.addr)
            });
        }
        self.led.clear();
    }
}
