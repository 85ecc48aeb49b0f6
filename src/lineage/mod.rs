//! The append-only, acyclic graph of harnesses.
