//! Serializes a probe: the columns of `PROBES=list`, and the other properties in [`ProbeInfo`].

use serde_core::{Serialize, Serializer};

use super::patched::refusal;
use super::rows::rows;
use crate::engine::registry::{FieldInfo, ProbeInfo};
use crate::report::{Cell, Row};
use probe_core::abi::Type;

rows!(ProbeInfo: probe, FieldInfo: field);

fn probe(probe: &ProbeInfo) -> Row<'_> {
    Row::new()
        .with("probe", probe.path())
        .with("kind", probe.kind().name())
        .with("file", probe.file())
        .with("line", probe.line())
        .with("sites", probe.sites())
        .with("fields", probe.fields().iter().map(field).collect::<Cell<'_>>())
        .with("group", probe.group())
        .with("doc", probe.doc())
        .with("skipped", probe.skipped())
        .with("state", probe.state().name())
        .with("foreign", probe.foreign().iter().map(refusal).collect::<Cell<'_>>())
}

fn field(field: &FieldInfo) -> Row<'_> {
    Row::new().with("name", field.name()).with("type", field.ty().map(Type::name))
}
