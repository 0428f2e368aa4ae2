//! Hijacking a stopped thread: it runs other code, from which it returns by itself.

use super::gadgets::Gadgets;
use super::safe_point::{Inspector, Unsuitable, prepare_detach};
use super::signal_frame::SignalFrame;
use super::xstate::xstate_bytes;
use crate::error::InjectError;
use crate::process::{Registers, Tracee};

/// Signals that stay unblocked during the call: those that an instruction raises, which would end
/// the process if they were blocked, and the one by which the C library changes the user of all
/// threads (33), which waits for each of them. The one that cancels a thread (32) is blocked: its
/// sender does not wait, and a cancelled thread would leave the call halfway.
const UNBLOCKED_SIGNALS: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30 | 1 << 32;
/// Trap after each instruction, direction, resume, alignment check: clear when a function is
/// called.
const CLEARED_FLAGS: u64 = 1 << 8 | 1 << 10 | 1 << 16 | 1 << 18;

/// Stops a thread, and hijacks it if it is at a safe point. `set_call` sets the registers of the
/// other code. `busy` is the address of a word that tells the thread's id from then on. The inner
/// error is the reason why the thread was not hijacked.
pub fn hijack(
    inspector: &Inspector<'_>,
    tracee: &Tracee,
    gadgets: Gadgets,
    busy: Option<u64>,
    set_call: &(dyn Fn(&mut Registers) + Sync),
) -> Result<Result<(), &'static str>, InjectError> {
    let (pid, memory) = (inspector.pid, inspector.memory);
    let hijacked = match inspector.stop(tracee) {
        Ok(point) => {
            let frame =
                SignalFrame::new(&point.registers, point.mask, point.xstate, gadgets.restorer, xstate_bytes);
            let Some(frame) = frame else {
                let problem = "has an extended state that this processor does not explain".to_owned();
                return Err(InjectError::Unable { pid, problem });
            };
            let mut registers = Registers { orig_rax: u64::MAX, rsp: frame.address, ..point.registers };
            registers.eflags &= !CLEARED_FLAGS;
            set_call(&mut registers);
            let set = || {
                memory.write(frame.address, &frame.bytes)?;
                if let Some(busy) = busy {
                    memory.write(busy, &u64::from(inspector.id).to_le_bytes())?;
                }
                tracee.set_registers(&registers)
            };
            if let Err(error) = set() {
                if let Some(busy) = busy {
                    // Nothing has happened, so the memory is free.
                    let _ = memory.write(busy, &0_u64.to_le_bytes());
                }
                return Err(InjectError::System { pid, step: "a thread can't be changed", error });
            }
            // If this fails, a handler may run meanwhile, as during any call.
            let _ = tracee.set_mask(point.mask | !UNBLOCKED_SIGNALS);
            Ok(())
        }
        Err(Unsuitable { why, is_stopped: true }) => {
            prepare_detach(pid, inspector.id, tracee);
            Err(why)
        }
        // The kernel detaches it when this thread ends.
        Err(Unsuitable { why, is_stopped: false }) => return Ok(Err(why)),
    };
    // It fails for a thread that has ended.
    let _ = tracee.detach();
    Ok(hijacked)
}
