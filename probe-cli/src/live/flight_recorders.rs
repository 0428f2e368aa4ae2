//! Flight recorders of a program, and the files of their snapshots.

use probe_protocol::AttachmentInfo;
use probe_trace::Trace;
use probe_trace::export::Format;

use crate::output::Failure;

/// Returns the flight recorders: their attachments, and their indices among the consumers of each.
pub fn flight_recorders(attachments: &[AttachmentInfo]) -> impl Iterator<Item = (&AttachmentInfo, u32)> {
    attachments.iter().flat_map(|attachment| {
        let places = (0..).zip(&attachment.consumers).filter(|(_, it)| it.has_snapshots);
        places.map(move |(place, _)| (attachment, place))
    })
}

/// Returns the only flight recorder.
///
/// # Errors
/// If there is none, or several, which are listed.
pub fn only_flight_recorder(attachments: &[AttachmentInfo]) -> Result<(u32, u32), Failure> {
    let recorders: Vec<_> = flight_recorders(attachments).collect();
    match recorders[..] {
        [(one, consumer)] => Ok((one.id, consumer)),
        [] => Err(Failure::Input(
            "the program has no flight recorder; begin one by `probectl enable --keep -p PID '**=trace(flight)'`"
                .to_owned(),
        )),
        _ => {
            let ids: Vec<_> = recorders.iter().map(|(it, _)| format!("{} ({})", it.id, it.spec)).collect();
            Err(Failure::Usage(format!("there are several recorders; choose one: {}", ids.join(", "))))
        }
    }
}

/// Returns the ending by which the program knows the format of a snapshot's file.
///
/// # Errors
/// If the name has none of these endings.
pub fn snapshot_format(name: &str) -> Result<&'static str, Failure> {
    // Traces in their own format are not exported.
    if name.ends_with(&format!(".{}", Trace::ENDING)) {
        return Ok(Trace::ENDING);
    }
    let unknown = |_| {
        let [others @ .., last] = &Format::ALL.map(|it| format!("`.{}`", it.ending()));
        let (native, others) = (Trace::ENDING, others.join(", "));
        Failure::Usage(format!("`{name}` tells no format: use `.{native}`, {others} or {last}"))
    };
    Format::from_path(name).map(Format::ending).map_err(unknown)
}
