//! What the control takes from the hooks: what is there, what is gone, what still waits.

// Safety: relies on the caller being frozen: text that is in a loaded object's segments stays mapped.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::call::Call;
use super::chunk::{self, Place};
use super::discovery::{Discovery, State};
use super::hooks::{self, call_of, patched, published};
use super::naming::{hash, object_at};
use super::reason::Reason;
use super::vanished::Vanished;
use super::{policy, straddlers, table, tails};
use crate::abi::Kind;
use crate::os::objects::{Frozen, Object};
use crate::patch::word::Options;
use crate::patch::{Instruction, NotNow, PatchError, SITE_LEN, TextPolicy};

/// What was discovered, as far as it is named.
#[derive(Default)]
pub(crate) struct Absorbed {
    /// In loaded objects.
    pub(crate) living: Vec<&'static Discovery>,
    /// In objects that are gone, or there once more.
    pub(crate) gone: Vec<Vanished>,
    /// The objects that hold any.
    pub(crate) objects: Vec<Object>,
}

/// Looks at all that was discovered.
pub(crate) fn absorb(frozen: &Frozen) -> Absorbed {
    let mut absorbed = Absorbed::default();
    if published().next().is_none() {
        return absorbed;
    }
    let left = chunk::all().map(Place::discovery).filter(|discovery| discovery.has_left());
    absorbed.gone.extend(left.map(Vanished::new));
    let objects = frozen.every();
    let mut holds = vec![false; objects.len()];
    for place in published() {
        let discovery = place.discovery();
        let object = object_at(&objects, discovery.text());
        match object.filter(|object| is_there(discovery, object)) {
            Some(object) if discovery.object().is_some() => {
                let at = objects.iter().position(|other| ptr::eq(other, object));
                at.into_iter().for_each(|at| holds[at] = true);
                absorbed.living.push(discovery);
                if discovery.is_site() && !discovery.is_settled() {
                    // A hook is at it: the next look finds a site.
                    policy::note();
                }
            }
            // The next look names it.
            Some(_) => policy::note(),
            None => absorbed.gone.extend(vanish(discovery)),
        }
    }
    absorbed.living.sort_by_key(|discovery| discovery.text());
    let held = objects.into_iter().zip(holds).filter(|(_, holds)| *holds);
    absorbed.objects = held.map(|(object, _)| object).collect();
    absorbed
}

/// Whether a discovery speaks of this object: the one that it was named by, with what was made of the call.
pub(super) fn is_there(discovery: &'static Discovery, object: &Object) -> bool {
    if discovery.object().is_some_and(|named| named != hash(object)) {
        return false;
    }
    if discovery.is_switched() && discovery.has_tails() {
        return tails::are_there(discovery, object);
    }
    if let Some(switch) = discovery.switch().filter(|_| discovery.is_switched()) {
        return !matches!(straddlers::is_settled(discovery, switch), Err(NotNow::Changed));
    }
    if !discovery.is_site() {
        return is_call_there(discovery);
    }
    let Some(site) = discovery.site() else { return true };
    // SAFETY: in the text of a loaded object.
    let bytes = unsafe { ptr::read_volatile(site.addr.0 as *const [u8; SITE_LEN]) };
    // What is being switched begins with an `int3`, as does what a debugger has stopped at.
    bytes[0] == 0xcc || [Instruction::NOP5, site.active].contains(&Instruction::from_bytes(bytes))
}

/// Whether a real call is still the one that was found. An object that lies in the place of the one that it was found in has another.
fn is_call_there(discovery: &'static Discovery) -> bool {
    let Some((returns, call)) = discovery.returns().zip(discovery.call()) else { return true };
    let hook = hooks::address(discovery.hit().kind == Kind::Entry);
    if call_of(returns, hook) == Some(call) {
        return true;
    }
    let (at, _) = call.instruction();
    // SAFETY: in the text of a loaded object. Somebody stops there, if it is an `int3`.
    let is_stopped = unsafe { ptr::read_volatile(at as *const u8) } == 0xcc;
    // In this order: a hook that has changed it is busy until it says so.
    is_stopped || discovery.is_busy() || discovery.is_patched()
}

fn vanish(discovery: &'static Discovery) -> Option<Vanished> {
    // Where a hook is faster, and puts the new object's in its place, that one says that it has left.
    let entry = table::find(discovery.key())?;
    entry.replace(Some(discovery), None).is_ok().then(|| Vanished::new(discovery))
}

/// Whether something still waited when the last operation was done with it.
static UNFINISHED: AtomicBool = AtomicBool::new(false);

/// Patches what waits, with all that a hook may not do. Where there is no news, and nothing was left, it does not look.
pub(crate) fn patch_waiting(frozen: &Frozen) {
    let has_news = policy::has_news();
    if !UNFINISHED.swap(false, Ordering::Relaxed) && !has_news {
        return;
    }
    patch_all(frozen, has_news);
}

fn patch_all(frozen: &Frozen, has_news: bool) {
    let waits = |discovery: &Discovery| match discovery.state() {
        // Memory may have been short for a moment.
        State::Waiting | State::Kept(Reason::Protected { errno: libc::ENOMEM | libc::EAGAIN }) => true,
        State::Kept(Reason::Protected { .. }) => policy::text() == TextPolicy::Alias,
        State::Kept(Reason::Straddles) => policy::text() != TextPolicy::Alias,
        // Loaded anew, or a hook could not do it.
        State::Patched => {
            has_news && discovery.is_switched() && (straddlers::may_write() || discovery.has_tails())
        }
        State::Kept(_) => false,
    };
    let waiting: Vec<&'static Discovery> = published().map(Place::discovery).filter(|it| waits(it)).collect();
    if waiting.is_empty() {
        return;
    }
    let objects = frozen.every();
    let mut has_trap = true;
    for discovery in waiting.iter().copied() {
        let object = object_at(&objects, discovery.text()).filter(|it| is_there(discovery, it));
        if let Some(object) = object.filter(|_| discovery.has_tails()) {
            if discovery.is_switched() {
                // What can't be written goes on to the hook, which knows.
                let _ = tails::settle(discovery);
            } else {
                tails::begin(discovery, object);
            }
            continue;
        }
        let is_loaded = object.is_some();
        if let Some(switch) = discovery.switch().filter(|_| is_loaded && discovery.is_switched()) {
            // Where the system does not let it, the hook goes on to deliver what is wanted, and nothing else.
            let _ = straddlers::settle(discovery, switch);
            continue;
        }
        let call = discovery
            .returns()
            .filter(|_| is_loaded)
            .and_then(|returns| call_of(returns, hooks::address(discovery.hit().kind == Kind::Entry)));
        if let Some(call) = call {
            has_trap = patch(discovery, call, has_trap);
        }
    }
    let is_unfinished = |it: &&Discovery| !it.is_switched() && waits(it);
    UNFINISHED.store({ waiting }.into_iter().any(|it| is_unfinished(&it)), Ordering::Relaxed);
}

/// Patches a call; tells whether traps can be handled, as far as is known.
fn patch(discovery: &'static Discovery, call: Call, has_trap: bool) -> bool {
    let is_alias = policy::text() == TextPolicy::Alias;
    if let Some(switch) = discovery.switch() {
        let result = if is_alias { Ok(()) } else { straddlers::begin_waiting(discovery, switch) };
        match result {
            Ok(()) if is_alias => discovery.keep(Reason::Straddles),
            Err(NotNow::Protected(errno)) => discovery.keep(Reason::Protected { errno }),
            // Somebody else holds it: the next time.
            Ok(()) | Err(NotNow::Later | NotNow::Changed) => {}
        }
        return has_trap;
    }
    if is_alias && !has_trap {
        // Asking for each would take its time.
        discovery.keep(Reason::NoTrap);
        return false;
    }
    let Some(active) = discovery.active() else { return has_trap };
    let wanted = if discovery.is_wanted() { active } else { Instruction::NOP5 };
    let (at, expected, value) = call.rewritten(wanted);
    let text = if is_alias { TextPolicy::Alias } else { TextPolicy::Sealed };
    // SAFETY: a call of the hook, in a loaded object's text; what executes it may as well execute what replaces it.
    match unsafe { Options::new().text(text).replace(at, expected, value) } {
        Ok(_) => patched(discovery),
        Err(PatchError::Signal { .. }) => {
            discovery.keep(Reason::NoTrap);
            return false;
        }
        Err(PatchError::Text { error, .. }) => {
            let errno = error.errno().unwrap_or(libc::EFAULT);
            discovery.keep(Reason::Protected { errno });
        }
        Err(PatchError::Alias { error, .. }) => {
            let errno = error.raw_os_error().unwrap_or(libc::EFAULT);
            discovery.keep(Reason::Protected { errno });
        }
        // A hook was faster, or somebody else holds it: the next time.
        Err(_) => {}
    }
    has_trap
}
