//! The result of one check.

use serde::Serialize;

/// How a check ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "&str")]
pub enum Verdict {
    /// It is as it should be.
    Good,
    /// Something works less well, or not for everybody.
    Limited,
    /// Probes can't be switched.
    Bad,
    /// An earlier check has failed, so this one had no result.
    Unknown,
}

impl From<Verdict> for &str {
    fn from(verdict: Verdict) -> Self {
        verdict.name()
    }
}

impl Verdict {
    /// Returns the word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Limited => "limited",
            Self::Bad => "bad",
            Self::Unknown => "not known",
        }
    }
}

/// One thing that was checked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// The subject.
    #[serde(rename = "check")]
    pub name: &'static str,
    /// How it ended.
    #[serde(rename = "result")]
    pub verdict: Verdict,
    /// The observation.
    pub seen: String,
    /// A remedy; empty where none is needed.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub advice: &'static str,
}

impl Check {
    pub(super) fn good(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, seen: seen.into(), advice: "" }
    }

    pub(super) fn limited(name: &'static str, seen: impl Into<String>, advice: &'static str) -> Self {
        Self { name, verdict: Verdict::Limited, seen: seen.into(), advice }
    }

    pub(super) fn unknown(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Unknown, seen: seen.into(), advice: "" }
    }

    pub(super) fn bad(name: &'static str, seen: impl Into<String>, advice: &'static str) -> Self {
        Self { name, verdict: Verdict::Bad, seen: seen.into(), advice }
    }
}
