//! The probes that a file's calls of the hooks of `-finstrument-functions` become while it runs.
//!
//! An agent that looks ahead in the running program has the same ones: `probe_hooks` decodes calls,
//! chooses their functions and names these for both.

use std::path::Path;
use std::sync::Arc;

use probe_core::Kind;
use probe_hooks::{Description, Form, HookUse, ObjectFile, ResolvedUse, assign, demangled_path};
use probe_lang::Selectable;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::elf::{ElfError, HookCalls, Hooks, Image, Pointer, Problem, TailJump, usize_of};
use crate::text::count;

/// Functions that are named with the same debug information in memory.
pub(crate) const FUNCTIONS_AT_ONCE: usize = 1 << 14;
/// Bytes of names that any file may have.
const MIN_TEXT_BUDGET: usize = 1 << 22;

/// The instruction of a call site of a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HookSite {
    /// Its address.
    pub addr: u64,
    /// Its length, in bytes.
    pub len: usize,
    /// The name of its instruction in tables.
    pub instruction: &'static str,
    /// How the runtime switches it. If it does not, the call stays, and the hook decides.
    pub switched_by: &'static str,
}

/// A probe-to-be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookProbe {
    /// The function's path.
    pub path: Arc<str>,
    /// Entry or exit.
    pub kind: Kind,
    /// The source file, or the program's file if no debug information tells.
    pub file: Arc<str>,
    /// The line; 0 if it is not known.
    pub line: u32,
    /// The calls, or the jumps.
    pub sites: Vec<HookSite>,
    /// Its state in lists.
    pub state: &'static str,
}

/// The state of a probe-to-be of hooks.
const STATE: &str = "hook";

impl HookSite {
    fn new(addr: u64, len: usize, form: Form, is_switched: bool) -> Self {
        let instruction = match form {
            Form::Call | Form::CallRegister => "call",
            Form::Jump | Form::JumpRegister => "jmp",
            Form::ConditionalJump => "jcc",
        };
        let switched_by = if is_switched { "one write" } else { Self::STAYS };
        Self { addr, len, instruction, switched_by }
    }

    /// How a call is switched that stays a call.
    const STAYS: &str = "nothing";

    /// Returns whether the runtime can switch it.
    pub fn is_switched(&self) -> bool {
        self.switched_by != Self::STAYS
    }
}

/// The probes-to-be of a file.
#[derive(Debug)]
pub struct HookProbes {
    /// The hooks that the calls lead to.
    pub hooks: Hooks,
    /// Whether one function is both hooks, so that the order of calls tells entries from exits.
    pub are_one: bool,
    /// The probes, in no order.
    pub probes: Vec<HookProbe>,
    /// How many calls and jumps there are, with those below.
    pub calls: u64,
    /// How many of them do not tell their function. Its first hit does.
    pub untold: u64,
    /// How many places may be further ones, in code that is not understood.
    pub unclear: u64,
}

/// A function whose address a hook is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Function {
    Here(u64),
    /// A function of another object, by the number of its name.
    Elsewhere(usize),
}

impl HookProbes {
    /// Returns notes about the calls of the file with this name.
    pub fn notes(&self, name: &str) -> Vec<String> {
        let calls = count(self.calls, "call");
        let mut notes =
            vec![format!("{name} has {calls} of the hooks of -finstrument-functions; {}", self.hooks.fate())];
        if self.are_one {
            notes.push(
                "one function is both hooks here, so the order of calls tells entries from exits".to_owned(),
            );
        }
        if self.untold != 0 {
            let calls = count(self.untold, "call");
            notes.push(format!("{calls} of these do not tell their function, so that they become probes when they are executed"));
        }
        if self.unclear != 0 {
            let calls = count(self.unclear, "call");
            notes.push(format!("{calls} of these may be none: they are in code that is not understood"));
        }
        notes
    }

    /// Returns the number of sites.
    pub fn sites(&self) -> u64 {
        self.probes.iter().map(|probe| probe.sites.len() as u64).sum()
    }
}

impl Function {
    /// Returns whether it is in the file's code.
    fn is_own(self, image: &Image) -> bool {
        matches!(self, Self::Here(addr) if image.is_code(addr, 1))
    }
}

impl HookProbes {
    /// Returns a file's probes-to-be; `None` if it does not call hooks.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn of(path: &Path, image: &Image) -> Result<Option<Self>, ElfError> {
        Self::read(path, image).map_err(|problem| image.error(problem))
    }

    fn read(path: &Path, image: &Image) -> Result<Option<Self>, Problem> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut object = ObjectFile::new(path.clone(), path, 0, true);
        let Some(calls) = HookCalls::of(image, &object)? else { return Ok(None) };
        let mut names = Names::default();
        let mut decoded = Vec::with_capacity(calls.functions.len());
        for uses in &calls.functions {
            let told = uses.iter().map(|it| Ok((it, names.told(it, &calls)?)));
            decoded.push(told.collect::<Result<Vec<_>, Problem>>()?);
        }
        let assigned = assign(decoded);
        let untold = assigned.iter().filter(|(_, functions)| functions.is_empty()).count() as u64;
        let mut tails: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for TailJump { kind, jump, starts } in &calls.tail_jumps {
            if let Some(Pointer::Here(function)) = calls.function(jump.function)?
                && starts.contains(&function)
            {
                let (addr, len) = (jump.at as u64, jump.bytes.len());
                let site = HookSite::new(addr, len, Form::Jump, true);
                tails.entry((Function::Here(function), *kind)).or_default().push(site);
            }
        }
        let found = sites(&assigned, &tails, image);
        let probes = named(found, &mut object, &names, image)?;
        let (hooks, are_one, unclear, calls) = (calls.hooks, calls.are_one, calls.unclear, calls.count());
        Ok(Some(Self { hooks, are_one, probes, calls, untold, unclear }))
    }
}

/// The names of functions of other objects.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    numbers: FxHashMap<String, usize>,
}

impl Names {
    /// Returns the functions that a use may be made for.
    fn told(&mut self, hook_use: &HookUse, calls: &HookCalls<'_>) -> Result<Vec<Function>, Problem> {
        let mut told = Vec::new();
        for value in &hook_use.functions {
            told.extend(calls.function(*value)?.map(|function| match function {
                Pointer::Here(addr) => Function::Here(addr),
                Pointer::Elsewhere(name) => Function::Elsewhere(self.number(name)),
            }));
        }
        told.sort_unstable();
        told.dedup();
        Ok(told)
    }

    fn number(&mut self, name: String) -> usize {
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.all.push(name.clone());
            self.all.len() - 1
        })
    }
}

/// A call site that becomes a part of a probe.
struct Found {
    function: Function,
    kind: Kind,
    /// The address that names a function of another object.
    text: u64,
    sites: Vec<HookSite>,
}

/// Returns what the runtime discovers: each call, and each function with uses that it can't tell
/// apart.
fn sites(
    assigned: &[ResolvedUse<'_, (Function, usize)>],
    tails: &FxHashMap<(Function, Kind), Vec<HookSite>>,
    image: &Image,
) -> Vec<Found> {
    let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
    for (hook_use, functions) in assigned {
        let is_call = hook_use.form == Form::Call;
        for (number, (function, at)) in functions.iter().enumerate() {
            let (function, kind) = (*function, hook_use.kind);
            let is_switched = is_call && functions.len() == 1;
            let site = HookSite::new(hook_use.at as u64, hook_use.len, hook_use.form, is_switched);
            // The first one owns the call.
            let (sites, text) = if is_call && number == 0 {
                (vec![site], site.addr + (site.len - 5) as u64)
            } else if seen.insert((function, kind)) {
                let tails = tails.get(&(function, kind)).filter(|_| function.is_own(image));
                (tails.cloned().unwrap_or_else(|| vec![site]), *at as u64)
            } else {
                continue;
            };
            found.push(Found { function, kind, text, sites });
        }
    }
    found
}

/// Names functions, and makes probes of those with the same names.
fn named(
    found: Vec<Found>,
    object: &mut ObjectFile,
    names: &Names,
    image: &Image,
) -> Result<Vec<HookProbe>, Problem> {
    let described = describe(&found, object, names, image)?;
    let mut probes = ProbesWithSites::new(STATE);
    for Found { function, kind, sites, .. } in found {
        if let Some(described) = described.get(&function) {
            probes.add(described.clone(), kind, sites);
        }
    }
    Ok(probes.all)
}

/// Path, file and line.
type Described = (Arc<str>, Arc<str>, u32);

/// Probes-to-be, each once, with all of its sites.
pub(crate) struct ProbesWithSites {
    pub(crate) all: Vec<HookProbe>,
    numbers: FxHashMap<(Described, Kind), usize>,
    state: &'static str,
}

impl ProbesWithSites {
    /// Begins without probes. Those to come have this state.
    pub(crate) fn new(state: &'static str) -> Self {
        Self { all: Vec::new(), numbers: FxHashMap::default(), state }
    }

    /// Adds sites of a probe.
    pub(crate) fn add(
        &mut self,
        described: Described,
        kind: Kind,
        sites: impl IntoIterator<Item = HookSite>,
    ) {
        let Self { all, numbers, state } = self;
        let number = *numbers.entry((described, kind)).or_insert_with_key(|((path, file, line), kind)| {
            let (path, file) = (Arc::clone(path), Arc::clone(file));
            all.push(HookProbe { path, kind: *kind, file, line: *line, sites: Vec::new(), state });
            all.len() - 1
        });
        all[number].sites.extend(sites);
    }
}

/// Texts, each once.
struct Texts {
    all: FxHashSet<Arc<str>>,
    /// Bytes of further texts. Symbols may share those of the file.
    budget: usize,
}

impl Texts {
    fn describe(&mut self, Description { path, file, line }: &Description) -> Result<Described, Problem> {
        Ok((self.shared(path)?, self.shared(file)?, *line))
    }

    fn shared(&mut self, text: &str) -> Result<Arc<str>, Problem> {
        if let Some(known) = self.all.get(text) {
            return Ok(Arc::clone(known));
        }
        self.budget = self.budget.checked_sub(text.len()).ok_or_else(|| {
            Problem::Damaged("its functions have far more names than the file: they share them".to_owned())
        })?;
        let text: Arc<str> = text.into();
        self.all.insert(Arc::clone(&text));
        Ok(text)
    }
}

/// Describes functions: own ones where they are, the others where they are first called here, as
/// the runtime does.
fn describe(
    found: &[Found],
    object: &mut ObjectFile,
    names: &Names,
    image: &Image,
) -> Result<FxHashMap<Function, Described>, Problem> {
    // A separate file has the names of a stripped one.
    let budget = usize_of(image.length()).saturating_mul(8);
    let mut texts = Texts { all: FxHashSet::default(), budget: budget.max(MIN_TEXT_BUDGET) };
    let mut described = FxHashMap::default();
    let mut own: Vec<_> = found.iter().map(|it| it.function).filter(|it| it.is_own(image)).collect();
    own.sort_unstable();
    own.dedup();
    for part in own.chunks(FUNCTIONS_AT_ONCE) {
        for function in part {
            let Function::Here(addr) = *function else { continue };
            described.insert(*function, texts.describe(&object.describe(usize_of(addr)))?);
        }
        object.release();
    }
    // An entry describes its function better than an exit, which may be in code of another one.
    let mut others: Vec<_> = found.iter().filter(|it| !it.function.is_own(image)).collect();
    others.sort_by_key(|it| (it.kind == Kind::Exit, it.text));
    for it in others {
        if described.contains_key(&it.function) {
            continue;
        }
        let name = match it.function {
            Function::Elsewhere(number) => names.all.get(number).map(|name| demangled_path(name)),
            Function::Here(_) => None,
        };
        described.insert(it.function, texts.describe(&object.describe_site(usize_of(it.text), name))?);
    }
    Ok(described)
}

impl Selectable for HookProbe {
    fn path(&self) -> &str {
        &self.path
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn file(&self) -> &str {
        &self.file
    }

    fn line(&self) -> u32 {
        self.line
    }
}
