//! SQLite and content-addressed blobs.
