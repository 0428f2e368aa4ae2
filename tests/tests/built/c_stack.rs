//! How much stack a hit takes, for those who give their threads, coroutines and signal handlers
//! little: what docs/abi.md promises. A process of its own: it attaches to all probes there are.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::mem::MaybeUninit;

use probe_build::Sites;
use probe_runtime::{Consumer, Count, Event, select};
use probe_tests::c::{Compiler, Language, Object, Recipe};

/// Takes hits, and no stack worth the name.
struct Nothing;

impl Consumer for Nothing {
    fn hit(&self, _event: &Event<'_>) {}
}

const STACK: usize = 64 << 10;
const PAINT: u8 = 0xa5;

/// The bytes that a call takes, of a stack of its own.
fn depth(function: extern "C" fn()) -> usize {
    let mut stack = vec![PAINT; STACK];
    let (mut here, mut there) =
        (MaybeUninit::<libc::ucontext_t>::zeroed(), MaybeUninit::<libc::ucontext_t>::zeroed());
    // SAFETY: the stack lives until the call is over, and is large enough; both contexts are filled
    // before they are gone to.
    unsafe {
        assert_eq!(libc::getcontext(there.as_mut_ptr()), 0);
        let context = &mut *there.as_mut_ptr();
        context.uc_stack.ss_sp = stack.as_mut_ptr().cast();
        context.uc_stack.ss_size = STACK;
        context.uc_link = here.as_mut_ptr();
        libc::makecontext(context, function, 0);
        assert_eq!(libc::swapcontext(here.as_mut_ptr(), there.as_ptr()), 0);
    }
    STACK - stack.iter().position(|byte| *byte != PAINT).expect("something was written")
}

#[test]
fn a_hit_takes_no_more_than_promised() {
    let root = env!("CARGO_TARGET_TMPDIR");
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for sites in [Sites::EntryReturn, Sites::InstrumentFunctions] {
            let recipe = Recipe::new(compiler, Language::C, sites, "-O2").files(&["state.c"]);
            let object = Object::open(&recipe.build(root).0);
            // SAFETY: a function of this type.
            let function: extern "C" fn() =
                unsafe { std::mem::transmute(object.library.symbol("state_nothing")) };
            let taken = || {
                // A thread's first hit maps its slot.
                function();
                depth(function)
            };
            let latent = taken();
            let count = select("state_nothing").unwrap().attach(Count::new()).unwrap();
            let counted = taken() - latent;
            drop(count);
            let nothing = select("state_nothing").unwrap().attach(Nothing).unwrap();
            let delivered = taken() - latent;
            drop(nothing);
            let (most_counted, most_delivered) =
                if sites == Sites::EntryReturn { (64, 4096) } else { (64, 1536) };
            assert!(counted <= most_counted, "{}: {counted} bytes to count", recipe.name());
            assert!(delivered <= most_delivered, "{}: {delivered} bytes to deliver", recipe.name());
            object.library.close();
        }
    }
}
