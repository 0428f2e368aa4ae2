//! Latent probes in C and C++: a build-script helper on top of the [`cc`] crate.
#![deny(unsafe_code)]
