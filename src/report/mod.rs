//! Consumers of events.
