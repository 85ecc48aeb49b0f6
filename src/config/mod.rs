//! Experiment files to validated values.
