//! Consumers of the program: one that is not for clients, and one that ends the program.

use probe_runtime::spec::{Format, ParseError, Rendered, Reporter, Setting};
use probe_runtime::{Attachment, Consumer, Event};

pub(crate) struct Own;

/// Its first hit calls `exit`.
pub(crate) struct Leave;

impl Consumer for Leave {
    fn hit(&self, _: &Event<'_>) {
        std::process::exit(9);
    }
}

impl Reporter for Leave {
    const NAME: &'static str = "leave";
    const ABOUT: &'static str = "ends the program";
    const FOR_CLIENTS: bool = true;

    fn from_settings(_: &[Setting<'_>]) -> Result<Self, ParseError> {
        Ok(Self)
    }

    fn report(_: &Attachment<Self>, _: Format) -> Rendered {
        Rendered::default()
    }
}

impl Consumer for Own {
    fn hit(&self, _: &Event<'_>) {}
}

impl Reporter for Own {
    const NAME: &'static str = "own";
    const ABOUT: &'static str = "a file that its option names";
    const OPTIONS: &'static [&'static str] = &["file"];

    fn from_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        assert!(settings.is_empty(), "a client's option");
        Ok(Self)
    }

    fn report(_: &Attachment<Self>, _: Format) -> Rendered {
        Rendered::default()
    }
}
