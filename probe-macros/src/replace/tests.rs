//! Whole expansions, compared as text.
