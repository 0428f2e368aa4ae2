//! Measuring: interleaved runs, medians, figures.
