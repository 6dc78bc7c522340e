//! FuRA-S: block spectra, the input transform, and the antithetic evolution-strategies estimator.
