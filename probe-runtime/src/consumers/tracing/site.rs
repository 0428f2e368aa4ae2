//! Callsites, by which subscribers know spans and events.
//!
//! Life cycle: the first attachment to a probe makes its callsite, and registers it ▸ the
//! subscribers' interest in it is cached ▸ it stays as long as the process, since `tracing` refers
//! to it for ever. Later attachments to the probe use the same one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_core::callsite::{Callsite, Identifier, register};
use tracing_core::field::{Field, FieldSet};
use tracing_core::subscriber::Interest;
use tracing_core::{Dispatch, Kind, Level, LevelFilter, Metadata};

use probe_lang::selector::split_last;

/// The callsite of one probe, or of one function.
pub(super) struct Site {
    /// Set before it is registered.
    metadata: OnceLock<Metadata<'static>>,
    /// One of the states below.
    interest: AtomicU8,
}

const NEVER: u8 = 0;
const SOMETIMES: u8 = 1;
const ALWAYS: u8 = 2;

/// The text of a callsite.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct About {
    pub(super) path: String,
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) fields: Vec<String>,
    pub(super) is_span: bool,
    pub(super) level: Level,
}

impl Callsite for Site {
    fn set_interest(&self, interest: Interest) {
        let interest = match interest {
            it if it.is_always() => ALWAYS,
            it if it.is_never() => NEVER,
            _ => SOMETIMES,
        };
        self.interest.store(interest, Relaxed);
    }

    fn metadata(&self) -> &Metadata<'_> {
        self.known()
    }
}

impl Site {
    /// Returns the callsite of this text.
    pub(super) fn of(about: &About) -> &'static Self {
        static MADE: Mutex<Option<HashMap<About, &'static Site>>> = Mutex::new(None);
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let made = made.get_or_insert_default();
        if let Some(site) = made.get(about) {
            return site;
        }
        let site = Self::new(about);
        made.insert(about.clone(), site);
        site
    }

    fn new(about: &About) -> &'static Self {
        let site: &'static Self =
            Box::leak(Box::new(Self { metadata: OnceLock::new(), interest: AtomicU8::new(NEVER) }));
        let text = |text: &str| -> &'static str { Box::leak(text.into()) };
        let fields: Vec<&'static str> = about.fields.iter().map(|name| text(name)).collect();
        let fields = FieldSet::new(Vec::leak(fields), Identifier(site));
        let (target, name) = split_last(text(&about.path));
        let kind = if about.is_span { Kind::SPAN } else { Kind::EVENT };
        let (file, line) = (Some(text(&about.file)), Some(about.line));
        let metadata = Metadata::new(name, target, about.level, file, line, Some(target), fields, kind);
        let _ = site.metadata.set(metadata);
        register(site);
        site
    }

    pub(super) fn known(&self) -> &Metadata<'static> {
        self.metadata.get().expect("set before anybody has the callsite")
    }

    pub(super) fn field(&self, name: &str) -> Option<Field> {
        self.known().fields().field(name)
    }

    /// Returns whether the subscriber wants this span or event.
    pub(super) fn is_enabled(&self, dispatch: &Dispatch) -> bool {
        let metadata = self.known();
        *metadata.level() <= LevelFilter::current()
            && match self.interest.load(Relaxed) {
                NEVER => false,
                ALWAYS => true,
                _ => dispatch.enabled(metadata),
            }
    }
}
