//! Calls of hooks that tell their function for certain, and can be switched by one write.
//! `coldpatch` makes sites of them, and `--ptrace` counts them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use probe_coldpatch::{Call, Probe};
use probe_hooks::{Description, Extents, Form, HookUse, ObjectFile, demangled_path};

use crate::elf::{HookCalls, Image, Pointer, Problem, usize_of};

/// Why the calls of a file are not certain that lacks its symbols, after its name.
pub const NO_SYMBOLS: &str = "has no symbols, which tell its functions: coldpatch it before `strip`, or put its debug \
     file beside it";

/// Why a call whose code is not understood stays a call.
const UNCLEAR: &str = "in code that is not understood";

/// The calls of a file, and the probes that they become.
#[derive(Default)]
pub struct CertainCalls {
    /// The probes.
    pub probes: Vec<Probe>,
    /// The calls, each with the number of its probe, ascending.
    pub calls: Vec<Call>,
    /// The addresses of all others, by the reason.
    pub others: BTreeMap<&'static str, Vec<u64>>,
    /// How many further places may be calls.
    pub unclear: u64,
}

impl CertainCalls {
    /// Chooses a file's calls. `obstacle` returns why a call that tells its function can't be
    /// switched. `symbols` is the same file.
    ///
    /// # Errors
    /// If the file has no symbols, and the system's.
    pub fn of(
        image: &Image,
        found: &HookCalls<'_>,
        symbols: &ObjectFile,
        obstacle: impl Fn(&Call) -> Option<&'static str>,
    ) -> Result<Self, Problem> {
        if !symbols.extents().is_some_and(Extents::are_whole) {
            return Err(Problem::Unsuitable(NO_SYMBOLS.to_owned()));
        }
        let mut certain = Self { unclear: found.unclear, ..Self::default() };
        let (mut functions, mut known) = (BTreeMap::<_, Description>::new(), HashMap::new());
        let mut uses: Vec<_> = found.functions.iter().flatten().collect();
        uses.sort_by_key(|it| it.at);
        for it in uses {
            let call = call(it);
            if let Some(reason) = uncertainty(it).or_else(|| obstacle(&call)) {
                certain.others.entry(reason).or_default().push(call.addr);
                continue;
            }
            let function = it.functions[0];
            let described = match functions.entry(function) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(entry) => entry.insert(match found.function(function)? {
                    Some(Pointer::Here(addr)) if image.is_code(addr, 1) => symbols.describe(usize_of(addr)),
                    Some(Pointer::Elsewhere(name)) => {
                        symbols.describe_site(it.at, Some(demangled_path(&name)))
                    }
                    _ => symbols.describe_site(it.at, None),
                }),
            };
            let probe = Probe {
                kind: it.kind,
                path: described.path.clone(),
                file: described.file.clone(),
                line: described.line,
            };
            let number = *known.entry(probe).or_insert_with_key(|probe| {
                certain.probes.push(probe.clone());
                certain.probes.len() - 1
            });
            certain.calls.push(Call { probe: number, ..call });
        }
        Ok(certain)
    }

    /// Returns how many others there are, and why; `None` if there are none.
    pub fn told_others(&self) -> Option<String> {
        let text = told(self.others.iter().map(|(reason, all)| (*reason, all.len() as u64)), self.unclear);
        (!text.is_empty()).then_some(text)
    }
}

/// Returns the numbers of calls that stay calls, with their reasons.
pub fn told(others: impl Iterator<Item = (&'static str, u64)>, unclear: u64) -> String {
    let unclear = (unclear != 0).then_some((UNCLEAR, unclear));
    let texts = others.chain(unclear).map(|(reason, many)| format!("{many} ({reason})"));
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns the call as the writer of files takes it, without its probe.
fn call(it: &HookUse) -> Call {
    let is_jump = matches!(it.form, Form::Jump | Form::JumpRegister | Form::ConditionalJump);
    Call { addr: it.at as u64, len: it.len, is_jump, probe: 0 }
}

/// Returns why nobody can switch a call by one write, or name its function.
fn uncertainty(it: &HookUse) -> Option<&'static str> {
    match it.form {
        Form::CallRegister | Form::JumpRegister => {
            Some("through a register, which leaves no room for a site")
        }
        Form::ConditionalJump => Some("a conditional jump"),
        Form::Jump if it.len < 5 => Some("a short jump, which leaves no room for a site"),
        _ if it.functions.len() > 1 => Some("for several functions"),
        _ if it.functions.is_empty() || !it.are_all => Some("the code does not tell the function"),
        Form::Call | Form::Jump => None,
    }
}
