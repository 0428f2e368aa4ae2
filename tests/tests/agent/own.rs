//! A consumer of the program, which is not for clients.

use probe_runtime::{Attachment, Consumer, Event, Format, ParseError, Rendered, Reporter, Setting};

pub(crate) struct Own;

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
