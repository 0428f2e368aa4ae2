//! What every report begins with as JSON: which program, when, by which consumer.

use std::env::{self, consts::EXE_SUFFIX};
use std::process;

use super::json::Object;
use crate::period::Period;

/// Changes when a member's meaning does, or one goes. New members don't change it.
const SCHEMA: u64 = 1;

/// An object that has these members; its `rows`, and what else a consumer has, are still to come.
pub(crate) fn document(consumer: &str, period: Period) -> Object {
    Object::new()
        .number("schema", SCHEMA)
        .text("program", &program())
        .number("pid", process::id().into())
        .text("start", &period.start().to_string())
        .json("duration", &format!("{:.6}", period.duration.as_secs_f64()))
        .text("consumer", consumer)
}

/// The same of what no consumer has measured, and belongs to no time: a list of probes.
pub(crate) fn heading(what: &str) -> Object {
    let object = Object::new().number("schema", SCHEMA).text("program", &program());
    object.number("pid", process::id().into()).text("consumer", what)
}

/// The name of the program's file.
pub(crate) fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(EXE_SUFFIX).unwrap_or(&name).to_owned()
}
