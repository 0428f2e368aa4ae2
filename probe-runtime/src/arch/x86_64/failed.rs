//! The hit of a site whose captures have panicked.

// Safety: relies on its argument being a probe's stub.
#![expect(unsafe_code, reason = "see above")]

use crate::abi::Value;

/// As many as a probe has fields at most.
const VALUES: &[Value<'static>; 32] = &[Value::FAILED; 32];

/// Calls the stub of a probe with fields as its cold block would, with values that say what happened. Both places for values
/// (docs/abi.md, "Values") are filled, whatever their number.
#[cold]
#[inline(never)]
pub fn failed(stub: extern "C" fn()) {
    let [first, _] = Value::FAILED.words;
    crate::__private::v1::call! {
        [in(reg) stub],
        [
            "sub rsp, 192",
            "mov [rsp], {ty}", "mov [rsp + 8], {zero}", "mov [rsp + 16], {zero}",
            "mov [rsp + 24], {ty}", "mov [rsp + 32], {zero}", "mov [rsp + 40], {zero}",
            "mov [rsp + 56], {values}"
        ],
        ["add rsp, 192"],
        [ty = in(reg) Value::FAILED.ty, zero = in(reg) first, values = in(reg) VALUES.as_ptr(),]
    }
}
