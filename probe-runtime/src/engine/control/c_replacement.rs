//! Functions of C that run another function.

// Safety: relies on callers of `CFunction::find` and `replace`, who promise what no debug
// information tells; on the function's object, which is kept loaded; and on hits at the entry of
// the function alone being led to its thunk.
#![expect(unsafe_code, reason = "see above")]

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;

use super::{Attachment, Consumer, ProbeSet, init, select};
use crate::engine::c_values::{CSignature, FunctionType};
use crate::engine::control::lock::operate;
use crate::engine::dispatch::{Event, Quick, QuickListener, quick};
use crate::engine::entry::backend::diversion::{Target, thunk_to};
use crate::engine::error::Error;
use crate::engine::os::process::has_shadow_stack;
use crate::engine::registry::ProbeId;
use crate::engine::sites::SITE_LEN;
use probe_core::abi::{Convention, Kind};

/// A function of C that has a site at its entry, as `probe-build` and `probe-cc` place it. While a
/// [`CReplacement`] is attached to it, its calls run another function.
///
/// The other function may be of Rust or C. It runs in place of the function: with its arguments,
/// and its result is the call's. It may call the [original](Self::original). Consumers that are
/// attached to the function's entry count calls as before. Its exits are passed only if the
/// original runs.
///
/// ```no_run
/// use std::ffi::{c_char, c_int};
/// use std::sync::OnceLock;
/// use probe_runtime::control::CFunction;
///
/// type Open = extern "C" fn(*const c_char, c_int) -> c_int;
/// static OPEN: OnceLock<CFunction<Open>> = OnceLock::new();
///
/// extern "C" fn open_to_read(path: *const c_char, _mode: c_int) -> c_int {
///     OPEN.get().expect("it was replaced").original()(path, 0)
/// }
///
/// // SAFETY: the program's `open_file` has this type.
/// let open = unsafe { CFunction::<Open>::find("open_file") }?;
/// let open = OPEN.get_or_init(|| open);
/// // SAFETY: each caller can do with a file that is open for reading only.
/// let replaced = unsafe { open.replace(open_to_read) }?;
/// # Ok::<(), probe_runtime::Error>(())
/// ```
///
/// - Calls that the compiler has inlined stay as they are. Callers in the same file may also rely
///   on properties of the function that the compiler has seen: it always returns the same, throws
///   nothing, or writes nothing. gcc's `__attribute__((noipa))` keeps these to itself.
/// - Inside of a consumer, and in handlers that interrupt one, the original runs.
/// - Of several replacements of a function, the newest one runs, and calls the function itself as
///   its original.
/// - The objects of the function and of the replacement stay loaded.
/// - The process has room for 256 different replacements.
///
/// Cost: that of a hit, and of keeping all registers around the other function: gcc's callers know
/// which ones the function leaves alone.
pub struct CFunction<F> {
    /// Its entry.
    set: ProbeSet,
    path: String,
    /// The address of its definition.
    definition: usize,
    /// The address after the site at its entry.
    body: usize,
    ty: PhantomData<fn() -> F>,
}

impl<F: CSignature> CFunction<F> {
    /// Finds a function. The type `F` is checked against the function's debug information, if there
    /// is some: the number of parameters, and the class and size of each and of the result.
    ///
    /// # Safety
    /// The function must have the type `F`: debug information does not tell everything, and may be
    /// missing.
    ///
    /// # Errors
    /// - Those of [`select`](crate::select).
    /// - [`Error::NotReplaceable`] if it names several functions, one without a site of this kind,
    ///   or one of another type; or if nothing tells how the function's callers pass its arguments.
    /// - [`Error::Unpinned`] if the function's object can't be kept loaded.
    pub unsafe fn find(selector: &str) -> Result<Self, Error> {
        let set = select(selector)?;
        init::try_init()?;
        let entries = set.with_definitions(|all| {
            let entries = all.filter(|(_, definition)| definition.kind() == Kind::Entry);
            entries.map(|(id, definition)| (id, definition.path().to_owned())).collect::<Vec<_>>()
        });
        let refuse = |problem: String| Error::NotReplaceable { function: selector.to_owned(), problem };
        let (entry, path) = match &entries[..] {
            [] => return Err(refuse("it has no entry among its probes".to_owned())),
            [one] => one.clone(),
            [(_, first), (_, second), ..] => {
                let count = entries.len();
                let problem =
                    format!("it names {count} functions, such as `{first}` and `{second}`; name one");
                return Err(refuse(problem));
            }
        };
        let place = Self::place(entry).map_err(refuse)?;
        if has_shadow_stack() {
            return Err(refuse("this process has shadow stacks, which forbid it".to_owned()));
        }
        let (definition, body) = place;
        FunctionType::of::<F>().check_at(body - SITE_LEN).map_err(refuse)?;
        init::pin_object_at(definition)?;
        if Self::place(entry) != Ok(place) {
            return Err(refuse("it was unloaded meanwhile".to_owned()));
        }
        let set = ProbeSet::of(vec![entry]);
        Ok(Self { set, path, definition, body, ty: PhantomData })
    }

    /// Returns the addresses of the definition, and of the code after the site.
    fn place(entry: ProbeId) -> Result<(usize, usize), String> {
        let place = operate(|control, loaded| {
            let mut definitions = control.registry.definitions(entry, loaded);
            let (definition, sites) =
                (definitions.next().ok_or("it was unloaded")?, control.registry.sites(entry));
            match sites {
                _ if matches!(definition.convention(), Convention::ColdBlock | Convention::KeptColdBlock) => {
                    Err("it is a function of Rust, which takes `#[probe(replace)]`")
                }
                [site] if definitions.next().is_none() && definition.convention() == Convention::Hidden => {
                    Ok((std::ptr::from_ref(definition).addr(), site.addr.0 + SITE_LEN))
                }
                [] | [_] => Err("it has no site at its entry that probe-build or probe-cc has placed"),
                _ => Err("the program has several copies of it"),
            }
        });
        place.map_err(str::to_owned)
    }

    /// Returns the function itself, which runs no replacement. A call of it passes its exits, and
    /// not its entry.
    pub fn original(&self) -> F {
        // SAFETY: the object is kept loaded, and the caller of `find` has promised the type.
        // Nothing is done between the function's first byte and the address after its site.
        unsafe { F::at(self.body) }
    }

    /// Lets calls run another function until the attachment drops. Calls that are in it then
    /// continue.
    ///
    /// # Safety
    /// The other function must do what the function's callers rely on, on any thread.
    ///
    /// # Errors
    /// - [`Error::Refused`] if the site can't be switched.
    /// - [`Error::NotReplaceable`] if there is no room for another replacement.
    /// - [`Error::Unpinned`] if the other function's object can't be kept loaded.
    pub unsafe fn replace(&self, with: F) -> Result<Attachment<CReplacement>, Error> {
        init::pin_object_at(with.addr())?;
        let ty = FunctionType::of::<F>();
        let target = Target { function: with.addr(), stack_words: ty.stack_words(), result: ty.result_in() };
        let thunk = thunk_to(target).ok_or_else(|| Error::NotReplaceable {
            function: self.path.clone(),
            problem: "this process has used up its room for replacements of C functions".to_owned(),
        })?;
        self.set.attach(CReplacement { definition: self.definition, thunk })
    }
}

/// Lets calls of a [`CFunction`] run another function, while it is attached.
///
/// ```no_run
/// use probe_runtime::Attachment;
/// use probe_runtime::control::{CFunction, CReplacement};
///
/// extern "C" fn no_delay(_milliseconds: u32) {}
///
/// // SAFETY: the program's `delay` has this type, and nobody relies on the time that it takes.
/// let replaced: Attachment<CReplacement> =
///     unsafe { CFunction::<extern "C" fn(u32)>::find("delay")?.replace(no_delay)? };
/// replaced.pause(); // Calls are the function's again.
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct CReplacement {
    /// The address of the function's definition.
    definition: usize,
    thunk: usize,
}

impl QuickListener for CReplacement {
    #[inline(always)]
    fn hit_quickly(&self, event: &Event<'_>) -> bool {
        // SAFETY: `CFunction::replace` has made the thunk, for this function.
        unsafe { event.divert(self.definition, self.thunk) };
        true
    }
}

impl Consumer for CReplacement {
    fn quick(&self) -> Option<Quick> {
        // SAFETY: the quick part is this consumer. It writes one word of the stack.
        Some(unsafe { quick(self) })
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        self.hit_quickly(event);
    }
}

impl<F> fmt::Debug for CFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = format_args!("{}", type_name::<F>());
        f.debug_struct("CFunction").field("path", &self.path).field("type", &ty).finish_non_exhaustive()
    }
}
