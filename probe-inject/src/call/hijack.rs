//! Leading a stopped thread to other code, from which it returns by itself.

use super::gadgets::Code;
use super::safe_point::{Look, NotNow, repeat};
use super::signal_frame::frame;
use super::xstate::size_of;
use crate::error::InjectError;
use crate::process::{Registers, Thread};

/// Signals that stay as they are during the call: those that an instruction raises, which would end
/// the process if they were blocked, and the one by which the C library changes the user of all
/// threads (33), which waits for each of them. The one that cancels a thread (32) is blocked: its
/// sender does not wait, and a thread that is cancelled would leave the call halfway.
const NOT_BLOCKED: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30 | 1 << 32;
/// Trap after each instruction, direction, alignment: off when a function is called.
const FLAGS_OFF: u64 = 1 << 8 | 1 << 10 | 1 << 16 | 1 << 18;

/// Stops a thread, and leads it to other code if that is possible now. The error inside is the
/// reason why not.
pub fn lead(
    look: &Look<'_>,
    thread: &Thread,
    code: Code,
    busy: Option<u64>,
    told: &(dyn Fn(&mut Registers) + Sync),
) -> Result<Result<(), &'static str>, InjectError> {
    let led = match look.stop(thread) {
        Ok(moment) => {
            let made = frame(&moment.registers, moment.mask, moment.extended, code.restorer, size_of);
            let Some(frame) = made else {
                let problem = "has an extended state that this processor does not explain".to_owned();
                return Err(InjectError::Unable { pid: look.pid, problem });
            };
            let mut registers = Registers { orig_rax: u64::MAX, rsp: frame.address, ..moment.registers };
            registers.eflags &= !FLAGS_OFF;
            told(&mut registers);
            let set = || {
                look.memory.write(frame.address, &frame.bytes)?;
                if let Some(busy) = busy {
                    look.memory.write(busy, &u64::from(look.id).to_le_bytes())?;
                }
                thread.set_registers(&registers)
            };
            if let Err(error) = set() {
                if let Some(busy) = busy {
                    // Nothing has happened, so the memory is free.
                    let _ = look.memory.write(busy, &0_u64.to_le_bytes());
                }
                return Err(InjectError::System { pid: look.pid, step: "a thread can't be changed", error });
            }
            // Without, a handler may run meanwhile, as during any call.
            let _ = thread.set_mask(moment.mask | !NOT_BLOCKED);
            Ok(())
        }
        Err(NotNow(why, true)) => Err(why),
        // It can't be let go, and is when this thread ends.
        Err(NotNow(why, false)) => return Ok(Err(why)),
    };
    if led.is_err() {
        repeat(look.pid, look.id, thread);
    }
    // One that has ended needs nothing.
    let _ = thread.let_go();
    Ok(led)
}
