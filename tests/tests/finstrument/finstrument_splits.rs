//! Calls of hooks at every offset in their word, in each form that compilers and linkers give them:
//! their bytes before the first hit, latent and active, and their counts.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::fmt::Write;

use probe_runtime::patch::TextPolicy;
use probe_runtime::{Count, finstrument, select};
use probe_tests::instrumented::{folder, shared, source};
use probe_tests::library::Library;

const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];

/// Functions that call a hook at each offset, in assembly: `direct_0` to `through_7`.
fn code() -> String {
    let mut code = String::from("\t.text\n");
    for (form, call) in [
        ("direct", "call __cyg_profile_func_enter@PLT"),
        ("relaxed", ".byte 0x67; call __cyg_profile_func_enter@PLT"),
        ("through", "call *__cyg_profile_func_enter@GOTPCREL(%rip)"),
    ] {
        for offset in 0..8 {
            // Where the call begins, or, with a prefix, its second byte.
            let (before, after) = if form == "relaxed" { ((offset + 7) % 8, 1) } else { (offset, 0) };
            write!(
                code,
                "\t.globl {form}_{offset}\n\t.type {form}_{offset}, @function\n\t.balign 64\n\
                 {form}_{offset}:\n.L{form}_{offset}:\n\tsubq $8, %rsp\n\tleaq .L{form}_{offset}(%rip), %rdi\n\txorl %esi, %esi\n\
                 \tjmp 1f\n\t.balign 64, 0xcc\n\t.skip {before} + 8, 0x90\n\t.globl site_{form}_{offset}\n\
                 site_{form}_{offset} = . + {after}\n1:\t{call}\n\
                 \tmovl ${offset}, %eax\n\taddq $8, %rsp\n\tret\n\t.size {form}_{offset}, . - {form}_{offset}\n"
            )
            .unwrap();
        }
    }
    code.push_str("\t.section .note.GNU-stack,\"\",@progbits\n");
    code
}

fn bytes(site: *const u8) -> [u8; 6] {
    // SAFETY: code, of which more follows.
    unsafe { site.cast::<[u8; 6]>().read_volatile() }
}

/// A jump over the rest, or the same call, of what does nothing.
fn assert_switched_off(original: [u8; 6], latent: [u8; 6], offset: usize, len: usize, site: *const u8) {
    if offset < 7 {
        let skip = [0xeb, u8::try_from(len - 2).unwrap()];
        assert_eq!((&latent[..2], &latent[2..]), (&skip[..], &original[2..]), "{offset}");
        return;
    }
    assert_eq!(latent[..len - 4], original[..len - 4]);
    let distance = i32::from_le_bytes(latent[len - 4..len].try_into().unwrap());
    let mut there = site.wrapping_add(len).wrapping_offset(distance as isize);
    if len == 6 {
        // SAFETY: the pointer that the call goes through.
        there = unsafe { there.cast::<*const u8>().read_unaligned() };
    }
    // SAFETY: code that the call leads to.
    assert_eq!(unsafe { there.read() }, 0xc3);
}

#[test]
fn every_split_of_every_form() {
    let folder = folder("splits");
    for (name, text) in [("sealed", TextPolicy::Sealed), ("open", TextPolicy::Open)] {
        finstrument::text_policy(text);
        // `-z lazy`: the pointer is there when the hook is reached.
        let file = source(&folder, &format!("{name}.s"), &code());
        let library =
            Library::open(&shared("gcc", &file, &format!("{name}.so"), &["-Wl,-z,lazy", "-Wl,--no-relax"]));
        let before = finstrument::stats();
        let mut split_calls = 0;
        for form in ["direct", "relaxed", "through"] {
            for offset in 0..8 {
                let function = library.function(&format!("{form}_{offset}"));
                let site = library.symbol(&format!("site_{form}_{offset}")).cast::<u8>().cast_const();
                assert_eq!(site.addr() % 8, offset, "{form}_{offset}");
                let original = bytes(site);
                assert_eq!(function(0), offset as u64);
                if text == TextPolicy::Sealed {
                    assert_eq!(bytes(site), original, "it waits");
                    assert_eq!(function(0), offset as u64);
                }
                let (at, len) = if form == "through" { (1, 6) } else { (0, 5) };
                assert_eq!(original[0], if form == "through" { 0xff } else { 0xe8 });
                split_calls += usize::from(offset + len > 8);
                let latent = bytes(site);
                let is_switched = offset + len > 8;
                if is_switched {
                    assert_switched_off(original, latent, offset, len, site);
                } else {
                    assert_eq!(latent[at..at + 5], NOP5, "{form}_{offset}");
                    assert_eq!((latent[0] == 0x67, latent[5] == original[5]), (at == 1, at == 0));
                }
                assert_eq!(function(0), offset as u64);

                let hits = select(&format!("{form}_{offset}")).unwrap().attach(Count::new()).unwrap();
                assert_eq!(
                    (hits.report().patched(), hits.report().refused()),
                    (1, 0),
                    "{form}_{offset}: {}",
                    hits.report()
                );
                assert_eq!(hits.probes()[0].sites(), 1);
                let active = bytes(site);
                if is_switched {
                    assert_eq!(active, original, "{form}_{offset}");
                } else {
                    assert_eq!((active[at], active[0] == 0x67), (0xe8, at == 1), "{form}_{offset}");
                }
                for _ in 0..3 {
                    assert_eq!(function(0), offset as u64);
                }
                assert_eq!(hits.total(), 3, "{form}_{offset}");
                assert_eq!(hits.pause().patched(), 1);
                assert_eq!(bytes(site), latent);
                assert_eq!((function(0), hits.total()), (offset as u64, 3));
                assert_eq!(hits.resume().patched(), 1);
                assert_eq!((bytes(site), function(0), hits.total()), (active, offset as u64, 4));
                drop(hits);
                assert_eq!(bytes(site), latent);
            }
        }
        let stats = finstrument::stats();
        assert_eq!(stats.discovered - before.discovered, 24);
        assert_eq!(stats.patched - before.patched, 24);
        assert_eq!(stats.split_calls - before.split_calls, split_calls);
        assert_eq!((stats.unpatched, stats.waiting, stats.postponed, stats.lost), (0, 0, 0, 0));
        finstrument::text_policy(TextPolicy::Sealed);
        library.close();
    }
}
