//! One site through all its states.

use std::fs;
use std::ops::RangeInclusive;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use probe_runtime::patch::PatchError;
use probe_runtime::patch::call::CallOptions;

use super::{CALLEES, CallSite, FIRST};

const NONE: RangeInclusive<usize> = 0..=3;
const DISTANCE: RangeInclusive<usize> = 4..=6;
const OPCODE: usize = 7;

/// Takes a site through its states and back. Checks after each step the returned value, the result
/// of its function, its bytes and their meaning, and that no other byte of its block has changed.
///
/// # Panics
/// If a check fails.
pub fn walk(site: CallSite, options: CallOptions) {
    let block = site.block;
    let before = block.bytes();
    let assert_around = || {
        let mut after = block.bytes();
        let at = site.addr - block.start;
        after[at..at + 5].copy_from_slice(&before[at..at + 5]);
        assert!(after == before, "{site:x?}: another byte has changed");
    };
    let assert_active = |is_jump: bool, callee: usize| {
        assert_eq!(site.run(), callee, "{site:x?}");
        assert_eq!(site.bytes(), site.instruction(is_jump, block.callee(callee)), "{site:x?}");
        let decoded = decode(site);
        assert_eq!(decoded.mnemonic(), if is_jump { Mnemonic::Jmp } else { Mnemonic::Call });
        assert_eq!((decoded.len(), target(&decoded)), (5, block.callee(callee)));
        assert_around();
    };
    let activate = |is_jump: bool, callee: usize| activate(site, options, is_jump, block.callee(callee));
    // SAFETY: a site of a block; its function does not need what the callee does.
    let deactivate = || unsafe { options.deactivate_call(site.addr) };
    let assert_latent = |is_jump: bool, callee: usize| {
        assert_eq!(site.run(), 0, "{site:x?}");
        assert_is_latent(site, is_jump, callee);
        assert_around();
    };
    let (same_tail, other_tail) = site.others();

    // There and back.
    assert_active(site.is_jump, FIRST);
    assert!(!activate(site.is_jump, FIRST).unwrap());
    assert!(deactivate().unwrap());
    assert_latent(site.is_jump, FIRST);
    assert!(!deactivate().unwrap());
    assert_latent(site.is_jump, FIRST);
    assert!(activate(site.is_jump, FIRST).unwrap());
    assert_active(site.is_jump, FIRST);

    // To another target, from active and from latent.
    assert!(activate(site.is_jump, same_tail).unwrap());
    assert_active(site.is_jump, same_tail);
    assert!(deactivate().unwrap());
    assert_latent(site.is_jump, same_tail);
    assert!(activate(site.is_jump, FIRST).unwrap());
    assert_active(site.is_jump, FIRST);
    for is_latent in [false, true] {
        if is_latent {
            assert!(deactivate().unwrap());
        }
        let there = site.bytes();
        let result = activate(site.is_jump, other_tail);
        if DISTANCE.contains(&site.offset()) {
            let wanted = site.instruction(site.is_jump, block.callee(other_tail));
            let error = result.unwrap_err();
            let PatchError::Tail { addr, target, expected, found } = &error else { panic!("{error}") };
            assert_eq!((*addr, *target), (site.addr, block.callee(other_tail)));
            assert_eq!((&**expected, &**found), (&wanted[2..], &there[2..]));
            assert_eq!(site.bytes(), there);
        } else {
            assert!(result.unwrap());
            assert_active(site.is_jump, other_tail);
        }
        let is_elsewhere = is_latent || !DISTANCE.contains(&site.offset());
        assert_eq!(activate(site.is_jump, FIRST).unwrap(), is_elsewhere);
        assert_active(site.is_jump, FIRST);
    }

    // CALL to JMP or the other way, from active and from latent.
    for is_latent in [false, true] {
        if is_latent {
            assert!(deactivate().unwrap());
        }
        let there = site.bytes();
        let result = activate(!site.is_jump, FIRST);
        if site.offset() == OPCODE {
            let error = result.unwrap_err();
            let PatchError::Opcode { addr, expected, found } = error else { panic!("{error}") };
            assert_eq!((addr, found, expected), (site.addr, there[0], there[0] ^ 1));
            assert_eq!(site.bytes(), there);
            assert_eq!(activate(site.is_jump, FIRST).unwrap(), is_latent);
        } else {
            assert!(result.unwrap());
            assert_active(!site.is_jump, FIRST);
            assert!(deactivate().unwrap());
            assert_latent(!site.is_jump, FIRST);
            assert!(activate(site.is_jump, FIRST).unwrap());
        }
        assert_active(site.is_jump, FIRST);
    }

    // A CALL of five bytes does not lead there.
    let far = site.addr + 5 + 0x8000_0000;
    // SAFETY: it is refused.
    let error = unsafe { options.activate_call(site.addr, far) }.unwrap_err();
    assert!(matches!(error, PatchError::OutOfReach { addr, target } if (addr, target) == (site.addr, far)));
    assert_active(site.is_jump, FIRST);
    assert!(block.bytes() == before);
}

/// Makes a site a CALL or JMP.
///
/// # Errors
/// The engine's.
///
/// # Panics
/// If the target is not a callee of its block.
pub fn activate(
    site: CallSite,
    options: CallOptions,
    is_jump: bool,
    target: usize,
) -> Result<bool, PatchError> {
    assert!((0..CALLEES).any(|callee| site.block.callee(callee) == target));
    // SAFETY: a site of a block, and one of its callees, which returns to whoever called the site's
    // function or the site.
    unsafe {
        if is_jump {
            options.activate_jump(site.addr, target)
        } else {
            options.activate_call(site.addr, target)
        }
    }
}

/// That the site's bytes are those of a deactivated one, which has led to `callee`, and mean that.
fn assert_is_latent(site: CallSite, is_jump: bool, callee: usize) {
    let bytes = site.bytes();
    let decoded = decode(site);
    if NONE.contains(&site.offset()) {
        assert_eq!(bytes, [0x0f, 0x1f, 0x44, 0x00, 0x08]);
        assert_eq!((decoded.mnemonic(), decoded.len()), (Mnemonic::Nop, 5));
    } else if DISTANCE.contains(&site.offset()) {
        assert_eq!(bytes[..2], [0xeb, 0x03]);
        assert_eq!(bytes[2..], site.instruction(is_jump, site.block.callee(callee))[2..]);
        assert_eq!((decoded.mnemonic(), decoded.len()), (Mnemonic::Jmp, 2));
        assert_eq!(target(&decoded), site.addr + 5);
    } else if is_jump {
        assert_eq!(bytes, [0xe9, 0, 0, 0, 0]);
        assert_eq!((decoded.mnemonic(), decoded.len()), (Mnemonic::Jmp, 5));
        assert_eq!(target(&decoded), site.addr + 5);
    } else {
        assert_eq!((decoded.mnemonic(), decoded.len()), (Mnemonic::Call, 5));
        let ret = target(&decoded);
        // SAFETY: code, which is called.
        assert_eq!(unsafe { *(ret as *const u8) }, 0xc3);
        assert_eq!(rights(ret), "r-xp", "never writable and executable at once");
    }
}

/// The instruction at a site.
fn decode(site: CallSite) -> Instruction {
    let bytes = site.bytes();
    let decoded = Decoder::with_ip(64, &bytes, site.addr as u64, DecoderOptions::NONE).decode();
    assert!(!decoded.is_invalid(), "{site:x?}: {bytes:02x?}");
    decoded
}

fn target(instruction: &Instruction) -> usize {
    usize::try_from(instruction.near_branch_target()).expect("an address")
}

/// The rights of the mapping that holds an address.
fn rights(addr: usize) -> String {
    let maps = fs::read_to_string("/proc/self/maps").expect("the process's mappings");
    let mut rights = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let number = |hex| usize::from_str_radix(hex, 16).ok();
        (number(start)?..number(end)?).contains(&addr).then(|| rest[..4].to_owned())
    });
    rights.next().expect("mapped")
}
