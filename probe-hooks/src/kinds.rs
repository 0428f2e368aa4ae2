//! Entries and exits, told apart by their order, where one function is both hooks: the C library's
//! empty ones in a static program are, and a linker that folds equal functions makes them so.
//!
//! A function that is inlined is entered and left, inside of the one around it. So along each path
//! from the beginning, a use for a function that is open there leaves it, and any other enters its
//! function. Where paths meet, the open functions are those of one of them. Code that is reached
//! through a table has those of the nearest jump through a table. A landing pad is reached while
//! the function itself is open, and unknown others. A single use there leaves its function.
//!
//! A function that is inlined into itself can't be told from one that is left and entered again.

use std::collections::{BTreeMap, BTreeSet};

use probe_core::abi::Kind;

use crate::code::{Form, HookUse, RegisterValue};
use crate::flow::{Flow, Fragment};

/// Instructions that are searched for the exit of one entry.
const MAX_STEPS: usize = 1 << 12;

/// Sets the kinds of the uses in a function's fragments.
pub fn tell_apart(fragments: &[Fragment], uses: &mut [HookUse]) {
    let Some(code) = Flow::of(fragments) else { return };
    let uses_at = uses.iter().enumerate().filter_map(|(at, it)| Some((code.number_at(it.at)?, at))).collect();
    let mut walk = Walk {
        code: &code,
        uses,
        uses_at,
        seen: vec![false; code.len()],
        tables: BTreeMap::new(),
        own: None,
    };
    for root in code.beginnings() {
        walk.walk(root, Vec::new(), false);
    }
    for root in 0..code.len() {
        if code.is_reached_from_anywhere(root) && !walk.seen[root] {
            let open = walk.tables.range(..root).next_back().map(|(_, open)| open.clone());
            walk.walk(root, open.unwrap_or_else(|| walk.own.into_iter().collect()), true);
        }
    }
}

struct Walk<'a> {
    code: &'a Flow,
    uses: &'a mut [HookUse],
    /// The uses by the numbers of their instructions.
    uses_at: BTreeMap<usize, usize>,
    seen: Vec<bool>,
    /// The functions that are open at jumps through tables.
    tables: BTreeMap<usize, Vec<RegisterValue>>,
    /// The function that is entered first, around all others.
    own: Option<RegisterValue>,
}

impl Walk<'_> {
    /// Follows the paths from an instruction. If it `is_loose`, other functions may be open there.
    fn walk(&mut self, root: usize, open: Vec<RegisterValue>, is_loose: bool) {
        let mut paths = vec![(root, open)];
        while let Some((mut number, mut open)) = paths.pop() {
            while !std::mem::replace(&mut self.seen[number], true) {
                if let Some(at) = self.uses_at.get(&number) {
                    let kind = self.kind(&self.uses[*at], number, &mut open, is_loose);
                    self.uses[*at].kind = kind;
                    self.own = self.own.or(open.first().copied());
                }
                if self.code.is_table(number) {
                    self.tables.insert(number, open.clone());
                }
                let (next, branch) = self.code.after(number);
                match (next, branch) {
                    (Some(next), branch) => {
                        paths.extend(branch.map(|branch| (branch, open.clone())));
                        number = next;
                    }
                    (None, Some(branch)) => number = branch,
                    (None, None) => break,
                }
            }
        }
    }

    /// Returns the kind of a use, and enters or leaves its function.
    fn kind(&self, hook_use: &HookUse, number: usize, open: &mut Vec<RegisterValue>, is_loose: bool) -> Kind {
        let place = open.iter().rposition(|it| hook_use.functions.contains(it));
        let is_jump = !matches!(hook_use.form, Form::Call | Form::CallRegister);
        let only = if let [only] = hook_use.functions[..] { Some(only) } else { None };
        let is_exit = match only {
            _ if place.is_some() || is_jump => true,
            Some(only) => is_loose && !self.is_used_after(number, only),
            // Functions share the calls by which they are left.
            None => is_loose || !open.is_empty(),
        };
        if is_exit {
            open.truncate(place.unwrap_or(open.len().saturating_sub(usize::from(only.is_none()))));
            return Kind::Exit;
        }
        open.extend(only);
        Kind::Entry
    }

    /// Returns whether a path from an instruction leads to a use for a function.
    fn is_used_after(&self, number: usize, function: RegisterValue) -> bool {
        let (mut paths, mut seen) = (vec![number], BTreeSet::new());
        while let Some(number) = paths.pop() {
            let (next, branch) = self.code.after(number);
            for number in next.into_iter().chain(branch) {
                if !seen.insert(number) {
                    continue;
                }
                let at = self.uses_at.get(&number);
                if at.is_some_and(|at| self.uses[*at].functions.contains(&function)) {
                    return true;
                }
                paths.push(number);
            }
            if seen.len() > MAX_STEPS {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{Target, hook_uses};
    use Kind::{Entry, Exit};
    use proptest::prelude::*;

    /// `lea rdi, […]` of a function, and a call of the hook.
    fn call(at: usize, function: usize) -> Vec<u8> {
        let mut code = vec![0x48, 0x8d, 0x3d];
        code.extend(u32::try_from((function - at - 7) as u64 & 0xffff_ffff).unwrap().to_le_bytes());
        code.push(0xe8);
        code.extend(u32::try_from((0x9000 - at - 12) as u64).unwrap().to_le_bytes());
        code
    }

    /// Returns the kinds of the uses in some parts: the function that a call tells, or other code.
    fn kinds(parts: &[Result<usize, &[u8]>]) -> Vec<Kind> {
        let mut code = Vec::new();
        for part in parts {
            match part {
                Ok(function) => code.extend(call(0x1000 + code.len(), *function)),
                Err(other) => code.extend_from_slice(other),
            }
        }
        let fragments = [Fragment { addr: 0x1000, code }];
        let is_hook = |target| (target == Target::Direct(0x9000)).then_some(Entry);
        let mut uses = hook_uses(&fragments, is_hook).unwrap();
        tell_apart(&fragments, &mut uses);
        uses.into_iter().map(|it| it.kind).collect()
    }

    #[test]
    fn functions_are_left_in_the_order_in_which_they_are_entered() {
        let (own, inlined) = (Ok(0x2000), Ok(0x2100));
        assert_eq!(kinds(&[own, inlined, inlined, own]), [Entry, Entry, Exit, Exit]);
        assert_eq!(
            kinds(&[own, inlined, inlined, inlined, inlined, own]),
            [Entry, Entry, Exit, Entry, Exit, Exit]
        );
        // je over the rest of the first way out
        let ways: [Result<usize, &[u8]>; 6] = [own, Err(&[0x74, 13]), own, Err(&[0xc3]), own, Err(&[0xc3])];
        assert_eq!(kinds(&ways), [Entry, Exit, Exit]);
    }

    #[test]
    fn a_table_leads_to_each_of_its_cases() {
        let (own, inlined) = (Ok(0x2000), Ok(0x2100));
        let table: Result<usize, &[u8]> = Err(&[0xff, 0xe0]);
        let cases =
            [own, table, inlined, inlined, own, Err(&[0xc3][..]), inlined, inlined, own, Err(&[0xc3])];
        assert_eq!(kinds(&cases), [Entry, Entry, Exit, Exit, Entry, Exit, Exit]);
    }

    #[test]
    fn a_landing_pad_leaves_what_was_entered() {
        let (own, inlined) = (Ok(0x2000), Ok(0x2100));
        let end: Result<usize, &[u8]> = Err(&[0xc3]);
        assert_eq!(
            kinds(&[own, inlined, inlined, own, end, inlined, own, end]),
            [Entry, Entry, Exit, Exit, Exit, Exit]
        );
    }

    proptest! {
        #[test]
        fn never_panics(code in proptest::collection::vec(any::<u8>(), 0..64), addr in 0..usize::MAX - 64) {
            let fragments = [Fragment { addr, code }];
            if let Some(mut uses) = hook_uses(&fragments, |_| Some(Entry)) {
                tell_apart(&fragments, &mut uses);
            }
        }
    }
}
