//! The general registers, and their names.

/// A general register, by its number in the instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(u8);

impl Register {
    pub(super) const RAX: Self = Self(0);
    pub(super) const RCX: Self = Self(1);
    pub(super) const RDX: Self = Self(2);
    pub(super) const RBX: Self = Self(3);
    pub(super) const RSP: Self = Self(4);
    pub(super) const RBP: Self = Self(5);
    pub(super) const RSI: Self = Self(6);
    pub(super) const RDI: Self = Self(7);
    /// The registers that a called function may change.
    pub(super) const CALLER_SAVED: [Self; 9] =
        [Self(0), Self(1), Self(2), Self(6), Self(7), Self(8), Self(9), Self(10), Self(11)];

    pub(super) fn number(self) -> usize {
        usize::from(self.0)
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..16).map(Self)
    }

    /// Returns the register that `%rdi`, `%r8`… name: all of its 64 bits.
    pub(super) fn whole(operand: &str) -> Option<Self> {
        const NAMES: [&str; 16] = [
            "%rax", "%rcx", "%rdx", "%rbx", "%rsp", "%rbp", "%rsi", "%rdi", "%r8", "%r9", "%r10", "%r11",
            "%r12", "%r13", "%r14", "%r15",
        ];
        NAMES.iter().zip(0..).find_map(|(name, number)| (*name == operand).then_some(Self(number)))
    }

    /// Returns the register of `%edi`, `%r8d`…: the lower half. A write to it clears the upper
    /// half.
    pub(super) fn half(operand: &str) -> Option<Self> {
        if let Some(name) = operand.strip_prefix("%e") {
            return Self::whole(&format!("%r{name}"));
        }
        Self::whole(operand.strip_suffix('d').filter(|it| it.starts_with("%r"))?).filter(|it| it.0 >= 8)
    }

    /// Returns the register of which an operand names any part.
    pub(super) fn any(operand: &str) -> Option<Self> {
        if let Some(register) = Self::whole(operand).or_else(|| Self::half(operand)) {
            return Some(register);
        }
        let number = match operand.strip_prefix('%')? {
            "ax" | "al" | "ah" => 0,
            "cx" | "cl" | "ch" => 1,
            "dx" | "dl" | "dh" => 2,
            "bx" | "bl" | "bh" => 3,
            "sp" | "spl" => 4,
            "bp" | "bpl" => 5,
            "si" | "sil" => 6,
            "di" | "dil" => 7,
            name => {
                let digits = name.strip_prefix('r')?.trim_end_matches(['b', 'w', 'd', 'l']);
                digits.parse().ok().filter(|number| (8..16).contains(number))?
            }
        };
        Some(Self(number))
    }
}
